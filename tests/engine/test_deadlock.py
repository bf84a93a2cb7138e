"""What a run says that can go no further, and flags raised more often than they can count."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from machine import CHIP, changed, program, quiet, run_one, task_of
from random_programs import SIZES

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.errors import DeadlockError, SimError
from ascend_sim.kernel.program import Program

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("each_engine")]

QUIET = quiet(CHIP)


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
    with pytest.raises(SimError, match="3 programs wait for cross-core flags that nobody raises"):
        FunctionalEngine(Device(QUIET)).run([bad])


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


def flood(count: int) -> Any:
    def write(k: Any) -> None:
        flag = k.flag("MTE2", "MTE1", "busy")
        k.load_data_2d("L0A", 0, 0, 2, 128)  # MTE1 is busy while the sets come
        for _ in range(count):
            k.set_flag(flag)
        for _ in range(count):
            k.wait_flag(flag)

    return write


def test_a_flag_is_one_bit() -> None:
    """Of three sets without a wait between two are lost, so the second wait never ends."""
    assert CHIP.sync.flag_max == 1
    run_one(QUIET, "AIC", flood(1), SIZES)
    with pytest.raises(DeadlockError) as error:
        run_one(QUIET, "AIC", flood(3), SIZES)
    text = str(error.value).splitlines()
    assert text[1:] == [
        "  block 0 AIC: double set of flag 0 MTE2->MTE1: the set at row 2 comes while the flag is set and is lost (chip file, "
        "sync.flag_max: 1)",
        "  block 0 AIC MTE1: at 5 MTE1 wait_flag (source=MTE2, destination=MTE1, flag=0, armed=True) waits for flag 0 from "
        "MTE2, which has not set it",
    ]


def test_behind_a_lost_set_the_waits_take_later_ones() -> None:
    """Of three sets the second comes too early, so the second wait takes the third: it is over late enough for `other`."""

    def write(k: Any) -> None:
        flag, other = k.flag("MTE2", "MTE1", "busy"), k.flag("MTE1", "M", "other")
        k.load_data_2d("L0A", 0, 0, 2, 128)
        k.set_flag(flag), k.set_flag(flag)
        k.wait_flag(flag), k.set_flag(other)
        k.wait_flag(flag), k.set_flag(other)
        k.scalar(100_000)
        k.wait_flag(other), k.wait_flag(other)
        k.scalar(100_000)
        k.set_flag(flag), k.wait_flag(flag)

    with pytest.raises(DeadlockError, match="the set at row 2 comes while the flag is set") as error:
        run_one(QUIET, "AIC", write, SIZES)
    assert "double set of flag 0 MTE1->M" not in str(error.value)
    assert "block 0 AIC MTE1: at 12 MTE1 wait_flag" in str(error.value)


@pytest.mark.parametrize("name", ["busy", "other", "cross-core 2"])
def test_flags_count_where_a_wait_is_disarmed(name: str) -> None:
    """Else most experiments would end in a deadlock and not show which bytes are in danger."""

    def write(k: Any) -> None:
        other = k.flag("M", "FIX", "other")
        k.set_flag(other), k.wait_flag(other)
        flood(20)(k)
        if name == "cross-core 2":
            k.cross_core_set(2, 0, "M"), k.cross_core_wait(2, 0, "M")

    assert run([[program(QUIET, "AIC", write, disarm=[name])]]).finish > 0
    with pytest.raises(DeadlockError, match="double set of flag 0 MTE2->MTE1"):
        run([[program(QUIET, "AIC", write, disarm=["nothing of this program"])]])


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
        with pytest.raises(
            SimError, match=rf"cross-core flag 1 \(mode 2\) is raised more than {most} times without a wait"
        ):
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
        SimError, match=r"block 0 AIV1: cross-core flag 4 \(mode 2\) is still raised 1 times at the end"
    ):
        run(programs, "MIX")
