"""Functional mode executes what full mode executes: cross-core flags that only pipes of their own allow."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from tests.support.engine.machine import changed

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("each_engine")]

CHIP = load_chip("ascend950pr_9589")
RELAYS = ("MTE1", "M", "MTE2", "FIX")
SECOND = 16
"""Offset of the second vector core's flags on the cube core, in mode 4."""


@asim.kernel_function(core="MIX")
def handed_over(k, x, between, y, *, seed=0, handoffs=3):  # type: ignore[no-untyped-def]
    """Vector core 0 or 1 stores a row, the cube core passes the word on, the other core loads it; all in a random order."""
    to = [Random(seed * 100 + number).randrange(2) for number in range(handoffs)]
    random = Random(seed * 3 + (2 if k.is_cube else k.sub_block))
    numbers = list(range(handoffs))
    random.shuffle(numbers)
    for number in numbers:
        sends, takes = number + (1 - to[number]) * SECOND, number + to[number] * SECOND
        if k.is_cube:
            pipe = random.choice(RELAYS)
            k.cross_core_wait(sends, 4, pipe), k.cross_core_set(takes, 4, pipe)
            if random.random() < 0.1:
                k.scalar_wait(random.choice(RELAYS))
            continue
        row = k.local_tensor(64, "float32", f"row {number}")
        loaded = k.flag("MTE2", "MTE3", f"loaded {number}")
        if k.sub_block == to[number]:
            k.cross_core_wait(number, 4, "MTE2")
            k.gm_to_ub(row, between[number])
            k.set_flag(loaded), k.wait_flag(loaded)
            k.ub_to_gm(y[number], row)
        else:
            k.duplicate(row, float(number + 1))
            done = k.flag("V", "MTE3", f"done {number}")
            k.set_flag(done), k.wait_flag(done)
            k.ub_to_gm(between[number], row)
            k.cross_core_set(number, 4, "MTE3")


def outcome(chip: ChipSpec, mode: Any, seed: int, handoffs: int) -> tuple[str, Any]:
    """Return ("ran", y) of a launch, or ("deadlock", None)."""
    tensors = np.zeros(64, np.float32), asim.empty((handoffs, 64), "float32"), asim.empty((handoffs, 64), "float32")
    try:
        given = asim.launch(handed_over, 1, *tensors, chip=chip, mode=mode, seed=seed, handoffs=handoffs)
    except SimError as error:
        assert "cross-core flag" in str(error)
        return "deadlock", None
    assert given.findings == []
    return "ran", given.outputs["y"]


def test_it_executes_what_full_mode_executes() -> None:
    """Rows arrive as they were sent; a deadlock is one in both modes."""
    seen = {"ran": 0, "deadlock": 0}
    for seed in range(80):
        handoffs = 2 + seed % 5
        chip = changed(CHIP, sync={"queue_depth": dict.fromkeys(CHIP.sync.queue_depth, (1, 2, 4, 32)[seed % 4])})
        full, functional = (outcome(chip, mode, seed, handoffs) for mode in ("full", "functional"))
        assert full[0] == functional[0], seed
        if full[0] == "ran":
            sent = np.repeat(np.arange(1, handoffs + 1, dtype=np.float32)[:, None], 64, 1)
            assert np.array_equal(full[1], sent) and np.array_equal(functional[1], sent), seed
        seen[full[0]] += 1
    assert min(seen.values()) > 10, seen


@asim.kernel_function(core="MIX")
def behind_a_wait(k, x, y):  # type: ignore[no-untyped-def]
    """FIX raises a flag behind a wait of MTE2 in the program's order; the vector core sends the flag for that wait later.

    Its store stands in the program before its load.
    """
    if k.is_cube:
        k.cross_core_wait(1, 2, "MTE2")
        k.cross_core_set(2, 2, "FIX")
        return
    row, loaded = k.local_tensor(64, "float32", "row"), k.flag("MTE2", "MTE3", "loaded")
    k.wait_flag(loaded)
    k.ub_to_gm(y[k.block, k.sub_block], row)
    k.cross_core_wait(2, 2, "MTE2")
    k.gm_to_ub(row, x)
    k.set_flag(loaded)
    k.cross_core_set(1, 2, "MTE3")


def test_other_pipes_of_a_core_go_ahead_of_its_wait() -> None:
    x = np.arange(64, dtype=np.float32)
    given = asim.launch(behind_a_wait, 3, x, asim.empty((3, 2, 64), "float32"), chip=CHIP, mode="functional")
    assert given.findings == [] and (given.outputs["y"] == x).all()
