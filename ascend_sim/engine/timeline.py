"""Timelines of a run: int64 columns for each program, spans for each task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.task import Task
from ascend_sim.frozen import mutable
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, DISARMED, PIPES, SCALAR, SET, WAIT
from ascend_sim.kernel.program import Program

CAUSES = (
    "none", "queue full", "flag", "pipe busy", "port", "L2 share", "HBM share", "cross-core", "outstanding limit",
    "nothing to do",
)  # fmt: skip
"""Causes of a stall of a pipe; the position is the code in the column `cause`."""
_CAUSE = {name: code for code, name in enumerate(CAUSES)}
_HELD = {WAIT: "flag", BARRIER: "pipe busy", CROSS_WAIT: "cross-core"}
"""Kind of a row that holds its pipe -> the cause of the stall."""
_ZERO_KINDS = (SET, WAIT, DISARMED, BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT)


OF_ALL = ("start", "end", "retire", "stall", "cause")
"""Columns of every row, in the order of the C struct."""
OF_MOVES = ("l2_wait", "hbm_wait", "l2_hits", "l2_misses", "hbm_bytes")
"""Columns of transfers, in the order of the C struct; 0 in other rows."""
TIMES = OF_ALL + OF_MOVES
"""All columns of a program's timeline."""


class _Column:
    """Attribute of `ProgramRun` that reads the column of its name."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, run: ProgramRun, _: type | None = None) -> NDArray[np.int64]:
        return run.columns[self._name]


@mutable(eq=False)
class ProgramRun:
    """The timeline of one program: a row per instruction in issue order, all times in cycles.

    `start`, `end` (of occupancy; of waiting for waits), `retire`; `stall` is the cycles in which the pipe stood still before
    the row or in it, `cause` the reason (index into CAUSES); `l2_wait`, `hbm_wait` are cycles in which others slowed a
    transfer, `l2_hits` and `l2_misses` its lines that were in the L2 and those that got a place there (lines that bypass it are
    neither), `hbm_bytes` the bytes that HBM moved for it (write-backs that it caused included). `core` is the core that ran it,
    `begin` and `finish` the program's span on it, `launch` the cycle of its block's dispatch, `queue_full` the cycles in which
    the scalar unit waited for a place in a queue. `columns` has all of `TIMES`, which may be unpacked when they are read.
    """

    task: int
    program: Program
    core: int
    begin: int
    finish: int
    columns: Mapping[str, NDArray[np.int64]]
    queue_full: int
    launch: int = 0

    start, end, retire, stall, cause = _Column(), _Column(), _Column(), _Column(), _Column()
    l2_wait, hbm_wait, l2_hits, l2_misses, hbm_bytes = _Column(), _Column(), _Column(), _Column(), _Column()

    def __repr__(self) -> str:
        of = f"task {self.task}, {self.program.where}, on core {self.core}"
        return f"<ProgramRun of {of}: {len(self.program):,} instructions, cycles {self.begin:,} to {self.finish:,}>"

    def read_at(self) -> NDArray[np.int64]:
        """Return for each row the cycle at which it has read its operands: its start, or its end if it reads until then."""
        return np.where(self.program.per_row("reads_late") > 0, self.end, self.start)

    def busy(self) -> dict[str, int]:
        """Return {pipe: cycles that it was occupied}; flags, waits and barriers count 0, but for waits `at_work`.

        Issuing occupies the scalar unit.
        """
        kind = self.program.per_row("kind")
        pipe = self.program.per_row("pipe")
        idle = np.isin(kind, _ZERO_KINDS) & ~at_work(self.program)
        length = np.where(idle, 0, self.end - self.start)
        cycles = np.bincount(pipe, weights=length, minlength=len(PIPES))
        issue = self.program.issue_cycles
        busy = {name: int(cycles[p]) for p, name in enumerate(PIPES)}
        busy["S"] += issue * int(np.count_nonzero(kind != SCALAR))
        return busy

    def stalls(self, pipe: str) -> dict[str, int]:
        """Return {cause: cycles} that a pipe stood still inside the block's span; with `busy` they add up to the span.

        Zeros are left out.
        """
        if pipe == "S":
            rows = self.program.per_row("pipe") == 0
            cycles = np.bincount(self.cause[rows], weights=self.stall[rows], minlength=len(CAUSES))
            causes = {name: int(cycles[code]) for code, name in enumerate(CAUSES)} | {"queue full": self.queue_full}
            rest = self.finish - self.begin - self.busy()["S"] - sum(causes.values())
            causes["nothing to do"] += rest
        else:
            rows = self.program.per_row("pipe") == PIPES.index(pipe)
            kind = self.program.per_row("kind")[rows]
            holds = np.isin(kind, tuple(_HELD)) & ~at_work(self.program)[rows]
            held = np.where(holds, (self.end - self.start)[rows], 0)
            gap = self.stall[rows] - held
            before = np.where(held > 0, _CAUSE["nothing to do"], self.cause[rows])
            cycles = np.bincount(before, weights=gap, minlength=len(CAUSES))
            for waiting, name in _HELD.items():
                cycles[_CAUSE[name]] += held[kind == waiting].sum()
            causes = {name: int(cycles[code]) for code, name in enumerate(CAUSES)}
            last = int(self.end[rows].max(initial=self.begin))
            causes["nothing to do"] += self.finish - last
        return {name: count for name, count in causes.items() if count}


@mutable
class TaskRun:
    """Span of a task in cycles: `launch` when its stream took it up (its events had come), `begin` when its launch overhead was
    over (its blocks may still wait for cores), `finish` when its last block ended.

    `begin` and `finish` are 0 until they are known.
    """

    task: Task
    launch: int
    begin: int = 0
    finish: int = 0

    def __repr__(self) -> str:
        return f"<TaskRun of {self.task.name}: launched at cycle {self.launch:,}, {self.begin:,} to {self.finish:,}>"


@mutable
class Timeline:
    """All programs of a run: tasks in the order in which the engine was given them, programs by task and block.

    A run that was not `kept` has no programs, only its totals and hazards in `watched` (`engine.totals.Watched`);
    `engine.watch.watched` returns them for every run.
    """

    tasks: list[TaskRun] = field(default_factory=list)
    programs: list[ProgramRun] = field(default_factory=list)
    kept: bool = True
    watched: Any = None

    def __repr__(self) -> str:
        held = f"{len(self.programs):,} programs" if self.kept else "no programs kept"
        return f"<Timeline of {len(self.tasks)} kernels: {held}, {self.finish - self.launch:,} cycles>"

    def of(self, task: int) -> list[ProgramRun]:
        """Return the programs of task number `task`, by block, kind of core and sub-block; [] if none were kept."""
        return [run for run in self.programs if run.task == task]

    @property
    def launch(self) -> int:
        """Return the cycle of the first task's launch; 0 without tasks."""
        return min((run.launch for run in self.tasks), default=0)

    @property
    def finish(self) -> int:
        """Return the cycle at which the last task ended; 0 without tasks."""
        return max((run.finish for run in self.tasks), default=0)


