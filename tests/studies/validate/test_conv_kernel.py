"""Single kernels of convolutions: rows of a profiler's operators, built on the kernels that calls of a graph launch."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ascend_sim.errors import ConfigError
from ascend_sim.studies.validate.launch import MeasuredKernel
from ascend_sim.studies.validate.launches import LAUNCHES
from ascend_sim.studies.validate.rows import read_rows
from ascend_sim.studies.validate.run import compare, simulate

pytestmark = pytest.mark.fast

FLAT = {
    "N": 2, "Ci": 32, "Hi": 9, "Wi": 10, "Co": 48, "Ho": 9, "Wo": 10, "kh": 3, "kw": 3, "stride_h": 1, "stride_w": 1,
    "pad_h_total": 2, "pad_w_total": 2,
}  # fmt: skip
DEEP = FLAT | {"Di": 4, "Do": 4, "kd": 3, "stride_d": 1, "pad_d_total": 2}
A2, A5 = "ascend910b2", "ascend950pr_9579"


def row_of(tmp_path: Path, chip: str, op_type: str, sizes: Mapping[str, object], dtype: str = "fp16") -> MeasuredKernel:
    """One row, read as a file of the user's."""
    cells = {"chip": chip, "op_type": op_type, "dtype": dtype, "duration_us": 50} | dict(sizes)
    path = tmp_path / "rows.csv"
    path.write_text(",".join(cells) + "\n" + ",".join(map(str, cells.values())) + "\n")
    (row,) = read_rows(path)
    assert not row.unlike
    return row.kernel


@pytest.mark.parametrize(
    ("chip", "op_type", "sizes"),
    [
        (A2, "Conv2D", FLAT),
        (A2, "Conv3D", DEEP),
        (A2, "Conv3DBackpropInput", DEEP),
        (A2, "Conv3DBackpropInputV2", DEEP),
        (A2, "Conv3DBackpropFilter", DEEP),
        (A2, "Conv3DBackpropFilterV2", DEEP),
        (A5, "Conv3DV2", DEEP),
        (A5, "Conv3DV2", FLAT),
        (A5, "Conv3DBackpropInputV2", DEEP),
        (A5, "Conv3DBackpropFilterV2", DEEP | {"groups": 16}),
    ],
)
def test_a_kernel_of_a_convolution_is_simulated_alone(tmp_path: Path, chip: str, op_type: str, sizes: dict[str, int]) -> None:
    found = simulate(row_of(tmp_path, chip, op_type, sizes))
    assert found.skipped == "" and found.kernels == ()
    assert found.task_us > found.core_us > 0 and found.blocks > 0 and found.pipes["mac"] > 0


def test_the_filter_kernel_is_that_of_the_graphs_call(tmp_path: Path) -> None:
    """On the 950 the call is the kernel alone: both from a cleared L2 take the same time."""
    cold = DEEP | {"l2": "cold", "library": "9.0.0"}
    (_, us), = simulate(
        row_of(tmp_path, A5, "npu_conv3d_backward", cold | {"kernels": "Conv3DBackpropFilterV2"})
    ).kernels  # fmt: skip
    assert simulate(row_of(tmp_path, A5, "Conv3DBackpropFilterV2", cold)).task_us == us


def test_the_operator_of_the_row_runs_whatever_aclnn_would_take(tmp_path: Path) -> None:
    one, other = (simulate(row_of(tmp_path, A2, f"Conv3DBackpropInput{version}", DEEP)).task_us for version in ("", "V2"))
    assert one != other  # the second writes NCDHW itself


@pytest.mark.parametrize(
    ("chip", "op_type", "sizes", "reason"),
    [
        (A5, "Conv3DV2", FLAT | {"format_in": "NHWC"}, "format_in 'NHWC': Conv3DV2 here reads NCHW"),
        (A2, "Conv3D", DEEP | {"format_out": "NCDHW"}, "format_out 'NCDHW': Conv3D here writes NDC1HWC0"),
        (A2, "Conv3DBackpropFilter", DEEP | {"dtype_out": "fp16"}, "dtype_out 'fp16': Conv3DBackpropFilter here writes"),
        (A2, "Conv3DBackpropFilter", FLAT, "takes 3-D convolutions; this one has no depth"),
        (A2, "Conv3DV2", DEEP, "ascend910b2 has no Conv3DV2 for this problem; it launches TransData"),
        (A5, "Conv3DBackpropInput", DEEP, "Conv3DBackpropInput on ascend950pr_9579: allowed Conv3DBackpropInputV2"),
        (A5, "Conv3DV2", {"N": 2, "Ci": 32}, "Hi, Wi, Co, Ho, Wo, kh, kw, stride_h, stride_w, pad_h_total"),
        (A5, "Conv3DV2", {**DEEP, "kd": ""}, "kd missing; Conv3DV2 needs N, Ci"),
    ],
)
def test_a_row_that_says_something_else_is_skipped_with_the_reason(
    tmp_path: Path, chip: str, op_type: str, sizes: dict[str, object], reason: str
) -> None:
    assert reason in simulate(row_of(tmp_path, chip, op_type, sizes)).skipped


