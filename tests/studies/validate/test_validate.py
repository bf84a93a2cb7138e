"""Measured rows against simulated kernels: reading, what is run, the figures, the outputs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ascend_sim import TensorSpec, convolution_backward
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.cli import app
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.isa.load import LoadData3D
from ascend_sim.memory.gm import Allocation
from ascend_sim.report.counts import Counts
from ascend_sim.runtime import Device, Task
from ascend_sim.studies.validate.inferred_sizes import CONVOLUTIONS
from ascend_sim.studies.validate.kernel import PIPES, Kernel, Row
from ascend_sim.studies.validate.launches import CALLS, LAUNCHES, MATMULS, MICROBENCHMARKS
from ascend_sim.studies.validate.pages import Errors, blind, csv_text, group_by, spearman
from ascend_sim.studies.validate.rows import TOLD, of_chips, read_rows, shipped_rows
from ascend_sim.studies.validate.run import Comparison, Prediction, compare, simulate
from ascend_sim.studies.validate.scatter import plot

CONV = "chip,op_type,N,Ci,Hi,Wi,Co,Ho,Wo,kh,kw,stride_h,stride_w,pad_h_total,pad_w_total,dtype,block_dim,duration_us"
TWO_ROWS = f"""# made up
{CONV},aicore_time_us,mac_ratio,mte1_ratio
Ascend910B2,Conv2DBackpropInput,2,16,8,8,32,8,8,3,3,1,1,2,2,fp16,4,10.0,8.0,0.5,0.25
Ascend910B2,Conv2DBackpropFilter,2,16,8,8,32,4,4,3,3,2,2,1,1,hf32,4,20.0,,,
"""
HELPERS = """chip,op_type,N,Ci,Hi,Wi,Co,kh,kw,dtype,dtype_out,format_in,format_out,C0,duration_us
ascend910b2,TransData,2,20,6,6,,,,fp32,,NCHW,NC1HWC0,8,10
ascend910b2,TransData,2,20,6,6,,,,fp32,,NC1HWC0,NCHW,16,10
ascend910b2,TransData,,20,,,40,3,3,fp32,,NCHW,FRACTAL_Z,8,10
ascend910b2,TransData,,20,,,40,3,3,fp32,,FRACTAL_Z,NCHW,8,10
ascend910b2,ReduceSum,2,20,36,1,,,,fp32,,,,,10
ascend910b2,Cast,1000,,,,,,,fp32,fp16,,,,10
ascend910b2,MemSet,,20,,,40,3,3,fp32,,,,,10
ascend910b2,Cast,1000,,,,,,,fp32,int64,,,,10
ascend910b2,Softmax,1000,,,,,,,fp32,,,,,10
ascend910b2,FusionOp_Conv2DBackpropInput_ReluGradV2,,,,,,,,fp16,,,,,10
"""


def launched(kernel: Kernel, chip: ChipSpec) -> tuple[Task, list[Allocation]]:
    return LAUNCHES[kernel.op_type].task(kernel, chip, Device(chip, with_values=False))


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(TWO_ROWS)
    return path


@pytest.mark.fast
def test_a_row_is_read_as_it_stands(rows_file: Path) -> None:
    first, second = read_rows(rows_file, told=("block_dim",))
    assert first.kernel.chip == "ascend910b2"
    assert (first.kernel["N"], first.kernel["Co"], first.kernel["block_dim"]) == (2, 32, 4)
    assert first.duration_us == 10.0
    assert first.pipes == {"mac": 4.0, "mte1": 2.0}
    assert second.core_us is None and second.pipes == {}


@pytest.mark.fast
@pytest.mark.parametrize("gradient", ["grad_input", "grad_weight"])
def test_a_cube_row_runs_the_operators_kernel_alone(rows_file: Path, gradient: str) -> None:
    """Same instructions as in the whole operator, so the same work of the cube and of the pipes that GM does not delay."""
    rows = read_rows(rows_file, told=("block_dim",))
    row = rows[0] if gradient == "grad_input" else rows[1]
    dtype, math_type, stride, out = ("float16", 0, 1, 8) if gradient == "grad_input" else ("float32", 3, 2, 4)
    padding = (1, 1) if gradient == "grad_input" else (0, 1, 0, 1)
    whole = convolution_backward(
        TensorSpec((2, 32, out, out), dtype), TensorSpec((2, 16, 8, 8), dtype), TensorSpec((32, 16, 3, 3), dtype),
        None, (stride, stride), padding, (1, 1), False, (0, 0), 1, (True, True, False), cube_math_type=math_type,
        chip="ascend910b2", mode="timing", deterministic=False, block_dim=4, l2="warm",
    )  # fmt: skip
    kernel = next(kernel for kernel in whole.report.kernels if kernel["name"] == gradient)
    predicted = simulate(row.kernel)
    assert predicted.skipped == ""
    for pipe in ("mac", "mte1"):
        assert predicted.pipes[pipe] == kernel["pipes_us"][PIPES[pipe]] > 0
    assert 0 < predicted.core_us < predicted.task_us


@pytest.mark.fast
def test_odd_padding_lies_below_and_to_the_right(rows_file: Path) -> None:
    """One row and one column of padding in all: the window of every load begins inside the map."""
    chip = load_chip("ascend910b2")
    task, _ = launched(read_rows(rows_file)[1].kernel, chip)
    program = task.build(0)[0]
    loads = [one for one in program.table.instructions if isinstance(one, LoadData3D) and one.destination == "L0B"]
    assert loads and {(one.pad_top, one.pad_left) for one in loads} == {(0, 0)}


def test_blocks_of_a_row_are_launched(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    line = TWO_ROWS.splitlines()[2]
    path.write_text("\n".join([CONV + ",a,b,c", line, line.replace("fp16,4,", "fp16,1,")]))
    four, one = (simulate(row.kernel) for row in read_rows(path, told=("block_dim",)))
    assert one.pipes["mac"] > 1.5 * four.pipes["mac"]
    assert (four.blocks, one.blocks) == (4, 1)


def test_a_prediction_is_told_nothing_unless_asked(tmp_path: Path) -> None:
    """Blocks and tiling change nothing that the simulator gets to know."""
    path = tmp_path / "rows.csv"
    line = TWO_ROWS.splitlines()[2]
    path.write_text("\n".join([CONV + ",a,b,c", line, line.replace("fp16,4,", "fp16,1,")]))
    first, second = read_rows(path)
    assert first.kernel == second.kernel and first.cells["block_dim"] == "4"
    path.write_text(PRODUCTS)
    told, untold = ({name for row in read_rows(path, told=what) for name, _ in row.kernel.sizes} for what in (TOLD, ()))
    assert {"block_dim", "baseM", "baseN"} <= told and not untold & {"block_dim", "baseM", "baseN"}
    path.write_text("chip,op_type,N,Ci,Hi,Wi,dtype,duration_us,l2\nascend910b2,ReduceSum,32,256,169,1,fp32,19,cold\n")
    assert [read_rows(path, l2)[0].kernel.l2 for l2 in ("warm", "cold")] == ["cold", "cold"]  # a row's own goes first
    with pytest.raises(SimError, match="told 'blocks': allowed are block_dim, tiling"):
        read_rows(path, told=("blocks",))


def test_helpers_run_and_others_say_why_not(tmp_path: Path) -> None:
    path = tmp_path / "helpers.csv"
    path.write_text(HELPERS)
    compared = compare(read_rows(path))
    assert [one.prediction.skipped for one in compared] == [""] * 7 + [
        "Cast of int64 is not simulated",
        "no kernel of Softmax here",
        "fused with other operators",
    ]
    assert all(one.prediction.task_us > one.prediction.core_us > 0 for one in compared[:7])


def test_other_names_of_operators_and_formats(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(TWO_ROWS.replace("Filter,", "FilterD,"))
    assert [row.kernel.op_type for row in read_rows(path)] == ["Conv2DBackpropInput", "Conv2DBackpropFilter"]
    given = ("ND,NC1HWC0", "NC1HWC0:1,NCHW", "nd,fractal_z", "ND,FRACTAL_NZ", "NCHW,NHWC")
    line = "ascend910b2,TransData,2,20,6,6,20,3,3,fp32,,{},8,10"
    path.write_text("\n".join([HELPERS.splitlines()[0], *(line.format(formats) for formats in given)]))
    rows = read_rows(path)
    assert [(row.kernel.label("format_in"), row.kernel.label("format_out")) for row in rows[:3]] == [
        ("NCHW", "NC1HWC0"),
        ("NC1HWC0", "NCHW"),
        ("NCHW", "FRACTAL_Z"),
    ]
    assert [row.unlike for row in rows] == [
        "",
        "",
        "",
        "TransData ND -> FRACTAL_NZ is not simulated",
        "TransData NCHW -> NHWC is not simulated",
    ]


@pytest.mark.fast
@pytest.mark.parametrize("index", range(7))
def test_helpers_read_and_write_whole_tensors(tmp_path: Path, index: int) -> None:
    """The sizes of both tensors by hand, and a kernel that writes all of its output."""
    path = tmp_path / "helpers.csv"
    path.write_text(HELPERS)
    kernel = read_rows(path)[index].kernel
    chip = load_chip(kernel.chip)
    task, inputs = launched(kernel, chip)
    programs = [program for block in range(task.block_dim) for program in task.build(block)]
    moved = Counts(task, programs).as_dict()["bytes"]
    plain, blocked8, blocked16 = 2 * 20 * 36 * 4, 2 * 24 * 36 * 4, 2 * 32 * 36 * 4
    weights, fractal = 40 * 20 * 9 * 4, 48 * 24 * 9 * 4
    expected = [
        (plain, blocked8),
        (blocked16, plain),
        (weights, fractal),
        (fractal, weights),
        (plain, 20 * 4),
        (4000, 2000),
        (0, fractal),
    ][index]
    assert (sum(tensor.size for tensor in inputs), task.tensors[-1].size) == expected
    assert moved["UB->GM"] == expected[1]


def test_shipped_rows_are_complete() -> None:
    rows = shipped_rows()
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        counts[row.kernel.chip, row.kernel.op_type] = counts.get((row.kernel.chip, row.kernel.op_type), 0) + 1
    assert counts["ascend910b2", "Conv2DBackpropInput"] == counts["ascend910b2", "Conv2DBackpropFilter"] == 16
    assert counts["ascend910b", "Conv2DBackpropFilter"] == 60
    assert counts["ascend910b", "Conv2DBackpropInput"] == 15
    programs = [row for row in rows if row.kernel.op_type in MICROBENCHMARKS]
    assert len(programs) == 379 and {row.series for row in programs} == {"", "sets a cost", "sources disagree"}
    assert all(row.cells["sets"] for row in programs if row.series == "sets a cost")
    rows = [row for row in rows if row not in programs]
    products = [row for row in rows if row.kernel.op_type in MATMULS]
    assert len(products) == 94 and all(row.series for row in products)
    calls = [row for row in rows if row.kernel.op_type in CALLS]
    assert len(calls) == 66 and {int(row.cells["case"]) % 2 for row in calls} == {1}
    assert {row.kernel.chip for row in calls} == {"ascend910b2", "ascend910b4", "ascend950pr_9579"}
    apart = [row for row in rows if row.series and row not in (*products, *calls)]
    assert {row.kernel["N"] for row in apart} == {32}
    assert len(apart) == 37
    assert {row.kernel.op_type for row in rows if not row.unlike} == set(LAUNCHES) - {*MICROBENCHMARKS, *CONVOLUTIONS}
    assert {row.kernel.chip for row in rows if row.pipes and row not in products} == {"ascend910b2"}
    with_counters = [row for row in rows if row.pipes]
    assert all(0 < sum(row.pipes.values()) < 6 * (row.core_us or 0) for row in with_counters)


PRODUCTS = """chip,op_type,dtype,dtype_out,batch,M,N,K,trans_a,trans_b,block_dim,baseM,baseN,duration_us
ascend910b2,MatMulV2,fp16,fp32,,64,96,128,0,1,4,32,48,10
ascend910b2,BatchMatMul,bf16,,3,64,96,128,1,0,,,,10
ascend950pr_9589,MatMul,fp32,,,64,96,128,,,,,,10
ascend910a,MatMul,fp16,,,64,96,128,,,,,,10
ascend910b2,MatMul,fp16,,,64,96,128,,,,100,,10
ascend910b2,MatMul,int8,,,64,96,128,,,,,,10
ascend910b2,MatMul,fp16,,,8192,8192,8192,,,,,,10
"""


def test_matmul_rows_give_their_sizes_and_what_is_known_of_their_tiling(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(PRODUCTS)
    rows = read_rows(path, told=TOLD)
    chip = load_chip("ascend910b2")
    task, inputs = launched(rows[0].kernel, chip)
    assert [t.size for t in task.tensors] == [64 * 128 * 2, 96 * 128 * 2, 64 * 96 * 4] and len(inputs) == 2
    assert (task.block_dim, task.info["tiling"]["baseM"], task.info["tiling"]["baseN"]) == (4, 32, 48)
    task, _ = launched(rows[1].kernel, chip)
    assert [t.size for t in task.tensors] == [3 * 64 * 128 * 2, 3 * 96 * 128 * 2, 3 * 64 * 96 * 2]
    both = [simulate(replace(rows[1].kernel, dtype=dtype)) for dtype in ("bf16", "fp16")]
    assert both[0] == both[1]  # which is why one of them is enough
    skipped = [one.prediction.skipped for one in compare(rows, long=False)]
    assert skipped[:3] == ["", "", ""]
    assert "no kernel for ascend910a" in skipped[3] and "baseM = 100 is not a multiple of 16" in skipped[4]
    assert "dtype 'int8': allowed for MatMul: hf32, fp32, fp16, bf16" in skipped[5]
    assert skipped[6] == "takes minutes; --long runs it"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("64,96,128,0,1", "64,,128,0,1", "line 2: N missing; MatMulV2 needs M, N, K"),
        ("0,1,4", "0,2,4", "trans_b: '2' given"),
    ],
)
def test_wrong_matmul_rows(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(PRODUCTS.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        read_rows(path)


def test_of_chips_keeps_only_those_and_names_what_there_is(rows_file: Path) -> None:
    rows = read_rows(rows_file)
    assert of_chips(rows, ["Ascend910B2"]) == rows
    with pytest.raises(SimError, match=r"ascend910b3.* no measured rows; there are rows of ascend910b2"):
        of_chips(rows, ["ascend910b3"])


def test_a_chip_file_takes_the_rows_of_the_chip_that_it_extends(rows_file: Path, tmp_path: Path) -> None:
    slow = tmp_path / "Slow.yaml"
    clock = "clock: {cube_mhz: {value: 900, unit: MHz, source: 'assumed: a test'}}"
    slow.write_text(f"extends: ascend910b2\n{clock}\n")
    rows = read_rows(rows_file)
    again = of_chips(rows, [str(slow)])
    assert [row.kernel.chip for row in again] == [str(slow)] * 2
    assert simulate(again[0].kernel).pipes["mac"] > 1.9 * simulate(rows[0].kernel).pipes["mac"]
    with pytest.raises(ConfigError, match="cannot be read"):
        of_chips(rows, [str(tmp_path / "none.yaml")])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("duration_us", "time", "no column duration_us"),
        ("Ascend910B2,Conv2DBackpropInput", "ascend910x,Conv2DBackpropInput", "line 3: chip"),
        ("fp16,4,10.0", "fp16,4,0", "line 3: duration_us: '0' given"),
        ("fp16,4,10.0", "fp16,4,nan", "line 3: duration_us: 'nan' given"),
        ("fp16,4,10.0", "fp16,0,10.0", "line 3: block_dim: '0' given"),
        ("2,16,8,8,32,8,8", ",16,8,8,32,8,8", "line 3: N missing"),
        ("2,16,8,8,32,8,8", "2,16,8,8,32,8,7", "line 3: Wo: 7 given; .* give 8"),
        ("2,16,8,8,32,8,8", "2.5,16,8,8,32,8,8", "line 3: N: '2.5' given"),
    ],
)  # fmt: skip
def test_errors_name_file_line_and_column(rows_file: Path, old: str, new: str, message: str) -> None:
    rows_file.write_text(TWO_ROWS.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        read_rows(rows_file)
    assert "\n" not in str(caught.value)


GOOD = {
    "chip": "ascend950pr_9579", "op_type": "conv2d", "dtype": "fp16", "N": "1", "Ci": "16", "Hi": "14", "Wi": "14",
    "Co": "32", "Ho": "14", "Wo": "14", "kh": "3", "kw": "3", "stride_h": "1", "stride_w": "1", "pad_h_total": "2",
    "pad_w_total": "2", "dilation_h": "1", "groups": "1", "l2": "cold", "duration_us": "8.0",
}  # fmt: skip
IMPOSSIBLE: list[tuple[dict[str, str], str]] = [
    ({"groups": "3"}, "16 channels given; weight.shape[1] x groups is 15 (groups 3)"),
    ({"groups": "17"}, "groups 17"),
    ({"groups": "0"}, "groups: '0' given; must be a whole number from 1"),
    ({"op_type": "Conv2DBackpropInput", "groups": "3"}, "groups 3"),
    ({"stride_h": "100", "Ho": "1"}, "stride h = 100 > 63"),
    ({"pad_h_total": "4000", "Ho": "4012"}, "pad up = 2000 > 255"),
    ({"kh": "30", "Ho": "1"}, "Ho: 1 given; Hi, kernel, stride and padding give -13"),
    ({"kh": "17", "Ho": "0"}, "Ho: '0' given"),
    ({"pad_h_total": "3", "Ho": "15"}, "pads of [3, 2]"),
    ({"chip": "ascend910x"}, "'ascend910x' is not a known chip"),
    ({"chip": ""}, "'' is not a known chip"),
    ({"chip": "ascend910a", "dtype": "bf16"}, "status 161002"),
    ({"dtype": "fp33"}, "dtype 'fp33': allowed for conv2d"),
    ({"N": "-1"}, "N: '-1' given; must be a whole number from 1"),
    ({"N": "many"}, "N: 'many' given"),
    ({"N": "inf"}, "N: 'inf' given"),
    ({"N": "nan"}, "N: 'nan' given"),
    ({"N": "1e300"}, "device memory: input needs"),
    ({"N": "", "Ci": ""}, "N, Ci missing; conv2d needs"),
    ({"op_type": "MatMul"}, "M, K missing; MatMul needs M, N, K"),
    ({"op_type": "Magic"}, "no kernel of Magic here"),
    ({"duration_us": "0"}, "duration_us: '0' given; must be a time above 0"),
    ({"duration_us": "soon"}, "duration_us: 'soon' given"),
    ({"l2": "lukewarm"}, "l2: 'lukewarm' given; allowed: cold, warm"),
]  # fmt: skip


def lines_of(*rows: dict[str, str]) -> str:
    return "\n".join([",".join(GOOD), *(",".join({**GOOD, **row}.values()) for row in rows)]) + "\n"


def validated(folder: Path, text: str, *options: str) -> tuple[Any, list[dict[str, str]]]:
    (folder / "rows.csv").write_text(text, encoding="utf-8")
    table = folder / "all.csv"
    arguments = ["validate", "--rows", str(folder / "rows.csv"), "--csv", str(table), "--jobs", "1", *options]
    done = CliRunner().invoke(app, arguments)
    return done, list(csv.DictReader(table.open(encoding="utf-8"))) if table.exists() else []


def test_rows_that_cannot_be_are_skipped_with_their_reasons_beside_the_others(tmp_path: Path) -> None:
    """All kinds in one file, between two rows that run: each is written with its own columns, and why it did not run."""
    done, table = validated(tmp_path, lines_of({}, *(row for row, _ in IMPOSSIBLE), {"N": "2"}))
    assert done.exit_code == 0, done.output
    first, *between, last = table
    assert all(float(row["predicted_us"]) > 0 and not row["skipped"] for row in (first, last))
    assert not any("defect" in row["skipped"] for row in table)
    told = " ".join(done.stdout.split())
    for (row, reason), written in zip(IMPOSSIBLE, between, strict=True):
        assert reason in written["skipped"] and not written["predicted_us"], (row, written["skipped"])
        assert {name: written[name] for name in row} == row
    assert told.count("skipped") == len(IMPOSSIBLE)  # told one by one: no two have one reason
    figures = json.loads(validated(tmp_path, lines_of({}, *(row for row, _ in IMPOSSIBLE)), "--json")[0].stdout)
    assert sum(count for group in figures["groups"] for count in group["skipped"].values()) == len(IMPOSSIBLE)


def test_lines_that_are_no_rows_are_skipped(tmp_path: Path) -> None:
    junk = ["ascend950pr_9579,conv2d", ",,,", "x", '"', "\0", "\x1b[31m,conv2d", "a" * 200_000, ",".join("1" * 99)]
    done, table = validated(tmp_path, lines_of({}) + "\n".join(junk) + "\n")
    assert done.exit_code == 0 and len(table) == 1 + len(junk) and "\x1b" not in done.stdout
    assert not table[0]["skipped"] and all(f"line {3 + i}: " in row["skipped"] for i, row in enumerate(table[1:]))


def test_a_file_in_which_no_row_can_be_is_refused(tmp_path: Path) -> None:
    """Its first row's reason is the line; a row that can be read and not simulated is skipped, as ever."""
    done, table = validated(tmp_path, lines_of({"N": "many"}, {"chip": "x"}))
    assert (done.exit_code, table, done.stderr.count("\n")) == (2, [], 1)
    assert "line 2: N: 'many' given" in done.stderr
    done, table = validated(tmp_path, lines_of({"groups": "3"}))
    assert done.exit_code == 0 and [bool(row["skipped"]) for row in table] == [True]


