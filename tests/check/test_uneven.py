"""Flags that cross a loop unevenly: steps that repeat, against all lengths of a turn, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.check.subject import Subject
from ascend_sim.check.sync import _depths, _grows, _period
from ascend_sim.chip import load_chip
from ascend_sim.engine.task import Task
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable

CHIP = load_chip("ascend910b3")


def grows(depths: list[int]) -> bool:
    """Whether after some number of waits, at least three times, all flags are raised by the same number more."""
    for waits in range(1, len(depths) // 3 + 1):
        steps = {later - earlier for earlier, later in zip(depths, depths[waits:], strict=False)}
        if len(steps) == 1 and steps.pop() > 0:
            return True
    return False


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(40))
def test_a_loop_grows_where_some_turn_says_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(60):
        turn = rng.integers(-1, 3, rng.integers(1, 5)).tolist()
        steps = np.tile(turn, rng.integers(1, 9))[: rng.integers(1, 24)]
        if rng.random() < 0.3:
            steps[rng.integers(len(steps))] += 1
        depths = np.concatenate(([0], np.cumsum(steps)))
        found.append(grows(depths.tolist()))
        assert _grows(depths) == found[-1], depths
    assert len(set(found)) == 2


@pytest.mark.fast
@pytest.mark.parametrize(
    ("steps", "period"), [([1], 1), ([1, 1, 1], 1), ([1, 2, 1, 2, 1], 2), ([1, 1, 2, 1, 1, 1], 4), ([1, 2, 3], 3)]
)
def test_steps_repeat_after_the_shortest_turn(steps: list[int], period: int) -> None:
    assert _period(steps) == period


@pytest.mark.fast
def test_a_wait_is_told_how_often_its_flag_is_raised_before_it() -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [64])
    one, other = k.flag("MTE2", "V", "one"), k.flag("V", "MTE3", "other")
    for flag in (other, one, one):
        k.set_flag(flag)
    for flag in (one, one, other):
        k.wait_flag(flag)
    program = k.finish()
    task = Task("flags", "Flags", "AIV", 1, [], lambda _: [program])
    subject = Subject(CHIP, task, [program])
    (synced,) = subject.synced
    told = [(depths.tolist(), synced.names[code], row) for depths, code, row in _depths(subject, 0, synced)]
    assert told == [([2, 1], ("MTE2", "V", 0), 4), ([1], ("V", "MTE3", 0), 5)]
