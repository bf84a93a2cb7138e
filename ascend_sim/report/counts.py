"""What a kernel does, counted from its Programs alone: tiles, instructions by name, bytes by data path, cube work.

No time is needed, so the counts are the same in every mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.task import Task
from ascend_sim.isa.cube import Mmad
from ascend_sim.kernel.program import InstructionTable, Program


def kernel_counts(task: Task, programs: Sequence[Program]) -> dict[str, Any]:
    """`{"tiles": n, "instructions": {name: n}, "bytes": {"GM->L1": n, "GM->L1:A": n, ...}}` of a kernel, names sorted.

    Bytes are useful ones: those of the GM side where a path has one (before padding), else those that arrive. A path is
    counted in whole and, where the kernel names its operands, per operand. Tiles of a mixed kernel are its cube cores'.
    """
    instructions: dict[str, int] = {}
    moved: dict[str, int] = {}
    for table, counts in _by_table(programs):
        for argument in np.flatnonzero(counts).tolist():
            instruction, count = table.instructions[argument], int(counts[argument])
            instructions[instruction.name] = instructions.get(instruction.name, 0) + count
            path, label = instruction.path(), instruction.label()
            for key in (path, f"{path}:{label}" if label else ""):
                if path and key:
                    moved[key] = moved.get(key, 0) + count * bytes_of(table, argument)
    counted = [program for program in programs if task.core_kind != "MIX" or program.core_kind == "AIC"]
    return {
        "tiles": sum(program.tiles for program in counted),
        "instructions": dict(sorted(instructions.items())),
        "bytes": dict(sorted(moved.items())),
    }


def cube_work_cycles(programs: Sequence[Program]) -> list[int]:
    """Mmad cycles without heads of every block that has a cube, in block order; empty for a vector kernel.

    Where cube and vector unit share a core, a kernel that never multiplies is a vector kernel.
    """
    cycles: dict[int, int] = {}
    for program in programs:
        table = program.table
        multiplies = [isinstance(one, Mmad) for one in table.instructions]
        if program.core_kind == "AIC" or (program.core_kind == "AI_CORE" and any(multiplies)):
            work = table.column("work") * multiplies
            cycles[program.block] = cycles.get(program.block, 0) + int(work[program.rows[:, 0]].sum())
    return [cycles[block] for block in sorted(cycles)]


def bytes_of(table: InstructionTable, argument: int) -> int:
    """Bytes that one instruction moves: on the GM side if it has one, else those that it writes."""
    access = table.accesses[argument]
    if access is not None:
        return access.region.total
    return sum(region.total for region in table.instructions[argument].writes())


def occurrences(program: Program) -> NDArray[np.int64]:
    """How often each instruction of the table stands in a program."""
    return np.bincount(program.rows[:, 0], minlength=len(program.table.instructions))


def _by_table(programs: Sequence[Program]) -> list[tuple[InstructionTable, NDArray[np.int64]]]:
    """Occurrences summed over the programs that share a table."""
    found: dict[int, tuple[InstructionTable, NDArray[np.int64]]] = {}
    for program in programs:
        counts = occurrences(program)
        known = found.get(id(program.table))
        found[id(program.table)] = (program.table, counts if known is None else known[1] + counts)
    return list(found.values())
