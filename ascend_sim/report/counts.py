"""Counts of a kernel from its Programs alone: tiles, instructions by name, bytes by data path, cube work.

No time is needed, so the counts are the same in every mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.task import Task
from ascend_sim.kernel.program import InstructionTable, Program


class Counts:
    """Counts of a task from its programs, added one at a time; holds no rows."""

    def __init__(self, task: Task, programs: Iterable[Program] = ()) -> None:
        self._task = task
        self._tiles = 0
        self._by_table: dict[int, tuple[InstructionTable, NDArray[np.int64]]] = {}
        self._cube: dict[int, int] = {}
        self._flags: set[str] = set()
        for program in programs:
            self.add(program)

    def add(self, program: Program) -> NDArray[np.int64]:
        """Add one program; return how often each instruction of its table occurs in it, an array up to the
        highest that does.
        """
        table, counts = program.table, program.sheet.counts()
        if self._task.core_kind != "MIX" or program.core_kind == "AIC":
            self._tiles += program.tiles
        summed = self._by_table.get(id(table), (table, counts[:0]))[1]
        if len(summed) < len(counts):
            summed = np.concatenate((summed, np.zeros(len(counts) - len(summed), np.int64)))
            self._by_table[id(table)] = table, summed
        summed[: len(counts)] += counts
        if program.core_kind != "AIV":
            multiplies = table.column("multiplies")
            if program.core_kind == "AIC" or multiplies.any():
                work = int((table.column("work") * multiplies)[: len(counts)] @ counts)
                self._cube[program.block] = self._cube.get(program.block, 0) + work
        self._flags.update(program.flags)
        return counts

    def instructions(self) -> Iterator[tuple[InstructionTable, int, int]]:
        """Yield (table, instruction's number in it, count over all programs) for every instruction of every
        table that occurs.
        """
        for table, counts in self._by_table.values():
            for argument in np.flatnonzero(counts).tolist():
                yield table, argument, int(counts[argument])

    def as_dict(self) -> dict[str, Any]:
        """Return `{"tiles": n, "instructions": {name: n}, "bytes": {"GM->L1": n, "GM->L1:A": n, ...}}`, names sorted.

        Bytes are useful ones: those of the GM side where a path has one (before padding), else those that arrive. A path is
        counted in whole and, where the kernel names its operands, per operand. Tiles of a mixed kernel are those of its cube
        cores.
        """
        instructions: dict[str, int] = {}
        moved: dict[str, int] = {}
        for table, argument, count in self.instructions():
            instruction = table.instructions[argument]
            instructions[instruction.name] = instructions.get(instruction.name, 0) + count
            path, label = instruction.path(), instruction.label()
            for key in (path, f"{path}:{label}" if label else ""):
                if path and key:
                    moved[key] = moved.get(key, 0) + count * bytes_of(table, argument)
        return {"tiles": self._tiles, "instructions": dict(sorted(instructions.items())), "bytes": dict(sorted(moved.items()))}

    def cube_work_cycles(self) -> list[int]:
        """Return the cycles of all Mmads without heads, a number for each block that has a cube, in block order; [] for a
        vector kernel.

        Where cube and vector unit share a core, a kernel that never multiplies is a vector kernel.
        """
        return [self._cube[block] for block in sorted(self._cube)]

    def flag_names(self) -> set[str]:
        """Return the names of the task's flags and cross-core flags, whose waits can be disarmed."""
        tables = (table for table, _ in self._by_table.values())
        return self._flags.union(*(table.cross_flag_names() for table in tables))


def bytes_of(table: InstructionTable, argument: int) -> int:
    """Return the bytes that one instruction moves: on the GM side if it has one, else those that it writes."""
    access = table.accesses[argument]
    if access is not None:
        return access.region.total
    return sum(region.total for region in table.instructions[argument].writes())
