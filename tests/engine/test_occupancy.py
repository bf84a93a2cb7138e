"""How full a buffer is, against the tenure of every two bytes of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.occupancy import occupancy
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.held_bytes import brute_force
from tests.support.engine.machine import CHIP, changed, program, quiet, run_one, task_of
from tests.support.engine.overlaps import SIZES, Action, actions, vector_writer
from tests.support.engine.random_programs import RandomChip, variants
from tests.support.sampling import sampled

pytestmark = pytest.mark.usefixtures("each_engine")


@sampled(25, 100)
@given(variants(), actions)
def test_against_every_piece_of_the_buffer(variant: RandomChip, todo: list[Action]) -> None:
    device = Device(variant.chip, with_values=False)
    tensors = [device.allocate(size, "t") for size in SIZES]
    task = task_of([[program(variant.chip, "AIV", vector_writer(todo), SIZES)]], tensors)
    (run,) = Engine(device).run([task]).programs
    every = np.arange(0, run.finish + 2)
    exact = brute_force(run, "UB", every)
    curve = occupancy(run, "UB")
    assert (np.diff(curve.time) > 0).all()
    assert curve.held.tolist() == brute_force(run, "UB", curve.time)
    assert not len(curve.held) or curve.held[-1] == 0
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
    length = int(run.retire[2] - run.start[0])
    assert curve.mean(int(run.start[0]) - length, int(run.retire[2])) == 128
    assert len(occupancy(run, "L1").time) == 0


@sampled(40, 150)
@given(st.integers(0, 2**32), st.integers(1, 120))
def test_any_times(seed: int, rows: int) -> None:
    """Times that no engine makes: ties, rows of a pipe out of order, reads that outlast the next writes."""
    rng = np.random.default_rng(seed)

    def write(k: Any) -> None:
        k.vector_duplicate(0, "float16", 256)
        for a, b, n in rng.integers(0, 40, (rows, 3)).tolist():
            if a % 2:
                k.data_copy("GM", "UB", a * 32, gm_operand(0, 0), 32 * (1 + n % 9))
            elif b % 3:
                k.vector_binary("add", *(place % 6 * 224 for place in (a // 2, b, n)), "float16", 16 * (1 + n % 7))
            else:
                k.data_copy("UB", "GM", gm_operand(1, 0), b * 32, 32 * (1 + n))

    run = run_one(CHIP, "AIV", write, SIZES)
    start = rng.integers(0, 1 + rows // rng.integers(1, 5), len(run.program))
    times = {"start": start, "retire": start + rng.integers(0, 1 + rows // 2, len(start))}
    run = dataclasses.replace(run, columns={**run.columns, **times})
    curve = occupancy(run, "UB")
    assert len(curve.held) and curve.held.tolist() == brute_force(run, "UB", curve.time)
