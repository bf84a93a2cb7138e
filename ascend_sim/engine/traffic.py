"""GM bandwidth: all active transfers of all cores share port, L2 and HBM, max-min fair, in integers.

A transfer has one rate r. r <= its port; the sum of r over one direction <= the L2 bandwidth of that direction, where lines
that others read at the same time count more (w); the sum of r * m (m: bytes that HBM moves per byte of the transfer) <= HBM.
Transfers with equal port, direction, m and w form a class: they always have equal rates, so a class keeps the bytes that each
of its members was served since it exists, and a member is done when that count reaches its target. A change of rates then
costs the number of classes, not of transfers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import simpy
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.l2 import L2Cache, Lines
from ascend_sim.engine.lines import Footprint, footprint
from ascend_sim.frozen import mutable
from ascend_sim.isa.base import GmAccess
from ascend_sim.numerics.distinct import distinct

FRACTION = 16
"""Rates are integers in 2**-16 byte per cycle, amounts in 2**-16 byte."""

PORT, L2_SHARE, HBM_SHARE = "port", "L2 share", "HBM share"
_NONE = 1 << 62
_NO_LINES = np.empty(0, np.int64)
_REMEMBERED = 10_000
"""Most settings whose shares are cached, and most fills before completed ones are dropped."""
_Key = tuple[int, str, int, int]
"""Key of a class of transfers: (port rate, direction, m, w), the last two in 2**-16."""
_Shares = list[tuple[int, str]]
"""(rate, limit) of every class."""
SETTLE = simpy.events.EventPriority(2)
"""SimPy priority behind all ordinary events of an instant."""
SHARED_STEPS = 8
"""Steps in which the shared part of a transfer's lines is counted, rounded down, so that there are few classes."""


def scaled(rate: float) -> int:
    """Return a rate in bytes per cycle as an integer in units of 2**-16, rounded towards 0."""
    return int(rate * (1 << FRACTION))


@dataclass(eq=False, slots=True)
class Transfer:
    """One GM transfer in flight; `done` fires with the transfer at its last cycle.

    `open` counts what is still to come: its own bytes, and each fetch by another transfer whose lines it hits. `ready` is the
    cycle at which its last line comes out of HBM, `stamp` the L2's `clock` when it began. `lines` are counted row by row. Of
    the distinct ones `misses` were fetched from HBM, `hits` found in the L2, and `allocated` got a place there.
    """

    order: int
    access: GmAccess
    address: int
    done: simpy.Event
    start: int = 0
    open: int = 1
    ready: int = 0
    stamp: int = 0
    followers: list[Transfer] | None = None
    lines: int = 0
    misses: int = 0
    hits: int = 0
    allocated: int = 0
    hbm_bytes: int = 0
    wait_l2: int = 0
    wait_hbm: int = 0


class Timer(simpy.Event):
    """SimPy event that calls `what` after `delay` cycles, with a priority among events of one instant."""

    def __init__(
        self,
        env: simpy.Environment,
        what: Callable[[simpy.Event], None],
        priority: simpy.events.EventPriority,
        delay: float = 0,
    ) -> None:
        self.env = env
        self.callbacks = [what]
        self._ok, self._value = True, None
        env.schedule(self, priority, delay)


@mutable(eq=False)
class _RateClass:
    """Transfers with equal port, direction, m (HBM bytes for each byte of a transfer) and w (weight in the L2), which have
    equal rates.

    `served` is the amount that a member would have moved since the class exists, `l2` and `hbm` the cycles in which the L2 or
    HBM limited the rate. `members` is a heap of (value of `served` at which it is done, number, transfer, `l2` and `hbm` at its
    start).
    """

    rate: int = 0
    limit: str = PORT
    served: int = 0
    l2: int = 0
    hbm: int = 0
    members: list[tuple[int, int, Transfer, int, int]] = field(default_factory=list)


