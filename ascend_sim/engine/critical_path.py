"""Critical path of a run: the chain of instructions and waits from its first cycle to its last.

    path = critical_path(timeline)
    path[0].begin, path[-1].end        # launch of the first task, end of the last: the steps lie end to end between them
    by_what(path)                      # {"MTE1": 41200, "launch": 5760, ...} cycles

It is found backwards, from the last retirement: whatever an instruction waited for longest (its pipe, its flag, its issue,
a place in a queue, the outstanding limit, a barrier) is followed, until the launch of the first task is reached. A step
of the path that takes a cycle longer makes the run a cycle longer, as long as transfers do not share bandwidth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.flags import cross_pairs, flag_pairs
from ascend_sim.engine.timeline import ProgramRun, Timeline
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_WAIT, LOCAL, PIPES, TRANSFER, WAIT
from ascend_sim.isa.sync import CrossCoreWaitFlag, ScalarWait

LAUNCH, DISPATCH, CORE_START, HOST = "launch", "dispatch", "core start", "host"
ISSUE, SCALAR_TIME, LATENCY = "issue", "scalar", "latency"
FLAG, UNIT_FLAG, CROSS_FLAG, BARRIER_TIME = "flag", "unit flag", "cross-core flag", "barrier"
KINDS = (*PIPES[1:], LATENCY, FLAG, UNIT_FLAG, BARRIER_TIME, ISSUE, SCALAR_TIME, CROSS_FLAG, CORE_START, DISPATCH, LAUNCH, HOST)
"""Kinds of steps of the path: work on a pipe (its name), or another consumer of time."""

PIPE_BUSY, QUEUE_FULL, LIMIT, ISSUED = "pipe busy", "queue full", "outstanding limit", "issue"
TASK_BEGAN, TASK_OVER, CORE_FREE, IN_TURN = "task begins", "task before", "core free", "block before"
DIRECT = ""
_HELD = {WAIT: FLAG, CROSS_WAIT: CROSS_FLAG, BARRIER: BARRIER_TIME}
"""Kind of a waiting row before an instruction on its pipe -> the reason why the pipe was held."""

_START, _END, _RETIRE, _ISSUED, _BEGIN, _DISPATCH, _FINISH = range(7)
_TASK_END, _TASK_BEGIN, _TASK_LAUNCH = range(7, 10)
_Node = tuple[int, int, int]
"""One event of the walk: (its kind, one of the numbers above; the program or task; the row or -1)."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """One piece of the path, cycles `begin` to `end`: `what` (one of KINDS) took the time.

    `because` says which constraint let it begin no earlier (pipe busy, flag, issue, queue full, outstanding limit, ...);
    "" where it simply follows the step before. `program` indexes the Timeline's programs and `row` their rows; -1
    where a step belongs to none. Steps of issue cover the `rows` rows that end at `row`.
    """

    begin: int
    end: int
    what: str
    because: str
    task: int
    program: int = -1
    row: int = -1
    rows: int = 1

    @property
    def cycles(self) -> int:
        """Return the length of the step in cycles."""
        return self.end - self.begin


def critical_path(timeline: Timeline) -> list[PathStep]:
    """Return the steps of the critical path, from the first launch to the last finish, in the order of time; [] without tasks.

    In a timeline that kept no programs the time between a task's begin and finish is one step, HOST.
    """
    return _Walk(timeline).steps() if timeline.tasks else []


def by_what(path: Sequence[PathStep], task: int | None = None) -> dict[str, int]:
    """Return {kind of step: its cycles in the path}, longest first; with `task` only of that task's steps."""
    cycles: dict[str, int] = {}
    for step in path:
        if task is None or step.task == task:
            cycles[step.what] = cycles.get(step.what, 0) + step.cycles
    return dict(sorted(cycles.items(), key=lambda item: -item[1]))


