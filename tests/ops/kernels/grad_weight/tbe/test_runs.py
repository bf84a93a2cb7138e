"""Runs of pixels that are turned together."""

from __future__ import annotations

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.isa.load import LoadData2D
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.ops.kernels.grad_weight.tbe.runs import TbeRuns
from ascend_sim.ops.problem.strips import Strip
from tests.support.ops.tiling_problems import conv2d

pytestmark = pytest.mark.fast

CHIP = "ascend910b2"


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize("destination", ["L0A", "L0B"])
@pytest.mark.parametrize("held", [48, 80])
def test_a_run_is_turned_in_as_few_loads_as_its_strides_allow(held: int, destination: str, blocks: int, units: int) -> None:
    """Fractal by fractal as the layouts say, [c1][K1] in L0A and [K1][c1] in L0B."""
    table = InstructionTable(load_chip(CHIP))
    k = KernelBuilder(table, 0, "AIC", [])
    strip = Strip(conv2d(1, 16, 16, 16, 1), 0, 16, 0)
    pixels = Span(0 if units * 16 == held else 16, units * 16)
    TbeRuns(k, 16, False).turn(destination, 0, 0, strip, Span(0, held), pixels, Span(2, blocks))
    program = k.finish()
    moved, pitch = {}, held // 16
    for number, dst, src, _, _ in program.rows.tolist():
        load = table.instructions[number]
        assert isinstance(load, LoadData2D) and load.transpose
        moved |= {dst // 512 + i * load.dst_stride: src // 512 + i * load.src_stride for i in range(load.repeat)}
    first = pixels.start // 16 + 2 * pitch
    for block in range(blocks):
        for unit in range(units):
            place = block * units + unit if destination == "L0A" else unit * blocks + block
            assert moved.pop(place) == first + block * pitch + unit
    assert not moved
    together = destination == "L0A" and units == pitch
    assert len(program) == (1 if together else min(blocks, units))
