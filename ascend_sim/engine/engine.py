"""The engine: tasks on a device become a Timeline (values follow it in `full` mode).

Lifecycle:

    device = Device(load_chip("ascend910b3"))
    task = Task("copy", "Copy", "AIV", block_dim=4, tensors=[source, target], build=build_block)
    timeline = Engine(device).run([task])       # launches, dispatches blocks to cores, runs to idle
    timeline.programs[0].start                  # one cycle count per instruction

1. Every stream is a SimPy process that launches its tasks in order.
2. A task pays its launch overhead, then a block goes to each free core, in block order; more blocks than cores run in
   waves; between two dispatches lie `launch.block_us`. A block's programs are built when it is dispatched.
3. `CoreRun` computes the block's timeline; GM transfers meet in `Traffic`. Their compiled twin (`engine/compiled/`) does
   the same faster; `engine` says which.
4. When no event is left the run is over; a program that has not finished then is deadlocked.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from ascend_sim.engine.choice import chosen_engine
from ascend_sim.engine.columns import MOST, SHORT, ColumnStore
from ascend_sim.engine.cross import CrossFlags
from ascend_sim.engine.device import Device
from ascend_sim.engine.machine import Machine, RunningProgram, new_machine
from ascend_sim.engine.task import Task, order_of
from ascend_sim.engine.timeline import ProgramRun, TaskRun, Timeline
from ascend_sim.engine.traffic import Timer
from ascend_sim.engine.watch import Collected
from ascend_sim.errors import CycleLimitError, DeadlockError, SimError
from ascend_sim.host import collector_paused
from ascend_sim.kernel.program import Program

OnProgram = Callable[[int, Task, Program], None]
"""Function called with (index of a task, the task, one of its programs), in block order within the task."""
Progress = Callable[[str, int, int], None]
"""Function called with (name of a task, its finished blocks, all its blocks)."""

_FAULTS, _LAST = 3, 4
"""SimPy priorities behind everything else of an instant, the bandwidth shares included: errors, then cores that go on."""


class _Cores:
    """Free cores of one kind, in the order in which blocks get them.

    They are given out at the end of an instant, after all releases and requests, to the waiting task that began first;
    so no order of events within the instant matters.
    """

    def __init__(self, env: simpy.Environment, order: list[int]) -> None:
        self._env = env
        self._free = order
        self._rank = {core: place for place, core in enumerate(order)}
        self._waiting: list[tuple[int, int, simpy.Event]] = []
        self._woken = False

    def acquire(self, ticket: int, count: int) -> simpy.Event:
        """Return an event that fires with a list of `count` core numbers; the task with the lowest `ticket` is first."""
        event = self._env.event()
        heapq.heappush(self._waiting, (ticket, count, event))
        self._wake()
        return event

    def release(self, numbers: list[int]) -> None:
        """Return the cores `numbers` to the free ones; they are given out at the end of the instant."""
        self._free = sorted(self._free + numbers, key=self._rank.__getitem__)
        self._wake()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            event = self._env.event()
            event._ok, event._value = True, None
            event.callbacks = [self._deal]
            self._env.schedule(event, priority=_LAST)  # type: ignore[arg-type]

    def _deal(self, _: Any) -> None:
        """Assign free cores to the first request in turn, if there are enough.

        Its task may ask again at this instant before the next request is served.
        """
        self._woken = False
        if self._waiting and len(self._free) >= self._waiting[0][1]:
            _, count, event = heapq.heappop(self._waiting)
            taken, self._free = self._free[:count], self._free[count:]
            event.succeed(taken)
            self._wake()


class Engine:
    """Runs tasks on `device` to idle.

    `engine` is "simpy", "compiled" or "auto" (`choice.chosen_engine`); all give the same Timeline, L2 and errors.
    `shared_gm` false gives every transfer its full port (the setting in which a max-plus recurrence is an oracle).
    `max_cycles` ends a run that gets longer. `core_order(count)` lists the cores in the order in which blocks get them
    (an experiment: a timeline must not depend on it). `run` raises DeadlockError, CycleLimitError beyond `max_cycles`, and
    SimError.
    """

    def __init__(
        self,
        device: Device,
        *,
        shared_gm: bool = True,
        max_cycles: int | None = None,
        progress: Progress | None = None,
        core_order: Callable[[int], list[int]] | None = None,
        engine: str | None = None,
    ) -> None:
        self.engine = chosen_engine(engine)
        self.device = device
        self.chip = device.chip
        self._shared_gm = shared_gm
        self._max_cycles = max_cycles
        self._progress = progress
        self._core_order = core_order or (lambda count: list(range(count)))

    def run(
        self, tasks: Sequence[Task], *, keep: bool | int = True, watch: bool = False, on_program: OnProgram | None = None
    ) -> Timeline:
        """Launch `tasks` (each stream in the given order), run until the device is idle, and return the Timeline. Raises as the
        class says.

        It begins at the device's clock, and changes its clock, L2 and launch history. With `keep` False the Timeline has no
        programs: each is dropped when its block ends, and only its totals are `watched`; a number keeps the programs of runs
        up to that many instructions. With `watch` a kept run has the totals too, which is cheaper than `watch.watched`
        afterwards. `on_program` is called with the task's index, the task and each of its programs when it was built.
        """
        self.env = simpy.Environment(initial_time=self.device.clock)
        self._on_program, watch = on_program, watch or keep is not True
        self._store = ColumnStore(SHORT if watch else MOST) if keep else None
        self._may_be_kept = sys.maxsize if keep is True else int(keep)
        end = max((tensor.base + tensor.room for task in tasks for tensor in task.tensors), default=0)
        self.device.l2.know(-(-end // self.chip.memory.l2_line_bytes))
        self._machine: Machine = new_machine(
            self.engine, self.env, self.chip, self.device.l2, self._shared_gm, self._store, watch, self._last()
        )
        self._cores = {kind: _Cores(self.env, self._core_order(count)) for kind, count in self._core_counts().items()}
        self._events: dict[str, simpy.Event] = {}
        self._unfinished: dict[RunningProgram, Task] = {}
        self._tickets = 0
        self._cold: set[int] = set()
        self._held_up: dict[int, tuple[Task, str]] = {}
        self._faults: list[tuple[tuple[int, ...], str]] = []
        timeline = Timeline([TaskRun(task, 0) for task in tasks], [], bool(keep))
        self._collected = Collected(tasks) if watch else None
        streams: dict[int, list[int]] = {}
        for index, task in enumerate(tasks):
            self._check(task)
            streams.setdefault(task.stream, []).append(index)
            for name in (*task.wait_events, *task.record_events):
                self._events.setdefault(name, self.env.event())
        self._streams_open = len(streams)
        for stream in streams.values():
            self.env.process(self._whole_stream(stream, timeline))
        if self._max_cycles is not None:
            Timer(self.env, lambda _: self._end_of_patience(timeline), simpy.events.URGENT, self._max_cycles + 1)
        try:
            with collector_paused():
                self.env.run(until=None)
                while any(run.issue_on() for run in self._unfinished):
                    self.env.run(until=None)
            if self._unfinished or self._held_up:
                self._end_of_patience(timeline)
                from ascend_sim.engine.deadlock import describe  # an error alone needs it

                raise DeadlockError(describe(self._unfinished, list(self._held_up.values()), tasks))
            if self._collected:
                timeline.watched = self._collected.watched(self._machine.in_gm(len(tasks)), self._machine.tables)
        finally:
            self._machine.close()
        timeline.programs.sort(key=lambda run: (run.task, run.program.block, run.program.core_kind, run.program.sub_block))
        self.device.clock = max(self.device.clock, timeline.finish)
        return timeline

    @property
    def hbm_bytes(self) -> int:
        """Return the bytes that HBM moved in the last run; 0 without shared GM."""
        return self._machine.hbm_bytes

    def _last(self) -> int | None:
        """Return the last cycle that the run may reach by `max_cycles`; None without a limit."""
        return None if self._max_cycles is None else self.device.clock + self._max_cycles

    def _core_counts(self) -> dict[str, int]:
        """Return {kind of core: their number} by which blocks are dealt; a coupled chip's AI_CORE is cube and vector unit."""
        cores = self.chip.cores
        return {"AI_CORE" if cores.coupled else "AIC": cores.aic, "AIV": cores.aiv}

    def _check(self, task: Task) -> None:
        """Raise SimError if the chip lacks the task's kind of core, or has too few for the blocks of an all-core barrier."""
        if not task.block_dim:
            return
        limit = self._core_counts().get(task.main_kind, 0)
        if task.core_kind == "MIX_VECTOR_CORE":
            limit = self.chip.cores.vector_units
        if not limit:
            raise SimError(
                f"{task.name} runs on {task.core_kind} cores, which {self.chip.name} does not have (chip file, cores)"
            )
        if task.all_cores and task.block_dim > limit:
            raise SimError(
                f"{task.name} has an all-core barrier and {task.block_dim} blocks, but {self.chip.name} has {limit} cores of "
                f"its kind (chip file, cores); all blocks of such a kernel must run at once"
            )

    def _whole_stream(self, indices: list[int], timeline: Timeline) -> Generator[simpy.Event, Any, None]:
        yield from self._stream(indices, timeline)
        self._streams_open -= 1

    def _end_of_patience(self, timeline: Timeline) -> None:
        """Raise CycleLimitError if the run is beyond `max_cycles`: an event is still to come, or a program has issued further.

        The latter counts even if it waits for something that never comes.
        """
        last = self._last()
        if last is None or not self._streams_open:
            return
        if self.env.peek() < simpy.core.Infinity or any(run.issued_until() > last for run in self._unfinished):
            running = next(run.task.name for run in timeline.tasks if not run.finish)
            raise CycleLimitError(f"{running}: still runs at the limit of {self._max_cycles} cycles")

    def _stream(self, indices: list[int], timeline: Timeline) -> Generator[simpy.Event, Any, None]:
        launch = self.chip.launch
        previous_end = None
        for index in indices:
            run = timeline.tasks[index]
            for name in run.task.wait_events:
                self._held_up[index] = (run.task, name)
                yield self._events[name]
            self._held_up.pop(index, None)
            run.launch = int(self.env.now)
            kind = run.task.main_kind
            if self.device.launch(run.task):
                self._cold.add(index)
            overhead_us = launch.task_overhead_us[kind]  # type: ignore[index]
            overhead_us += run.task.block_dim * launch.overhead_per_block_us.get(kind, 0.0)  # type: ignore[call-overload]
            if previous_end == run.launch:
                overhead_us = max(overhead_us - launch.hidden_us, 0.0)
            yield self.env.timeout(self.chip.cycles(overhead_us))
            yield from self._task(index, run, timeline)
            run.finish = previous_end = int(self.env.now)
            for name in run.task.record_events:
                if not self._events[name].triggered:
                    self._events[name].succeed()

    def _task(self, index: int, run: TaskRun, timeline: Timeline) -> Generator[simpy.Event, Any, None]:
        task = run.task
        run.begin = int(self.env.now)
        members = [core for block in range(task.block_dim) for core in task.cores(self.chip, block)]
        sync = self.chip.sync
        cross = CrossFlags(members, sync.cross_latency, sync.cross_flag_max)
        ticket, self._tickets = self._tickets, self._tickets + 1
        bases = [tensor.base for tensor in task.tensors]
        blocks = []
        at_once = max(task.block_dim, 1) if task.all_cores else 1  # a gang gets all its cores before its first block begins
        interval = self.chip.cycles(self.chip.launch.block_us.get(task.main_kind, 0.0))  # type: ignore[call-overload]
        earliest = run.begin  # of the next dispatch
        for first in range(0, task.block_dim, at_once):
            dealt: dict[str, list[int]] = {}
            per_block = Counter(kind for _, kind, _ in task.cores(self.chip, first))
            for kind in per_block:
                dealt[kind] = yield self._cores[kind].acquire(ticket, per_block[kind] * at_once)
            for place in range(at_once):
                if earliest > self.env.now:
                    yield self.env.timeout(earliest - self.env.now)
                earliest = int(self.env.now) + interval
                held = {kind: dealt[kind][place * per_block[kind] :][: per_block[kind]] for kind in per_block}
                blocks.append(self.env.process(self._block(index, task, first + place, held, cross, bases, timeline)))
        for done, process in enumerate(blocks):
            yield process
            if self._progress:
                self._progress(task.name, done + 1, task.block_dim)
        fault = cross.fault()
        if fault:
            yield self._refused(f"{task.name}: {fault}", index, task.block_dim)

    def _fetch_us(self, index: int, task: Task, kind: str) -> float:
        """Return the us by which a core of `kind` begins later because the code is fetched: cold, or beyond the cache."""
        launch, at_once = self.chip.launch, min(task.block_dim, self._core_counts().get(task.main_kind, task.block_dim))
        fetched = at_once * launch.uncached_per_block_us.get(task.template or task.op_type, 0.0)
        if index in self._cold:
            fetched += launch.cold_us.get(kind, 0.0) + at_once * launch.cold_per_block_us.get(kind, 0.0)  # type: ignore[call-overload]
        return fetched

    def _refused(self, error: str, *place: int) -> simpy.Event:
        """Record the error of a program or task that cannot go on, and return an event that never fires.

        `place` (task, block, ...) ranks errors: at the end of the instant the one with the smallest is raised, in whichever
        order they came.
        """
        if not self._faults:
            Timer(self.env, self._raise_first, simpy.events.EventPriority(_FAULTS))
        self._faults.append((place, error))
        return simpy.Event(self.env)

    def _raise_first(self, _: simpy.Event) -> None:
        raise SimError(min(self._faults)[1])

    def _block(
        self,
        index: int,
        task: Task,
        block: int,
        held: dict[str, list[int]],
        cross: CrossFlags,
        bases: Sequence[int],
        timeline: Timeline,
    ) -> Generator[simpy.Event, Any, None]:
        """Process of a block: build its programs, run each on its core in `held`, add them to `timeline`, free the cores."""
        now, launch = int(self.env.now), self.chip.launch
        prologue_us = launch.prologue_us.get(task.template or task.op_type, 0.0)
        runs: list[tuple[RunningProgram, int]] = []
        over = []
        for program in task.build(block):
            if self._on_program:
                self._on_program(index, task, program)
            self._may_be_kept -= len(program)
            if self._store and self._may_be_kept < 0:
                self._store, timeline.kept = None, False
                timeline.programs.clear()
                self._machine.keep_no_more()
            core = held[program.core_kind][program.sub_block]
            start_us = launch.core_start_us[program.core_kind]  # type: ignore[index]
            begin = now + self.chip.cycles(start_us + prologue_us + self._fetch_us(index, task, program.core_kind))
            core_run = self._machine.core(program, begin, order_of(index, program), cross, bases)
            self._unfinished[core_run] = task
            runs.append((core_run, core))
            over.append(core_run.run())
        for event in over:
            yield event
        for core_run, core in runs:
            del self._unfinished[core_run]
            span = now, core_run.begin, core_run.finish
            run = ProgramRun(index, core_run.program, core, *span[1:], core_run.columns(), core_run.queue_full, now)
            if self._collected:
                self._collected.add(index, run.program, core, span, self._machine.totals(core_run, run, bases))
            if self._store:
                timeline.programs.append(self._store.kept(run))
        for kind, numbers in held.items():
            self._cores[kind].release(numbers)
