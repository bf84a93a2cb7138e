"""How full a buffer is, against the tenure of every two bytes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from machine import CHIP, changed, program, quiet, run_one, task_of
from random_programs import Variant, variants
from test_hazards import SIZES, Action, accesses, actions, vector_writer

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.occupancy import occupancy
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.memory.gm import gm_operand

pytestmark = pytest.mark.usefixtures("each_engine")

UNIT = 2


def brute_force(run: ProgramRun, buffer: str, moments: np.ndarray[Any, Any]) -> list[int]:
    """Bytes held from each moment on; strided accesses count with their hull, first byte to last."""
    touching: dict[int, list[tuple[int, int, int]]] = {}
    for space, _, _, covered, writes, _, start, retire in accesses(run, [0, 0]):
        if space == buffer:
            for unit in range(min(covered) // UNIT, max(covered) // UNIT + 1):
                touching.setdefault(unit, []).append((start, int(writes), retire))
    held = np.zeros(len(moments), np.int64)
    for history in touching.values():
        history.sort(key=lambda one: one[:2])
        places = [i for i, (_, writes, _) in enumerate(history) if writes]
        for n, place in enumerate(places):
            begin, _, end = history[place]
            following = places[n + 1] if n + 1 < len(places) else len(history)
            reads = [retire for _, _, retire in history[place + 1 : following]]
            until = history[following][0] if following < len(history) else end
            over = max(reads) if reads else max(until, begin)
            if following < len(history):
                over = min(over, history[following][0])
            held += UNIT * ((moments >= begin) & (moments < over))
    return held.tolist()


@settings(max_examples=100, deadline=None)
@given(variants(), actions)
def test_against_every_piece_of_the_buffer(variant: Variant, todo: list[Action]) -> None:
    device = Device(variant.chip, with_values=False)
    tensors = [device.allocate(size, "t") for size in SIZES]
    task = task_of([[program(variant.chip, "AIV", vector_writer(todo), SIZES)]], tensors)
    (run,) = Engine(device).run([task]).programs
    curve = occupancy(run, "UB")
    assert (np.diff(curve.time) > 0).all()
    assert curve.held.tolist() == brute_force(run, "UB", curve.time)
    assert not len(curve.held) or curve.held[-1] == 0
    every = np.arange(0, run.finish + 2)
    exact = brute_force(run, "UB", every)
    assert curve.peak == max(exact)
    assert abs(curve.mean(0, run.finish) - np.mean(exact[: run.finish] or [0])) < 1e-6


def test_one_buffer_on_paper() -> None:
    """256 bytes from the start of the load to the retirement of the store."""
    chip = changed(quiet(CHIP), memory={"hbm_latency": 0})

    def write(k: Any) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 256)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, 256)

    run = run_one(chip, "AIV", write, SIZES)
    curve = occupancy(run, "UB")
    assert curve.time.tolist() == [run.start[0], run.retire[2]]
    assert curve.held.tolist() == [256, 0]
    assert curve.mean(int(run.start[0]), int(run.retire[2])) == 256
    assert len(occupancy(run, "L1").time) == 0
