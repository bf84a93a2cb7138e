"""Rooflines: cycles that a kernel cannot go below on a chip, whatever its order and synchronisation.

Per core: the work of each pipe without heads, transfers at port speed, and the issue of every instruction. Per chip:
the bytes through the L2 and those that HBM must deliver.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.lines import footprint
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import PIPES, TRANSFER
from ascend_sim.isa.sync import Scalar
from ascend_sim.kernel.program import OPERAND_COLUMN, InstructionTable, Program
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.report.counts import occurrences

PIPE_KEYS = {
    "S": "scalar", "M": "cube", "V": "vec", "MTE1": "mte1", "MTE2": "mte2", "MTE3": "mte3", "FIX": "fixpipe",
}  # fmt: skip
"""Pipes under the names of the vendor's profiler columns."""

Lines = NDArray[np.bool_]
"""One entry per L2 line of GM, from address 0 on."""


class Rooflines:
    """Bounds of the kernels of one run; `of` takes them in the order in which they run.

    `cold` says that the L2 was empty when the run began and that the kernels run one after the other: then every line
    that no earlier kernel used is a miss. Otherwise the L2 may hold anything, and only reads beyond its capacity are.
    """

    def __init__(self, chip: ChipSpec, *, cold: bool) -> None:
        self._chip = chip
        self._used: Lines | None = np.zeros(0, np.bool_) if cold else None

    def of(self, task: Task, programs: Sequence[Program]) -> dict[str, int]:
        """Least cycles between the first instruction of a kernel and its end, by what bounds it; only those above zero.

        Keys are "scalar", "cube", "vec", "mte1", "mte2", "mte3", "fixpipe", "L2 read", "L2 write" and "HBM".
        """
        bounds = _pipe_bounds(self._chip, programs) | _l2_bounds(self._chip, programs)
        bounds["HBM"] = int(self._missed(task, programs) / self._chip.hbm_bytes_per_cycle())
        return {name: cycles for name, cycles in bounds.items() if cycles}

    def _missed(self, task: Task, programs: Sequence[Program]) -> int:
        """Bytes that HBM must deliver whatever the order; lines that the kernel also writes may be there without."""
        memory = self._chip.memory
        read, written = gm_lines(self._chip, task, programs)
        only_read = read & ~written
        if self._used is None:
            return max(int(np.count_nonzero(only_read)) * memory.l2_line_bytes - memory.l2_bytes, 0)
        count = max(len(self._used), len(read))
        used, now = (np.pad(lines, (0, count - len(lines))) for lines in (self._used, read | written))
        self._used = used | now
        return int(np.count_nonzero(only_read & ~used[: len(read)])) * memory.l2_line_bytes


def _l2_bounds(chip: ChipSpec, programs: Sequence[Program]) -> dict[str, int]:
    moved = {"read": 0, "write": 0, "atomic": 0}
    for program in programs:
        counts = occurrences(program)
        for argument in np.flatnonzero(counts).tolist():
            access = program.table.accesses[argument]
            if access is not None:
                moved[access.direction] += int(counts[argument]) * access.region.total
    return {
        "L2 read": int((moved["read"] + moved["atomic"]) / chip.l2_read_bytes_per_cycle()),
        "L2 write": int((moved["write"] + moved["atomic"]) / chip.l2_write_bytes_per_cycle()),
    }


def _pipe_bounds(chip: ChipSpec, programs: Sequence[Program]) -> dict[str, int]:
    """The busiest program of each pipe, or an even share of all work per core where that is more (waves of blocks)."""
    most = dict.fromkeys(PIPES, 0.0)
    total: dict[tuple[str, str], float] = {}
    least: dict[int, tuple[InstructionTable, NDArray[np.float64]]] = {}
    for program in programs:
        known = least.get(id(program.table))
        if known is None:
            known = least[id(program.table)] = (program.table, _least_cycles(program.table))
        _, work = known
        counts, pipe = occurrences(program), program.table.column("pipe")
        cycles = np.bincount(pipe, weights=counts * work, minlength=len(PIPES))
        cycles[0] += program.issue_cycles * len(program)
        for name, value in zip(PIPES, cycles.tolist(), strict=True):
            most[name] = max(most[name], value)
            key = (program.core_kind, name)
            total[key] = total.get(key, 0.0) + value
    for (kind, name), value in total.items():
        cores = chip.cores.aiv if kind == "AIV" else chip.cores.aic
        most[name] = max(most[name], value / cores)
    return {PIPE_KEYS[name]: int(most[name]) for name in PIPES}


def _least_cycles(table: InstructionTable) -> NDArray[np.float64]:
    """Cycles of each distinct instruction on its pipe without heads; the scalar unit issues it besides."""
    work = table.column("work").astype(np.float64)
    for index, (instruction, access) in enumerate(zip(table.instructions, table.accesses, strict=True)):
        if access is not None:
            work[index] += access.region.total / access.rate
        elif isinstance(instruction, Scalar):
            work[index] = instruction.cycles
    return work


def gm_lines(chip: ChipSpec, task: Task, programs: Sequence[Program]) -> tuple[Lines, Lines]:
    """The L2 lines that a kernel reads (atomics too) and those that it writes, up to the end of its last tensor."""
    line = chip.memory.l2_line_bytes
    bases = np.asarray([tensor.base for tensor in task.tensors] or [0], np.int64)
    count = -(-max((tensor.base + tensor.size for tensor in task.tensors), default=0) // line)
    read, written = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    shapes: dict[tuple[int, int, int], NDArray[np.int64]] = {}
    for program in programs:
        table = program.table
        rows = program.rows[program.per_row("kind") == TRANSFER]
        for argument in np.flatnonzero(np.bincount(rows[:, 0])).tolist():
            access = table.accesses[argument]
            assert access is not None
            operand = rows[rows[:, 0] == argument, OPERAND_COLUMN[access.region.operand]]
            address = bases[operand >> SLOT_SHIFT] + (operand & OFFSET_MASK)
            first, phase = address // line, address % line
            for offset in np.flatnonzero(np.bincount(phase)).tolist():
                key = (id(table), argument, offset)
                if key not in shapes:
                    shapes[key] = footprint(access.region, offset, line).lines
                touched = first[phase == offset, None] + shapes[key]
                (written if access.direction == "write" else read)[touched] = True
    return read, written
