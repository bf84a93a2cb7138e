"""Programs of many stamps, which C writes out a piece at a time and gives back: against the SimPy engine."""

from __future__ import annotations

import pytest

from ascend_sim.engine.compiled import library
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.watch import from_columns, watched
from tests.support.engine.machine import CHIP, changed, program, quiet, task_of
from tests.support.engine.random_runs import everything
from tests.support.engine.stamped_tiles import PIECE, SIZES, writer
from tests.support.sampling import part_of_cases

pytestmark = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")


@part_of_cases(0, "[1]")
@pytest.mark.parametrize("seed", range(12))
def test_stamps_of_a_long_block(seed: int) -> None:
    chip = changed(quiet(CHIP), memory={"hbm_latency": 900 * (seed % 2)}, cores={"aic": 2, "aiv": 3})
    found = []
    for engine, stamping, keep in (("simpy", False, True), ("compiled", True, True), ("compiled", True, False)):
        device = Device(chip, with_values=False)
        tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(SIZES)]
        made = [[program(chip, "AIV", writer(10 * seed + block, stamping), SIZES, block=block)] for block in range(2)]
        assert all(len(one) > 3 * PIECE for (one,) in made)
        task = task_of(made, tensors)
        timeline = Engine(device, engine=engine).run([task], keep=keep)
        totals = watched(timeline) if stamping else from_columns([task], timeline.programs)
        found.append(everything(device, timeline) | {"totals": totals})
    plain, kept, lean = found
    assert kept == plain and plain["totals"].findings
    assert lean == {name: value for name, value in plain.items() if name in lean}
