"""Flags between cores: what nobody raises, and what a wait holds: every later instruction on dav-2201, its pipe on dav-3510."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.critical_path import critical_path
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.flags import cross_pairs
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.engine.watch import from_columns
from ascend_sim.errors import DeadlockError, SimError
from ascend_sim.kernel.program import Program
from tests.support.engine.machine import CHIP, changed, program, quiet, task_of

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("each_engine")]

QUIET = quiet(CHIP)


def test_a_cross_core_flag_that_nobody_raises() -> None:
    """Named are the cores of this task that did not raise their part, not those of a task that ran before."""

    def waits(k: Any) -> None:
        k.cross_core_wait(3, 0, "MTE2")

    def raises(k: Any) -> None:
        k.cross_core_set(3, 0, "MTE3")
        k.cross_core_wait(3, 0, "MTE2")

    fine = task_of([[program(QUIET, "AIV", raises, block=b)] for b in range(3)])
    bad = task_of([[program(QUIET, "AIV", waits if b == 1 else raises, block=b)] for b in range(3)])
    with pytest.raises(DeadlockError) as error:
        Engine(Device(QUIET, with_values=False)).run([fine, bad])
    text = str(error.value)
    assert "3 programs have not finished" in text
    for block in range(3):
        assert f"block {block} AIV0 S: at" in text
    assert text.count("waits for cross-core flag 3 (mode 0) from block 1 AIV0\n") == 2
    with pytest.raises(SimError, match="3 programs wait for cross-core flags that no core raises"):
        FunctionalEngine(Device(QUIET)).run([bad])


STOPS, ON_ITS_PIPE = load_chip("ascend910b3"), load_chip("ascend950pr_9589")
LATE = 10_000


def mixed(chip: ChipSpec, cube: Any, vector: Any, disarm: tuple[str, ...] = ()) -> list[ProgramRun]:
    """The runs of a block of one cube core and its vector cores."""
    cores = [("AIC", 0, cube), ("AIV", 0, vector), ("AIV", 1, vector)]
    made: list[Program] = [program(chip, kind, write, sub_block=s, disarm=disarm) for kind, s, write in cores]
    task = task_of([made], kind="MIX")
    timeline = Engine(Device(chip, with_values=False)).run([task], watch=True)
    assert timeline.watched == from_columns([task], timeline.programs)
    return timeline.of(0)


def late_cube(k: Any) -> None:
    k.scalar(LATE)
    k.cross_core_set(3, 2, "FIX")


def vector(k: Any) -> None:
    k.vector_duplicate(0, "float16", 128)
    k.cross_core_wait(3, 2, "MTE2")
    k.vector_duplicate(0, "float16", 128)
    k.pipe_barrier("MTE2")


@pytest.mark.parametrize("chip", [STOPS, ON_ITS_PIPE], ids=lambda chip: chip.name)
def test_what_it_holds(chip: ChipSpec) -> None:
    """Earlier instructions go on everywhere; of later ones only the pipe of the wait stands on dav-3510."""
    stops = chip.sync.cross_wait_stops_issue
    assert stops == (chip is STOPS)
    cube, first, _ = mixed(quiet(chip), late_cube, vector)
    over = int(cube.retire[1]) + chip.sync.cross_latency
    before, wait, other, own = range(4)
    assert first.program[wait].pipe == ("S" if stops else "MTE2")
    assert first.end[before] < LATE < first.end[wait] == over
    assert (first.start[other] >= over) == stops
    assert first.start[own] >= over
    pipe = "S" if stops else "MTE2"
    assert first.stalls(pipe)["cross-core"] == over - first.start[wait] > 0
    assert sum(first.stalls(pipe).values()) + first.busy()[pipe] == first.finish - first.begin
    assert "cross-core" not in first.stalls("MTE2" if stops else "S")


def test_a_disarmed_wait_stops_nothing() -> None:
    _, first, _ = mixed(quiet(STOPS), late_cube, vector, disarm=("cross-core 3",))
    assert first.end.max() < LATE


def test_a_wait_that_is_over_when_it_comes_costs_its_issue() -> None:
    """The flag is up long before the scalar unit gets to its wait."""

    def early_cube(k: Any) -> None:
        k.cross_core_set(3, 2, "FIX")

    def late(k: Any) -> None:
        k.scalar(LATE)
        k.cross_core_wait(3, 2, "MTE2")
        k.scalar(1)

    chip = changed(quiet(STOPS), scalar={"issue_cycles": {"AIC": 7, "AIV": 7}})
    _, first, _ = mixed(chip, early_cube, late)
    assert (first.end - first.begin).tolist() == [LATE + 7, LATE + 14, LATE + 22]
    assert "cross-core" not in first.stalls("S")


@asim.kernel_function(core="MIX")
def crossing(k, x, between, y):  # type: ignore[no-untyped-def]
    """A vector core waits on MTE2 for what its cube core does behind a set that the vector core's MTE3 issues later."""
    if k.is_cube:
        k.cross_core_wait(1, 2, "MTE2")
        k.cross_core_set(2, 2, "MTE2")
        return
    row, other = k.local_tensor(64, "float32", "row"), k.local_tensor(64, "float32", "other")
    k.cross_core_wait(2, 2, "MTE2")
    k.duplicate(other, 1.0)
    stored = k.flag("V", "MTE3", "stored")
    k.set_flag(stored), k.wait_flag(stored)
    k.ub_to_gm(between[k.sub_block], other)
    k.cross_core_set(1, 2, "MTE3")
    k.gm_to_ub(row, x)
    loaded = k.flag("MTE2", "MTE3", "loaded")
    k.set_flag(loaded), k.wait_flag(loaded)
    k.ub_to_gm(y[k.sub_block], row)


