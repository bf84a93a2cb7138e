"""Messages of a run that can go no further."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import DeadlockError, SimError
from ascend_sim.kernel.inspection import shown_file
from ascend_sim.kernel.program import Program
from tests.support.engine.machine import CHIP, changed, program, quiet, run_one, task_of
from tests.support.engine.random_programs import SIZES

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("each_engine")]

QUIET = quiet(CHIP)
CORES = (("AIC", 0), ("AIV", 0), ("AIV", 1))


def run(programs: list[list[Program]], kind: str = "") -> Any:
    return Engine(Device(QUIET, with_values=False)).run([task_of(programs, kind=kind)])


def reordered(made: Program, order: list[int]) -> Program:
    """The program with its rows in an order that the builder refuses."""
    made = made.with_rows(np.ascontiguousarray(made.rows[order]))
    return made


def test_two_pipes_wait_in_a_circle() -> None:
    def write(k: Any) -> None:
        there, back = k.flag("M", "FIX", "there"), k.flag("FIX", "M", "back")
        k.mmad(0, 0, 0, 16, 16, 16, "float16", False)
        k.set_flag(there)
        k.set_flag(back)
        k.wait_flag(there)
        k.wait_flag(back)

    made = reordered(program(QUIET, "AIC", write), [0, 4, 3, 1, 2])
    with pytest.raises(DeadlockError) as error:
        run([[made]])
    text = str(error.value).splitlines()
    assert text[0] == "deadlock: nothing can happen any more and 1 programs have not finished"
    assert "block 0 AIC M: at 1 M wait_flag" in text[1]
    assert "waits for flag 0 from FIX, which has not set it" in text[1]
    assert "block 0 AIC FIX: at 2 FIX wait_flag" in text[2]
    assert "waits for flag 0 from M, which has not set it" in text[2]
    assert text[3] == "  block 0 AIC: they wait in a circle: M -> FIX -> M"


def test_a_full_queue_in_the_circle() -> None:
    """M waits for FIX, whose set is not issued because the queue of M is full: the scalar unit closes the circle."""

    def write(k: Any) -> None:
        flag = k.flag("FIX", "M", "x")
        k.set_flag(flag)
        k.wait_flag(flag)
        for _ in range(40):
            k.mmad(0, 0, 0, 16, 16, 16, "float16", False)

    made = reordered(program(QUIET, "AIC", write), [*range(1, 42), 0])
    with pytest.raises(DeadlockError) as error:
        run([[made]])
    text = str(error.value)
    assert "M: at 0 M wait_flag" in text
    assert "FIX: at 41 FIX set_flag (source=FIX, destination=M, flag=0) waits for its issue" in text
    assert "S: before 32 M mmad" in text
    assert "waits for a place in the queue of M" in text
    assert "they wait in a circle: M -> FIX -> S -> M" in text


def test_a_barrier_for_all_in_the_circle() -> None:
    def write(k: Any) -> None:
        flag = k.flag("FIX", "M", "x")
        k.set_flag(flag)
        k.wait_flag(flag)
        k.pipe_barrier("ALL")

    made = reordered(program(QUIET, "AIC", write), [1, 2, 0])
    with pytest.raises(DeadlockError) as error:
        run([[made]])
    assert "S: before 1 S pipe_barrier (on=ALL) waits for every pipe to be idle" in str(error.value)
    assert "they wait in a circle: M -> FIX -> S -> M" in str(error.value)


@pytest.mark.parametrize(("hold", "words"), [("pipe_barrier", "every pipe"), ("scalar_wait", "FIX")])
def test_a_barrier_behind_a_wait_for_another_core_is_no_circle(hold: str, words: str) -> None:
    """FIX waits for another core and the scalar unit for FIX: nothing of this core has to move for them."""
    chip = changed(QUIET, sync={"cross_wait_stops_issue": False})

    def cube(k: Any) -> None:
        k.cross_core_wait(2, 2, "FIX")
        getattr(k, hold)("ALL" if hold == "pipe_barrier" else "FIX")

    made = [program(chip, kind, cube if kind == "AIC" else lambda k: None, sub_block=s) for kind, s in CORES]
    with pytest.raises(DeadlockError) as error:
        Engine(Device(chip, with_values=False)).run([task_of([made], kind="MIX")])
    text = str(error.value).splitlines()
    assert text[1].startswith("  block 0 AIC FIX: at 0") and text[2].startswith("  block 0 AIC S: before 1")
    assert text[2].endswith(f" waits for {words} to be idle") and len(text) == 3


def test_of_several_pipes_the_one_in_the_circle_is_shown() -> None:
    """The barrier waits for MTE1, which waits for another core at last, and for M, whose set is behind the barrier."""
    chip = changed(QUIET, sync={"cross_wait_stops_issue": False})

    def cube(k: Any) -> None:
        other, own = k.flag("FIX", "MTE1", "other"), k.flag("MTE2", "M", "own")
        k.cross_core_wait(2, 2, "FIX")
        k.set_flag(other), k.wait_flag(other)
        k.set_flag(own), k.wait_flag(own)
        k.pipe_barrier("ALL")

    made = [program(chip, kind, cube if kind == "AIC" else lambda k: None, sub_block=s) for kind, s in CORES]
    made[0] = reordered(made[0], [0, 1, 2, 4, 5, 3])
    with pytest.raises(DeadlockError) as error:
        Engine(Device(chip, with_values=False)).run([task_of([made], kind="MIX")])
    assert str(error.value).endswith("block 0 AIC: they wait in a circle: MTE2 -> S -> M -> MTE2")


def test_a_wait_that_is_not_issued_is_not_blamed_on_its_flag() -> None:
    def write(k: Any) -> None:
        stuck, fine = k.flag("FIX", "M", "stuck"), k.flag("MTE2", "MTE1", "fine")
        k.set_flag(stuck)
        k.set_flag(fine)
        k.wait_flag(stuck)
        k.pipe_barrier("ALL")
        k.wait_flag(fine)

    made = reordered(program(QUIET, "AIC", write), [1, 2, 3, 4, 0])
    with pytest.raises(DeadlockError) as error:
        run([[made]])
    line = next(line for line in str(error.value).splitlines() if " MTE1: at" in line)
    assert line.endswith("waits for its issue: the scalar unit stands before it")


def test_a_mixed_block_whose_second_vector_core_forgets() -> None:
    def cube(k: Any) -> None:
        k.cross_core_wait(2, 2, "FIX")

    def vector(k: Any) -> None:
        if k.sub_block == 0:
            k.cross_core_set(2, 2, "V")

    programs = [
        [
            program(QUIET, kind, cube if kind == "AIC" else vector, sub_block=s)
            for kind, s in (("AIC", 0), ("AIV", 0), ("AIV", 1))
        ]
    ]
    with pytest.raises(DeadlockError, match=r"cross-core flag 2 \(mode 2\) from block 0 AIV1$"):
        run(programs, "MIX")


def test_many_sets_are_fine_when_the_waits_keep_up() -> None:
    def write(k: Any) -> None:
        flag = k.flag("MTE2", "MTE1", "x")
        for _ in range(40):
            k.set_flag(flag)
            k.wait_flag(flag)

    run_one(changed(QUIET, sync={"flag_latency": 0}), "AIC", write, SIZES)


@pytest.mark.parametrize("apart", [16, 15])
def test_a_set_may_come_in_the_cycle_in_which_the_wait_is_over(apart: int) -> None:
    """And not in the one before it, though the flag then no longer holds anybody."""

    def write(k: Any) -> None:
        flag = k.flag("MTE2", "MTE1", "x")
        k.set_flag(flag)
        k.scalar(apart)
        k.set_flag(flag)
        k.wait_flag(flag), k.wait_flag(flag)

    chip = changed(QUIET, sync={"flag_latency": 16}, scalar={"issue_cycles": {"AIC": 0, "AIV": 0}})
    with nullcontext() if apart == 16 else pytest.raises(DeadlockError, match="double set"):
        run_one(chip, "AIC", write, SIZES)


@pytest.mark.parametrize("extra", [0, 1])
def test_a_cross_core_flag_counts_to_its_maximum(extra: int) -> None:
    most = CHIP.sync.cross_flag_max

    def cube(k: Any) -> None:
        for _ in range(most + extra):
            k.cross_core_set(1, 2, "FIX")

    def vector(k: Any) -> None:
        k.scalar(100_000)  # so late that all of them are up
        for _ in range(most + extra):
            k.cross_core_wait(1, 2, "MTE2")

    programs = [
        [
            program(QUIET, kind, cube if kind == "AIC" else vector, sub_block=s)
            for kind, s in (("AIC", 0), ("AIV", 0), ("AIV", 1))
        ]
    ]
    if extra:
        with pytest.raises(SimError, match=rf"cross-core flag 1 \(mode 2\) is raised more than {most} times without a wait"):
            run(programs, "MIX")
    else:
        assert run(programs, "MIX").finish > 100_000


@pytest.mark.parametrize(("apart", "told"), [(100, True), (400, False)])
def test_a_cross_core_flag_counts_from_its_set(apart: int, told: bool) -> None:
    """It is up from its set on, a latency before a wait hears of it: a second set before that is one too many."""
    chip = changed(QUIET, sync={"cross_flag_max": 1, "cross_latency": 300})

    def cube(k: Any) -> None:
        k.cross_core_set(0, 2, "MTE1")
        k.scalar(apart)
        k.cross_core_set(0, 2, "MTE1")

    def vector(k: Any) -> None:
        for _ in range(2):
            k.cross_core_wait(0, 2, "MTE2")

    cores = (("AIC", 0, cube), ("AIV", 0, vector), ("AIV", 1, vector))
    made = [[program(chip, kind, write, sub_block=s) for kind, s, write in cores]]
    with pytest.raises(SimError, match="is raised more than 1 times without a wait") if told else nullcontext():
        Engine(Device(chip, with_values=False)).run([task_of(made, kind="MIX")])


def test_a_cross_core_flag_left_raised() -> None:
    """One of the two vector cores that hear their cube does not wait."""

    def cube(k: Any) -> None:
        k.cross_core_set(4, 2, "FIX")

    def vector(k: Any) -> None:
        if k.sub_block == 0:
            k.cross_core_wait(4, 2, "V")

    cores = (("AIC", 0, cube), ("AIV", 0, vector), ("AIV", 1, vector))
    programs = [[program(QUIET, kind, write, sub_block=s) for kind, s, write in cores]]
    with pytest.raises(
        SimError,
        match=r"block 0 AIV1: cross-core flag 4 \(mode 2\) is still raised at the end of the task; sets without a wait: 1",
    ):
        run(programs, "MIX")


def test_a_kernel_that_waits_for_ever_names_its_lines() -> None:
    """Each row stands behind file and line of the kernel, in every mode; at most eight programs are listed."""

    @asim.kernel_function(core="AIV")
    def inner(k: asim.Kernel, y: asim.Tensor) -> None:
        flag = k.flag("V", "MTE3", "late")
        k.wait_flag(flag)
        k.pipe_barrier("ALL")
        k.set_flag(flag)

    @asim.kernel_function(core="AIV", all_cores=True)
    def outer(k: asim.Kernel, y: asim.Tensor) -> None:
        if k.block:
            k.cross_core_set(5, 0, "MTE3")
        k.cross_core_wait(5, 0, "MTE3")

    for kernel, line, said in ((inner, 3, "waits for flag 0 from V"), (outer, 4, "waits for cross-core flag 5 (mode 0)")):
        file, first = kernel.first_line
        at = f"{shown_file(file)}:{first + line}, "
        for mode in ("full", "functional", "timing"):
            with pytest.raises(DeadlockError) as error:
                asim.launch(kernel, 12, asim.empty(64, "float32"), mode=mode)
            rows = [one for one in str(error.value).splitlines() if said in one]
            assert rows and all(at in one for one in rows), error.value
            assert mode == "functional" or ("and 4 further programs" in str(error.value) and len(rows) == 8)
