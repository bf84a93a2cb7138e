"""Totals and hazards of a run, from the columns of its programs or noted while they run.

totals = watched(timeline)                       # of whatever run
totals.of_task[0].pipes["AIC", "MTE1"].busy      # cycles, summed over the task's programs
totals.findings                                  # its hazards

A run that is asked to `watch`, or keeps no columns, notes the totals of every program when its block ends; those of another
run are computed afterwards. The compiled engine counts while it runs (compiled/watch.c); numpy counts the same from columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.hazards import LIMIT, HazardList, Hazards, TimedAccesses
from ascend_sim.engine.occupancy import occupancy
from ascend_sim.engine.task import Task, order_of, task_of
from ascend_sim.engine.timeline import CAUSES, ProgramRun, Timeline
from ascend_sim.engine.totals import TOTALS, ProgramTotals, TaskTotals, Watched
from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.touches import SPACES
from ascend_sim.numerics.distinct import distinct


def watched(timeline: Timeline) -> Watched:
    """Return the totals and hazards of a run; if it did not collect them as it ran, they are computed once from its columns."""
    if timeline.watched is None:
        timeline.watched = from_columns([run.task for run in timeline.tasks], timeline.programs)
    found: Watched = timeline.watched
    return found


def from_columns(tasks: Sequence[Task], runs: Sequence[ProgramRun]) -> Watched:
    """Return the totals and hazards of the programs `runs` of `tasks`, computed from their columns."""
    collected, watch = Collected(tasks), ColumnWatch()
    for run in runs:
        totals = watch.add(run, [tensor.base for tensor in tasks[run.task].tensors])
        collected.add(run.task, run.program, run.core, (run.launch, run.begin, run.finish), totals)
    return collected.watched(watch.in_gm(), watch.tables)


class Collected:
    """Sums of a run's totals and hazards; programs are added as blocks end, in any order."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._of_task = [TaskTotals() for _ in tasks]
        self._hazards = HazardList()

    def add(self, task: int, program: Program, core: int, span: tuple[int, int, int], totals: ProgramTotals) -> None:
        """Add one finished program of core number `core`; `span` has the cycles of its dispatch, begin and end."""
        self._of_task[task].add(program, core, span, totals)
        self._hazards.add(order_of(task, program), totals.hazards)

    def watched(self, in_gm: Mapping[int, Hazards], tables: Sequence[InstructionTable]) -> Watched:
        """Return all totals and findings; `in_gm` has the hazards in GM by task, `tables` the instruction tables by number."""
        for totals in self._of_task:
            totals.settle()
        return Watched(self._of_task, self._hazards.findings(self._tasks, in_gm, tables))


class ColumnWatch:
    """Finder of totals and hazards of finished programs in their columns; compiled/watch.c finds the same during the run."""

    def __init__(self) -> None:
        self.tables: list[InstructionTable] = []
        self._numbers: dict[int, int] = {}
        self._gm: list[TimedAccesses] = []

    def add(self, run: ProgramRun, bases: Sequence[int]) -> ProgramTotals:
        """Return the totals of one program with the hazards in its buffers; its accesses to GM are kept for `in_gm`.

        `bases` are the addresses of its task's tensors.
        """
        program = run.program
        number = self._numbers.setdefault(id(program.table), len(self.tables))
        if number == len(self.tables):
            self.tables.append(program.table)
        local = TimedAccesses.of(run, number, bases, *SPACES[1:]).hazards()
        self._gm.append(TimedAccesses.of(run, number, bases, "GM"))
        return ProgramTotals(_numbers(run), Hazards(local[:LIMIT], len(local)))

    def in_gm(self) -> dict[int, Hazards]:
        """Return {index of the later access's task: hazards in GM} among all programs added, the first LIMIT as records."""
        if not self._gm:
            return {}
        records = TimedAccesses.joined(self._gm).hazards()
        tasks = np.array([task_of(order) for order in records["program"][:, 1].tolist()], np.int64)
        found = {index: records[tasks == index] for index in distinct(tasks).tolist()}
        return {index: Hazards(mine[:LIMIT], len(mine)) for index, mine in found.items()}


def _numbers(run: ProgramRun) -> NDArray[np.void]:
    """Return the totals of a program as one record of dtype TOTALS, without hazards."""
    numbers, pipe, busy = np.zeros(1, TOTALS), run.program.per_row("pipe"), run.busy()
    conflicts = run.program.bank_cycles().sum(axis=0)
    for place, name in enumerate(PIPES):
        own, found = pipe == place, numbers["pipes"][0, place]
        found["rows"], found["busy"], found["end"] = own.sum(), busy[name], run.end[own].max(initial=run.begin)
        for cause, cycles in run.stalls(name).items():
            found["stalls"][CAUSES.index(cause)] = cycles
        found["l2_wait"], found["hbm_wait"] = run.l2_wait[own].sum(), run.hbm_wait[own].sum()
        found["bank_conflicts"] = conflicts[own].sum()
    for column in ("hbm_bytes", "l2_hits", "l2_misses"):
        numbers[column] = getattr(run, column).sum()
    for name in run.program.table.chip.cores.kinds[run.program.core_kind].buffers:  # type: ignore[index]
        curve = occupancy(run, name)
        numbers["peak"][0, SPACES.index(name)] = curve.peak
        numbers["area"][0, SPACES.index(name)] = (curve.held[:-1] * np.diff(curve.time)).sum()
    return numbers