def errors(kernel: Any, tensors: tuple[Any, ...], chip: ChipSpec, blocks: int = 1, **more: Any) -> list[str]:
    """Return the kinds of a check's errors."""
    checked = asim.check_kernel(kernel, blocks, *tensors, chip=chip, **more)
    return [one.kind for one in checked.findings if one.level == "ERROR"]


def test_an_order_that_only_pipes_of_their_own_allow() -> None:
    """It runs on a 950 and is a deadlock on a 910B3, for runs and for checks."""
    tensors = np.zeros(64, np.float32), asim.empty((2, 64), "float32"), asim.empty((2, 64), "float32")
    given = asim.launch(crossing, 1, *tensors, chip=ON_ITS_PIPE)
    assert given.findings == [] and not given.outputs["y"].any() and given.outputs["between"].all()
    assert errors(crossing, tensors, ON_ITS_PIPE) == []
    with pytest.raises(DeadlockError, match=r"AIV0 S: at .*py:125, 0 S cross_core_wait_flag .* for cross-core flag 2"):
        asim.launch(crossing, 1, *tensors, chip=STOPS)
    assert errors(crossing, tensors, STOPS) == ["deadlock"]


def test_a_scalar_unit_that_waits_orders_all_that_comes_later() -> None:
    """The vector core's V touches what the cube core's flag hands over; the wait names MTE2."""

    @asim.kernel_function(core="MIX")
    def handed(k, x, y):  # type: ignore[no-untyped-def]
        if k.is_cube:
            k.cross_core_set(1, 2, "MTE2")
            return
        row = k.local_tensor(64, "float32", "row")
        k.gm_to_ub(row, x)
        k.cross_core_set(4, 1, "MTE2"), k.cross_core_wait(4, 1, "MTE3")  # the own load too: it is behind the set
        k.cross_core_wait(1, 2, "MTE2")
        k.muls(row, row, 2.0)
        done = k.flag("V", "MTE3", "done")
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y[k.sub_block], row)

    tensors = np.ones(64, np.float32), asim.empty((2, 64), "float32")
    for chip, kinds in ((STOPS, set()), (ON_ITS_PIPE, {"RAW", "WAW"})):
        found = set(errors(handed, tensors, chip))
        assert found <= kinds and bool(found) == bool(kinds), found