def test_a_dtype_that_there_is_not_is_named(tmp_path: Path) -> None:
    assert "dtype 'int8': allowed for Conv3DV2" in simulate(row_of(tmp_path, A5, "Conv3DV2", FLAT, "int8")).skipped


Operand = tuple[tuple[int, ...], str, str]
LISTS: Operand = ((5,), "INT32", "ND")


def profiled(tmp_path: Path, chip: str, op_type: str, inputs: Sequence[Operand], output: Operand, **own: str) -> MeasuredKernel:
    """One line of msprof's table, read without attributes, and what its row says."""
    cells = {"OP Type": op_type, "Task Type": "AI_CORE", "Task Duration(us)": "20.5", "Block Dim": "24"} | own
    for side, operands in (("Input", inputs), ("Output", [output])):
        cells[f"{side} Shapes"] = ";".join(",".join(map(str, shape)) for shape, _, _ in operands)
        cells[f"{side} Data Types"] = ";".join(dtype for _, dtype, _ in operands)
        cells[f"{side} Formats"] = ";".join(form for _, _, form in operands)
    path = tmp_path / "op_summary_1.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cells))
        writer.writeheader()
        writer.writerow(cells)
    (row,) = read_rows(path, chip=chip)
    if not row.unlike:
        (one,) = compare([row])
        assert one.prediction.skipped == "" and one.prediction.task_us > 0
        return row.kernel
    raise AssertionError(row.unlike)


def plain(*shape: int, dtype: str = "FLOAT16") -> Operand:
    return shape, dtype, "NCDHW" if len(shape) == 5 else "NCHW"


MAPS = (2, 32, 4, 9, 10), (2, 48, 4, 9, 10), (48, 32, 3, 3, 3)


def test_a_profile_of_the_950(tmp_path: Path) -> None:
    x, y, w = MAPS
    flat = [shape[:2] + shape[3:] for shape in MAPS]
    bias = (48,), "FLOAT16", "ND"
    for op_type, inputs, output in (
        ("Conv3DV2", [plain(*x), plain(*w), bias], plain(*y)),
        ("Conv3DBackpropInputV2", [LISTS, plain(*w), plain(*y)], plain(*x)),
        ("Conv3DBackpropFilterV2", [plain(*x), LISTS, plain(*y)], plain(*w, dtype="FLOAT")),
    ):
        kernel = profiled(tmp_path, A5, op_type, inputs, output)
        sizes = {name: kernel.get(name, 0) for name in DEEP}
        assert (kernel.op_type, kernel.dtype, sizes) == (op_type, "fp16", DEEP)
    kernel = profiled(tmp_path, A5, "Conv3DV2", [plain(*flat[0]), plain(*flat[2])], plain(*flat[1]))
    assert "Di" not in dict(kernel.sizes) and kernel["groups"] == 1
    grouped = profiled(tmp_path, A5, "Conv3DV2", [plain(*x), plain(48, 2, 3, 3, 3)], plain(*y))
    assert grouped["groups"] == 16


def test_a_profile_of_the_910b_in_blocks(tmp_path: Path) -> None:
    x, y = ((2, 4, c1, 9, 10, 16) for c1 in (2, 3))
    w = (3 * 2 * 9, 3, 16, 16)
    x, y = (x, "FLOAT16", "NDC1HWC0"), (y, "FLOAT16", "NDC1HWC0")
    kernel = profiled(tmp_path, A2, "Conv3DBackpropFilter", [x, LISTS, y], (w, "FLOAT", "FRACTAL_Z_3D"))
    assert {name: kernel[name] for name in DEEP} == DEEP
    kernel = profiled(tmp_path, A2, "Conv3DBackpropInputD", [(w, "FLOAT16", "FRACTAL_Z_3D"), y], x)
    assert kernel.op_type == "Conv3DBackpropInput" and kernel["kd"] == 3
    flat = [((2, c1, 9, 10, 16), "FLOAT16", "NC1HWC0") for c1 in (2, 3)]
    kernel = profiled(tmp_path, A2, "Conv2D", [flat[0], ((2 * 9, 3, 16, 16), "FLOAT16", "FRACTAL_Z")], flat[1])
    assert {name: kernel[name] for name in FLAT} == FLAT


