"""Measured calls: the kernels that a row names, each as that kernel, in that order."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ascend_sim.errors import ConfigError
from ascend_sim.studies.validate.pages import csv_text
from ascend_sim.studies.validate.rows import read_rows, shipped_rows
from ascend_sim.studies.validate.run import compare, simulate

HEAD = (
    "chip,op_type,dtype,N,Ci,Di,Hi,Wi,Co,Do,Ho,Wo,kd,kh,kw,stride_d,stride_h,stride_w,pad_d_total,pad_h_total,"
    "pad_w_total,dilation_d,dilation_h,dilation_w,groups,kernels,l2,duration_us\n"
)
FILTER = "npu_conv3d_backward,fp16,2,20,4,8,9,24,4,8,9,3,3,3,1,1,1,2,2,2,1,1,1,1"
TURNED = "TransData TransData MemSet Conv3DBackpropFilter TransData"
TRANSPOSED = "ascend910b2,conv_transpose2d,hf32,2,16,,9,8,24,,18,15,,3,3,,2,2,,2,2,,1,1,1,,,50\n"


def read(path: Path, line: str) -> list:
    path.write_text(HEAD + line)
    return read_rows(path)


def test_a_weight_gradient_is_the_kernels_that_its_row_names(tmp_path: Path) -> None:
    one, other = (
        simulate(read(tmp_path / "a.csv", f"ascend910b2,{FILTER},{kernels},,50\n")[0].kernel)
        for kernels in (TURNED, TURNED.replace("Filter", "FilterV2"))
    )
    for found, filter_kernel in ((one, "Conv3DBackpropFilter"), (other, "Conv3DBackpropFilterV2")):
        assert [name for name, _ in found.kernels] == ["TransData", "TransData", "MemSet", filter_kernel, "TransData"]
        assert found.task_us == pytest.approx(sum(us for _, us in found.kernels))
    assert one.kernels[:3] == other.kernels[:3] and one.kernels[3] != other.kernels[3]


def test_a_row_names_the_version_of_the_library(tmp_path: Path) -> None:
    """The version decides the kernel of the 950; one that is not known is refused where it stands."""
    line = f"ascend950pr_9579,{FILTER},Conv3DBackpropFilterV2,cold,50"
    path = tmp_path / "a.csv"
    path.write_text(HEAD.replace("\n", ",library\n") + "".join(f"{line},{name}\n" for name in ("9.0.0", "2026-08", "")))
    older, newer, unsaid = (simulate(row.kernel).task_us for row in read_rows(path))
    assert newer == unsaid != older
    path.write_text(HEAD.replace("\n", ",library\n") + f"{line},8.5\n")
    with pytest.raises(ConfigError, match=r"line 2: library = '8.5'; allowed: 9.0.0, 2026-08"):
        read_rows(path)


def test_dw_stays_in_fp32(tmp_path: Path) -> None:
    """No Cast, and the kernel that turns dW is that of four bytes an element in blocks of 16 channels."""
    flat = FILTER.replace("3,3,3,1,1,1,2,2,2", "1,3,3,1,1,1,0,2,2")
    call = simulate(read(tmp_path / "a.csv", f"ascend910b2,{flat},{TURNED},,50\n")[0].kernel)
    alone = []
    for dtype in ("fp32", "fp16"):
        path = tmp_path / f"{dtype}.csv"
        path.write_text(
            "chip,op_type,dtype,format_in,format_out,Co,Ci,kh,kw,C0,duration_us,launches\n"
            f"ascend910b2,TransData,{dtype},FRACTAL_Z,NCHW,24,20,3,3,16,9,warm\n"
        )
        alone.append(simulate(read_rows(path)[0].kernel).task_us)
    assert call.kernels[-1] == ("TransData", pytest.approx(alone[0], rel=0.01))
    assert alone[0] != pytest.approx(alone[1], rel=0.05)


def test_the_950_runs_one_kernel_and_nothing_else_is_taken_for_it(tmp_path: Path) -> None:
    line = f"ascend950pr_9579,{FILTER},{{}},cold,50\n"
    found = simulate(read(tmp_path / "a.csv", line.format("Conv3DBackpropFilterV2"))[0].kernel)
    assert [name for name, _ in found.kernels] == ["Conv3DBackpropFilterV2"]
    older = simulate(read(tmp_path / "a.csv", line.format("Conv3DBackpropFilter"))[0].kernel)
    assert "allowed Conv3DBackpropFilterV2" in older.skipped


@pytest.mark.parametrize(
    ("kernels", "reason"),
    [
        (f"TransData TransData {TURNED}", "the call ran TransData, TransData, TransData, TransData, MemSet"),
        (f"{TURNED} Transpose", "the call ran TransData, TransData, MemSet, Conv3DBackpropFilter, TransData, Transpose;"),
        ("TransData MemSet", "0 of them make dW"),
    ],
)
def test_a_call_whose_kernels_are_not_known_is_not_simulated(tmp_path: Path, kernels: str, reason: str) -> None:
    (one,) = compare(read(tmp_path / "a.csv", f"ascend910b2,{FILTER},{kernels},,50\n"))
    assert reason in one.prediction.skipped and one.kernel_errors == []


GROUPED = FILTER.replace(",20,4,8,9,24,", ",32,4,8,9,32,").removesuffix(",1") + ",32"
BACK = "TransData TransData MemSet Conv3DBackpropFilter MemSet TransData TransData"


def test_kernels_that_are_named_in_another_order_are_those_of_the_plan(tmp_path: Path) -> None:
    """A source may count them; measured times go to the kernels by name, the first to the first."""
    mixed = "TransData=10 MemSet TransData Conv3DBackpropFilter=20 TransData=30"
    one, plain = compare(read(tmp_path / "a.csv", f"ascend910b2,{FILTER},{mixed},,50\nascend910b2,{FILTER},{TURNED},,50\n"))
    assert one.prediction.kernels == plain.prediction.kernels
    times = [us for _, us in one.prediction.kernels]
    assert one.kernel_errors == [
        ("TransData", times[0] / 10 - 1),
        ("Conv3DBackpropFilter", times[3] / 20 - 1),
        ("TransData", times[4] / 30 - 1),
    ]


def test_a_grouped_weight_gradient_goes_back_in_two_steps(tmp_path: Path) -> None:
    (one,) = compare(read(tmp_path / "a.csv", f"ascend910b2,{GROUPED},{BACK},,50\n"))
    assert [name for name, _ in one.prediction.kernels] == BACK.split()


FORWARD = "ascend910b2,conv2d,{},2,{},,9,8,{},,9,8,,3,3,,1,1,,2,2,,1,1,{},{},,30\n"


@pytest.mark.parametrize(
    ("dtype", "groups", "kernels"),
    [
        ("fp16", 1, "TransData MemSet TransData Conv2D"),
        ("bf16", 1, "TransData MemSet TransData Conv2D TransData"),
        ("bf16", 1, "Cast TransData MemSet TransData Conv2D TransData"),
        ("hf32", 1, "TransData TransData Conv2D TransData"),
        ("fp16", 8, "TransData MemSet TransData MemSet TransData Conv2D"),
        ("hf32", 8, "TransData TransData MemSet TransData Conv2D TransData"),
        ("fp16", 1, "TransData TransData Conv2D TransData"),  # aclnn's
        ("fp16", 8, "TransData TransData MemSet TransData Conv2D TransData"),
    ],
)
def test_a_forward_convolution_is_the_kernels_that_its_row_names(tmp_path: Path, dtype: str, groups: int, kernels: str) -> None:
    """The kernels are those of the operator of the graph, or of our own plan."""
    line = FORWARD.format(dtype, 24, 32, groups, kernels)
    found = simulate(read(tmp_path / "a.csv", line)[0].kernel)
    assert " ".join(name for name, _ in found.kernels) == kernels


@pytest.mark.parametrize(
    "kernels", ["Cast TransData MemSet TransData Conv2D", "TransData TransData Conv2D", "TransData Conv2DV2"]
)
def test_a_forward_convolution_with_other_kernels_is_not_simulated(tmp_path: Path, kernels: str) -> None:
    line = FORWARD.format("fp16", 24, 32, 1, kernels)
    assert "the call ran" in simulate(read(tmp_path / "a.csv", line)[0].kernel).skipped


def test_all_kernels_of_the_shipped_calls_are_known() -> None:
    calls = [row for row in shipped_rows() if row.kernel.op_type == "conv2d" and row.kernel.chip == "ascend910b2"]
    found = compare(calls)
    assert [one.prediction.skipped for one in found] == [""] * 11
    for one in found:
        assert " ".join(name for name, _ in one.prediction.kernels) == one.row.kernel.label("kernels")


def test_a_transposed_convolution_runs_the_kernel_of_dx(tmp_path: Path) -> None:
    found = simulate(read(tmp_path / "a.csv", TRANSPOSED)[0].kernel)
    assert "Conv2DBackpropInput" in [name for name, _ in found.kernels]


def test_kernels_that_were_measured_have_errors_of_their_own(tmp_path: Path) -> None:
    line = f"ascend910b2,{FILTER},{TURNED.replace('MemSet', 'MemSet=10').replace('Filter', 'Filter=20.5')},,50\n"
    (one,) = compare(read(tmp_path / "a.csv", line))
    times = dict(one.prediction.kernels)
    assert one.kernel_errors == [
        ("MemSet", times["MemSet"] / 10 - 1),
        ("Conv3DBackpropFilter", times["Conv3DBackpropFilter"] / 20.5 - 1),
    ]
    (row,) = csv.DictReader(io.StringIO(csv_text([one])))
    assert row["kernel_error_pct"].startswith("MemSet=") and row["predicted_kernels"].count("=") == 5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"ascend910b2,{FILTER},MemSet=long,,50\n", "line 2: kernels: 'MemSet=long' given"),
        (f"ascend910b2,{FILTER.replace(',4,8,9,24,4,', ',4,8,9,24,5,')},,,50\n", "line 2: Do: 5 given; Di, kernel"),
        (f"ascend910b2,{FILTER.replace('24,4,8,9,3', '24,,8,9,3')},,,50\n", "line 2: Do missing"),
        (TRANSPOSED.replace(",18,15,", ",18,18,"), "line 2: Wi: 8 given; Wo, kernel"),
    ],
)
def test_rows_that_contradict_themselves(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path / "a.csv", line)


def test_the_shipped_weight_gradients_of_the_910b2() -> None:
    """Told nothing; one of the smaller calls in the suite, all of them below."""
    (row,) = (row for row in shipped_rows() if row.kernel.op_type == "npu_conv3d_backward" and row.duration_us == 122.5)
    (one,) = compare([row])
    assert abs(one.error) < 0.15


@pytest.mark.slow
def test_all_shipped_weight_gradients_of_the_910b2() -> None:
    chip = "ascend910b2"
    rows = [row for row in shipped_rows() if (row.kernel.chip, row.kernel.op_type) == (chip, "npu_conv3d_backward")]
    found = compare(rows)
    assert [one.prediction.skipped for one in found] == [""] * 10
    assert sum(abs(one.error) for one in found) / len(found) < 0.12


def test_a_dtype_that_the_cube_does_not_take_is_named(tmp_path: Path) -> None:
    line = TRANSPOSED.replace("hf32", "int8")
    assert "dtype 'int8': allowed" in simulate(read(tmp_path / "a.csv", line)[0].kernel).skipped
