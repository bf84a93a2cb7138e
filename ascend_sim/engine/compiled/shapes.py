"""An instruction table as the compiled machine wants it: numbers of the instructions, footprints of their accesses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.headroom import LEAST_RATE, MOST_RATE
from ascend_sim.engine.compiled import library as c
from ascend_sim.engine.lines import footprint
from ascend_sim.engine.traffic import FRACTION, scaled
from ascend_sim.errors import SimError
from ascend_sim.isa.base import BARRIER_ALL, PIPE_INDEX, PIPES, TRANSFER
from ascend_sim.isa.sync import CrossCoreWaitFlag, ScalarWait, SetFlag, WaitFlag
from ascend_sim.kernel.program import OPERAND_COLUMN, InstructionTable
from ascend_sim.kernel.stamp import address_of

_DIRECTIONS = {"read": 0, "write": 1, "atomic": 2}
_NO_LINES = np.zeros(1, np.int64)
_MOST_BYTES = 1 << 44
"""Of one transfer, lines touched in part counted whole: its 2**-16 bytes stay below 2**60."""


class Table:
    """`table` in the machine; `flags` are (source, destination, flag) by number.

    `chip_of_gm` is whose lines and tails count where the GM is shared; without it every transfer runs alone.
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
            sync.flag_max,
            (c.c_int64 * count)(*(depth.get(name, 0) for name in PIPES)),
            (c.c_int64 * count)(*(outstanding.get(name, 1) for name in PIPES)),
        )
        self.handle = machine.lib.table_new(machine.pointer, c.byref(numbers))
        if not self.handle:
            raise MemoryError

    def extend(self) -> None:
        """Tell the machine of the instructions that were added since the last time."""
        table, known = self.table, self._known
        count = len(table.instructions) - known
        if not count:
            return
        rows = np.zeros(count, c.INSTRUCTION)
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
            elif rows["kind"][i] == TRANSFER:
                access = table.accesses[known + i]
                assert access is not None
                rows["operand"][i] = OPERAND_COLUMN[access.region.operand]
                rows["extent"][i] = access.region.extent
        self._known += count
        machine, (first, touches) = self._machine, table.touches.behind(known)
        machine.checked(
            machine.lib.table_extend(
                machine.pointer,
                self.handle,
                address_of(rows),
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

    def add_shape(self, instruction: int, phase: int) -> None:
        """Tell the machine which lines an instruction touches at an address `phase` bytes into a line."""
        access = self.table.accesses[instruction]
        assert access is not None
        machine, line = self._machine, self._line
        shape = footprint(access.region, phase, line)
        count, port = len(shape.lines), scaled(access.rate)
        if not LEAST_RATE <= access.rate < MOST_RATE:
            raise SimError(
                f"{self.table.instructions[instruction].name} moves {access.rate:g} bytes per cycle; an engine counts from "
                f"2**-16 to below 2**30 (chip file, paths)"
            )
        if shape.touched * line >= _MOST_BYTES:
            raise SimError(
                f"{self.table.instructions[instruction].name} moves {shape.touched * line} bytes in whole lines; "
                f"the compiled engine counts to {_MOST_BYTES - 1}"
            )
        special = _NO_LINES[:0]
        if access.direction == "read" and not access.kept:
            special = np.arange(count)
        elif access.direction == "read" and self._refetch_tail:
            special = shape.tails
        elif access.direction == "write":
            special = shape.partial
        numbers = c.ShapeNumbers(
            _DIRECTIONS[access.direction],
            port,
            shape.touched,
            count,
            len(special),
            -(-(shape.touched * line << FRACTION) // port),
        )
        lines, special = np.ascontiguousarray(shape.lines, np.int64), np.ascontiguousarray(special, np.int64)
        machine.checked(
            machine.lib.table_add_shape(
                machine.pointer,
                self.handle,
                instruction,
                phase,
                c.byref(numbers),
                address_of(lines),
                address_of(special),
            )
        )
