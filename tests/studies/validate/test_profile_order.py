"""Order of a profile: code is warm where the same kernel is among the last few; the L2 holds what kernels before left."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.studies.validate.launch import MeasuredKernel
from ascend_sim.studies.validate.profile_order import note_launches, victims
from ascend_sim.studies.validate.rows import read_rows
from ascend_sim.studies.validate.run import simulate
from tests.support.places import ROOT

CHIP = load_chip("ascend910b2")
STEPS = ROOT / "configs" / "measurements" / "steps"
HEAD = (
    "Type,Accelerator Core,Start Time(us),Duration(us),Block Dim,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
    "Output Data Types,Output Formats"
)


def launches(*kernels: str, cores: str = "AI_VECTOR_CORE") -> list[str]:
    """The states of launches in a row, each an operator by its name."""
    lines = [{"Type": name, "Accelerator Core": cores, "Start Time(us)": f"{1000 + at}"} for at, name in enumerate(kernels)]
    note_launches(lines, CHIP)
    return [line["launches"] for line in lines]


@pytest.mark.fast
def test_a_kernel_is_warm_within_the_last_launches_that_are_kept() -> None:
    others = "BCDEF"[: CHIP.launch.kept_launches]
    assert launches("A", *others[:-1], "A")[-1] == "warm"
    assert launches("A", *others, "A")[-1] == "cold"


@pytest.mark.fast
def test_only_launches_on_the_same_kind_of_core_count() -> None:
    lines = [
        {"Type": name, "Accelerator Core": core, "Start Time(us)": f"{at}"}
        for at, (name, core) in enumerate([("A", "AI_VECTOR_CORE"), *[("M", "AI_CORE")] * 5, ("A", "MIX_AIV")])
    ]
    note_launches(lines, CHIP)
    assert [line["launches"] for line in lines] == ["cold", "cold", "warm", "warm", "warm", "warm", "warm"]


@pytest.mark.fast
def test_the_order_is_that_of_the_start_times_and_unknown_without_them() -> None:
    lines = [{"Type": "A", "Accelerator Core": "AI_CORE", "Start Time(us)": start} for start in ("2", "1", "N/A", "soon")]
    note_launches(lines, CHIP)
    assert [line.get("launches") for line in lines] == ["warm", "cold", None, None]


def test_rows_of_a_profile_take_the_state_of_their_launch(tmp_path: Path) -> None:
    """A launch that is not simulated lies between as well; another dtype is other code."""
    cast = "Cast,AI_VECTOR_CORE,{},9,1,4096,FLOAT,ND,4096,{},ND"
    other = "Mish,AI_VECTOR_CORE,{},9,1,4096,FLOAT,ND,4096,FLOAT,ND"
    lines = [cast.format(1, "FLOAT16"), cast.format(2, "FLOAT16"), cast.format(3, "DT_BF16")]
    lines += [other.format(at) for at in range(4, 8)] + [cast.format(8, "FLOAT16")]
    path = tmp_path / "kernel_details.csv"
    path.write_text("\n".join([HEAD, *lines]) + "\n")
    rows = [row for row in read_rows(path, chip="ascend910b2") if not row.unlike]
    assert [row.kernel.launches for row in rows] == ["cold", "warm", "cold", "cold"]


def table(*kernels: tuple[str, str, str], cores: str = "AI_VECTOR_CORE") -> str:
    """A profile of kernels on vectors of fp32: operator, sizes read, sizes written."""
    lines = []
    for at, (name, reads, writes) in enumerate(kernels):
        sides = [f'"{sizes}",FLOAT,ND' for sizes in (reads, writes)]
        lines.append(f"{name},{cores},{at},9,1,{','.join(sides)}")
    return "\n".join([HEAD, *lines]) + "\n"


def moves(tmp_path: Path, text: str) -> list[MeasuredKernel]:
    """The kernels of a profile as they are read."""
    path = tmp_path / "kernel_details.csv"
    path.write_text(text)
    return [row.kernel for row in read_rows(path, chip="ascend910b2") if not row.unlike]


def test_a_kernel_reads_the_buffer_of_its_size_that_was_moved_last(tmp_path: Path) -> None:
    """The sum reads what Mul wrote, not what Mul read; before the first kernel stands the last of the profile."""
    text = table(("Mul", "4096", "4096"), ("ReduceSum", "32,128", "128"), ("Mish", "128", "128"))
    (kernel,) = moves(tmp_path, text)
    assert kernel.l2 == "step"
    mul, mish = kernel.before[-1], kernel.before[-2]
    (read, size, writes), (_, result, written) = kernel.moved
    assert (size, writes, result, written) == (4096 * 4, False, 128 * 4, True)
    assert (read, size, True) in mul and (read, size, False) not in mul
    assert {nbytes for _, nbytes, _ in mish} == {128 * 4}


def test_only_as_much_is_replayed_as_the_l2_remembers(tmp_path: Path) -> None:
    large = CHIP.memory.l2_bytes // 4
    kernels = [("Mul", str(large), str(large))] * 8
    (kernel,) = moves(tmp_path, table(*kernels, ("ReduceSum", "32,128", "128")))
    moved = sum(nbytes for one in kernel.before for _, nbytes, _ in one)
    assert 4 * CHIP.memory.l2_bytes <= moved < 7 * CHIP.memory.l2_bytes


def test_what_earlier_kernels_left_decides_the_time(tmp_path: Path) -> None:
    """A large sum takes longer behind a kernel that filled the L2 with dirty lines than behind one that read its input."""
    n, large = 2**20, CHIP.memory.l2_bytes // 4
    times = {}
    for name, before in (("dirty", ("Fill", "1", str(2 * large))), ("there", ("Relu", f"{n}", f"{n}"))):
        (kernel,) = moves(tmp_path, table(before, ("ReduceSum", f"32,{n // 32}", f"{n // 32}")))
        times[name] = simulate(kernel).task_us
    (plain,) = (replace(kernel, l2="cold", moved=(), before=()) for _ in "x")
    assert times["there"] < simulate(plain).task_us < times["dirty"]


def test_a_step_is_refused_without_an_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("chip,op_type,N,Ci,Hi,Wi,dtype,duration_us\nascend910b2,ReduceSum,32,256,169,1,fp32,19\n")
    with pytest.raises(SimError, match="l2 'step' is what the earlier kernels of a profile leave; give a profiler's table"):
        read_rows(path, "step")
    assert read_rows(path)[0].kernel.l2 == "warm"


def test_victims_of_a_training_step_are_those_measured() -> None:
    """Both ranks' dirty lines driven out, all kernels together, within 10 % of the counters (facts of `steps`)."""
    for rank in ("rank0", "rank1"):
        lines = [line for line in (STEPS / f"alexnet_910b2_{rank}.csv").read_text().splitlines() if line[0] != "#"]
        cells = list(csv.DictReader(lines))
        predicted, measured, _ = victims(cells, CHIP)
        assert abs(sum(predicted) / sum(measured) - 1) < 0.1