@pytest.mark.parametrize(
    ("inputs", "output", "own", "reason"),
    [
        ([LISTS], plain(*MAPS[1]), {}, "0 operands and 1 results"),
        ([plain(*MAPS[0]), plain(48, 5, 3, 3, 3)], plain(*MAPS[1]), {}, "no number of groups gives that"),
        ([(MAPS[0], "FLOAT16", "NDHWC"), plain(*MAPS[2])], plain(*MAPS[1]), {}, "a feature map NDHWC"),
        ([plain(*MAPS[0]), (MAPS[2], "FLOAT16", "DHWCN")], plain(*MAPS[1]), {}, "weights DHWCN"),
        ([plain(*MAPS[0]), plain(*MAPS[2])], plain(3, *MAPS[1][1:]), {}, "differ in their batch"),
        ([plain(2, 32, 13, 9, 10), plain(*MAPS[2])], plain(2, 48, 3, 9, 10), {}, "columns stride_d, stride_h and stride_w"),
    ],
)
def test_what_shapes_leave_open_says_why(
    tmp_path: Path, inputs: list[Operand], output: Operand, own: dict[str, str], reason: str
) -> None:
    with pytest.raises(AssertionError, match=reason):
        profiled(tmp_path, A5, "Conv3DV2", inputs, output, **own)


def test_the_sides_of_a_blocked_kernel_can_be_given(tmp_path: Path) -> None:
    x, y = (((2, 4, c1, 9, 10, 16), "FLOAT16", "NDC1HWC0") for c1 in (2, 3))
    weight = ((2 * 9, 3, 16, 16), "FLOAT16", "FRACTAL_Z_3D")
    with pytest.raises(AssertionError, match=r"a kernel of 9 taps: .* columns kd, kh and kw settle it"):
        profiled(tmp_path, A2, "Conv3D", [x, weight], y)
    kernel = profiled(tmp_path, A2, "Conv3D", [x, weight], y, kd="1", kh="3", kw="3")
    assert (kernel["kd"], kernel["pad_d_total"], kernel["pad_h_total"]) == (1, 0, 2)


def test_every_kernel_of_a_convolution_that_calls_launch_has_rows() -> None:
    known = {"Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3DBackpropInput", "Conv3DBackpropInputV2"}
    known |= {"Conv3DBackpropFilter", "Conv3DBackpropFilterV2", "Conv2D", "Conv3D", "Conv3DV2"}
    assert known <= set(LAUNCHES)


@pytest.mark.parametrize("op_type", ["Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv2D"])
def test_groups_and_dilation_of_a_flat_kernel_count(tmp_path: Path, op_type: str) -> None:
    """The two 2-D gradients took these columns for another operator's: a depthwise row had the time of a full one."""
    dense = FLAT | {"Co": 32}
    dilated = dense | {"dilation_h": 2, "dilation_w": 2, "pad_h_total": 4, "pad_w_total": 4}
    full, grouped, spread = (
        simulate(row_of(tmp_path, A2, op_type, sizes)) for sizes in (dense, dense | {"groups": 32}, dilated)
    )
    assert grouped.pipes["mac"] < full.pipes["mac"] and spread.skipped == ""
    wide = tmp_path / "wide"
    wide.mkdir()
    with pytest.raises(ConfigError, match=r"Ho: 9 given; .* give 7"):
        row_of(wide, A2, op_type, dense | {"dilation_h": 2, "dilation_w": 2})


def test_a_profile_whose_user_knows_the_dilation(tmp_path: Path) -> None:
    image, weight = ((2, 2, 9, 10, 16), "FLOAT16", "NC1HWC0"), ((2 * 9, 2, 16, 16), "FLOAT", "FRACTAL_Z")
    for op_type in ("Conv2DBackpropFilter", "Conv3DBackpropFilter"):
        if op_type == "Conv3DBackpropFilter":
            image, weight = (((2, 4, 2, 9, 10, 16), "FLOAT16", "NDC1HWC0"), ((2 * 27, 2, 16, 16), "FLOAT", "FRACTAL_Z_3D"))
        kernel = profiled(tmp_path, A2, op_type, [image, LISTS, image], weight, dilation_h="2", dilation_w="2")
        assert (kernel["dilation_h"], kernel["pad_h_total"], kernel["stride_h"]) == (2, 4, 1)