def test_a_defect_loses_no_finished_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = LAUNCHES["conv2d"].tasks
    monkeypatch.setattr(
        LAUNCHES["conv2d"], "tasks", lambda kernel, *rest: tasks(kernel, *rest) if kernel["N"] == 1 else 1 // 0
    )
    done, table = validated(tmp_path, lines_of({}, {"N": "2"}))
    assert done.exit_code == 0 and float(table[0]["predicted_us"]) > 0
    assert table[1]["skipped"].startswith("a defect of the simulator: ZeroDivisionError: ")


def test_other_errors(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(CONV + "\n")
    with pytest.raises(ConfigError, match="no rows"):
        read_rows(path)
    with pytest.raises(ConfigError, match=r"none\.csv: no such file"):
        read_rows(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="cannot be read"):
        path.write_bytes(b"\xff\xfe")
        read_rows(path)
    path.write_text(HELPERS.replace("NCHW,NC1HWC0", "NCHW,NC1HWCO"))
    with pytest.raises(ConfigError, match="line 2: format_in, format_out"):
        read_rows(path)


def test_errors_by_hand() -> None:
    errors = Errors.of([(11.0, 10.0), (6.0, 10.0), (10.0, 10.0), (1.0, 0.0)])
    assert errors is not None
    assert errors.rows == 3
    assert (errors.mean, errors.median, errors.bias) == pytest.approx((50 / 3, 10.0, -10.0))
    assert Errors.of([]) is None


def test_spearman_by_hand() -> None:
    assert spearman([1, 2, 3], [10, 20, 15]) == pytest.approx(0.5)
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: 1 - sum of products
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert spearman([1, 1], [1, 2]) is None


@pytest.mark.fast
def test_only_programs_that_set_no_cost_are_blind() -> None:
    """Rows of a series set a cost, and kernels of operators are no small programs."""

    def compared(op_type: str, series: str, predicted: float, skipped: str = "") -> Comparison:
        row = Row(Kernel("ascend910b3", op_type, "fp16", ()), 10.0, None, {}, series, "", {})
        return Comparison(row, Prediction(predicted, skipped=skipped))

    errors = blind(
        [
            compared("DataCopy", "", 11.0),
            compared("VectorAdd", "", 8.0),
            compared("DataCopy", "fitted", 50.0),
            compared("ReduceSum", "", 90.0),
            compared("DataCopy", "", 70.0, "not here"),
        ]
    )
    assert errors is not None
    assert (errors.rows, errors.bias, errors.worst) == (2, pytest.approx(-5.0), pytest.approx(-20.0))
    assert blind([compared("DataCopy", "fitted", 50.0)]) is None


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20, unique=True))
def test_spearman_sees_only_the_order(values: list[float]) -> None:
    assert spearman(values, [sorted(values).index(value) for value in values]) == pytest.approx(1)
    assert spearman(values, [-sorted(values).index(value) for value in values]) == pytest.approx(-1)


