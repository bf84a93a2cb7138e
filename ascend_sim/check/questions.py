"""Questions of order: each access and the first of another footprint that is not before it must be ordered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from ascend_sim.check.accesses import Accesses
from ascend_sim.check.clocks import Bits, Clocks
from ascend_sim.check.sync_rows import WIDTH, Ints, Rows
from ascend_sim.isa.base import PIPE_INDEX
from ascend_sim.kernel.program import ranges
from ascend_sim.numerics.distinct import distinct

_CHUNK = 1 << 18
"""Most questions that are asked at a time, so that their memory stays within some tens of megabytes."""
PARTS = ("across", "onward", "back")
"""Pairs of different pipes, then those of one pipe: a write and what comes after it, once for each side."""


class Questions:
    """Questions of order about pairs of footprints (f, g): is each access of `f` ordered with those of `g`?

    Only the first access of `g` that is not over before an access of `f` is looked at. If that comes after it, all later ones
    do, because knowledge never shrinks.
    """

    def __init__(self, a: Accesses, f: Ints, g: Ints) -> None:
        self.a, self.f, self.g = a, f, g
        self._base = int(a.place.max(initial=0)) + 2

    @classmethod
    def of_pairs(cls, a: Accesses, f: Ints, g: Ints, parts: Sequence[str] = PARTS) -> Questions:
        """Return the questions about pairs of footprints (f[i], g[i]), each pair given once.

        `parts` chooses kinds: "across" pairs of different pipes, "onward" and "back" those of one pipe, whose writes are asked
        against later accesses from either side. Two footprints of one program's scalar unit need no question, since it ends an
        instruction before it begins the next.
        """
        scalar = (a.owner[f] == a.owner[g]) & (a.owner[f] % WIDTH == PIPE_INDEX["S"])
        f, g = f[~scalar], g[~scalar]
        same, swap = a.owner[f] == a.owner[g], a.counts[f] > a.counts[g]
        asked = {"across": ~same, "onward": same & a.writes[f], "back": same & (f != g) & a.writes[g]}
        turned = {"across": swap, "onward": np.zeros_like(swap), "back": np.ones_like(swap)}
        f, g = (
            np.concatenate([np.where(turned[part], one, other)[asked[part]] for part in parts])
            for one, other in ((g, f), (f, g))
        )
        return cls(a, f, g)

    def __len__(self) -> int:
        return len(self.f)

    def unordered(self, clocks: Clocks, most: int | None = None) -> tuple[Ints, Ints]:
        """Return two arrays of accesses (indices in `a`), the pairs that nothing orders.

        For each access there is at most one from each other footprint; with `most`, only the first `most` pairs.
        """
        none = np.empty(0, np.int64)
        first, second, found = [none], [none], 0
        for b, x, f, g in self._asked(clocks):
            there = x < self.a.first[g + 1]
            b, x, f, g = b[there], x[there], f[there], g[there]
            wrong = self._known(x, g, f, clocks) <= self.a.place[b]
            first.append(b[wrong])
            second.append(x[wrong])
            found += len(first[-1])
            if most is not None and found >= most:
                break
        return np.concatenate(first)[:most], np.concatenate(second)[:most]

    def needs(self, clocks: Clocks) -> Iterator[tuple[Ints, Ints, Ints, Ints] | None]:
        """Yield the knowledge that keeps all accesses in order, as arrays (programs, events, owners, numbers of rows).

        If two accesses are in no order, it yields None and ends.
        """
        a = self.a
        for b, x, f, g in self._asked(clocks):
            there = x < a.first[g + 1]
            if (self._known(x[there], g[there], f[there], clocks) <= a.place[b[there]]).any():
                yield None
                return
            yield self._need(x[there], g[there], f[there], a.place[b[there]], clocks)
            there = (x > a.first[g]) & (a.owner[f] != a.owner[g])
            yield self._need(b[there], f[there], g[there], a.place[x[there] - 1], clocks)

    def _need(self, access: Ints, footprint: Ints, other: Ints, place: Rows, clocks: Clocks) -> tuple[Ints, Ints, Ints, Ints]:
        """Return (program, event, owner, rows): at the last event before each access, `rows` rows of the pipe of `other` must
        have retired.

        That is all up to `place`, the place in its pipe of the access of `other` that must be over.
        """
        program = self.a.owner[footprint] // WIDTH
        return program, clocks.event[clocks.offset[program] + self.a.begin[access]], self.a.owner[other], place + 1

    def racing(self, clocks: Clocks) -> Ints:
        """Return the sorted numbers of all accesses that are in no order with some access of the pair's other footprint."""
        a, found, keys = self.a, [self.unordered(clocks)[0]], self._keys()
        same = a.owner[self.f] == a.owner[self.g]
        found.append(Questions(a, self.g[~same], self.f[~same]).unordered(clocks)[0])
        for x, g, f in Questions(a, self.g[same], self.f[same])._parts():  # the last write before an access on its own pipe
            b = np.searchsorted(keys, f * self._base + a.place[x]) - 1
            there = b >= a.first[f]
            x, b, g, f = x[there], b[there], g[there], f[there]
            found.append(x[self._known(x, g, f, clocks) <= a.place[b]])
        return distinct(np.concatenate(found))

    def _keys(self) -> Ints:
        return self.a.footprint.astype(np.int64) * self._base + self.a.place

    def _known(self, access: Ints, footprint: Ints, other: Ints, clocks: Clocks) -> Rows:
        """Return for each access the rows of the pipe of footprint `other` that have retired when it starts, by `_known`."""
        return _known(self.a, access, footprint, other, clocks)

    def _asked(self, clocks: Clocks) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        """Yield four arrays: accesses, for each the first access of the other footprint that is not known to be over when it
        starts, and both footprints.

        Where all of them are over, the second number lies behind the other footprint's accesses.
        """
        keys = self._keys()
        for b, f, g in self._parts():
            same: Bits = self.a.owner[f] == self.a.owner[g]
            known = np.where(same, self.a.place[b] + 1, self._known(b, f, g, clocks))
            yield b, np.searchsorted(keys, g * self._base + np.minimum(known, self._base - 1)), f, g

    def _parts(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield the questions in chunks of limited size, as arrays (access of f, footprint f, footprint g)."""
        if not len(self.f):
            return
        total = np.cumsum(self.a.counts[self.f])
        cuts = np.searchsorted(total, np.arange(_CHUNK, int(total[-1]), _CHUNK), side="left") + 1
        for begin, end in pairwise(sorted({0, len(self.f), *np.minimum(cuts, len(self.f)).tolist()})):
            f, g = self.f[begin:end], self.g[begin:end]
            counts = self.a.counts[f]
            yield ranges(self.a.first[f], counts), np.repeat(f, counts), np.repeat(g, counts)


def _known(a: Accesses, access: Ints, footprint: Ints, other: Ints, clocks: Clocks) -> Rows:
    """Return for each access the number of rows of the pipe of footprint `other` that have retired when it starts.

    A load of the scalar unit is over before anything behind it in its program is issued.
    """
    known = clocks.known(a.owner[footprint] // WIDTH, a.begin[access], a.owner[other])
    loads = np.flatnonzero((a.owner[other] % WIDTH == PIPE_INDEX["S"]) & ~a.writes[other])
    loads = loads[a.owner[footprint[loads]] // WIDTH == a.owner[other[loads]] // WIDTH]
    if not len(loads):
        return known
    base = int(a.row.max(initial=0)) + 2
    rows = a.footprint.astype(np.int64) * base + a.row
    issued = np.searchsorted(rows, other[loads].astype(np.int64) * base + a.row[access[loads]]) - 1
    there = issued >= a.first[other[loads]]  # the last one of `other` that is issued by then
    known[loads[there]] = np.maximum(known[loads[there]], a.place[issued[there]] + 1)
    return known


def nearest(a: Accesses, b: Ints, x: Ints, clocks: Clocks) -> tuple[Ints, Ints]:
    """Return unordered pairs (`b`, `x`) in which each `x` is replaced by a nearer access of its footprint, to report the
    closest lines.

    If `b` and `x` are of one program, it is the footprint's last access in a row before or at that of `b`, else the first one
    behind it if that is unordered with `b` too; otherwise `x` stays. The pairs come in another order.
    """
    g = a.footprint[x].astype(np.int64)
    base = int(a.row.max(initial=0)) + 2
    behind = np.searchsorted(a.footprint.astype(np.int64) * base + a.row, g * base + a.row[b], side="right")
    ahead = behind - 1
    own = a.program(b) == a.program(x)
    earlier = own & (ahead >= x) & (ahead >= a.first[g]) & (ahead != b)
    there = own & (behind < a.first[g + 1])
    later = np.zeros(len(b), np.bool_)
    at = behind[there]
    later[there] = _known(a, at, a.footprint[at], a.footprint[b[there]], clocks) <= a.place[b[there]]
    rest = ~(earlier | later)
    return (np.concatenate((b[earlier], b[later], b[rest])), np.concatenate((ahead[earlier], behind[later], x[rest])))
