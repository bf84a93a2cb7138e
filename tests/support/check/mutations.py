"""Mistakes made by machine in kernels that are right: a wait disarmed, two flags swapped, an address shifted.

Unlike the pairs of `bugs` such a mistake need not be one: the wait may be implied by others, and what a shifted address reads
may be initialised memory of the same tensor. So a share is counted, and the rest is listed by what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ascend_sim.check.findings import CheckReport
from ascend_sim.check.run import check_tasks
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import WAIT
from ascend_sim.isa.sync import CrossCoreWaitFlag, WaitFlag
from ascend_sim.kernel.program import Program
from ascend_sim.memory.regions import Region

KINDS = ("disarmed", "swapped", "shifted")


@dataclass(frozen=True)
class Mutation:
    """One mistake: its kind, what it is, and the programs of every block with it."""

    kind: str
    what: str
    change: Callable[[Program], Program]


@dataclass
class MutatedSubject:
    """Tasks on a chip with their programs, built once."""

    chip: ChipSpec
    tasks: Sequence[Task]
    roles: dict[str, str]
    strict: bool

    def __post_init__(self) -> None:
        self.programs = [[task.build(block) for block in range(task.block_dim)] for task in self.tasks]

    def check(self, task: int, change: Callable[[Program], Program]) -> CheckReport:
        """The report with the programs of one task changed."""
        made = []
        for number, (one, blocks) in enumerate(zip(self.tasks, self.programs, strict=True)):
            changed = [[change(p) for p in programs] for programs in blocks] if number == task else blocks
            made.append(replace(one, build=changed.__getitem__))
        return check_tasks(self.chip, made, roles=self.roles, strict=self.strict)


def mutations(subject: MutatedSubject, task: int) -> Iterator[Mutation]:
    """All waits, pairs of flags and shifts of a task, one for each flag or distinct instruction and operand."""
    programs = [program for block in subject.programs[task] for program in block]
    tables = {id(p.table): p.table for p in programs}
    used = {id(t): set() for t in tables.values()}
    for program in programs:
        used[id(program.table)] |= set(np.unique(program.rows[:, 0]).tolist())
    for table in tables.values():
        instructions = [(i, table.instructions[i]) for i in sorted(used[id(table)])]
        waits = [(i, one) for i, one in instructions if isinstance(one, WaitFlag) and one.kind == WAIT]
        for i, one in waits:
            other = table.index.get(key := (WaitFlag, one.source, one.destination, one.flag, False))
            yield Mutation("disarmed", str(one), _renamed(table, {i: table.add(key) if other is None else other}))
        for i, cross in instructions:
            if isinstance(cross, CrossCoreWaitFlag):
                key = (CrossCoreWaitFlag, cross.flag, cross.mode, cross.on, False)
                other = table.index.get(key)
                yield Mutation("disarmed", str(cross), _renamed(table, {i: table.add(key) if other is None else other}))
        for (i, one), (j, two) in pairwise(waits):
            if (one.source, one.destination) == (two.source, two.destination):
                yield Mutation("swapped", f"{one} and {two}", _renamed(table, {i: j, j: i}))
        for i, moving in instructions:
            for region in (*moving.reads(), *moving.writes()):
                column = {"dst": 1, "src0": 2, "src1": 3}[region.operand]
                step = _step(subject.chip, region)
                yield Mutation("shifted", f"{moving.name} {region.operand} in {region.space}", _moved(table, i, column, step))


def _step(chip: ChipSpec, region: Region) -> int:
    """Its own length on: what it meant to touch it does not touch at all, or the part that an address unit makes."""
    return max(chip.alignment.unit(region.space), 32)


def _renamed(table: Any, numbers: dict[int, int]) -> Callable[[Program], Program]:
    def change(program: Program) -> Program:
        if program.table is not table:
            return program
        rows = program.rows.copy()
        for old, new in numbers.items():
            rows[program.rows[:, 0] == old, 0] = new
        return program.with_rows(rows)

    return change


def _moved(table: Any, instruction: int, column: int, step: int) -> Callable[[Program], Program]:
    """The first row of that instruction in every program goes one step further."""

    def change(program: Program) -> Program:
        found = np.flatnonzero(program.rows[:, 0] == instruction)
        if program.table is not table or not len(found):
            return program
        rows = program.rows.copy()
        rows[found[0], column] += step
        return program.with_rows(rows)

    return change