@pytest.mark.fast
def test_fewer_than_three_kernels_have_no_order() -> None:
    def rank(kernels: int) -> float | None:
        rows = [
            Row(Kernel("ascend910b3", "K", "fp16", (("n", n),)), 10.0 + n, None, {}, "", "", {}) for n in range(kernels)
        ]
        (group,) = group_by([Comparison(row, Prediction(row.duration_us)) for row in rows], lambda one: "all")
        return group.rank

    assert (rank(2), rank(3)) == (None, pytest.approx(1))


@pytest.mark.fast
def test_groups_and_csv(rows_file: Path) -> None:
    compared = compare(read_rows(rows_file))
    filters, inputs = group_by(compared)
    assert (filters.op_type, inputs.op_type) == ("Conv2DBackpropFilter", "Conv2DBackpropInput")
    assert inputs.task is not None and filters.core is None and inputs.core is not None
    predicted = compared[0].prediction
    assert inputs.task.bias == pytest.approx(100 * (predicted.task_us - 10) / 10)
    assert inputs.core.bias == pytest.approx(100 * (predicted.core_us - 8) / 8)
    assert inputs.pipes["mac"].bias == pytest.approx(100 * (predicted.pipes["mac"] - 4) / 4)
    assert inputs.rank is None  # one kernel has no order
    table = list(csv.DictReader(io.StringIO(csv_text(compared))))
    assert [line["op_type"] for line in table] == ["Conv2DBackpropInput", "Conv2DBackpropFilter"]
    assert float(table[0]["predicted_us"]) == predicted.task_us
    assert float(table[0]["error_pct"]) == pytest.approx(inputs.task.bias, abs=0.01)


