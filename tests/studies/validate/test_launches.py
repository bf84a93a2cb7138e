"""Launches of measured rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ascend_sim import TensorSpec, convolution_backward
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.isa.load import LoadData3D
from ascend_sim.memory.gm import Allocation
from ascend_sim.report.counts import Counts
from ascend_sim.runtime import Device, Task
from ascend_sim.studies.validate.inferred_sizes import CONVOLUTIONS
from ascend_sim.studies.validate.launch import PIPES, MeasuredKernel
from ascend_sim.studies.validate.launches import CALLS, LAUNCHES, MATMULS, MICROBENCHMARKS
from ascend_sim.studies.validate.rows import FACTS, read_rows, shipped_rows
from ascend_sim.studies.validate.run import compare, simulate
from tests.support.studies.measured_rows import CONV, HELPERS, PRODUCTS, TWO_ROWS


def launched(kernel: MeasuredKernel, chip: ChipSpec) -> tuple[Task, list[Allocation]]:
    return LAUNCHES[kernel.op_type].task(kernel, chip, Device(chip, with_values=False))


@pytest.mark.fast
@pytest.mark.parametrize("gradient", ["grad_input", "grad_weight"])
def test_a_cube_row_runs_the_operators_kernel_alone(rows_file: Path, gradient: str) -> None:
    """Same instructions as in the whole operator, so the same work of the cube and of the pipes that GM does not delay."""
    rows = read_rows(rows_file, facts=("block_dim",))
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
    four, one = (simulate(row.kernel) for row in read_rows(path, facts=("block_dim",)))
    assert one.pipes["mac"] > 1.5 * four.pipes["mac"]
    assert (four.blocks, one.blocks) == (4, 1)


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
    assert len(products) == 94 + 10 and all(row.series for row in products)
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


def test_a_product_that_is_no_task_time_is_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "chip,op_type,dtype,M,N,K,quantity,duration_us\n"
        "ascend910b2,MatMul,fp16,64,64,64,core,1.91\nascend910b2,MatMul,fp16,64,64,64,,8\n"
    )
    assert [row.unlike[:28] for row in read_rows(path)] == ["a time of the cores alone, b", ""]


def test_sums_that_cores_share_are_not_compared(tmp_path: Path) -> None:
    """A core has whole sums: one block may have a lone sum, and several blocks as many sums or more."""
    path = tmp_path / "rows.csv"
    sizes = ["1,1,160,1,1", "1,1,160,1,", "1,1,75497472,1,48", "4,8,9,1,9", "4,8,9,1,8", "4,8,9,1,"]
    rows = "".join(f"ascend910b2,ReduceSum,fp32,{row},9\n" for row in sizes)
    path.write_text("chip,op_type,dtype,N,Ci,Hi,Wi,block_dim,duration_us\n" + rows)
    ways = [row.unlike.partition(":")[0] for row in read_rows(path)]
    assert ways == ["", "1 sum", "1 sum on 48 cores", "8 sums on 9 cores", "", ""]


def test_matmul_rows_give_their_sizes_and_what_is_known_of_their_tiling(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(PRODUCTS)
    rows = read_rows(path, facts=FACTS)
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
