"""Tasks on cores: launch, waves, streams, events, gangs, limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import CycleLimitError, DeadlockError, SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, FIVE, changed, program, quiet, run_one, scalar_task, task_of
from tests.support.engine.random_programs import SIZES

pytestmark = pytest.mark.usefixtures("each_engine")

QUIET = quiet(CHIP)


def run(tasks: list[Task], chip: Any = QUIET, **options: Any) -> Timeline:
    return Engine(Device(chip, with_values=False), **options).run(tasks)


def spans(timeline: Timeline) -> list[tuple[int, int]]:
    return [(task.begin, task.finish) for task in timeline.tasks]


def barrier_task(kind: str, blocks: int, name: str, **fields: Any) -> Task:
    """Every block meets all others at a cross-core flag."""

    def write(k: Any) -> None:
        k.scalar(100)
        k.cross_core_set(0, 0, "MTE2")
        k.cross_core_wait(0, 0, "MTE2")

    made = [[program(CHIP, kind, write, block=b)] for b in range(blocks)]
    return task_of(made, name=name, all_cores=True, **fields)


def test_a_gang_of_no_blocks_is_over_at_once() -> None:
    timeline = run([replace(barrier_task("AIV", 2, "none"), block_dim=0), barrier_task("AIV", 2, "two")])
    assert [one.task for one in timeline.programs] == [1, 1]


def test_a_flag_between_cores_takes_its_latency() -> None:
    """All have set it when the slowest has; who waits goes on so many cycles later, on every core."""

    def write(k: KernelBuilder) -> None:
        k.scalar(100 * k.block)
        k.cross_core_set(0, 0, "MTE2")
        k.cross_core_wait(0, 0, "MTE2")

    for latency in (5, 300):
        chip = changed(QUIET, sync={"cross_latency": latency})
        made = [[program(chip, "AIV", write, block=block)] for block in range(3)]
        timeline = run([task_of(made, all_cores=True)], chip)
        last = max(int(one.retire[1]) for one in timeline.programs)
        assert [int(one.retire[2]) for one in timeline.programs] == [last + latency] * 3


def test_the_scalar_unit_waits_for_one_pipe() -> None:
    """Instructions behind the wait are issued after the vector unit is done, while the slower MTE2 still works."""

    def write(k: KernelBuilder) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 65536)
        k.vector_duplicate(65536, "float32", 64)
        k.scalar_wait("V")
        k.scalar(7)

    timeline = run([task_of([[program(QUIET, "AIV", write, [65536])]], [Device(QUIET).allocate(65536, "x")])])
    (one,) = timeline.programs
    assert one.end[2] == one.retire[1] + QUIET.sync.barrier_latency < one.end[0]
    assert one.end[3] == one.end[2] + QUIET.scalar.issue_cycles["AIV"] + 7


def test_blocks_are_dispatched_one_after_the_other() -> None:
    """`block_us` lies between two dispatches; a block that waits for a core longer than that waits no longer."""
    chip = changed(QUIET, launch={"block_us": {"AIV": 10 / 1800}}, cores={"aiv": 3})
    timeline = run([scalar_task(chip, "AIV", [995] * 5)], chip)
    first = timeline.tasks[0].begin
    assert [r.begin - first for r in timeline.programs] == [0, 10, 20, 1000, 1010]


def test_who_waited_for_a_core_puts_off_those_behind() -> None:
    """Two cores are free at once (1015) after the turn of the third block (20): the fourth comes an interval after it."""
    chip = changed(QUIET, launch={"block_us": {"AIV": 10 / 1800}}, cores={"aiv": 2}, scalar=FIVE)
    timeline = run([scalar_task(chip, "AIV", [1010, 1000, 50, 50])], chip)
    assert [r.begin for r in timeline.programs] == [0, 10, 1015, 1025]


def test_waves() -> None:
    """More blocks than cores: a block begins as soon as any core is free, in block order."""
    chip = changed(QUIET, cores={"aiv": 3})
    lengths = [100, 300, 200, 50, 50, 400, 10]
    timeline = run([scalar_task(chip, "AIV", lengths)], chip)
    free, expected = [0, 0, 0], []
    for length in lengths:
        core = min(range(3), key=lambda c: (free[c], c))
        expected.append((free[core], core))
        free[core] += length + CHIP.scalar.issue_cycles["AIV"]
    assert [(r.begin, r.core) for r in timeline.programs] == expected
    assert timeline.tasks[0].finish == max(free)


def test_a_stream_runs_in_order_and_streams_beside_each_other() -> None:
    """A cube kernel of one stream overlaps a vector kernel of another."""
    tasks = [
        scalar_task(CHIP, "AIC", [1000], "c0", stream=0), scalar_task(CHIP, "AIV", [700], "v0", stream=1),
        scalar_task(CHIP, "AIV", [1000], "v1", stream=0), scalar_task(CHIP, "AIV", [700], "v2", stream=1),
    ]  # fmt: skip
    assert spans(run(tasks)) == [(0, 1020), (0, 705), (1020, 2025), (705, 1410)]


def test_the_task_that_began_first_has_the_cores_first() -> None:
    chip = changed(QUIET, cores={"aiv": 2})
    tasks = [scalar_task(chip, "AIV", [95] * 4, "a", stream=0), scalar_task(chip, "AIV", [95] * 2, "b", stream=1)]
    timeline = run(tasks, chip)
    assert [r.begin for r in timeline.of(0)] == [0, 0, 100, 100]
    assert [r.begin for r in timeline.of(1)] == [200, 200]


def test_events_order_streams() -> None:
    tasks = [
        scalar_task(CHIP, "AIC", [1000], "producer", stream=0, record_events=["ready"]),
        scalar_task(CHIP, "AIC", [500], "more", stream=0),
        scalar_task(CHIP, "AIV", [100], "before", stream=1),
        scalar_task(CHIP, "AIV", [100], "consumer", stream=1, wait_events=["ready"]),
    ]
    assert spans(run(tasks)) == [(0, 1020), (1020, 1540), (0, 105), (1020, 1125)]


def test_an_event_that_nobody_records_is_a_deadlock() -> None:
    tasks = [
        scalar_task(CHIP, "AIC", [10], "producer", stream=0),
        scalar_task(CHIP, "AIV", [10], "consumer", stream=1, wait_events=["never"]),
    ]
    with pytest.raises(DeadlockError, match=r"stream 1: consumer waits for event 'never' from no task"):
        run(tasks)


def test_events_in_a_circle_are_a_deadlock() -> None:
    tasks = [
        scalar_task(CHIP, "AIC", [10], "a", stream=0, wait_events=["y"], record_events=["x"]),
        scalar_task(CHIP, "AIV", [10], "b", stream=1, wait_events=["x"], record_events=["y"]),
    ]
    with pytest.raises(DeadlockError, match="2 tasks not begun") as error:
        run(tasks)
    assert "a waits for event 'y' from b" in str(error.value)
    assert "b waits for event 'x' from a" in str(error.value)


@pytest.mark.parametrize(("kind", "cores"), [("AIC", 20), ("AIV", 40)])
def test_a_gang_larger_than_the_chip_is_refused(kind: str, cores: int) -> None:
    run([barrier_task(kind, cores, "fits")])
    with pytest.raises(SimError, match=rf"wide has an all-core barrier and {cores + 1} blocks, but ascend910b3 has {cores}"):
        run([barrier_task(kind, cores + 1, "wide")])


def test_two_gangs_and_a_kernel_that_holds_half_the_cores() -> None:
    """A gang begins when all its cores are free, never with some of its blocks; so two of them do not lock each other."""
    holder = scalar_task(CHIP, "AIC", [1000 + 100 * i for i in range(10)], "holder", stream=0)
    timeline = run([holder, barrier_task("AIC", 20, "first", stream=1), barrier_task("AIC", 20, "second", stream=2)])
    held, first, second = (timeline.of(i) for i in range(3))
    assert {r.begin for r in first} == {max(r.finish for r in held)}
    assert {r.begin for r in second} == {max(r.finish for r in first)}


def mixed_task(blocks: int, length: int, name: str, stream: int) -> Task:
    programs = [
        [
            program(CHIP, kind, lambda k: k.scalar(length), block=b, sub_block=s)
            for kind, s in (("AIC", 0), ("AIV", 0), ("AIV", 1))
        ]
        for b in range(blocks)
    ]
    return task_of(programs, kind="MIX", name=name, stream=stream)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["AIC", "AIV", "MIX", "gang"]), st.integers(1, 9), st.sampled_from([95, 95, 195, 45]),
            st.integers(0, 3),
        ),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_any_tasks_on_few_cores(drawn: list[tuple[str, int, int, int]]) -> None:
    """Ends at equal instants included: every block runs, no core has two blocks at once, no more cores than there are."""
    chip = changed(QUIET, cores={"aic": 3, "aiv": 6})
    tasks = []
    for i, (kind, blocks, length, stream) in enumerate(drawn):
        if kind == "MIX":
            tasks.append(mixed_task(blocks, length, f"t{i}", stream))
        elif kind == "gang":
            tasks.append(barrier_task("AIV", min(blocks, 6), f"t{i}", stream=stream))
        else:
            tasks.append(scalar_task(chip, kind, [length] * blocks, f"t{i}", stream=stream))
    timeline = run(tasks, chip)
    per_block = {"MIX": 3}
    assert len(timeline.programs) == sum(t.block_dim * per_block.get(t.core_kind, 1) for t in tasks)
    on_core: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for r in timeline.programs:
        block_end = max(q.finish for q in timeline.of(r.task) if q.program.block == r.program.block)
        on_core.setdefault((r.program.core_kind, r.core), []).append((r.begin, block_end))
    for (kind, core), held in on_core.items():
        assert 0 <= core < {"AIC": 3, "AIV": 6}[kind]
        held.sort()
        assert all(later[0] >= earlier[1] for earlier, later in pairwise(held))


def test_a_run_longer_than_its_limit_ends() -> None:
    device = Device(QUIET, with_values=False)
    Engine(device, max_cycles=1005).run([scalar_task(CHIP, "AIV", [1000])])
    Engine(device, max_cycles=1005).run([scalar_task(CHIP, "AIV", [1000])])  # the clock goes on, the limit is per run
    with pytest.raises(SimError, match="task: still runs at the limit of 1005 cycles"):
        Engine(device, max_cycles=1005).run([scalar_task(CHIP, "AIV", [1001])])


def test_a_long_block_ends_at_the_limit_and_not_at_its_own_end() -> None:
    """Transfers that take a hundred thousand cycles in one block: the engine stops where the limit is."""

    def write(k: KernelBuilder) -> None:
        for _ in range(200):
            k.data_copy("GM", "UB", 0, gm_operand(0, 0), 65536)

    def task() -> Task:
        made = [[program(CHIP, "AIV", write, [65536])]]
        return task_of(made, [Device(CHIP, with_values=False).allocate(65536, "x")], name="long")

    runner = Engine(Device(CHIP, with_values=False), max_cycles=20_000)
    with pytest.raises(SimError, match="long: still runs at the limit of 20000 cycles"):
        runner.run([task()])
    assert runner.env.now == 20_001
    whole = run([task()], CHIP).finish
    assert whole > 100_000
    assert run([task()], CHIP, max_cycles=whole).finish == whole
    with pytest.raises(SimError, match="still runs"):
        run([task()], CHIP, max_cycles=whole - 1)


DEPTH = CHIP.sync.queue_depth["V"]


@pytest.mark.parametrize(("before", "behind", "rest"), [(0, 1, 1), (0, 1, 2 * DEPTH), (DEPTH + DEPTH // 2, DEPTH // 2, 1)])
def test_what_was_issued_beyond_the_limit_is_a_run_that_is_too_long(before: int, behind: int, rest: int) -> None:
    """Though what it waits for never comes; and though the SimPy engine issues those rows only when nothing happens any more,
    as a full queue that has places again holds nobody up.
    """

    def write(k: KernelBuilder) -> None:
        never = k.flag("MTE2", "V", "never")
        k.set_flag(never)
        for _ in range(before):
            k.vector_duplicate(0, "float16", 16)
        k.wait_flag(never)
        for _ in range(behind):
            k.vector_duplicate(0, "float16", 16)
        k.scalar(50_000)
        for _ in range(rest):
            k.vector_duplicate(0, "float16", 16)

    made = program(CHIP, "AIV", write)
    made = made.with_rows(made.rows[1:])  # the set is never made
    for limit, error in ((None, DeadlockError), (20_000, CycleLimitError), (60_000, DeadlockError)):
        with pytest.raises(error):
            run([task_of([[made]])], QUIET, max_cycles=limit)


def test_no_tasks_and_empty_programs() -> None:
    assert run([]).finish == 0
    timeline = run([task_of([[program(CHIP, "AIV", lambda k: None, block=b)] for b in range(3)])])
    assert [(r.begin, r.finish, len(r.start)) for r in timeline.programs] == [(0, 0, 0)] * 3


def test_progress_counts_blocks() -> None:
    seen: list[tuple[str, int, int]] = []
    run([scalar_task(CHIP, "AIV", [30, 20, 10], "p")], progress=lambda *now: seen.append(now))
    assert seen == [("p", 1, 3), ("p", 2, 3), ("p", 3, 3)]


@pytest.mark.parametrize("between", [0, CHIP.sync.queue_depth["V"] - 10])
def test_a_flag_counts_to_its_most_and_no_farther(between: int) -> None:
    """Where the queue of V is full between the first set and the others, an engine that goes ahead knows of the wait first."""
    chip = changed(QUIET, sync={"flag_max": 3})

    def write(k: KernelBuilder, sets: int) -> None:
        flag = k.flag("MTE2", "V", "f")
        for _ in range(20):  # the waits stand behind it
            k.vector_duplicate(0, "float32", 32768)
        for number in range(sets):
            k.set_flag(flag)
            if number == 0:
                k.wait_flag(flag)
                for _ in range(between):
                    k.pipe_barrier("V")
        for _ in range(sets - 1):
            k.wait_flag(flag)

    assert run_one(chip, "AIV", lambda k: write(k, 3), SIZES).finish > 0
    with pytest.raises(DeadlockError, match="comes while the flag stands at 3 and is lost"):
        run_one(chip, "AIV", lambda k: write(k, 4), SIZES)


@pytest.mark.parametrize(("waiter", "behind"), [("V", 0), ("V", CHIP.sync.queue_depth["V"] - 3), ("MTE2", 0)])
def test_a_full_flag_may_be_raised_in_the_cycle_in_which_a_wait_is_over(waiter: str, behind: int) -> None:
    """And not in the one before it. The first wait stands behind work of V; `behind` it the queue of V may be full.

    Or behind a transfer, which ends when the clock gets there; the flag was raised once more by then.
    """
    chip = changed(QUIET, sync={"flag_max": 3})

    def write(k: KernelBuilder, pause: int) -> None:
        flag = k.flag("V" if waiter == "MTE2" else "MTE2", waiter, "f")
        if waiter == "MTE2":
            k.data_copy("GM", "UB", 0, gm_operand(0, 0), 65536)
        else:
            k.vector_duplicate(0, "float32", 32768)
        for _ in range(3):
            k.set_flag(flag)
        k.wait_flag(flag)
        for _ in range(behind):
            k.pipe_barrier(waiter)
        k.scalar(pause)
        k.set_flag(flag)
        for _ in range(3):
            k.wait_flag(flag)

    late = run_one(chip, "AIV", lambda k: write(k, 10_000), SIZES)
    wait, last = 4, len(late.start) - 4
    spare = int(late.start[last] - late.end[wait])
    met = run_one(chip, "AIV", lambda k: write(k, 10_000 - spare), SIZES)
    assert met.start[last] == met.end[wait] > 0
    with pytest.raises(DeadlockError, match="comes while the flag stands at 3 and is lost"):
        run_one(chip, "AIV", lambda k: write(k, 9_999 - spare), SIZES)
