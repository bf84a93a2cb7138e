"""The rows of a program that synchronise, and what can be wrong with the flags among them."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.frozen import frozen, mutable
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, DISARMED, LOCAL, PIPES, SET, TRANSFER, WAIT
from ascend_sim.isa.sync import SetFlag, WaitFlag
from ascend_sim.kernel.program import Program, ranges
from ascend_sim.numerics.distinct import distinct

WIDTH = len(PIPES)
Ints = NDArray[np.signedinteger[Any]]
Rows = Ints
"""Numbers of rows, places in pipes, numbers of events: mostly held in 32 bits, to save memory."""

FlagKey = tuple[str, str, int]


@frozen
class Unpaired:
    """A set without a wait, or a wait that no set ends, at `row` of `program`, `count` times.

    In a list of overflows it is a set beyond the maximum, and `count` is the maximum.
    """

    program: int
    row: int
    count: int
    missing: tuple[str, ...] = ()
    """For cross-core flags: the cores that have not raised their part, or that do not wait."""
    unwaited: bool = False
    """True if `missing` are cores that do not wait."""


@mutable
class SyncFaults:
    """Faults of the flags and barriers of a task, found while sets and waits are matched."""

    sets: list[Unpaired] = field(default_factory=list)
    waits: list[Unpaired] = field(default_factory=list)
    overflows: list[Unpaired] = field(default_factory=list)
    stuck: list[tuple[int, int]] = field(default_factory=list)
    """Program and row of every pipe that waits in a deadlock."""


class SyncRows:
    """Rows of one program that synchronise (`rows`), and the place of each row of the program in its pipe.

    `pipe` and `place` have an entry for each row of the program; `kind` and `code` one for each row that synchronises. The code
    of a flag inside the core is its number in `names`, of any other row the number of its instruction in the table.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        table = program.table
        argument, kinds = program.rows[:, 0], table.column("kind").astype(np.int8)
        self.pipe = table.column("pipe").astype(np.int8)[argument]
        counts = np.bincount(self.pipe, minlength=WIDTH)
        self.place = np.empty(len(program), np.int32)
        self.place[np.argsort(self.pipe, kind="stable")] = ranges(np.zeros_like(counts), counts)
        kind = kinds[argument]
        self.tile_waits, self.loose_waits = self._unit_waits(kind)
        loads = (table.column("has_values") > 0) & (table.column("pipe") == 0)
        self.scalar_access = bool(loads[argument].any())
        """True if the scalar unit reads or writes memory."""
        synchronises = np.isin(kinds, (SET, WAIT, DISARMED, BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT))
        self.rows = np.flatnonzero(synchronises[argument]).astype(np.int32)
        self.kind = kind[self.rows]
        self.flags: dict[FlagKey, int] = {}
        self.instructions = table.instructions
        codes = np.arange(len(table.instructions), dtype=np.int32)
        for number in distinct(argument[self.rows]).tolist():
            one = table.instructions[number]
            if isinstance(one, SetFlag | WaitFlag):
                codes[number] = self.flags.setdefault((one.source, one.destination, one.flag), len(self.flags))
        self.code = codes[argument[self.rows]]
        self.names = list(self.flags)

    @property
    def whole(self) -> bool:
        """Return True if the kernel that wrote this program came to its end, or it is not known."""
        return self.program.notes is None or self.program.notes.whole

    def _unit_waits(self, kind: NDArray[np.int8]) -> tuple[Ints, Ints]:
        """Return (rows that wait for a unit flag, those of them behind which the pipe's next work does not use the flag)."""
        program, table = self.program, self.program.table
        found, loose = table.column("by_unit_flag"), [np.empty(0, np.int64)]
        if not found.any():
            return loose[0], loose[0]
        paced, waits = table.column("paced") > 0, found[program.rows[:, 0]] > 0
        for p in distinct(self.pipe[waits]).tolist():
            rows = np.flatnonzero(self.pipe == p)
            works = rows[np.isin(kind[rows], (LOCAL, TRANSFER))]
            mine = rows[waits[rows]]
            follows = np.append(paced[program.rows[works, 0]], False)[np.searchsorted(works, mine)]
            loose.append(mine[~follows])
        return np.flatnonzero(waits), np.concatenate(loose)