@pytest.mark.parametrize("answered", [True, False])
def test_a_set_behind_the_answer_to_the_one_before_does_not_run_over(answered: bool) -> None:
    """The flag counts to 1 here: a check must know that the scalar unit of the other core has passed its wait."""

    @asim.kernel_function(core="MIX")
    def rounds(k, x, y):  # type: ignore[no-untyped-def]
        for turn in range(3):
            if k.is_cube:
                k.cross_core_set(0, 2, "MTE2")
                if turn < 2 and answered:
                    k.cross_core_wait(1, 2, "MTE2")
            else:
                k.cross_core_wait(0, 2, "MTE2")
                row = k.local_tensor(64, "float32", f"row {turn}")
                k.gm_to_ub(row, x)
                if turn < 2 and answered:
                    k.cross_core_set(1, 2, "MTE2")
                loaded = k.flag("MTE2", "MTE3", f"loaded {turn}")
                k.set_flag(loaded), k.wait_flag(loaded)
                k.ub_to_gm(y[turn, k.sub_block], row)

    tensors = np.ones(64, np.float32), asim.empty((3, 2, 64), "float32")
    for chip in (STOPS, ON_ITS_PIPE):
        told = errors(rounds, tensors, changed(chip, sync={"cross_flag_max": 1}))
        assert told == ([] if answered else ["flag overflow"])


@asim.kernel_function(core="MIX")
def one_by_one(k, x, between, y, *, pipe="FIX"):  # type: ignore[no-untyped-def]
    """The vector cores hand their halves on one after the other: each by the cube core, with a flag of mode 4."""
    if k.is_cube:
        k.cross_core_wait(2, 4, pipe)
        k.cross_core_set(16 + 3, 4, pipe)
        k.cross_core_wait(16 + 2, 4, pipe)
        k.cross_core_set(3, 4, pipe)
        return
    row, other = k.local_tensor(64, "float32", "row"), k.local_tensor(64, "float32", "other")
    moved = k.flag("MTE2", "MTE3", "moved")
    if k.sub_block:
        k.cross_core_wait(3, 4, "MTE2")
    k.gm_to_ub(row, between[0] if k.sub_block else x)
    k.set_flag(moved), k.wait_flag(moved)
    k.ub_to_gm(between[k.sub_block], row)
    k.cross_core_set(2, 4, "MTE3")
    if not k.sub_block:
        k.cross_core_wait(3, 4, "MTE2")
        k.gm_to_ub(other, between[1])
        k.set_flag(moved), k.wait_flag(moved)
        k.ub_to_gm(y, other)


@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("pipe", ["FIX", "S"])
def test_mode_4_joins_the_cube_core_with_one_vector_core(mode: str, pipe: str) -> None:
    x = np.arange(64, dtype=np.float32)
    tensors = x, asim.empty((2, 64), "float32"), asim.empty(64, "float32")
    given = asim.launch(one_by_one, 1, *tensors, chip=ON_ITS_PIPE, mode=mode, pipe=pipe)
    assert given.findings == [] and np.array_equal(given.outputs["y"], x)
    if given.timeline is not None:
        runs = given.timeline.programs
        cores = [f"{run.program.core_kind}{run.program.sub_block}" for run in runs]
        pairs = [(cores[wait], cores[raised]) for (wait, _), (raised, _) in sorted(cross_pairs(runs).items())]
        assert sorted(pairs) == [("AIC0", "AIV0"), ("AIC0", "AIV1"), ("AIV0", "AIC0"), ("AIV1", "AIC0")]
        assert critical_path(given.timeline)[-1].end == given.timeline.finish
    assert errors(one_by_one, tensors, ON_ITS_PIPE, pipe=pipe) == []
    with pytest.raises(SimError, match="cross-core flag 2: mode 4; allowed are 0 "):
        asim.launch(one_by_one, 1, *tensors, chip=STOPS, mode=mode)


