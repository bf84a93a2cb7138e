"""A core's pipes: their order, their heads and their stalls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.isa.base import PIPES, Cost
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, quiet, run_one, task_of
from tests.support.engine.random_programs import SIZES, RandomChip, Step, steps, variants, writer
from tests.support.sampling import sampled

pytestmark = pytest.mark.usefixtures("each_engine")


QUIET = quiet(CHIP)


@dataclass(frozen=True)
class TwoHeadedCopy(DataCopy):
    """A copy whose head is shorter behind another one."""

    name = "copy_with_two_heads"

    def cost(self, chip: ChipSpec) -> Cost:
        return Cost(90, 10, 0, 0)


def test_work_without_a_gap_pays_the_head_of_a_stream() -> None:
    """Products that follow each other at once, then one behind a pause; transfers alike."""

    def products(k: KernelBuilder) -> None:
        for pause in (0, 0, 1000):
            k.scalar(pause)
            k.mmad(0, 0, 0, 160, 16, 160, "float16", False)  # 100 cycles of work

    first, stream = QUIET.cube.head_first, QUIET.cube.head_stream
    assert first != stream
    one = run_one(QUIET, "AIC", products, SIZES)
    assert (one.end - one.start)[one.program.per_row("pipe") > 0].tolist() == [100 + first, 100 + stream, 100 + first]

    def copies(k: Kernel) -> None:
        for pause in (0, 0, 1000):
            k.scalar(pause)
            k.emit(TwoHeadedCopy("GM", "UB", 12800), 0, gm_operand(0, 0))

    k = Kernel(InstructionTable(QUIET), 0, "AIV", SIZES, blocks=1)
    copies(k)
    device = Device(QUIET, with_values=False)
    task = task_of([[k.finish()]], [device.allocate(size, f"t{i}") for i, size in enumerate(SIZES)])
    (one,) = Engine(device, shared_gm=False).run([task]).programs
    moved = (one.end - one.start)[one.program.per_row("pipe") > 0].tolist()
    assert [cycles - moved[1] for cycles in moved] == [80, 0, 80]


def assert_adds_up(run: ProgramRun) -> None:
    span = run.finish - run.begin
    for pipe in PIPES:
        stalls = run.stalls(pipe)
        assert min(stalls.values(), default=0) >= 0, pipe
        assert run.busy()[pipe] + sum(stalls.values()) == span, pipe


@pytest.mark.parametrize("shared", [False, True])
@sampled(20, 80)
@given(variant=variants(), kind=st.sampled_from(["AIC", "AIV"]), actions=steps())
def test_busy_and_stalls_are_the_span(shared: bool, variant: RandomChip, kind: str, actions: list[Step]) -> None:
    run = run_one(variant.chip, kind, writer(kind, actions), SIZES, shared_gm=shared)
    assert_adds_up(run)
    assert (run.start <= run.end).all()
    assert (run.end <= run.retire).all()
    assert run.finish == max(run.begin, int(run.retire.max(initial=0)))


@settings(max_examples=60, deadline=None)
@given(variants(), st.sampled_from(["AIC", "AIV"]), steps())
def test_pipes_work_in_order_and_one_thing_at_a_time(variant: RandomChip, kind: str, actions: list[Step]) -> None:
    run = run_one(variant.chip, kind, writer(kind, actions), SIZES)
    for pipe in range(len(PIPES)):
        rows = np.flatnonzero(run.program.per_row("pipe") == pipe)
        assert (run.start[rows][1:] >= run.end[rows][:-1]).all()
        works = rows[run.program.per_row("kind")[rows] != 2]  # a wait is over without waiting for retirements
        assert (np.diff(run.retire[works[run.program.per_row("kind")[works] < 5]]) >= 0).all()
