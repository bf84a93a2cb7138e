"""Sets that are lost whatever anything costs: against the engines, which find lost sets by their times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import DeadlockError
from ascend_sim.kernel.execution_order import lost_set

PIPES = ("MTE2", "V", "MTE3")
Step = tuple[str, int, int]


@asim.kernel_function(core="AIV")
def flags(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, *, steps: tuple[Step, ...]) -> None:
    """Run the steps: a set or a wait of a flag between two pipes, work of a pipe, or work of the scalar unit."""
    rows = [k.local_tensor(64, "float32", pipe) for pipe in PIPES]
    for word, one, other in steps:
        match word:
            case "set":
                k.set_flag(k.flag(PIPES[one], PIPES[other], f"{one}{other}"))
            case "wait":
                k.wait_flag(k.flag(PIPES[one], PIPES[other], f"{one}{other}"))
            case "scalar":
                k.scalar(50 * one)
            case "work" if one == 0:
                k.gm_to_ub(rows[0], x)
            case "work" if one == 1:
                k.duplicate(rows[1], 1.0)
            case "work":
                k.ub_to_gm(y, rows[2])


def steps_at(random: np.random.Generator) -> tuple[Step, ...]:
    """Return random steps; each flag has as many sets as waits, in any order."""
    steps: list[Step] = [("work", int(one), 0) for one in random.integers(0, 3, int(random.integers(0, 4)))]
    steps += [("scalar", int(one), 0) for one in random.integers(0, 20, int(random.integers(0, 3)))]
    for _ in range(int(random.integers(1, 3))):
        one, other = random.permutation(3)[:2].tolist()
        steps += [(word, one, other) for word in ("set", "wait")] * int(random.integers(1, 3))
    return tuple(steps[place] for place in random.permutation(len(steps)))


def ended(steps: tuple[Step, ...], **options: Any) -> str:
    """Return the words of the deadlock in which a run ends, "" for none."""
    try:
        asim.launch(flags, 1, np.ones(64, np.float32), np.zeros(64, np.float32), steps=steps, **options)
    except DeadlockError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
def test_functional_loses_a_set_only_where_every_run_in_time_does(chip: str) -> None:
    random, seen = np.random.default_rng(4), set()
    for _ in range(300):
        steps = steps_at(random)
        told = [ended(steps, chip=chip, mode="functional", engine=engine) for engine in ("simpy", "compiled")]
        in_time = ended(steps, chip=chip, mode="timing")
        assert told[0] == told[1] and bool(told[0]) <= bool(in_time), steps
        assert ("double set" in told[0]) <= ("double set" in in_time), (steps, told[0], in_time)
        seen.add(("double set" in told[0], "double set" in in_time))
    assert seen == {(False, False), (False, True), (True, True)}


def test_the_words_are_those_of_a_run_in_time() -> None:
    steps = (("set", 0, 2), ("scalar", 3, 0), ("set", 0, 2), ("wait", 0, 2), ("work", 2, 0), ("wait", 0, 2))
    line = next(line for line in ended(steps, mode="timing").splitlines() if "double set" in line)
    assert line in ended(steps, mode="functional") and "double set of flag 0 MTE2->MTE3: the set at row 2" in line


def test_a_disarmed_wait_counts_its_flag() -> None:
    """With it, flags are counters: the experiment asks which bytes are in danger."""
    steps = (("set", 0, 2), ("set", 0, 2), ("wait", 0, 2), ("wait", 0, 2))
    tensors = np.ones(64, np.float32), np.zeros(64, np.float32)
    run = asim.launch(flags, 1, *tensors, steps=steps, mode="timing", disarm="02")
    assert ended(steps, mode="functional") and lost_set(run.timeline.programs[0].program) == -1