@pytest.mark.parametrize(("core", "flag", "there"), [("AIC", 11, "0 to 10 and 16 to 26"), ("AIV", 16, "0 to 10")])
def test_flags_of_mode_4_have_their_own_numbers(core: str, flag: int, there: str) -> None:
    with pytest.raises(SimError, match=f"cross-core flag {flag}: the chip has {there} .*sync.cross_one_vector_ids"):
        program(ON_ITS_PIPE, core, lambda k: k.cross_core_set(flag, 4, "MTE2"))
    program(ON_ITS_PIPE, "AIC", lambda k: k.cross_core_set(26, 4, "MTE2"))


@pytest.mark.parametrize(
    ("core", "mode", "words"),
    [
        ("AIV", 1, "mode 1 joins cores of a block; this kernel has AIV alone"),
        ("AIC", 2, "mode 2 joins cores of a block; this kernel has AIC alone"),
        ("AIV", 4, "mode 4 joins cores of a block; this kernel has AIV alone"),
        ("MIX_1_1", 4, "mode 4 is for a cube core with two vector cores; this kernel has one"),
    ],
)
def test_a_kernel_has_the_cores_that_a_mode_joins(core: str, mode: int, words: str) -> None:
    """A check records the refusal and goes on."""

    @asim.kernel_function(core=core)
    def joined(k: Any, x: Any) -> None:
        k.cross_core_set(0, mode, "MTE2"), k.cross_core_wait(0, mode, "MTE2")

    with pytest.raises(SimError, match=words):
        asim.launch(joined, 1, np.zeros(64, np.float32), chip=ON_ITS_PIPE)
    found = asim.check_kernel(joined, 1, np.zeros(64, np.float32), chip=ON_ITS_PIPE).findings
    assert any(words in one.text and one.tool == "synccheck" for one in found)


def test_the_scalar_unit_raises_flags_of_mode_4_alone() -> None:
    for mode in (0, 2):
        with pytest.raises(SimError, match="cross-core flag 3 is on pipe S; an AIC of ascend950pr_9589 has the pipes M,"):
            program(ON_ITS_PIPE, "AIC", lambda k, mode=mode: k.cross_core_set(3, mode, "S"))


@asim.kernel_function(core="MIX_1_1")
def one_vector_core(k, x, y):  # type: ignore[no-untyped-def]
    """A cube core lets its only vector core begin; that one meets those of the other blocks."""
    if k.is_cube:
        k.cross_core_set(15, 2, "MTE2")
        return
    k.cross_core_wait(15, 2, "MTE2")
    row = k.local_tensor(64, "float32", "row")
    k.gm_to_ub(row, x)
    k.set_flag(moved := k.flag("MTE2", "MTE3", "moved")), k.wait_flag(moved)
    k.ub_to_gm(y[k.block], row)
    k.cross_core_set(1, 1, "MTE3"), k.cross_core_wait(1, 1, "MTE3")


@pytest.mark.parametrize("chip", [STOPS, ON_ITS_PIPE], ids=lambda chip: chip.name)
@pytest.mark.parametrize("mode", ["full", "functional"])
def test_a_block_of_a_cube_core_and_one_vector_core(chip: ChipSpec, mode: str) -> None:
    """Flags of modes 1 and 2 join the cores that there are."""
    x = np.arange(64, dtype=np.float32)
    given = asim.launch(one_vector_core, 3, x, asim.empty((3, 64), "float32"), chip=chip, mode=mode)
    assert given.findings == [] and (given.outputs["y"] == x).all()
    assert errors(one_vector_core, (x, asim.empty((3, 64), "float32")), chip, blocks=3) == []
    if mode == "full":
        kernel = given.report.to_dict(statements=False)["kernels"][0]
        assert kernel["core_type"] == "MIX" and kernel["block_dim"] == 3