class _PathRows:
    """The rows of one program with the relations that the walk needs; all follow from the Timeline alone."""

    def __init__(self, run: ProgramRun) -> None:
        self.run = run
        program, chip = run.program, run.program.table.chip
        self.kind, self.pipe = program.per_row("kind"), program.per_row("pipe")
        self.issue = program.issue_cycles
        self.lead = np.where(self.kind == WAIT, program.per_row("lead"), 0)
        self.before = np.full(len(program), -1)
        """The row before on the same pipe."""
        self.done = np.full(len(program), -1)
        """The last row before that did work on the same pipe."""
        self.limiting = np.full(len(program), -1)
        """The row whose retirement the outstanding limit asks for."""
        self.slot = np.full(len(program), -1)
        """The row that must have left the queue for this one to get its place."""
        works = np.isin(self.kind, (LOCAL, TRANSFER))
        for number in range(1, len(PIPES)):
            rows = np.flatnonzero(self.pipe == number)
            depth = chip.sync.queue_depth.get(PIPES[number], 0)  # type: ignore[call-overload]
            outstanding = chip.sync.outstanding.get(PIPES[number], 0)  # type: ignore[call-overload]
            working = rows[works[rows]]
            count: NDArray[np.int64] = np.cumsum(works[rows]) - works[rows]  # working rows before each
            self.before[rows[1:]] = rows[:-1]
            if depth:
                self.slot[rows[depth:]] = rows[:-depth]
            if len(working):
                self.done[rows] = np.where(count > 0, working[count - 1], -1)
                far = works[rows] & (count >= outstanding)
                self.limiting[rows[far]] = working[count[far] - outstanding]

    @cached_property
    def passed(self) -> NDArray[np.int64]:
        """Return for each row the cycle at which it began; for a wait the cycle at which it was over."""
        return np.where(np.isin(self.kind, (WAIT, CROSS_WAIT)), self.run.end, self.run.start)

    @cached_property
    def left(self) -> NDArray[np.int64]:
        """Return for each row the cycle at which it left its pipe's queue.

        A wait for a unit flag that began early keeps its place until the flag arrives, and so do the rows behind it.
        """
        left = self.passed.copy()
        for rows in self.of_pipe:
            known = np.where(self.lead[rows] > 0, self.run.retire[rows], self.run.begin)
            left[rows] = np.maximum(left[rows], np.maximum.accumulate(known))
        return left

    def kept_by(self, row: int) -> int:
        """Return the row of the unit flag's wait that kept `row` in its queue after it began (a wait: ended); -1 for none."""
        if self.left[row] == self.passed[row]:
            return -1
        rows = self.of_pipe[int(self.pipe[row])]
        return int(rows[(self.lead[rows] > 0) & (self.run.retire[rows] == self.left[row])][0])

    @cached_property
    def issued(self) -> NDArray[np.int64]:
        """Return for each row the cycle at which it entered its pipe's queue; for rows of the scalar unit their end."""
        run = self.run
        free = np.where(self.slot >= 0, self.left[self.slot], run.begin)
        earliest = np.where(self.pipe == 0, run.end, free)
        so_far = self.issue * np.arange(1, len(free) + 1)
        return so_far + np.maximum.accumulate(np.maximum(earliest - so_far, run.begin))

    @cached_property
    def sets(self) -> dict[int, int]:
        """Return {row of a wait: row of the set that it waits for}, for flags inside the core."""
        return flag_pairs(self.run)

    def last(self, number: int, row: int) -> int:
        """Return the last row of pipe `number` before `row`, or -1."""
        rows = self.of_pipe[number]
        place = int(np.searchsorted(rows, row))
        return int(rows[place - 1]) if place else -1

    @cached_property
    def of_pipe(self) -> list[NDArray[np.int64]]:
        """Return a list with the ascending rows of every pipe."""
        return [np.flatnonzero(self.pipe == number) for number in range(len(PIPES))]


