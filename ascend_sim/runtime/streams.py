"""Queued work of several streams: kernels, copies and events, run to idle in simulated time.

run = run_streams(device, tasks, "full")     # tasks in the order in which they were queued
run.timeline.tasks[0].finish                 # cycles; copies and events have rows of their own

Time comes first, as in every engine here: the Timeline of all streams together, bandwidth and cores shared. Values follow
one task at a time, in the order in which tasks finish. Tasks that overlap in time must not share memory that one of them
writes; such a pair is a race, which the caller reports (`overlapping`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import field
from functools import partial
from itertools import groupby
from math import ceil
from typing import Any

import simpy

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.replay import replay
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import TaskRun, Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.engine.watch import watched
from ascend_sim.frozen import mutable
from ascend_sim.kernel.program import Program


@mutable(eq=False)
class StreamStep(Task):
    """A task without a kernel: a copy, a memset, an event. It lasts `cycles`, then `action(finish cycle)` is called.

    The cycle is None in functional mode.
    """

    cycles: int = 0
    action: Callable[[int | None], None] | None = None

    @classmethod
    def of(
        cls, name: str, op_type: str, stream: int, cycles: int = 0, action: Callable[[int | None], None] | None = None
    ) -> StreamStep:
        """Return a step called `name` on `stream` that occupies no core; it takes `cycles`, then `action` is called, if any."""
        return cls(name, op_type, "HOST", 0, (), lambda block: (), stream, cycles=cycles, action=action)

    def happen(self, finish: int | None) -> None:
        """Call the step's action, if it has one, with the finish cycle; the action changes values or events."""
        if self.action is not None:
            self.action(finish)


@mutable
class StreamRun:
    """Run of the queue at one synchronisation: `tasks` as queued, their Timeline (None in functional mode) and the findings.

    `programs` are (index of the task, program) of the kernels; filled in functional mode only, where no Timeline holds them.
    """

    tasks: list[Task]
    timeline: Timeline | None
    findings: list[Finding] = field(default_factory=list)
    programs: list[tuple[int, Program]] = field(default_factory=list)


def copy_cycles(chip: ChipSpec, moved: int) -> int:
    """Return the cycles of a copy or memset; `moved` is the sum of the bytes that it reads and writes in HBM.

    Assumed: the largest launch overhead of a task, then HBM's full bandwidth, rounded up; the link to the host is not modelled.
    """
    return chip.cycles(max(chip.launch.task_overhead_us.values())) + ceil(moved / chip.hbm_bytes_per_cycle())


class _StreamEngine(Engine):
    """The timing engine, extended by steps (StreamStep) that occupy no core."""

    def _stream(self, indices: list[int], timeline: Timeline) -> Generator[simpy.Event, Any, None]:
        for host, group in groupby(indices, key=lambda i: isinstance(timeline.tasks[i].task, StreamStep)):
            if not host:
                yield from super()._stream(list(group), timeline)
                continue
            for index in group:
                yield from self._step(index, timeline.tasks[index])

    def _step(self, index: int, run: TaskRun) -> Generator[simpy.Event, Any, None]:
        step = run.task
        assert isinstance(step, StreamStep)
        for name in step.wait_events:
            self._held_up[index] = (step, name)
            yield self._events[name]
        self._held_up.pop(index, None)
        run.launch = run.begin = int(self.env.now)
        if step.cycles:
            yield self.env.timeout(step.cycles)
        run.finish = int(self.env.now)
        for name in step.record_events:
            if not self._events[name].triggered:
                self._events[name].succeed()


def run_streams(device: Device, tasks: Sequence[Task], mode: str) -> StreamRun:
    """Run all streams to idle, with values in both modes ("full", "functional"); return the run.

    In "functional" mode tasks run in the order of the queue, without time. In "full" mode values are computed after the
    timeline, task by task in the order of their finish. Raises DeadlockError and other SimErrors.
    """
    if mode == "functional":
        return _values_in_order(device, tasks)
    timeline = _StreamEngine(device).run(tasks, watch=True)
    findings = list(watched(timeline).findings)
    programs = {index: list(group) for index, group in groupby(timeline.programs, key=lambda run: run.task)}
    # What waits for another task was queued after it, so that the queue's order settles equal instants.
    for index in sorted(range(len(tasks)), key=lambda i: (timeline.tasks[i].finish, i)):
        task = tasks[index]
        if isinstance(task, StreamStep):
            task.happen(timeline.tasks[index].finish)
        else:
            findings += replay(device, tasks, programs.get(index, []))
    return StreamRun(list(tasks), timeline, findings)


def _note(programs: list[tuple[int, Program]], index: int, _: int, __: Task, program: Program) -> None:
    """Append (index of its task in the queue, program) to `programs`."""
    programs.append((index, program))


def _values_in_order(device: Device, tasks: Sequence[Task]) -> StreamRun:
    """Compute values task by task in the order of the queue, without time; return the run.

    The queue must have each event before the tasks that wait for it; waits are not checked.
    """
    run = StreamRun(list(tasks), None)
    for index, task in enumerate(tasks):
        if isinstance(task, StreamStep):
            task.happen(None)
        else:
            engine = FunctionalEngine(device, on_program=partial(_note, run.programs, index))
            engine.run([task])
            run.findings += engine.findings
    return run


def overlapping(timeline: Timeline) -> list[tuple[int, int]]:
    """Return the pairs of tasks of different streams that shared a cycle between launch and finish, as indices in the Timeline.

    In each pair the earlier launched is first. Steps of no cycles are in no pair.
    """
    order = sorted(range(len(timeline.tasks)), key=lambda i: timeline.tasks[i].launch)
    pairs = []
    active: list[int] = []
    for later in order:
        run = timeline.tasks[later]
        active = [earlier for earlier in active if timeline.tasks[earlier].finish > run.launch]
        pairs += [(e, later) for e in active if timeline.tasks[e].task.stream != run.task.stream and run.finish > run.launch]
        active.append(later)
    return pairs
