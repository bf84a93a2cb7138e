"""A flag inside a core: one bit on every chip (chip file, sync.flag_max), so a set of a flag that is already set is lost."""

from __future__ import annotations

from array import array

import numpy as np
import simpy

from ascend_sim.isa.base import SET
from ascend_sim.isa.sync import SetFlag
from ascend_sim.kernel.program import Program


class CoreFlag:
    """The sets and waits of one flag of a program, as cycles; the n-th wait takes the n-th set that was not lost.

    `key` is (source, destination, number), `most` how often it can be set before a wait (0: no limit), `latency` the cycles
    from a set to its arrival. Sets run ahead of waits here, so a lost one is found when a wait looks for its set.
    """

    __slots__ = ("arrivals", "first_lost", "key", "latency", "lost", "most", "paired", "sleeper", "taken")

    def __init__(self, key: tuple[str, str, int], most: int, latency: int) -> None:
        self.key = key
        self.most = most
        self.latency = latency
        self.arrivals = array("q")
        self.taken = array("q")
        self.paired = self.lost = 0
        self.first_lost = -1
        self.sleeper: simpy.Event | None = None

    def pair(self, waits: int) -> bool:
        """Match the first `waits` waits with sets, skipping lost ones; return False while the last of those sets is unknown."""
        arrivals, taken, most = self.arrivals, self.taken, self.most or self.paired + waits + 1
        while self.paired < waits:
            number, before = self.paired + self.lost, self.paired - most
            if number >= len(arrivals):
                return False
            if before >= 0 and (before >= len(taken) or taken[before] > arrivals[number] - self.latency):
                if not self.lost:
                    self.first_lost = number
                self.lost += 1
            else:
                self.paired += 1
        return True

    def next_arrival(self) -> int | None:
        """Return the cycle at which the set for the next wait arrives; None while that set is unknown."""
        return self.arrivals[self.paired - 1 + self.lost] if self.pair(len(self.taken) + 1) else None

    def lost_set(self) -> int:
        """Return the number (from 0) of the first set that was lost, or -1; asked when no set or wait can follow."""
        self.pair(len(self.arrivals))
        return self.first_lost


def lost_set_text(program: Program, row: int) -> str:
    """Return the message for the lost set at `row` of the program."""
    flag = program[row].instruction
    assert isinstance(flag, SetFlag)
    codes, kinds = program.per_row("flag"), program.per_row("kind")
    number = int(((codes[:row] == codes[row]) & (kinds[:row] == SET)).sum())
    return double_set(program, (flag.source, flag.destination, flag.flag), number)


def double_set(program: Program, key: tuple[str, str, int], number: int) -> str:
    """Return the message for a lost set: set number `number` (from 0) of the flag `key` in the program."""
    source, destination, identity = key
    sets = [
        index
        for index, one in enumerate(program.table.instructions)
        if isinstance(one, SetFlag) and (one.source, one.destination, one.flag) == key
    ]
    row = int(np.flatnonzero(np.isin(program.rows[:, 0], sets))[number])
    most = program.table.chip.sync.flag_max
    stands = "is set" if most == 1 else f"stands at {most}"
    return (
        f"double set of flag {identity} {source}->{destination}: the set at row {row} comes while the flag {stands} and is "
        f"lost (chip file, sync.flag_max: {most})"
    )
