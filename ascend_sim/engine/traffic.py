"""GM bandwidth: all active transfers of all cores share port, L2 and HBM, max-min fair, in integers.

A transfer has one rate r. r <= its port; the sum of r over one direction <= the L2 bandwidth of that direction; the sum of
r * m (m: bytes that HBM moves per byte of the transfer) <= HBM. Transfers with equal port, direction and m form a class:
they always have equal rates, so a class keeps the bytes that each of its members was served since it exists, and a member
is done when that count reaches its target. A change of rates then costs the number of classes, not of transfers.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.lines import Footprint, footprint
from ascend_sim.isa.base import GmAccess

FRACTION = 16
"""Rates are integers in 2**-16 byte per cycle, amounts in 2**-16 byte."""

PORT, L2_SHARE, HBM_SHARE = "port", "L2 share", "HBM share"
_NONE = 1 << 62
SETTLE = simpy.events.EventPriority(2)
"""SimPy priority behind all ordinary events of an instant."""


def scaled(rate: float) -> int:
    """A rate in bytes per cycle as an integer in units of 2**-16."""
    return int(rate * (1 << FRACTION))


@dataclass(eq=False, slots=True)
class Transfer:
    """One GM transfer in flight; `done` fires with the transfer at its last cycle.

    `open` counts what is still to come: its own bytes and the fills of other transfers that it hits. `ready` is the cycle
    at which the last of its lines has come out of HBM.
    """

    order: int
    access: GmAccess
    address: int
    done: simpy.Event
    start: int = 0
    number: int = -1
    open: int = 1
    ready: int = 0
    followers: list[Transfer] = field(default_factory=list)
    lines: int = 0
    misses: int = 0
    hbm_bytes: int = 0
    wait_l2: int = 0
    wait_hbm: int = 0


@dataclass(eq=False, slots=True)
class _Class:
    """Transfers with equal port, direction and m."""

    port: int
    reads: bool
    writes: bool
    m: int
    rate: int = 0
    served: int = 0
    limit: str = PORT
    cycles: dict[str, int] = field(default_factory=lambda: {PORT: 0, L2_SHARE: 0, HBM_SHARE: 0})
    members: list[tuple[int, int, Transfer, int, int]] = field(default_factory=list)


class Traffic:
    """The shared GM system of one device while it runs; needs a SimPy environment whose clock counts cycles."""

    def __init__(self, env: simpy.Environment, chip: ChipSpec, l2: L2Cache) -> None:
        self.env = env
        self.l2 = l2
        self.line = chip.memory.l2_line_bytes
        self.refetch_tail = chip.memory.partial_line_refetch
        self.l2_read = scaled(chip.l2_read_bytes_per_cycle())
        self.l2_write = scaled(chip.l2_write_bytes_per_cycle())
        self.hbm = scaled(chip.hbm_bytes_per_cycle())
        self.miss_latency = chip.memory.hbm_latency
        self._classes: dict[tuple[int, str, int], _Class] = {}
        self._pending: list[tuple[int, int, int, Transfer]] = []
        self._sequence = 0
        self._active: dict[int, Transfer] = {}
        self._arriving: dict[int, int] = {}
        self._advanced = 0
        self._timer = -1
        self._armed: set[int] = set()
        self._footprints: dict[tuple[int, int], Footprint] = {}
        self._keep: list[GmAccess] = []
        self.hbm_bytes = 0

    def request(self, start: int, order: int, access: GmAccess, address: int) -> Transfer:
        """A transfer that begins at cycle `start` (now or later); `order` breaks ties at one instant (block, then pipe)."""
        transfer = Transfer(order, access, address, simpy.Event(self.env), start)
        self._sequence += 1
        heapq.heappush(self._pending, (start, order, self._sequence, transfer))
        self._arm(start)
        return transfer

    # -- SimPy side: a timer to the next interesting instant, then completions, then one settle --------------------------

    def _arm(self, when: int) -> None:
        if 0 <= self._timer <= when:
            return
        self._timer = when
        if when in self._armed:
            return
        self._armed.add(when)
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        event.callbacks = [self._instant]
        self.env.schedule(event, priority=simpy.events.NORMAL, delay=when - self.env.now)

    def _instant(self, _: Any) -> None:
        now = int(self.env.now)
        self._armed.discard(now)
        if now != self._timer:
            return
        self._timer = -1
        elapsed, self._advanced = now - self._advanced, now
        for kind in self._classes.values():
            members = kind.members
            if members:
                kind.served += kind.rate * elapsed
                kind.cycles[kind.limit] += elapsed
                while members and members[0][0] <= kind.served:
                    _, _, transfer, l2, hbm = heapq.heappop(members)
                    transfer.wait_l2 = kind.cycles[L2_SHARE] - l2
                    transfer.wait_hbm = kind.cycles[HBM_SHARE] - hbm
                    self._complete(transfer, now)
        if self.env.peek() > now:  # nobody else has anything to do at this instant
            self._settle(None)
            return
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        event.callbacks = [self._settle]
        self.env.schedule(event, priority=SETTLE)

    def _complete(self, transfer: Transfer, now: int) -> None:
        """Its own bytes, or those of a fill that it waits for, are through."""
        transfer.open -= 1
        if transfer.open:
            return
        del self._active[transfer.number]
        if transfer.misses:
            transfer.ready = max(transfer.ready, now + self.miss_latency)
            self._arriving[transfer.number] = transfer.ready
        transfer.done.succeed(transfer)
        for follower in transfer.followers:
            follower.ready = max(follower.ready, transfer.ready)
            self._complete(follower, now)

    def _oldest(self, now: int) -> int:
        """The first transfer whose lines are still on their way."""
        arriving = self._arriving
        while arriving and arriving[first := next(iter(arriving))] <= now:
            del arriving[first]
        return min(next(iter(self._active), _NONE), min(arriving, default=_NONE))

    def _await_fills(self, transfer: Transfer, fillers: NDArray[np.int64]) -> None:
        """A reader that hits lines which are still on their way cannot be done before they are there."""
        oldest = self._oldest(int(self.env.now))
        if fillers.max() < oldest:
            return
        for number in np.unique(fillers[fillers >= oldest]).tolist():
            filler = self._active.get(number)
            if filler is not None:
                filler.followers.append(transfer)
                transfer.open += 1
            else:
                transfer.ready = max(transfer.ready, self._arriving.get(number, 0))

    def _settle(self, _: Any) -> None:
        now = int(self.env.now)
        pending = self._pending
        while pending and pending[0][0] <= now:
            self._start(heapq.heappop(pending)[3])
        self._share()
        upcoming = [pending[0][0]] if pending else []
        for kind in self._classes.values():
            if kind.members:
                upcoming.append(now - (kind.served - kind.members[0][0]) // kind.rate)
        if upcoming:
            self._timer = -1
            self._arm(min(upcoming))

    # -- the model -----------------------------------------------------------------------------------------------------

    def _footprint(self, access: GmAccess, address: int) -> Footprint:
        key = (id(access), address % self.line)
        found = self._footprints.get(key)
        if found is None:
            found = self._footprints[key] = footprint(access.region, address % self.line, self.line)
            self._keep.append(access)  # an id is only unique while its object lives
        return found

    def _start(self, transfer: Transfer) -> None:
        access = transfer.access
        shape = self._footprint(access, transfer.address)
        lines = shape.lines + transfer.address // self.line
        transfer.number = self.l2.next_number()
        if access.direction == "read":
            tails = shape.tails if self.refetch_tail else shape.tails[:0]
            fetched, victims, fillers = self.l2.read(lines, tails, transfer.number)
            if len(fillers):
                self._await_fills(transfer, fillers)
        elif access.direction == "write":
            fetched, victims = self.l2.write(lines, shape.partial, transfer.number)
        else:
            fetched, victims, _ = self.l2.read(lines, shape.tails[:0], transfer.number)
            victims += self.l2.write(lines, shape.partial[:0], transfer.number)[1]
        transfer.lines = shape.touched
        transfer.misses = fetched
        transfer.hbm_bytes = (fetched + victims) * self.line
        self.hbm_bytes += transfer.hbm_bytes
        self._active[transfer.number] = transfer
        m = ((fetched + victims) << FRACTION) // shape.touched
        key = (scaled(access.rate), access.direction, m)
        kind = self._classes.get(key)
        if kind is None:
            both = access.direction == "atomic"
            kind = self._classes[key] = _Class(
                key[0], both or access.direction == "read", both or access.direction == "write", m
            )
        target = kind.served + (shape.touched * self.line << FRACTION)
        member = (target, transfer.number, transfer, kind.cycles[L2_SHARE], kind.cycles[HBM_SHARE])
        heapq.heappush(kind.members, member)

    def _share(self) -> None:
        """Progressive filling: raise all rates together, freeze whoever meets a limit, go on with the rest."""
        empty = [key for key, kind in self._classes.items() if not kind.members]
        for key in empty:
            del self._classes[key]
        unfrozen = list(self._classes.values())
        left_read, left_write, left_hbm = self.l2_read, self.l2_write, self.hbm << FRACTION
        while unfrozen:
            readers = writers = misses = 0
            port = unfrozen[0].port
            for kind in unfrozen:
                count = len(kind.members)
                if kind.reads:
                    readers += count
                if kind.writes:
                    writers += count
                misses += count * kind.m
                if kind.port < port:
                    port = kind.port
            level, limit = port, PORT
            if readers and left_read // readers < level:
                level, limit = left_read // readers, L2_SHARE
            if writers and left_write // writers < level:
                level, limit = left_write // writers, L2_SHARE
            if misses and left_hbm // misses < level:
                level, limit = left_hbm // misses, HBM_SHARE
            read_bound = limit == L2_SHARE and bool(readers) and left_read // readers <= level
            level = max(level, 1)
            remaining = []
            for kind in unfrozen:
                if limit == PORT:
                    frozen = kind.port == port
                elif limit == HBM_SHARE:
                    frozen = kind.m > 0
                else:
                    frozen = kind.reads if read_bound else kind.writes
                if frozen:
                    kind.rate, kind.limit = level, limit
                    used = level * len(kind.members)
                    if kind.reads:
                        left_read = max(left_read - used, 0)
                    if kind.writes:
                        left_write = max(left_write - used, 0)
                    left_hbm = max(left_hbm - used * kind.m, 0)
                else:
                    remaining.append(kind)
            unfrozen = remaining
