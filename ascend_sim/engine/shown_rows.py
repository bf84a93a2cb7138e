"""Rows of programs in words, for errors: each with the line of the kernel that wrote it."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.engine.task import Task
from ascend_sim.kernel.inspection import inspect, shown_file
from ascend_sim.kernel.program import Program


class ShownRows:
    """Rows of programs in words, each with the line of the kernel that wrote it.

    Programs without notes of their lines are built again for them, once.
    """

    def __init__(self) -> None:
        self._noted: dict[tuple[int, int], Sequence[Program]] = {}

    def shown(self, task: Task, program: Program, row: int) -> str:
        """Return a row in words, behind "FILE:LINE, " if the line is known."""
        noted = program
        if program.notes is None:
            noted = next(one for one in self._built(task, program.block) if one.where == program.where)
        line = noted.notes.line(row) if noted.notes is not None and len(noted) == len(program) else None
        return f"{program[row]}" if line is None else f"{shown_file(line[0])}:{line[1]}, {program[row]}"

    def _built(self, task: Task, block: int) -> Sequence[Program]:
        key = id(task), block
        if key not in self._noted:
            with inspect():
                self._noted[key] = task.build(block)
        return self._noted[key]
