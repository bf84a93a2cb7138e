"""Totals of programs that are watched."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ascend_sim.engine import totals
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.occupancy import occupancy
from ascend_sim.engine.watch import watched
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, changed, program, quiet, task_of


def test_a_mean_of_a_buffer_is_rounded_half_to_even() -> None:
    half = 1 << totals._SHARE_BITS - 1
    for programs in (1, 2, 3):
        for shares in range(0, 12 * half, half // 2):
            exact = Fraction(shares, 2 * half * programs)
            assert totals.BufferTotals(0, programs, shares).mean == round(exact)


@pytest.mark.parametrize("at_once", [1, 3, 1024])
def test_programs_are_summed_up_many_at_a_time(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More blocks than cores: each counts, on whatever core and with whichever others it is summed up."""
    monkeypatch.setattr(totals, "_AT_ONCE", at_once)
    chip = changed(quiet(CHIP), cores={"aic": 1, "aiv": 2})

    def write(k: KernelBuilder) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 4096 * (k.block + 1))
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, k.block * 65536), 0, 4096)

    device, sizes = Device(chip, with_values=False), [1 << 20, 1 << 20]
    tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(sizes)]
    made = [[program(chip, "AIV", write, sizes, block=block)] for block in range(7)]
    timeline = Engine(device).run([task_of(made, tensors)])
    found, runs = watched(timeline).of_task[0], timeline.programs
    curves = [occupancy(run, "UB") for run in runs]
    means = [curve.mean(run.begin, run.finish) for curve, run in zip(curves, runs, strict=True)]
    assert found.buffers["UB"].mean == pytest.approx(sum(means) / 7, abs=1) and found.buffers["UB"].peak == 7 * 4096
    assert (found.programs, found.instructions, found.pipes["AIV", "MTE2"].rows) == (7, 21, 7)
    assert found.pipes["AIV", "MTE2"].busy == sum(run.busy()["MTE2"] for run in runs)
    assert sum(found.core_cycles.values()) == sum(run.finish - run.launch for run in runs)
