"""Tables of the vendor's profiler: what is read off shapes, what is left open, and what is refused."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ascend_sim.cli import app
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.studies.validate.launch import MeasuredRow
from ascend_sim.studies.validate.op_summary import to_row
from ascend_sim.studies.validate.rows import read_rows, shipped_rows
from ascend_sim.studies.validate.run import compare, validate

pytestmark = pytest.mark.fast

HEADS = (
    "Device_id", "Op Name", "OP Type", "Task Type", "Task Start Time(us)", "Task Duration(us)", "Block Dim", "HF32 Eligible",
    "Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats",
    "aicore_time(us)", "aic_mac_time(us)", "aic_mac_ratio", "aic_mte2_ratio", "aiv_time(us)", "aiv_vec_time(us)",
    "aiv_mte2_ratio",
)  # fmt: skip
Operand = tuple[tuple[int, ...], str, str]
CONSTANT: Operand = ((4,), "INT32", "ND")
CHIP = "ascend910b2"


def line(
    op_type: str, inputs: Sequence[Operand], outputs: Sequence[Operand], core: str = "AI_CORE", **cells: str
) -> dict[str, str]:
    """One launch as msprof writes it: lists quoted twice, N/A for what was not collected."""
    row = dict.fromkeys(HEADS, "N/A") | {
        "Op Name": "name", "OP Type": op_type, "Task Type": core, "Task Start Time(us)": "17.5\t", "Task Duration(us)": "10.5",
        "Block Dim": "24", "HF32 Eligible": "YES",
    }  # fmt: skip
    for side, operands in (("Input", inputs), ("Output", outputs)):
        shapes = ";".join(",".join(map(str, shape)) for shape, _, _ in operands)
        row[f"{side} Shapes"] = f'"{shapes}"'
        row[f"{side} Data Types"] = ";".join(dtype for _, dtype, _ in operands)
        row[f"{side} Formats"] = ";".join(form for _, _, form in operands)
    return row | cells


def write(path: Path, lines: Sequence[Mapping[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in lines for name in row)))
        writer.writeheader()
        writer.writerows(lines)
    return path


def read(tmp_path: Path, *lines: Mapping[str, str]) -> list[MeasuredRow]:
    return read_rows(write(tmp_path / "op_summary_1.csv", lines), chip=CHIP)


def blocked(n: int, c: int, h: int, w: int, c0: int, dtype: str) -> Operand:
    return (n, -(-c // c0), h, w, c0), dtype, "NC1HWC0"


def gradient(
    op_type: str,
    n: int,
    ci: int,
    co: int,
    size: Sequence[int],
    out: Sequence[int],
    k: Sequence[int],
    dtype: str = "FLOAT",
    c0: int = 8,
    **cells: str,
) -> dict[str, str]:
    """A gradient's launch on blocked operands."""
    image, grad = blocked(n, ci, *size, c0, dtype), blocked(n, co, *out, c0, dtype)
    weight = ((-(-ci // c0) * k[0] * k[1], -(-co // 16), 16, c0), dtype, "FRACTAL_Z")
    if op_type.startswith("Conv2DBackpropInput"):
        return line(op_type, [CONSTANT, weight, grad], [image], **cells)
    return line(op_type, [image, CONSTANT, grad], [weight], **cells)


DTYPES = {"fp16": ("FLOAT16", 16, "NO"), "hf32": ("FLOAT", 8, "YES")}


def test_the_shipped_convolutions_come_out_of_their_shapes(tmp_path: Path) -> None:
    """Every measured layer of AlexNet and ResNet-50, written as the profiler would, is read as it was written by hand."""
    rows = [row for row in shipped_rows(facts=("block_dim",)) if "Conv2D" in row.kernel.op_type and not row.unlike]
    lines = []
    for row in rows:
        kernel, (dtype, c0, eligible) = row.kernel, DTYPES[row.kernel.dtype]
        size, out, k = ([kernel[name] for name in names] for names in (("Hi", "Wi"), ("Ho", "Wo"), ("kh", "kw")))
        lines.append(
            gradient(
                kernel.op_type,
                kernel["N"],
                kernel["Ci"],
                kernel["Co"],
                size,
                out,
                k,
                dtype,
                c0,
                **{"Block Dim": str(kernel["block_dim"]), "HF32 Eligible": eligible},
            )
        )
    read_back = read_rows(write(tmp_path / "op_summary_1.csv", lines), chip=CHIP, facts=("block_dim",))
    for row, again in zip(rows, read_back, strict=True):
        sizes = dict(row.kernel.sizes) | {"groups": 1}
        sizes["Ci"] = -(-sizes["Ci"] // DTYPES[row.kernel.dtype][1]) * DTYPES[row.kernel.dtype][1]
        assert (again.kernel.op_type, again.kernel.dtype) == (row.kernel.op_type, row.kernel.dtype)
        assert dict(again.kernel.sizes) == sizes


@given(
    size=st.integers(1, 60), kernel=st.integers(1, 11), stride=st.integers(1, 5), padding=st.integers(0, 10),
)  # fmt: skip
def test_a_stride_is_found_or_left_open_never_wrong(size: int, kernel: int, stride: int, padding: int) -> None:
    assume(padding < kernel and size + padding >= kernel)
    out = (size + padding - kernel) // stride + 1
    row = to_row(gradient("Conv2DBackpropFilter", 1, 8, 16, [size] * 2, [out] * 2, [kernel] * 2), ())
    if "skipped" in row:
        assert "strides" in row["skipped"] and str(stride) in row["skipped"]
        return
    found, pad = int(row["stride_h"]), int(row["pad_h_total"])
    assert (size + pad - kernel) // found + 1 == out
    assert found == stride or out == 1


def test_columns_of_the_users_own_settle_what_is_open(tmp_path: Path) -> None:
    open_stride = gradient("Conv2DBackpropInput", 2, 16, 16, [13, 13], [3, 3], [3, 3])
    long_kernel = gradient("Conv2DBackpropInput", 2, 16, 16, [17, 17], [17, 17], [1, 7])
    (first, second) = read(tmp_path, open_stride, long_kernel)
    assert first.unlike == "strides 4, 5, 6 all give 3 rows out of 13; columns stride_h and stride_w settle it"
    assert "a kernel of 7 taps" in second.unlike
    rows = read(
        tmp_path,
        open_stride | {"stride_h": "5", "stride_w": "5", "kh": "", "kw": "", "Ci": "11"},
        long_kernel | {"stride_h": "", "stride_w": "", "kh": "1", "kw": "7", "Ci": ""},
    )
    assert [row.unlike for row in rows] == ["", ""]
    assert (rows[0].kernel["stride_h"], rows[0].kernel["Ci"], rows[0].kernel["Co"]) == (5, 11, 16)
    assert (rows[1].kernel["kh"], rows[1].kernel["kw"], rows[1].kernel["pad_w_total"]) == (1, 7, 6)


def test_the_same_stride_is_taken_on_both_axes_where_one_leaves_the_choice(tmp_path: Path) -> None:
    (row,) = read(tmp_path, gradient("Conv2DBackpropInput", 2, 16, 16, [13, 25], [3, 5], [3, 3]))
    assert row.unlike.startswith("strides")
    (row,) = read(tmp_path, gradient("Conv2DBackpropInput", 2, 16, 16, [13, 66], [3, 14], [3, 3]))
    assert (row.kernel["stride_h"], row.kernel["stride_w"]) == (5, 5)


def test_plain_tensors_give_exact_channels(tmp_path: Path) -> None:
    image, grad, weight = ((2, 3, 8, 8), (2, 20, 4, 4), (20, 3, 3, 3))
    plain: list[Operand] = [(shape, "DT_BF16", "NCHW") for shape in (image, grad, weight)]
    grouped: list[Operand] = [plain[0], plain[1], ((20, 1, 3, 3), "DT_BF16", "NCHW")]
    rows = read(
        tmp_path, line("Conv2DBackpropFilterD", plain[:2], plain[2:]), line("Conv2DBackpropFilter", grouped[:2], grouped[2:])
    )
    assert rows[0].unlike == "" and rows[0].kernel.op_type == "Conv2DBackpropFilter" and rows[0].kernel.dtype == "bf16"
    assert (rows[0].kernel["Ci"], rows[0].kernel["Co"], rows[0].kernel["stride_h"]) == (3, 20, 2)
    assert "no number of groups gives that" in rows[1].unlike


def test_helpers_and_products(tmp_path: Path) -> None:
    nd = [((32, 192, 729), "FLOAT", "FORMAT_ND"), ((2,), "INT64", "ND")]
    filters: list[Operand] = [((200, 12, 16, 8), "FLOAT", "FRACTAL_Z"), ((192, 64, 5, 5), "FLOAT", "NCHW")]
    rows = read(
        tmp_path,
        line("TransData", [((2, 20, 6, 6), "FLOAT", "NCHW")], [((2, 3, 6, 6, 8), "FLOAT", "NC1HWC0")]),
        line("TransData", [((2, 2, 6, 6, 16), "FLOAT", "NC1HWC0:1")], [((2, 20, 6, 6), "FLOAT", "ND")]),
        line("TransData", filters[:1], filters[1:]),
        line("ReduceSum", nd, [((192,), "FLOAT", "ND")]),
        line("ReduceSum", nd[:1], [((1, 192, 1), "FLOAT", "ND")]),
        line("ReduceSum", [((160,), "FLOAT", "ND")], [((1,), "FLOAT", "ND")], **{"Block Dim": "1"}),
        line("Cast", [((32, 5), "FLOAT", "ND")], [((32, 5), "FLOAT16", "ND")]),
        line("MatMulV2", [((32, 4096), "FLOAT", "ND"), ((100, 4096), "FLOAT", "ND")], [((32, 100), "FLOAT", "ND")]),
        line("BatchMatMul", [((3, 8, 16), "DT_BF16", "ND"), ((3, 8, 4), "DT_BF16", "ND")], [((3, 16, 4), "DT_BF16", "ND")]),
        line("BatchMatMul", [((3, 8, 16), "FLOAT16", "ND"), ((16, 4), "FLOAT16", "ND")], [((3, 8, 4), "FLOAT", "ND")]),
    )
    assert [row.unlike for row in rows] == [""] * len(rows)
    kernels = [row.kernel for row in rows]
    assert [dict(kernel.labels) for kernel in kernels[:3]] == [
        {"format_in": "NCHW", "format_out": "NC1HWC0"},
        {"format_in": "NC1HWC0", "format_out": "NCHW"},
        {"format_in": "FRACTAL_Z", "format_out": "NCHW"},
    ]
    assert [kernel["C0"] for kernel in kernels[:3]] == [8, 16, 8]
    assert [(kernel["N"], kernel["Ci"], kernel["Hi"]) for kernel in kernels[3:6]] == [(32, 192, 729)] * 2 + [(1, 1, 160)]
    assert (kernels[6]["N"], kernels[6].dtype, kernels[6].label("dtype_out")) == (160, "fp32", "fp16")
    products = [[kernel.get(name, 0) for name in ("batch", "M", "N", "K", "trans_a", "trans_b")] for kernel in kernels[7:]]
    assert products == [[1, 32, 100, 4096, 0, 1], [3, 16, 4, 8, 1, 0], [1, 24, 4, 16, 0, 0]]
    assert [(kernel.dtype, kernel.label("dtype_out")) for kernel in kernels[7:]] == [
        ("hf32", "fp32"),
        ("bf16", "bf16"),
        ("fp16", "fp32"),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (line("MemSet", [], [], "AI_VECTOR_CORE"), "the profiler does not record what a MemSet clears"),
        (line("Cast", [((4,), "FLOAT", "ND")], [((4,), "INT32", "ND")], "AI_CPU"), "runs on the AI CPU"),
        (line("hcom_allReduce_", [], [], "COMMUNICATION"), "no kernel of hcom_allReduce_ here"),
        (line("MatMul_AddN", [], []), "fused with other operators"),
        (line("FusionOp_Mul_AddN", [], []), "fused with other operators"),
        (line("Cast", [((4,), "FLOAT", "ND")], [((4,), "INT32", "ND")], **{"Task Duration(us)": "N/A"}), "gives no time"),
        (line("Cast", [((4, 0), "FLOAT", "ND")], [((4, 0), "INT32", "ND")]), "without elements"),
        (gradient("Conv2DBackpropInput", 2, 16, 16, [8, 8], [8, 8], [3, 3], **{"Block Dim": "0"}), "--task-time=l1"),
        (gradient("Conv2DBackpropInput", 2, 16, 16, [8, 8], [60, 60], [3, 3]), "no stride gives that"),
        (line("Conv2DBackpropInput", [CONSTANT], []), "0 operands and 0 results"),
        (line("TransData", [((4, 4), "FLOAT", "ND")], [((1, 1, 16, 16), "FLOAT", "FRACTAL_NZ")]), "ND -> FRACTAL_NZ"),
        (line("ReduceSum", [((4, 4), "FLOAT", "ND")], [((4,), "FLOAT", "ND")]), "which axes remain"),
        (line("ReduceSum", [((4, 9), "FLOAT", "ND")], [((), "FLOAT", "ND")]), "cores share the summed axes"),
        (line("ReduceSum", [((4, 9), "FLOAT", "ND")], [((4,), "FLOAT", "ND")], **{"Block Dim": "5"}), "on 5 cores"),
        (line("MatMul", [((4, 4), "FLOAT", "ND"), ((5, 6), "FLOAT", "ND")], [((4, 6), "FLOAT", "ND")]), "is not ND"),
        (line("MatMul", [((1, 1, 16, 16), "FLOAT16", "FRACTAL_NZ")] * 2, [((4, 6), "FLOAT", "ND")]), "matrices in ND"),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_says_why(tmp_path: Path, row: dict[str, str], reason: str) -> None:
    (read_back,) = read(tmp_path, row)
    assert reason in read_back.unlike
    (compared,) = compare([read_back], long=False)
    assert compared.prediction.skipped == read_back.unlike


def test_times_are_those_of_the_cores_that_worked(tmp_path: Path) -> None:
    cube = {"aicore_time(us)": "8.0", "aic_mac_time(us)": "4.0", "aic_mac_ratio": "0.4", "aic_mte2_ratio": "0.25"}
    vector = {"aicore_time(us)": "0", "aiv_time(us)": "6.0", "aiv_vec_time(us)": "1.5", "aiv_mte2_ratio": "0.5"}
    cast = [((4,), "FLOAT", "ND")], [((4,), "FLOAT16", "ND")]
    rows = read(
        tmp_path,
        gradient("Conv2DBackpropInput", 2, 16, 16, [8, 8], [8, 8], [3, 3], **cube),
        line("Cast", *cast, "AI_VECTOR_CORE", **vector),
    )
    assert (rows[0].core_us, rows[0].pipes) == (8.0, {"mac": 4.0, "mte2": 2.0})
    assert (rows[1].core_us, rows[1].pipes) == (6.0, {"vec": 1.5, "mte2": 3.0})
    older = {"aicore_time(us)": "5.0", "mac_ratio": "0.5", "vec_time(us)": "1.0"}
    (row,) = read(tmp_path, gradient("Conv2DBackpropInput", 2, 16, 16, [8, 8], [8, 8], [3, 3]) | older)
    assert row.pipes == {"mac": 2.5, "vec": 1.0}


def test_a_folder_is_searched_and_torch_npus_table_stands_in(tmp_path: Path) -> None:
    cast = line("Cast", [((4,), "FLOAT", "ND")], [((4,), "FLOAT16", "ND")])
    names = {"OP Type": "Type", "Task Type": "Accelerator Core", "Task Duration(us)": "Duration(us)", "Block Dim": "Block Num"}
    renamed = {names.get(name, name): value for name, value in cast.items()}
    write(tmp_path / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv", [renamed])
    assert [row.duration_us for row in read_rows(tmp_path, chip=CHIP)] == [10.5]
    for part in (1, 2):
        write(tmp_path / "PROF_1" / "mindstudio_profiler_output" / f"op_summary_{part}.csv", [cast])
    assert len(read_rows(tmp_path, chip=CHIP)) == 2


def test_wrong_tables_are_refused_in_one_line(tmp_path: Path) -> None:
    cast = line("Cast", [((4,), "FLOAT", "ND")], [((4,), "FLOAT16", "ND")])
    good = write(tmp_path / "op_summary_1.csv", [cast])
    with pytest.raises(SimError, match="does not name its chip; give one with --chip"):
        read_rows(good)
    with pytest.raises(ConfigError, match="'ascend999' is not a known chip"):
        read_rows(good, chip="ascend999")
    without = {name: value for name, value in cast.items() if name != "Input Shapes"}
    with pytest.raises(ConfigError, match="without Input Shapes; msprof writes shapes with --task-time=l1"):
        read(tmp_path, without)
    with pytest.raises(ConfigError, match=r"line 2: Shapes: '4,x' given"):
        read(tmp_path, cast | {"Input Shapes": "4,x"})
    with pytest.raises(ConfigError, match=r"line 2: task duration\(us\): 'soon' given"):
        read(tmp_path, cast | {"Task Duration(us)": "soon"})
    with pytest.raises(ConfigError, match="line 2: N: 'many' given; must be a whole number"):
        read(tmp_path, cast | {"N": "many"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="a folder without a profiler's table"):
        read_rows(tmp_path / "empty", chip=CHIP)


def test_a_line_that_cannot_be_is_skipped_beside_the_others(tmp_path: Path) -> None:
    cast = line("Cast", [((4,), "FLOAT", "ND")], [((4,), "FLOAT16", "ND")])
    wrong = [cast | {"Input Shapes": "4,x"}, cast | {"Task Duration(us)": "soon"}]
    table = write(tmp_path / "op_summary_1.csv", [cast, *wrong, cast])
    found = validate(table, chips=CHIP)
    assert [bool(one.prediction.skipped) for one in found] == [False, True, True, False]
    assert "line 3: Shapes: '4,x' given" in found[1].prediction.skipped
    assert "line 4: task duration(us): 'soon' given" in found[2].prediction.skipped
    assert {(one.row.kernel.chip, one.row.kernel.op_type) for one in found} == {(CHIP, "Cast")}
    assert found[1].row.cells["Input Shapes"] == "4,x"


def test_command_line(tmp_path: Path) -> None:
    lines = [
        gradient("Conv2DBackpropInput", 2, 16, 16, [8, 8], [8, 8], [3, 3], "FLOAT16", 16),
        line("Add", [], []), line("Add", [], []), line("Mul", [], []),
    ]  # fmt: skip
    write(tmp_path / "PROF_1" / "mindstudio_profiler_output" / "op_summary_1.csv", lines)
    table = tmp_path / "all.csv"
    result = CliRunner().invoke(app, ["validate", "--rows", str(tmp_path), "--chip", CHIP, "--csv", str(table), "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert "3 rows of ascend910b2 skipped, operators without a kernel here: Add 2, Mul 1" in result.stdout
    assert "assumed for 1 row: channels in whole blocks of C0; kernel of equal sides" in result.stdout
    first = next(csv.DictReader(table.open()))
    assert (first["OP Type"], first["kh"], first["pad_h_total"]) == ("Conv2DBackpropInput", "3", "2")
    assert float(first["predicted_us"]) > 0
    refused = CliRunner().invoke(app, ["validate", "--rows", str(tmp_path)])
    assert refused.exit_code == 2 and len(refused.stderr.strip().splitlines()) == 1