def at_work(program: Program) -> NDArray[np.bool_]:
    """Return True for each row that is a wait during which its pipe counts as busy."""
    return (program.per_row("kind") == WAIT) & (program.per_row("at_work") > 0)


def stall_columns(
    program: Program, begin: int, start: NDArray[np.int64], end: NDArray[np.int64], limited: dict[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (stall cycles, cause as index into CAUSES) of every row: the gap before it on its pipe, and for a wait or barrier
    its length.

    Waits `at_work` have no length, rows of the scalar unit no gap. `limited` maps rows held back by the outstanding limit to
    the cycles. If a row has a gap and a length, the longer one is its cause.
    """
    kind, pipe = program.per_row("kind"), program.per_row("pipe")
    stall = np.zeros(len(program), np.int64)
    cause = np.zeros(len(program), np.int64)
    for p in range(1, len(PIPES)):
        rows = np.flatnonzero(pipe == p)
        if not len(rows):
            continue
        before = np.concatenate(([begin], end[rows[:-1]]))
        gap = start[rows] - before
        stall[rows] = gap
        cause[rows] = np.where(gap > 0, _CAUSE["nothing to do"], 0)
    for row, cycles in limited.items():
        if cycles == stall[row]:
            cause[row] = _CAUSE["outstanding limit"]
    for waiting, name in ((WAIT, "flag"), (BARRIER, "pipe busy"), (BARRIER_ALL, "pipe busy"), (CROSS_WAIT, "cross-core")):
        rows = np.flatnonzero((kind == waiting) & ~at_work(program))
        held = end[rows] - start[rows]
        if waiting == BARRIER_ALL:
            held = held - program.issue_cycles
        # A wait that also has a gap before it: the longer part names the cause of the row; `stalls` keeps them apart.
        cause[rows] = np.where(held >= stall[rows], np.where(held > 0, _CAUSE[name], cause[rows]), cause[rows])
        stall[rows] += held
    return stall, cause