class Traffic:
    """Shared GM (ports, L2, HBM) of a device while it runs: starts, times and ends transfers in a SimPy environment."""

    def __init__(self, env: simpy.Environment, chip: ChipSpec, l2: L2Cache) -> None:
        self.env = env
        self.l2 = l2
        self.line = chip.memory.l2_line_bytes
        self.refetch_tail = chip.memory.partial_line_refetch
        self.l2_read = scaled(chip.l2_read_bytes_per_cycle())
        self.l2_write = scaled(chip.l2_write_bytes_per_cycle())
        self.hbm = scaled(chip.hbm_bytes_per_cycle())
        self.miss_latency = chip.memory.hbm_latency
        self.write_back = scaled(chip.memory.write_back_ratio)
        self.same_line = scaled(chip.memory.same_line_read_ratio - 1)
        self._read_until = np.zeros(1024, np.int64)
        self._classes: dict[_Key, _RateClass] = {}
        self._shares: dict[tuple[tuple[_Key, int], ...], _Shares] = {}
        self._pending: list[tuple[int, int, int, Transfer]] = []
        self._sequence = 0
        self._started = 0
        self._fills: list[Transfer] = []
        self._advanced = 0
        self._timer = -1
        self._armed: set[int] = set()
        self._shapes: dict[tuple[int, int], tuple[GmAccess, Footprint, int]] = {}
        self.hbm_bytes = 0

    def request(self, start: int, order: int, access: GmAccess, address: int) -> Transfer:
        """Request a transfer that starts at cycle `start` (now or later) and return it; `order` breaks ties at one instant."""
        transfer = Transfer(order, access, address, simpy.Event(self.env), start)
        self._sequence += 1
        heapq.heappush(self._pending, (start, order, self._sequence, transfer))
        self._arm(start)
        return transfer

    # -- SimPy side: a timer to the next interesting instant, then completions, then starts and new shares --------------

    def _arm(self, when: int) -> None:
        """Set the timer to cycle `when`, unless it is set to an earlier cycle."""
        if 0 <= self._timer <= when:
            return
        self._timer = when
        if when not in self._armed:
            self._armed.add(when)
            Timer(self.env, self._instant, simpy.events.NORMAL, when - self.env.now)

    def _instant(self, _: simpy.Event) -> None:
        """Advance all classes to the present cycle, complete the transfers that are done, and settle the traffic.

        Does nothing if the timer was set to another cycle since.
        """
        now = int(self.env.now)
        self._armed.discard(now)
        if now != self._timer:
            return
        self._timer = -1
        elapsed, self._advanced = now - self._advanced, now
        for kind in self._classes.values():
            kind.served = served = kind.served + kind.rate * elapsed
            if kind.limit == HBM_SHARE:
                kind.hbm += elapsed
            elif kind.limit == L2_SHARE:
                kind.l2 += elapsed
            members = kind.members
            while members and members[0][0] <= served:
                _target, _number, transfer, l2, hbm = heapq.heappop(members)
                transfer.wait_l2 = kind.l2 - l2
                transfer.wait_hbm = kind.hbm - hbm
                self._complete(transfer, now)
        pending = self._pending
        if pending and pending[0][0] <= now and self.env.peek() <= now:
            Timer(self.env, self._settle, SETTLE)  # behind all others of this instant, who may ask for a start at it
        else:  # nothing is due, or nobody else is there; whoever asks for a start at this instant arms it once more
            self._settle()

    def _complete(self, transfer: Transfer, now: int) -> None:
        """Count one part of a transfer as complete: its own bytes, or a fill that it awaited.

        After the last part the transfer fires `done`, and the transfers that follow it count a part too.
        """
        transfer.open -= 1
        if transfer.open:
            return
        if transfer.misses:
            arrival = now + self.miss_latency
            if arrival > transfer.ready:
                transfer.ready = arrival
        transfer.done.succeed(transfer)
        for follower in transfer.followers or ():
            follower.ready = max(follower.ready, transfer.ready)
            self._complete(follower, now)

    def _forget_fills(self, now: int) -> None:
        """Drop, from the front of the list of transfers that fetch lines from HBM, those whose lines have all arrived."""
        arrived = 0
        while arrived < len(self._fills) and not self._fills[arrived].open and self._fills[arrived].ready <= now:
            arrived += 1
        del self._fills[:arrived]

    def _await_fills(self, transfer: Transfer, stamps: NDArray[np.int64], now: int) -> None:
        """Make a read wait for lines that other transfers still fetch; `stamps` are the L2 stamps of the lines that it hits."""
        self._forget_fills(now)
        if not self._fills or stamps.max() < self._fills[0].stamp:
            return
        begins = np.array([fill.stamp for fill in self._fills])
        owners = np.searchsorted(begins, stamps[stamps >= begins[0]], "right") - 1
        for owner in distinct(owners).tolist():
            fill = self._fills[owner]
            if not fill.open:
                transfer.ready = max(transfer.ready, fill.ready)
                continue
            if fill.followers is None:
                fill.followers = []
            fill.followers.append(transfer)
            transfer.open += 1

    def _settle(self, _: simpy.Event | None = None) -> None:
        """Start the transfers that are due, share the bandwidth again, and set the timer to the next start or completion."""
        now = self._advanced
        pending = self._pending
        while pending and pending[0][0] <= now:
            self._start(heapq.heappop(pending)[3], now)
        upcoming = pending[0][0] if pending else _NONE
        shares = self._share()
        for kind, (rate, limit) in zip(self._classes.values(), shares, strict=True):
            kind.rate, kind.limit = rate, limit
            over = now - (kind.served - kind.members[0][0]) // rate
            if over < upcoming:
                upcoming = over
        self._timer = -1
        if upcoming < _NONE:
            self._arm(upcoming)

    # -- the model -----------------------------------------------------------------------------------------------------

    def _shape(self, access: GmAccess, phase: int) -> tuple[GmAccess, Footprint, int]:
        """Return (access, footprint at `phase` bytes into a line, port rate in 2**-16), and cache it."""
        shape = access, footprint(access.region, phase, self.line), scaled(access.rate)
        self._shapes[id(access), phase] = shape  # it holds the access: an id is only unique while its object lives
        return shape

    def _shared(self, lines: Lines, now: int, until: int) -> int:
        """Return how many eighths of `lines`, rounded down, other transfers are reading at cycle `now`.

        Each line keeps the cycle at which its last read would end at its port's full speed; this read sets it to `until`.
        """
        if isinstance(lines, slice):
            last, count = int(lines.stop) - 1, int(lines.stop - lines.start)
        else:
            last, count = int(lines[-1]), len(lines)
        if last >= len(self._read_until):
            more = max(last + 1 - len(self._read_until), len(self._read_until))
            self._read_until = np.concatenate((self._read_until, np.zeros(more, np.int64)))
        shared = int(np.count_nonzero(self._read_until[lines] > now))
        self._read_until[lines] = until
        return shared * SHARED_STEPS // count

    def _start(self, transfer: Transfer, now: int) -> None:
        """Start a transfer at cycle `now`: pass its lines through the L2, count the HBM bytes, and put it into its class."""
        access = transfer.access
        first, phase = divmod(transfer.address, self.line)
        _, shape, port = self._shapes.get((id(access), phase)) or self._shape(access, phase)
        self._started += 1
        transfer.stamp = self.l2.clock
        lines = shape.at(first)
        touched = transfer.lines = shape.touched
        weight, driven_out, victims = 1 << FRACTION, 0, 0  # dirty lines that reads drive out, and that writes do
        if access.direction == "read":
            if self.same_line:
                until = now + (touched * self.line << FRACTION) // port
                weight += self.same_line * self._shared(lines, now, until) // SHARED_STEPS
            tails = shape.tails if self.refetch_tail else _NO_LINES
            past = tails if access.kept else np.arange(len(shape.lines))
            fetched, driven_out, stamps = self.l2.read(lines, past)
            if len(stamps):
                self._await_fills(transfer, stamps, now)
        elif access.direction == "write":
            fetched, victims = self.l2.write(lines, shape.partial)
        else:
            fetched, driven_out, _ = self.l2.read(lines, _NO_LINES)
            victims = self.l2.write(lines, _NO_LINES)[1]
        if self.l2.clock > transfer.stamp:
            self._fills.append(transfer)
            if len(self._fills) > _REMEMBERED:
                self._forget_fills(now)
        transfer.misses = fetched
        transfer.allocated = self.l2.clock - transfer.stamp
        transfer.hits = len(shape.lines) - (transfer.allocated if access.direction == "write" else fetched)
        moved = (fetched + victims << FRACTION) + driven_out * self.write_back
        transfer.hbm_bytes = (fetched + victims + driven_out) * self.line
        self.hbm_bytes += transfer.hbm_bytes
        key = (port, access.direction, moved // touched, weight)
        kind = self._classes.get(key)
        if kind is None:
            kind = self._classes[key] = _RateClass()
        target = kind.served + (touched * self.line << FRACTION)
        heapq.heappush(kind.members, (target, self._started, transfer, kind.l2, kind.hbm))

    def _share(self) -> _Shares:
        """Return (rate, what limits it) of every class with members, and drop empty classes.

        Results are cached by the classes and their numbers of members.
        """
        setting = tuple([(key, len(kind.members)) for key, kind in self._classes.items() if kind.members])
        if len(setting) < len(self._classes):
            self._classes = {key: self._classes[key] for key, _ in setting}
        shares = self._shares.get(setting)
        if shares is None:
            if len(self._shares) >= _REMEMBERED:
                self._shares.clear()
            shares = self._shares[setting] = self._fill(setting)
        return shares

    def _fill(self, setting: tuple[tuple[_Key, int], ...]) -> _Shares:
        """Return (rate, what limits it) for each class of `setting`, by progressive filling.

        A class is ((port rate, direction, m, w), number of members): m is HBM bytes for each byte, w the weight in the L2. All
        rates rise together; a class that meets a limit is frozen, and the others go on.
        """
        shares = [(0, PORT)] * len(setting)
        unfrozen = [
            (place, port, weight if direction != "write" else 0, direction != "read", m, count)
            for place, ((port, direction, m, weight), count) in enumerate(setting)
        ]
        left_read, left_write, left_hbm = self.l2_read << FRACTION, self.l2_write, self.hbm << FRACTION
        while unfrozen:
            lowest = min(port for _, port, *_ in unfrozen)
            readers = sum(reads * count for *_, reads, _, _, count in unfrozen)
            writers = sum(count for *_, writes, _, count in unfrozen if writes)
            misses = sum(m * count for *_, m, count in unfrozen)
            level, limit = lowest, PORT
            if readers and left_read // readers < level:
                level, limit = left_read // readers, L2_SHARE
            if writers and left_write // writers < level:
                level, limit = left_write // writers, L2_SHARE
            if misses and left_hbm // misses < level:
                level, limit = left_hbm // misses, HBM_SHARE
            read_bound = limit == L2_SHARE and bool(readers) and left_read // readers <= level
            level = max(level, 1)
            remaining = []
            for one in unfrozen:
                place, port, reads, writes, m, count = one
                if limit == PORT:
                    frozen = port == lowest
                elif limit == HBM_SHARE:
                    frozen = m > 0
                else:
                    frozen = reads > 0 if read_bound else writes
                if not frozen:
                    remaining.append(one)
                    continue
                shares[place] = level, limit
                left_read = max(left_read - level * count * reads, 0)
                left_write = max(left_write - level * count * writes, 0)
                left_hbm = max(left_hbm - level * count * m, 0)
            unfrozen = remaining
        return shares
