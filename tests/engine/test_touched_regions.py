"""Hazards and occupancy where instructions touch regions of any shape, as one of the user's own may: against sets of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.hazards import LIMIT, TimedAccesses
from ascend_sim.engine.occupancy import occupancy
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import Cost, Instruction
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.memory.regions import Region
from tests.support.engine.held_bytes import UNIT
from tests.support.engine.held_bytes import brute_force as held_by_bytes
from tests.support.engine.machine import CHIP, KIB, program, quiet, task_of, watched_run
from tests.support.engine.overlaps import brute_force, said
from tests.support.sampling import as_part, sample, sampled

pytestmark = pytest.mark.usefixtures("each_engine")

CHIP = quiet(CHIP)


@dataclass(frozen=True)
class TouchingRegions(Instruction):
    """Reads and writes these regions of UB, for some cycles on some pipe."""

    place: str
    sources: tuple[Region, ...]
    put: tuple[Region, ...]
    cycles: int

    name: ClassVar[str] = "touching"

    def pipe(self, chip: ChipSpec) -> str:
        return self.place

    def cost(self, chip: ChipSpec) -> Cost:
        return Cost(0, 0, self.cycles, 3)

    def reads(self) -> tuple[Region, ...]:
        return self.sources

    def writes(self) -> tuple[Region, ...]:
        return self.put


@st.composite
def regions(draw: st.DrawFn, operand: str) -> Region:
    """Few rows and planes: one behind the other, with gaps, at the same place, in one another."""
    rows, planes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    size, step, apart, offset = (UNIT * draw(st.integers(least, most)) for least, most in ((1, 5), (0, 9), (0, 30), (0, 4)))
    return Region(operand, "UB", size, step, rows, apart, planes, offset)


@st.composite
def instructions(draw: st.DrawFn) -> tuple[TouchingRegions, tuple[int, int, int]]:
    """One, and where its operands are."""
    read = tuple(draw(regions(name)) for name in ("src0", "src1")[: draw(st.integers(0, 2))])
    written = tuple(draw(regions("dst")) for _ in range(draw(st.integers(0, 2))))
    pipe, cycles = draw(st.sampled_from(["MTE2", "V", "MTE3"])), draw(st.integers(1, 60))
    return TouchingRegions(pipe, read, written, cycles), draw(st.tuples(*[st.integers(0, 4).map(lambda n: 32 * n)] * 3))


def touching(todo: list[tuple[TouchingRegions, tuple[int, int, int]]]) -> Program:
    def write(k: KernelBuilder) -> None:
        for one, (dst, src0, src1) in todo:
            k._emit((TouchingRegions, one.place, one.sources, one.put, one.cycles), dst, src0, src1)

    return program(CHIP, "AIV", write, [KIB])


def task(made: Program) -> tuple[Device, Task]:
    device = Device(CHIP, with_values=False)
    return device, task_of([[made]], [device.allocate(KIB, "t")])


@sampled(60, 300)
@given(st.lists(instructions(), min_size=1, max_size=8))
def test_regions_of_any_shape(todo: list[tuple[TouchingRegions, tuple[int, int, int]]]) -> None:
    device, launched = task(touching(todo))
    timeline, found = watched_run(device, [launched])
    (run,) = timeline.programs
    wanted = brute_force([run], [0])
    assert said(found) == wanted if len(found) <= LIMIT else said(found[:LIMIT]) <= wanted
    curve = occupancy(run, "UB")
    assert curve.held.tolist() == held_by_bytes(run, "UB", curve.time)


@as_part
def test_two_regions_at_many_distances() -> None:
    """An answer on two regions at one distance is not used for another, thousands of distances later."""
    random = Random(1)
    half, count = 96 * KIB, sample(1000, 4000)
    comb, teeth = (Region(operand, "UB", 32, 160, half // 160) for operand in ("src0", "dst"))
    reader, writer = TouchingRegions("V", (comb,), (), 40), TouchingRegions("MTE2", (), (teeth,), 40)

    def write(k: KernelBuilder) -> None:
        for _ in range(count):
            places = [0, random.randrange(0, half, 32)]
            random.shuffle(places)
            k._emit((TouchingRegions, reader.place, reader.sources, (), reader.cycles), 0, places[0])
            k._emit((TouchingRegions, writer.place, (), writer.put, writer.cycles), places[1])
            k.pipe_barrier("ALL")

    device, launched = task(program(CHIP, "AIV", write, [KIB]))
    timeline, _ = watched_run(device, [launched])
    found = len(TimedAccesses.of(timeline.programs[0], 0, [], "UB").hazards())
    assert count / 8 < found < count / 2