def test_equal_kernels_run_once(rows_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ascend_sim.studies.validate import run as validate

    rows = read_rows(rows_file) * 3
    ran: list[Kernel] = []

    def counted(kernel: Kernel) -> Prediction:
        ran.append(kernel)
        return simulate(kernel)

    monkeypatch.setattr(validate, "simulate", counted)
    assert len(compare(rows)) == 6
    assert len(ran) == 2


def test_cold_l2_is_slower(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("chip,op_type,N,Ci,Hi,Wi,dtype,duration_us\nascend910b2,ReduceSum,32,256,169,1,fp32,19\n")
    warm, cold = (simulate(read_rows(path, l2)[0].kernel) for l2 in ("warm", "cold"))
    assert cold.pipes["mte2"] > warm.pipes["mte2"]


def test_command_line(rows_file: Path, tmp_path: Path) -> None:
    table = tmp_path / "all.csv"
    arguments = ["validate", "--rows", str(rows_file), "--csv", str(table), "--jobs", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "Conv2DBackpropInput" in result.stdout and "took" in result.stderr
    assert len(table.read_text().splitlines()) == 3
    data = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert {group["op_type"] for group in data["groups"]} == {"Conv2DBackpropInput", "Conv2DBackpropFilter"}
    refused = CliRunner().invoke(app, ["validate", "--rows", str(rows_file), "--chip", "ascend910b3"])
    assert refused.exit_code == 2
    assert len(refused.stderr.strip().splitlines()) == 1


def test_plot(rows_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "scatter.png"
    plot(compare(read_rows(rows_file)), picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_plot_says_what_is_missing_before_the_run(rows_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = CliRunner().invoke(app, ["validate", "--rows", str(rows_file), "--plot", "a.png"])
    assert result.exit_code == 2
    assert "ascend-sim[plot]" in result.stderr
    wrong = CliRunner().invoke(app, ["validate", "--rows", str(rows_file), "--plot", "a.jpg"])
    assert wrong.exit_code == 2 and ".png" in wrong.stderr


def test_rows_are_plain_data() -> None:
    row = shipped_rows()[0]
    assert isinstance(row, Row)
    assert hash(row.kernel) == hash(shipped_rows()[0].kernel)


def test_rows_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.csv: no such file"):
        read_rows(tmp_path / "none.csv", "warm")