class _Walk:
    """Walk from the end of a Timeline back to its beginning; each step follows the constraint that was met last."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._rows: dict[int, _PathRows] = {}
        self._cross: dict[_Node, tuple[int, int]] | None = None
        self._origin = min(run.launch for run in timeline.tasks)
        self._of_task: dict[int, list[int]] = {index: [] for index in range(len(timeline.tasks))}
        for index, run in enumerate(timeline.programs):
            self._of_task[run.task].append(index)

    def steps(self) -> list[PathStep]:
        tasks = self._timeline.tasks
        last = max(range(len(tasks)), key=lambda index: tasks[index].finish)
        node: _Node | None = (_TASK_END, last, -1)
        time = tasks[last].finish
        found: list[PathStep] = []
        while node is not None:
            before, at, what, because = self._before(node)
            if at == time and found:
                if not found[-1].because:
                    found[-1] = replace(found[-1], because=because)
            elif at < time:
                kind, index, row = node
                program = index if kind < _TASK_END else -1
                task = self._timeline.programs[index].task if program >= 0 else index
                step = PathStep(at, time, what, DIRECT, task, program, row)
                if found and what == ISSUE == found[-1].what and found[-1].program == program:
                    later = found.pop()
                    step = replace(later, begin=at, rows=later.rows + 1, because=DIRECT)
                found.append(step)
            node, time = before, at
        return found[::-1]

    # -- one step back: (what happened before, when, what took the time since, why it began then) ----------------------

    def _before(self, node: _Node) -> tuple[_Node | None, int, str, str]:
        """Return the node that `node` waited for last (None: the beginning), its cycle, the kind of time between, and why."""
        kind, index, row = node
        if kind == _TASK_END:
            return self._task_end(index)
        if kind == _TASK_BEGIN:
            return (_TASK_LAUNCH, index, -1), self._timeline.tasks[index].launch, LAUNCH, DIRECT
        if kind == _TASK_LAUNCH:
            return self._task_launch(index)
        run = self._timeline.programs[index]
        if kind == _BEGIN:
            return (_DISPATCH, index, -1), run.launch, CORE_START, DIRECT
        if kind == _DISPATCH:
            return self._dispatch(index)
        rows = self._of(index)
        if kind == _FINISH:
            return self._finish(index, rows)
        if kind == _ISSUED:
            return self._issued(index, row, rows)
        if kind == _START:
            return self._start(index, row, rows)
        if kind == _RETIRE:
            return self._retire(index, row, rows)
        return self._end(index, row, rows)

    def _of(self, index: int) -> _PathRows:
        if index not in self._rows:
            self._rows[index] = _PathRows(self._timeline.programs[index])
        return self._rows[index]

    def _task_end(self, task: int) -> tuple[_Node, int, str, str]:
        span = self._timeline.tasks[task]
        programs = self._of_task[task]
        last = max(programs, key=lambda index: self._timeline.programs[index].finish, default=None)
        if last is None or self._timeline.programs[last].finish < span.finish:
            return (_TASK_BEGIN, task, -1), span.begin, HOST, DIRECT
        return (_FINISH, last, -1), span.finish, HOST, DIRECT

    def _task_launch(self, task: int) -> tuple[_Node | None, int, str, str]:
        """Return the node before a task's launch, its cycle, the kind of the time between them, and the reason.

        It is the end of the task that was over last, or the beginning of the run (None).
        """
        tasks = self._timeline.tasks
        launch = tasks[task].launch
        if launch <= self._origin:
            return None, launch, HOST, DIRECT
        over = [i for i, other in enumerate(tasks) if i != task and other.launch < launch >= other.finish]
        if not over:
            return None, self._origin, HOST, DIRECT
        last = max(over, key=lambda i: (tasks[i].finish, tasks[i].task.stream == tasks[task].task.stream, i))
        return (_TASK_END, last, -1), tasks[last].finish, HOST, TASK_OVER

    def _dispatch(self, index: int) -> tuple[_Node, int, str, str]:
        """Return the node before a block's dispatch, its cycle, the kind of the time between them, and the reason.

        It is the start of its task, an earlier dispatch, or the end of a block that freed a core: whichever allowed the
        dispatch last.
        """
        run = self._timeline.programs[index]
        chip, launch = run.program.table.chip, run.launch
        choices: list[tuple[int, int, _Node, int, str]] = []
        begin = self._timeline.tasks[run.task].begin
        choices.append((begin, 3, (_TASK_BEGIN, run.task, -1), begin, TASK_BEGAN))
        kind = "AIC" if self._timeline.tasks[run.task].task.core_kind == "MIX" else run.program.core_kind
        interval = chip.cycles(chip.launch.block_us.get(kind, 0.0))  # type: ignore[call-overload]
        for other in self._of_task[run.task]:
            earlier = self._timeline.programs[other]
            if earlier.program.block < run.program.block and earlier.launch + interval <= launch:
                choices.append((earlier.launch + interval, 2, (_DISPATCH, other, -1), earlier.launch, IN_TURN))
        for other, before in enumerate(self._timeline.programs):
            if before.finish <= launch and before.launch < launch:
                same = before.core == run.core and before.program.core_kind == run.program.core_kind
                choices.append((before.finish, int(same), (_FINISH, other, -1), before.finish, CORE_FREE))
        _, _, node, at, because = max(choices, key=lambda choice: choice[:2])
        return node, at, DISPATCH, because

    def _finish(self, index: int, rows: _PathRows) -> tuple[_Node, int, str, str]:
        """Return the node after which the block was over, its cycle, the kind of the time between them, and the reason.

        It is the latest of the last row's issue and, of every pipe but the scalar unit, the end of its last row and the
        retirement of its last work; of a block without rows its beginning.
        """
        run = rows.run
        choices: list[tuple[int, _Node]] = [(run.begin, (_BEGIN, index, -1))]
        if len(run.start):
            end = len(run.start) - 1
            choices.append((int(rows.issued[end]), (_ISSUED, index, end)))
        choices += self._drained(index, len(run.start), rows)
        at, node = max(choices, key=lambda choice: choice[0])
        return node, at, HOST, DIRECT

    @staticmethod
    def _drained(index: int, row: int, rows: _PathRows, only: int | None = None) -> list[tuple[int, _Node]]:
        """Return (cycle, node) of the end of the last row before `row`, and of the retirement of the last work.

        Both are of every pipe but the scalar unit, or of pipe `only`.
        """
        found: list[tuple[int, _Node]] = []
        for number in range(1, len(PIPES)) if only is None else (only,):
            last = rows.last(number, row)
            if last >= 0:
                found.append((int(rows.run.end[last]), (_END, index, last)))
                done = last if rows.kind[last] in (LOCAL, TRANSFER) else int(rows.done[last])
                if done >= 0:
                    found.append((int(rows.run.retire[done]), (_RETIRE, index, done)))
        return found

    def _issued(self, index: int, row: int, rows: _PathRows) -> tuple[_Node, int, str, str]:
        """Return the node before a row was issued, its cycle, the kind of the time between them, and the reason.

        For a row of the scalar unit it is the row's own end. Else it is the issue of the row before it (of the first row the
        block's beginning), or, if the queue was full, the row that freed the place, or the set of a unit flag for which that
        row waited.
        """
        if rows.pipe[row] == 0:
            return (_END, index, row), int(rows.run.end[row]), ISSUE, DIRECT
        earlier, at = self._previous_issue(index, row, rows)
        time = int(rows.issued[row])
        if time > at + rows.issue:
            slot = int(rows.slot[row])
            kept_by = rows.kept_by(slot)
            if kept_by >= 0:
                return *self._raised_inside(index, kept_by, rows), FLAG, QUEUE_FULL
            over = _END if rows.kind[slot] in (WAIT, CROSS_WAIT) else _START
            return (over, index, slot), time, ISSUE, QUEUE_FULL
        return earlier, at, ISSUE, DIRECT

    def _previous_issue(self, index: int, row: int, rows: _PathRows) -> tuple[_Node, int]:
        if row == 0:
            return (_BEGIN, index, -1), rows.run.begin
        return (_ISSUED, index, row - 1), int(rows.issued[row - 1])

    def _start(self, index: int, row: int, rows: _PathRows) -> tuple[_Node, int, str, str]:
        """Return the node that let a row start, its cycle, the kind of the time between them, and the reason.

        The row's pipe became free, an earlier row retired (outstanding limit), or the row was issued.
        """
        run, at = rows.run, int(rows.run.start[row])
        if rows.pipe[row] == 0:
            node, at = self._previous_issue(index, row, rows)
            return node, at, ISSUE, ISSUED
        before, limiting = int(rows.before[row]), int(rows.limiting[row])
        if before >= 0 and run.end[before] == at:
            return (_END, index, before), at, ISSUE, _HELD.get(int(rows.kind[before]), PIPE_BUSY)
        if limiting >= 0 and run.retire[limiting] == at:
            return (_RETIRE, index, limiting), at, ISSUE, LIMIT
        return (_ISSUED, index, row), at, ISSUE, ISSUED

    def _retire(self, index: int, row: int, rows: _PathRows) -> tuple[_Node, int, str, str]:
        """Return the node before a row's retirement, its cycle, the kind of the time between them, and the reason.

        It is the row's end, a latency earlier, or the retirement of an earlier row of the pipe.
        """
        run = rows.run
        at, done = int(run.retire[row]), int(rows.done[row])
        if at > run.end[row] and done >= 0 and run.retire[done] == at:
            return (_RETIRE, index, done), at, LATENCY, DIRECT
        return (_END, index, row), int(run.end[row]), LATENCY, DIRECT

    def _end(self, index: int, row: int, rows: _PathRows) -> tuple[_Node, int, str, str]:
        """Return the node before a row's end, its cycle, the kind of the time between them, and the reason.

        It is the row's start; for a wait or barrier that held its pipe, the set or retirement that it waited for; for a unit
        flag's, the start of the setter's last work.
        """
        run, kind = rows.run, int(rows.kind[row])
        start, end = int(run.start[row]), int(run.end[row])
        own: _Node = (_START, index, row)
        if kind == WAIT and end > start:
            if rows.lead[row]:  # it follows what the setter's last work does piece by piece
                work = int(rows.done[rows.sets[row]])
                return (_START, index, work), int(run.start[work]), UNIT_FLAG, DIRECT
            return *self._raised_inside(index, row, rows), FLAG, DIRECT
        if kind == CROSS_WAIT and end > start:
            waiting = run.program.table.instructions[int(run.program.rows[row, 0])]
            assert isinstance(waiting, CrossCoreWaitFlag)
            if waiting.armed:
                setter, raised = self._raised(index, row)
                other = self._of(setter)
                at = int(other.run.retire[raised])
                late = at > other.run.start[raised]
                node = self._set((_RETIRE if late else _START, setter, raised), other)
                return node, at, CROSS_FLAG, DIRECT
        if kind == BARRIER:
            done = int(rows.done[row])
            if done >= 0 and run.retire[done] > start:
                return (_RETIRE, index, done), int(run.retire[done]), BARRIER_TIME, DIRECT
            return own, start, BARRIER_TIME, DIRECT
        if kind == BARRIER_ALL:
            waits = run.program.table.instructions[int(run.program.rows[row, 0])]
            only = PIPES.index(waits.on) if isinstance(waits, ScalarWait) else None
            at, node = max(self._drained(index, row, rows, only), key=lambda choice: choice[0], default=(-1, own))
            if at > start + rows.issue:
                return node, at, BARRIER_TIME, DIRECT
            return own, start, BARRIER_TIME, DIRECT
        what = SCALAR_TIME if rows.pipe[row] == 0 else PIPES[rows.pipe[row]]
        return own, start, what, DIRECT

    def _raised_inside(self, index: int, wait: int, rows: _PathRows) -> tuple[_Node, int]:
        """Return (node that raised the flag of the wait in row `wait`, its cycle), for flags inside the core."""
        raised, run = rows.sets[wait], rows.run
        late = run.retire[raised] > run.start[raised]
        return self._set((_RETIRE if late else _START, index, raised), rows), int(run.retire[raised])

    @staticmethod
    def _set(node: _Node, rows: _PathRows) -> _Node:
        """Return the node at which a flag goes up: of a set that waits for retirement, the last work before it on its pipe."""
        kind, index, row = node
        return (_RETIRE, index, int(rows.done[row])) if kind == _RETIRE else node

    def _raised(self, index: int, row: int) -> tuple[int, int]:
        """Return (program, row) of the set that ended the cross-core wait in a row."""
        if self._cross is None:
            pairs = cross_pairs(self._timeline.programs)
            self._cross = {(_END, *wait): raised for wait, raised in pairs.items()}
        return self._cross[_END, index, row]
