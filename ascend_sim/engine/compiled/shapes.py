"""Instruction tables for the compiled machine: numbers of the instructions, and the shapes of their transfers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.headroom import LEAST_RATE, MOST_RATE
from ascend_sim.engine.compiled import library as c
from ascend_sim.engine.traffic import scaled
from ascend_sim.errors import SimError
from ascend_sim.isa.base import BARRIER_ALL, PIPE_INDEX, PIPES, TRANSFER
from ascend_sim.isa.sync import CrossCoreWaitFlag, ScalarWait, SetFlag, WaitFlag
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.stamp import address_of
from ascend_sim.kernel.touches import OPERAND_COLUMN

_DIRECTIONS = {"read": 0, "write": 1, "atomic": 2}
_NOTHING, _ALL_LINES, _TAILS, _PARTIAL = range(4)
_MOST_BYTES = 1 << 44
"""Limit for one transfer, lines touched in part counted whole: its 2**-16 bytes stay below 2**60."""


class Table:
    """One instruction table in C, with the shapes of its transfers; `flags` lists flags (source, destination, number) by their
    number in C.

    `chip_of_gm` is the chip whose L2 line rules count where the GM is shared; None: every transfer runs alone. The table is
    passed to C by `extend`. Raises MemoryError.
    """

    def __init__(self, machine: c.Handle, table: InstructionTable, chip_of_gm: ChipSpec | None) -> None:
        self._machine = machine
        self.table = table
        self._known = 0
        self.flags: list[tuple[str, str, int]] = []
        self._numbers: dict[tuple[str, str, int], int] = {}
        chip, sync = table.chip, table.chip.sync
        depth: dict[Any, int] = dict(sync.queue_depth)
        outstanding: dict[Any, int] = dict(sync.outstanding)
        memory = (chip_of_gm or chip).memory
        self._line, self._refetch_tail = memory.l2_line_bytes, memory.partial_line_refetch
        count = len(PIPES)
        numbers = c.CoreNumbers(
            self._line,
            sync.flag_latency,
            sync.barrier_latency,
            chip.vector.banks.groups,
            chip.vector.banks.groups * chip.vector.banks.bytes,
            (c.c_int64 * count)(*(depth.get(name, 0) for name in PIPES)),
            (c.c_int64 * count)(*(outstanding.get(name, 1) for name in PIPES)),
        )
        self.handle = machine.lib.table_new(machine.pointer, c.byref(numbers))
        if not self.handle:
            raise MemoryError

    def extend(self) -> None:
        """Pass to C the instructions that were added to the table since the last call. Raises SimError as `_access`."""
        table, known = self.table, self._known
        count = len(table.instructions) - known
        if not count:
            return
        rows, accesses = np.zeros(count, c.INSTRUCTION), np.zeros(count, c.WAY)
        work = table.column("work")[known:]
        rows["kind"], rows["pipe"] = table.kinds[known:], table.pipes[known:]
        rows["first"] = work + table.column("head_first")[known:]
        rows["stream"] = work + table.column("head_stream")[known:]
        rows["latency"] = table.column("latency")[known:]
        for i, instruction in enumerate(table.instructions[known:]):
            if isinstance(instruction, SetFlag | WaitFlag):
                rows["other"][i] = self._flag((instruction.source, instruction.destination, instruction.flag))
                rows["first"][i], rows["stream"][i] = instruction.lead, instruction.at_work
            elif isinstance(instruction, CrossCoreWaitFlag):
                rows["other"][i] = instruction.armed
            elif rows["kind"][i] == BARRIER_ALL:
                pipes = [instruction.on] if isinstance(instruction, ScalarWait) else PIPES[1:]
                rows["other"][i] = sum(1 << PIPE_INDEX[name] for name in pipes)
            elif rows["pipe"][i] == 0:
                rows["other"][i] = getattr(instruction, "cycles", int(work[i]))
            elif (conflicts := table.conflicts_of(known + i)) is not None:
                rows["other"][i] = address_of(conflicts)  # C reads them there, and the table keeps them
            elif rows["kind"][i] == TRANSFER:
                access = table.accesses[known + i]
                assert access is not None
                rows["operand"][i] = OPERAND_COLUMN[access.region.operand]
                rows["extent"][i] = access.region.extent
                accesses[i] = self._access(known + i)
        self._known += count
        machine, (first, touches) = self._machine, table.touches.behind(known)
        machine.checked(
            machine.lib.table_extend(
                machine.pointer,
                self.handle,
                address_of(rows),
                address_of(accesses),
                address_of(first),
                address_of(touches),
                count,
                len(self.flags),
            )
        )

    def _flag(self, key: tuple[str, str, int]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.flags)
            self.flags.append(key)
        return self._numbers[key]

    def _access(self, instruction: int) -> tuple[int, ...]:
        """Return for C a transfer's (direction, port speed, which of its lines the L2 treats specially), then its region.

        The special lines of a read bypass the L2: all, or those where a row ends. Those of a write are not covered whole.
        Raises SimError for rates and sizes beyond C's integers.
        """
        access = self.table.accesses[instruction]
        assert access is not None
        name, region = self.table.instructions[instruction].name, access.region.simplified()
        if not LEAST_RATE <= access.rate < MOST_RATE:
            raise SimError(
                f"{name} moves {access.rate:g} bytes per cycle; an engine counts from 2**-16 to below 2**30 (chip file, paths)"
            )
        lines = region.rows * region.planes * ((region.row_bytes - 2) // self._line + 2)
        if lines * self._line >= _MOST_BYTES:
            raise SimError(
                f"{name} moves up to {lines * self._line} bytes in whole lines; the compiled engine counts to {_MOST_BYTES - 1}"
            )
        special = _NOTHING
        if access.direction == "read" and not access.kept:
            special = _ALL_LINES
        elif access.direction == "read" and self._refetch_tail:
            special = _TAILS
        elif access.direction == "write":
            special = _PARTIAL
        rows, planes = (region.row_stride, region.rows), (region.plane_stride, region.planes)
        return _DIRECTIONS[access.direction], scaled(access.rate), special, region.offset, region.row_bytes, *rows, *planes
