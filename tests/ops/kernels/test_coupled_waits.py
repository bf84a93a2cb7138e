"""Every wait that coupled chips have, or have between other pipes than split ones, matters in grad_input.

As `test_disarmed_waits`: without the wait a result is wrong, a finding is recorded or the run deadlocks. The queues are the
tiles that leave through UB and the zero-inserted map that is built there; grad_weight and the forward convolution share them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from ascend_sim import Result
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import DeadlockError
from ascend_sim.isa.sync import WaitFlag
from tests.support.ops.conv_problems import Array, CallAttributes, operands, same_bits
from tests.support.ops.coupled_runs import small_pieces

SLOW = 20_000
"""Cycles; longer than anything else that a small kernel does between two waits."""
PARTS = ("nothing", "V", "MTE3", "latency", "MTE2", "UB->GM", "MTE1", "M")
BUFFERS = ("al1Pbuffer", "bl1Pbuffer", "al0Pbuffer", "bl0Pbuffer", "cl0Pbuffer")
BLOCK = {"baseM": 32, "baseN": 16, "baseK": 48, "stepKa": 3, "stepKb": 12} | dict.fromkeys(BUFFERS, 2)
WAITS = {
    # Four loads of A1 per tile, each of several pieces in UB.
    "strided": (CallAttributes(1, 32, 64, (8, 8), stride=(2, 2)), BLOCK),
    # Nothing but its own flags keeps a tile from the next one: operands come past the vector unit.
    "plain": (CallAttributes(1, 32, 32, (8, 8), (1, 1), pads=(0, 0, 0, 0)), {**BLOCK, "baseK": 16, "stepKa": 2, "stepKb": 2}),
}
NEW = ("L0C", "result", "spread", "A1")
"""Queues that coupled chips alone have, or have between other pipes."""


@cache
def slow(part: str) -> ChipSpec:
    """One AI Core of a 910A with one slow part: a pipe, a path, or ("latency") what is written to UB and L1 comes late."""
    chip = load_chip("ascend910a")
    paths = dict(chip.paths)
    for key, path in chip.paths.items():
        if part == "latency" and key.startswith(("GM->", "FILL->", "UB->L1")):
            paths[key] = path.model_copy(update={"latency": SLOW})
        elif part in (path.pipe, key):
            paths[key] = path.model_copy(update={"head": SLOW})
    changes: dict[str, Any] = {"paths": paths, "cores": chip.cores.model_copy(update={"aic": 1})}
    if part == "V":
        changes["vector"] = chip.vector.model_copy(update={"head": float(SLOW)})
    if part == "M":
        changes["cube"] = chip.cube.model_copy(update={"head_first": SLOW, "head_stream": SLOW})
    if part == "MTE1":
        changes["load3d"] = chip.load3d.model_copy(update={"head": SLOW})
    return chip.model_copy(update=changes)


def run_slowly(case: str, part: str, disarm: tuple[str, ...] = ()) -> Result:
    problem, tiling = WAITS[case]
    own = {name: np.rint(2 * array.astype(np.float32)).astype(np.float16) for name, array in operands(problem).items()}
    with small_pieces(512):
        return problem.run(
            own,
            (True, False, False),
            chip=slow(part),
            block_dim={"grad_input": 1},
            tiling={"grad_input": tiling},
            disarm={"grad_input": disarm},
        )


@cache
def known(case: str) -> Array:
    result = run_slowly(case, "nothing")
    assert result.report.passed
    return result.outputs["grad_input"]


def goes_wrong(case: str, flag: str) -> bool:
    """Return True if some chip with a slow part shows that a flag's waits hold nothing."""
    for part in PARTS:
        try:
            result = run_slowly(case, part, (flag,))
        except DeadlockError:
            return True
        if result.report.findings or not same_bits(result.outputs["grad_input"], known(case)):
            return True
    return False


@cache
def new_waits(case: str) -> tuple[str, ...]:
    """The flags of the new queues that somebody waits for."""
    result = run_slowly(case, "nothing")
    assert result.timeline is not None
    (program,) = [run.program for run in result.timeline.programs if result.tasks[run.task].name == "grad_input"]
    waited = {(i.source, i.destination, i.flag) for i in program.table.instructions if isinstance(i, WaitFlag)}
    return tuple(name for name, key in program.flags.items() if key in waited and name.startswith(NEW))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("case", WAITS)
def test_nothing_goes_wrong_on_a_slow_chip_with_every_wait_armed(case: str, part: str) -> None:
    result = run_slowly(case, part)
    assert result.report.passed and same_bits(result.outputs["grad_input"], known(case))


def test_every_wait_of_the_new_queues_matters() -> None:
    """On one of the two problems: elsewhere a chain of other waits may imply it."""
    names = dict.fromkeys(name for case in WAITS for name in new_waits(case))
    assert {name.split("[")[0] for name in names} == set(NEW)
    assert {name.split()[1] for name in names if name.startswith("spread")} == {"zeroed", "full", "free"}
    silent = [name for name in names if not any(name in new_waits(case) and goes_wrong(case, name) for case in WAITS)]
    assert silent == []
