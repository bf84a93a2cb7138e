"""Rooflines: cycles that a kernel cannot go below on a chip, whatever its order and synchronisation.

Per core: the work of each pipe without heads, transfers at port speed, and the issue of every instruction. Per chip:
the bytes through the L2 and those that HBM must deliver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.lines import LinesOf, Marks
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import PIPES
from ascend_sim.isa.sync import Scalar
from ascend_sim.kernel.program import Program
from ascend_sim.report.counts import Counts

PIPE_KEYS = {
    "S": "scalar", "M": "cube", "V": "vec", "MTE1": "mte1", "MTE2": "mte2", "MTE3": "mte3", "FIX": "fixpipe",
}  # fmt: skip
"""Pipes under the names of the vendor's profiler columns."""


class LeastWork:
    """Least work of a kernel: cycles of each pipe and bytes of GM, added program by program; holds no rows."""

    def __init__(self, chip: ChipSpec, task: Task) -> None:
        self._chip, self._task = chip, task
        self.counts = Counts(task)
        self._most = np.zeros(len(PIPES))
        self._total: dict[str, NDArray[Any]] = {}
        self._least: dict[int, NDArray[np.float64]] = {}
        self._of_last: tuple[NDArray[np.int64], NDArray[Any]] | None = None
        end = max((tensor.base + tensor.room for tensor in task.tensors), default=0)
        self.lines = LinesOf([tensor.base for tensor in task.tensors], end, chip.memory.l2_line_bytes)
        """The L2 lines that it reads and those that it writes, up to the end of its last tensor."""

    @classmethod
    def of(cls, chip: ChipSpec, task: Task, programs: Sequence[Program]) -> LeastWork:
        """Return the least work of a kernel from all of its programs."""
        work = cls(chip, task)
        for program in programs:
            work.add(program)
        return work

    def add(self, program: Program) -> None:
        """Add one program to the work and the counts; the programs of a kernel come in block order."""
        cycles = self._cycles(program, self.counts.add(program))
        np.maximum(self._most, cycles, out=self._most)
        self._total[program.core_kind] = self._total.get(program.core_kind, 0.0) + cycles
        self.lines.add(program)

    def _cycles(self, program: Program, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Return an array with the program's cycles on each pipe (by `PIPES`), without heads; the scalar pipe also issues every
        instruction.

        `counts` has the number of occurrences of each instruction. A program with the same array as the last one gets the last
        result.
        """
        if self._of_last is not None and self._of_last[0] is counts:
            return self._of_last[1]
        table = program.table
        least = self._least.get(id(table))
        if least is None or len(least) < len(counts):
            least = self._least[id(table)] = table.column("work").astype(np.float64)
            for index, (instruction, access) in enumerate(zip(table.instructions, table.accesses, strict=True)):
                if access is not None:
                    least[index] += access.region.total / access.rate
                elif isinstance(instruction, Scalar):
                    least[index] = instruction.cycles
        some = slice(len(counts))
        cycles = np.bincount(table.column("pipe")[some], weights=counts * least[some], minlength=len(PIPES))
        cycles[0] += program.issue_cycles * len(program)
        self._of_last = counts, cycles
        return cycles

    def pipe_bounds(self) -> dict[str, int]:
        """Return {pipe, named as in `PIPE_KEYS`: its least cycles, rounded down}: those of its busiest program, or of all work
        shared by the chip's cores if that is more.
        """
        most: NDArray[Any] = self._most
        cores = self._chip.cores
        for kind, cycles in self._total.items():
            most = np.maximum(most, cycles / (cores.aiv if kind == "AIV" else cores.aic))
        return {PIPE_KEYS[name]: int(value) for name, value in zip(PIPES, most.tolist(), strict=True)}

    def l2_bounds(self) -> dict[str, int]:
        """Return {"L2 read", "L2 write": cycles, rounded down} that the L2 needs for the kernel's bytes; atomic ones count on
        both sides.
        """
        moved = {"read": 0, "write": 0, "atomic": 0}
        for table, argument, count in self.counts.instructions():
            access = table.accesses[argument]
            if access is not None:
                moved[access.direction] += count * access.region.total
        return {
            "L2 read": int((moved["read"] + moved["atomic"]) / self._chip.l2_read_bytes_per_cycle()),
            "L2 write": int((moved["write"] + moved["atomic"]) / self._chip.l2_write_bytes_per_cycle()),
        }


class Rooflines:
    """Lower bounds of the kernels of one run; `of` must be called for them in the order in which they run.

    `cold`: the L2 was empty when the run began and the kernels run one after the other; then every line that a kernel only
    reads, and no earlier one used, is a miss. Otherwise the L2 may hold anything, and only such reads beyond its capacity are
    misses.
    """

    def __init__(self, chip: ChipSpec, *, cold: bool) -> None:
        self._chip = chip
        self._used: Marks | None = np.zeros(0, np.bool_) if cold else None

    def of(self, work: LeastWork) -> dict[str, int]:
        """Return {what bounds the kernel: its least cycles, rounded down, from first instruction to end}; bounds of 0 are left
        out.

        Keys are "scalar", "cube", "vec", "mte1", "mte2", "mte3", "fixpipe", "L2 read", "L2 write" and "HBM". With a cold L2 the
        kernel's lines count as used from then on.
        """
        bounds = work.pipe_bounds() | work.l2_bounds()
        bounds["HBM"] = int(self._missed(work) / self._chip.hbm_bytes_per_cycle())
        return {name: cycles for name, cycles in bounds.items() if cycles}

    def _missed(self, work: LeastWork) -> int:
        """Return the bytes that HBM must deliver in any order, and mark the kernel's lines as used; lines that it also
        writes need not come from HBM.
        """
        memory = self._chip.memory
        read, written = work.lines.read, work.lines.written
        only_read = read > written
        if self._used is None:
            return max(int(np.count_nonzero(only_read)) * memory.l2_line_bytes - memory.l2_bytes, 0)
        if len(self._used) < len(read):
            self._used = np.concatenate([self._used, np.zeros(len(read) - len(self._used), np.bool_)])
        used = self._used[: len(read)]
        missed = int(np.count_nonzero(only_read > used)) * memory.l2_line_bytes
        used |= read
        used |= written
        return missed
