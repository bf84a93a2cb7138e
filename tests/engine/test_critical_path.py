"""The critical path: it fills the run without a gap, and what lies on it is what the run waits for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ascend_sim
from ascend_sim import TensorSpec
from ascend_sim.chip import ChipSpec
from ascend_sim.engine import critical_path as paths
from ascend_sim.engine.critical_path import by_what, critical_path
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.flags import flag_pairs
from ascend_sim.engine.timeline import Timeline
from ascend_sim.isa.base import PIPES
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, FIVE, changed, program, quiet, scalar_task, task_of
from tests.support.engine.random_programs import MOST_SETS, SIZES, RandomChip, Step, steps, variants, writer
from tests.support.sampling import part_of_cases, sampled

pytestmark = pytest.mark.usefixtures("each_engine")


def run(chip: ChipSpec, kind: str, blocks: list[list[Step]], tasks: int = 1, streams: int = 1, **options: Any) -> Timeline:
    """`tasks` launches of the same blocks, dealt to the streams in turn."""
    device = Device(chip, with_values=False)
    sizes = SIZES * len(blocks)
    tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(sizes)]
    programs = [[program(chip, kind, writer(kind, actions, 2 * b), sizes, block=b)] for b, actions in enumerate(blocks)]
    launched = [task_of(programs, tensors, name=f"task {i}", stream=i % streams) for i in range(tasks)]
    return Engine(device, **options).run(launched)


def elapsed(timeline: Timeline) -> int:
    return timeline.finish - min(task.launch for task in timeline.tasks)


def assert_whole(timeline: Timeline) -> list[paths.PathStep]:
    """The steps lie end to end from the first cycle to the last, and each takes time of the kind that it says."""
    path = critical_path(timeline)
    if not elapsed(timeline):
        assert not path
        return path
    assert path[0].begin == min(task.launch for task in timeline.tasks)
    assert path[-1].end == timeline.finish
    assert all(before.end == after.begin for before, after in pairwise(path))
    assert sum(by_what(path).values()) == elapsed(timeline)
    for step in path:
        assert step.what in paths.KINDS and step.cycles > 0
        if step.what in PIPES:
            one = timeline.programs[step.program]
            assert (one.start[step.row], one.end[step.row]) == (step.begin, step.end)
            assert one.program[step.row].pipe == step.what
            assert step.because, "work that nothing held back would have started earlier"
        assert step.what != paths.HOST, "no cycle is without an explanation"
    return path


BLOCKS = st.lists(steps(30), min_size=1, max_size=3)


KEPT_BY_A_UNIT_FLAG = RandomChip((2, 1, 1, 1, 1, 2), (4, 1, 1, 1, 1, 1), 0, 0, 0, 0, (0, 0, 0), (0, 14), (0, 0), (0, 0))
"""The cube stands in a short queue behind a wait that was over before its flag came in."""
STEPS = ["work"] * 6 + ["tile", "work", "work", "tile"]


@sampled(20, 80)
@given(variants(), st.sampled_from(["AIC", "AIV"]), BLOCKS, st.integers(1, 2), st.booleans())
@example(KEPT_BY_A_UNIT_FLAG, "AIC", [[(verb, 0, int(i == 6), 0) for i, verb in enumerate(STEPS)]], 1, False)
def test_it_fills_the_run(variant: RandomChip, kind: str, blocks: list[list[Step]], tasks: int, shared: bool) -> None:
    assert_whole(run(variant.chip, kind, blocks, tasks, shared_gm=shared))


@settings(max_examples=25)
@given(BLOCKS, st.sampled_from(["AIC", "AIV"]), st.integers(1, 4), st.integers(1, 2))
def test_launches_dispatches_and_streams(blocks: list[list[Step]], kind: str, tasks: int, streams: int) -> None:
    chip = changed(CHIP, sync={"flag_max": MOST_SETS})
    assert_whole(run(chip, kind, blocks * 2, tasks, streams))


@sampled(20, 50)
@given(variants(), st.sampled_from(["AIC", "AIV"]), steps())
def test_issue_times_are_those_of_the_engine(variant: RandomChip, kind: str, actions: list[Step]) -> None:
    """Worked out again from the starts: nobody starts before his issue, and full queues cost what the engine counted."""
    one = run(variant.chip, kind, [actions]).programs[0]
    rows = paths._PathRows(one)
    on_pipes = rows.pipe != 0
    assert (one.start >= rows.issued)[on_pipes].all()
    previous = np.concatenate(([one.begin], rows.issued[:-1]))
    assert int((rows.issued - previous - rows.issue)[on_pipes].sum()) == one.queue_full


SLOWER = {
    paths.FLAG: lambda chip, d: changed(chip, sync={"flag_latency": chip.sync.flag_latency + d}),
    paths.BARRIER_TIME: lambda chip, d: changed(chip, sync={"barrier_latency": chip.sync.barrier_latency + d}),
    paths.ISSUE: lambda chip, d: changed(
        chip, scalar={"issue_cycles": {k: cycles + d for k, cycles in chip.scalar.issue_cycles.items()}}
    ),
    paths.CORE_START: lambda chip, d: changed(chip, launch={"core_start_us": {k: chip.us(d) for k in ("AIC", "AIV")}}),
    "M": lambda chip, d: changed(chip, cube={"head_first": chip.cube.head_first + d, "head_stream": chip.cube.head_stream + d}),
}


HEAD_THAT_A_GAP_DECIDES = RandomChip((1, 1, 1, 3, 1, 2), (1,) * 6, 1, 5, 0, 0, (5, 0, 0), (0, 0), (0, 0), (0, 0))
"""A cycle more of flag latency (5) closes the gap between two Mmads, so that the second pays no head in place of one of 5."""
GAP = [("work", 0, 0, 0)] * 31 + [("tile", 2, 3, 1), ("work", 3, 0, 2), *[("work", 0, 0, 0)] * 2, ("tile", 0, 0, 0)]


@pytest.mark.parametrize("what", SLOWER)
@sampled(10, 30)
@given(variant=variants(), actions=steps(), more=st.integers(1, 40))
@example(variant=HEAD_THAT_A_GAP_DECIDES, actions=GAP, more=1)
def test_what_lies_on_it_costs_what_it_weighs(what: str, variant: RandomChip, actions: list[Step], more: int) -> None:
    """Without shared bandwidth times are maxima of sums: `more` on a kind of step costs that for each one on the path."""
    chip = variant.chip
    # No sum where a gap decides which of two heads is paid: whatever delays a Mmad may spare it the longer one.
    chip = changed(chip, cube={"head_stream": chip.cube.head_first})
    before = run(chip, "AIC", [actions], shared_gm=False)
    path = critical_path(before)
    after = run(SLOWER[what](chip, more), "AIC", [actions], shared_gm=False)
    count = sum(step.rows for step in path if step.what == what)
    if what == "M":  # the head of a Mmad that a unit flag held goes on while the Fixpipe still drains
        count -= sum(step.what == what and last.what in ("FIX", paths.UNIT_FLAG) for last, step in pairwise(path))
    if what == paths.CORE_START:
        count = 1
    assert elapsed(after) >= elapsed(before) + more * count


def test_a_path_worked_out_on_paper() -> None:
    """Two mmads of 9 cycles (heads 21 and 10, latency 2), a flag of 16 and a Fixpipe that waits for it; issue takes 5."""

    def write(k):  # type: ignore[no-untyped-def]
        done = k.flag("M", "FIX", "done")
        k.mmad(0, 0, 0, 48, 16, 48, "float16", False)
        k.mmad(0, 0, 0, 48, 16, 48, "float16", False)
        k.set_flag(done)
        k.wait_flag(done)

    chip = changed(quiet(CHIP), scalar=FIVE)
    timeline = Engine(Device(chip, with_values=False)).run([task_of([[program(chip, "AIC", write)]])])
    found = [(step.begin, step.end, step.what, step.because) for step in critical_path(timeline)]
    assert found == [
        (0, 5, "issue", "task begins"),
        (5, 35, "M", "issue"),
        (35, 54, "M", "pipe busy"),
        (54, 56, "latency", ""),
        (56, 72, "flag", ""),
    ]


def test_a_transfer_waits_for_the_one_that_has_to_retire() -> None:
    """Two of MTE2 in flight: the third begins when the first has retired, a long latency behind the end of its work."""
    chip = changed(quiet(CHIP), sync={"outstanding": CHIP.sync.outstanding | {"MTE2": 2}}, scalar=FIVE)
    write = lambda k: [k.data_copy("GM", "UB", 512 * i, gm_operand(0, 512 * i), 512) for i in range(3)]  # noqa: E731
    device = Device(chip, with_values=False)
    tensors = [device.allocate(size, "t") for size in SIZES]
    timeline = Engine(device, shared_gm=False).run([task_of([[program(chip, "AIV", write, SIZES)]], tensors)])
    (one,) = timeline.programs
    assert one.end[1] < one.start[2] == one.retire[0] < one.retire[1]
    path = assert_whole(timeline)
    assert [(step.row, step.what, step.because) for step in path if step.row in (0, 2) and step.what == "MTE2"] == [
        (0, "MTE2", "issue"),
        (2, "MTE2", "outstanding limit"),
    ]


def test_the_second_wait_for_a_flag_is_for_its_second_set() -> None:
    def write(k: Any) -> None:
        done = k.flag("M", "FIX", "done")
        for _ in range(2):
            k.set_flag(done)
            k.wait_flag(done)

    (one,) = Engine(Device(CHIP, with_values=False)).run([task_of([[program(CHIP, "AIC", write)]])]).programs
    assert flag_pairs(one) == {1: 0, 3: 2}


@pytest.mark.parametrize(("kind", "interval"), [("AIC", 5400), ("AIV", 1800)])
def test_blocks_begin_in_turn(kind: str, interval: int) -> None:
    """So many cycles after each other as the chip says for their kind of core: here 3 us and 1 us at 1800 MHz."""
    chip = changed(quiet(CHIP), launch={"block_us": {"AIC": 3.0, "AIV": 1.0}})
    path = assert_whole(Engine(Device(chip, with_values=False)).run([scalar_task(chip, kind, [10, 10, 1000])]))
    turns = [(step.begin, step.end, step.program) for step in path if step.what == paths.DISPATCH]
    assert turns == [(0, interval, 1), (interval, 2 * interval, 2)]


def test_waves_wait_for_a_free_core() -> None:
    """More blocks than cores: the path leads through the block that left its core to a later one."""
    lengths = [100] * CHIP.cores.aic + [5000, 10]
    timeline = Engine(Device(quiet(CHIP), with_values=False)).run([scalar_task(quiet(CHIP), "AIC", lengths)])
    path = assert_whole(timeline)
    assert [timeline.programs[step.program].program.block for step in path] == [0, CHIP.cores.aic]


def test_a_second_stream_waits_for_cores() -> None:
    chip = quiet(CHIP)
    tasks = [scalar_task(chip, "AIC", [500] * chip.cores.aic, stream=0), scalar_task(chip, "AIC", [70], stream=1)]
    path = assert_whole(Engine(Device(chip, with_values=False)).run(tasks))
    assert [step.task for step in path] == [0, 1]


@part_of_cases(3)
@pytest.mark.parametrize(
    ("chip", "deterministic", "weight"),
    [("ascend910b3", False, (32, 32, 3, 3)), ("ascend910b3", True, (16, 16, 3, 3)), ("ascend910a", False, (16, 16, 3, 3))],
)
def test_kernels_of_convolution_backward(chip: str, deterministic: bool, weight: tuple[int, ...]) -> None:
    """Many cores that share bandwidth, all-core barriers and flags between cube and vector cores."""
    shape = (4, weight[1], 28, 28)
    result = ascend_sim.convolution_backward(
        *(TensorSpec(size, "float16") for size in ((4, weight[0], 28, 28), shape, weight)),
        None,
        (1, 1),
        (1, 1),
        (1, 1),
        False,
        (0, 0),
        1,
        (True, True, True),
        chip=chip,
        mode="timing",
        deterministic=deterministic,
    )
    assert result.timeline is not None
    assert {step.task for step in assert_whole(result.timeline)} == set(range(len(result.tasks)))


def test_nothing_ran() -> None:
    assert critical_path(Timeline()) == []
