"""The rows of a program that synchronise, and what can be wrong with the flags among them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ascend_sim.frozen import frozen
from ascend_sim.isa.base import (
    BARRIER,
    BARRIER_ALL,
    CROSS_SET,
    CROSS_WAIT,
    DISARMED,
    LOCAL,
    PIPES,
    SET,
    TRANSFER,
    WAIT,
)
from ascend_sim.isa.sync import SetFlag, WaitFlag, WaitUnitFlag
from ascend_sim.kernel.program import Program, ranges

WIDTH = len(PIPES)

FlagKey = tuple[str, str, int]


@frozen
class Unpaired:
    """A set that nobody waits for, or a wait that nobody ends: `row` of `program`."""

    program: int
    row: int
    count: int
    missing: tuple[str, ...] = ()
    """For cross-core flags: who has not raised his part."""


@dataclass
class SyncFaults:
    """What is wrong with flags and barriers themselves."""

    sets: list[Unpaired] = field(default_factory=list)
    waits: list[Unpaired] = field(default_factory=list)
    overflows: list[Unpaired] = field(default_factory=list)
    uneven: list[Unpaired] = field(default_factory=list)
    stuck: list[tuple[int, int]] = field(default_factory=list)
    """Program and row of every pipe that waits in a deadlock."""


class SyncRows:
    """The rows of a program that synchronise, and where its rows stand in their pipes; made once, walked many times."""

    def __init__(self, program: Program) -> None:
        self.program = program
        table = program.table
        kind, self.pipe = program.per_row("kind"), program.per_row("pipe")
        counts = np.bincount(self.pipe, minlength=WIDTH)
        self.place = np.empty(len(program), np.int64)
        self.place[np.argsort(self.pipe, kind="stable")] = ranges(np.zeros_like(counts), counts)
        self.counts: list[int] = counts.tolist()
        self.tile_waits, self.loose_waits = self._unit_waits(kind)
        wanted = np.isin(kind, (SET, WAIT, DISARMED, BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT))
        rows = np.flatnonzero(wanted)
        self.flags: dict[FlagKey, int] = {}
        self.instructions = table.instructions
        codes = np.zeros(len(table.instructions), np.int64)
        for argument in np.unique(program.rows[rows, 0]).tolist():
            one = table.instructions[argument]
            if isinstance(one, SetFlag | WaitFlag):
                codes[argument] = self.flags.setdefault((one.source, one.destination, one.flag), len(self.flags))
            else:
                codes[argument] = argument
        arguments = program.rows[rows, 0]
        self.rows = rows
        self.items: list[tuple[int, int, int, int, int]] = list(
            zip(
                rows.tolist(),
                kind[rows].tolist(),
                self.pipe[rows].tolist(),
                self.place[rows].tolist(),
                codes[arguments].tolist(),
                strict=True,
            )
        )
        self.sets = [0] * len(self.flags)
        for _, what, _, _, code in self.items:
            if what == SET:
                self.sets[code] += 1
        self.names = list(self.flags)

    def _unit_waits(self, kind: NDArray[np.int64]) -> tuple[frozenset[int], frozenset[int]]:
        """Rows that wait for a unit flag, and those of them behind which no product or drain with the unit flag comes."""
        program, table = self.program, self.program.table
        found = [isinstance(one, WaitUnitFlag) for one in table.instructions]
        if not any(found):
            return frozenset(), frozenset()
        paced = np.asarray([one.pace(table.chip) is not None for one in table.instructions], np.bool_)
        waits, loose = np.asarray(found, np.bool_)[program.rows[:, 0]], []
        for p in np.unique(self.pipe[waits]).tolist():
            rows = np.flatnonzero(self.pipe == p)
            works = rows[np.isin(kind[rows], (LOCAL, TRANSFER))]
            mine = rows[waits[rows]]
            behind = np.searchsorted(works, mine)
            follows = np.append(paced[program.rows[works, 0]], False)[behind]
            loose += mine[~follows].tolist()
        return frozenset(np.flatnonzero(waits).tolist()), frozenset(loose)

    def before(self, row: int) -> list[int]:
        """Rows of every pipe that stand before a row."""
        return np.bincount(self.pipe[:row], minlength=WIDTH).tolist()
