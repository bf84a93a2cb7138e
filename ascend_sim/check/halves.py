"""Order where very many footprints share bytes: asked of halves of the bytes, halves of these and so on.

The edges of all footprints divide the bytes into pieces. Two neighbours make a half of the next size, and so on. Of each size
an access covers at most two halves that lie in no larger one that it covers, and it has a part of at most two others. Two
accesses that share a byte meet in a half which one of them covers, and of which the other covers all or has a part.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascend_sim.check.accesses import Accesses, Shapes
from ascend_sim.check.clocks import Bits
from ascend_sim.check.sharing import Pairs, kinds_of, meet
from ascend_sim.check.sync_rows import WIDTH, Ints, Rows
from ascend_sim.frozen import mutable
from ascend_sim.kernel.program import ranges
from ascend_sim.memory.regions import row_starts
from ascend_sim.numerics.distinct import distinct

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number that spreads the bits of others."""


@mutable
class _Runs:
    """Contiguous byte ranges, an array element each: its footprint, its first byte and its end."""

    footprint: Ints
    low: Ints
    high: Ints

    def of(self, chosen: Ints | Bits) -> _Runs:
        return _Runs(self.footprint[chosen], self.low[chosen], self.high[chosen])

    def clusters(self) -> Ints:
        """Sort the ranges by first byte in place; return the index of each that begins where or after all earlier ones end."""
        order = np.lexsort((self.footprint, self.low))
        self.footprint, self.low, self.high = self.footprint[order], self.low[order], self.high[order]
        ends = np.maximum.accumulate(self.high)
        return np.flatnonzero(np.concatenate(([True], self.low[1:] >= ends[:-1])))

    def with_writes(self, writes: Bits) -> _Runs:
        """Return the ranges of the clusters that contain a write; a cluster is a chain of overlapping ranges.

        `writes` has True for each writing footprint. Sorts these ranges in place.
        """
        if not len(self.low):
            return self
        first = self.clusters()
        written = np.logical_or.reduceat(writes[self.footprint], first)
        return self.of(np.repeat(written, np.diff(np.append(first, len(self.low)))))

    def once(self) -> _Runs:
        """Return the ranges without repeated clusters: of those with equal footprints and relative ranges only the first.

        Sorts these ranges in place.
        """
        if not len(self.low):
            return self
        first = self.clusters()
        counts = np.diff(np.append(first, len(self.low)))
        base = np.repeat(self.low[first], counts)
        low, high = self.low - base, self.high - base
        mixed = (self.footprint.astype(np.uint64) + np.uint64(1)) * _MIX
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ low.astype(np.uint64)) * _MIX
        mixed = (mixed ^ (mixed >> np.uint64(31)) ^ high.astype(np.uint64)) * _MIX
        _, one, which = np.unique(
            np.add.reduceat(mixed ^ (mixed >> np.uint64(30)), first), return_index=True, return_inverse=True
        )
        like = one[which.ravel()]
        stays = (like == np.arange(len(first))) | (counts[like] != counts)
        mine = np.flatnonzero(np.repeat(~stays, counts))
        theirs = ranges(first[like[~stays]], counts[~stays])
        other = (self.footprint[mine] != self.footprint[theirs]) | (low[mine] != low[theirs]) | (high[mine] != high[theirs])
        stays[np.repeat(np.arange(len(first)), counts)[mine[other]]] = True
        return self.of(np.repeat(stays, counts))


def _runs(a: Accesses, shapes: Shapes) -> _Runs:
    """Return the contiguous byte ranges of the footprints, but for clusters without a write and repeated clusters.

    A cluster is a chain of overlapping ranges (`_Runs.with_writes`, `_Runs.once`).
    """
    every = _Runs(np.arange(len(a.start)), a.start, a.start + shapes.extents[a.form]).with_writes(a.writes)
    whole = shapes.contiguous[a.form[every.footprint]]
    parts, rest = [every.of(whole)], every.of(~whole)
    for form in distinct(a.form[rest.footprint]).tolist():
        mine = rest.of(a.form[rest.footprint] == form)
        starts = row_starts(shapes.forms[form])
        low = (mine.low[:, None] + starts).ravel()
        parts.append(_Runs(np.repeat(mine.footprint, len(starts)), low, low + shapes.forms[form].row_bytes))
    columns = ((one.footprint, one.low, one.high) for one in parts)
    return _Runs(*map(np.concatenate, zip(*columns, strict=True))).with_writes(a.writes).once()


def _by_size(runs: _Runs) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    """Yield four arrays for each size of halves, single pieces first: footprints and the half that each covers whole;
    footprints and the half that each touches in part.

    Pieces are the bytes between neighbouring edges of the ranges; a half of the next size joins two neighbours. A footprint
    covers a half only if it covers no larger one around it.
    """
    footprint, edges = runs.footprint, distinct(np.concatenate((runs.low, runs.high)))
    if not len(edges):
        return
    first = runs.clusters()
    begin, end = np.searchsorted(edges, runs.low), np.searchsorted(edges, runs.high)
    footprint = runs.footprint
    reach = np.maximum.reduceat(end, first) - begin[first]
    reach = np.repeat(reach, np.diff(np.append(first, len(begin))))  # no half of more pieces is covered
    left, right = np.zeros(len(begin), np.bool_), np.zeros(len(begin), np.bool_)
    size = 1
    while len(begin):
        both = left & right & (begin - 1 == end)
        part = np.concatenate((footprint[left], footprint[right & ~both]))
        halves = np.concatenate((begin[left] - 1, end[right & ~both]))
        goes_on = begin < end
        one, other = goes_on & (begin % 2 == 1), goes_on & (end % 2 == 1)
        covers = np.concatenate((footprint[one], footprint[other]))
        yield covers, np.concatenate((begin[one], end[other] - 1)), part, halves
        left, right = left | one, right | other
        begin, end = (begin + one + 1) // 2, (end - other) // 2
        size *= 2
        stays = reach >= size
        footprint, begin, end, reach = footprint[stays], begin[stays], end[stays], reach[stays]
        left, right = left[stays], right[stays]


@mutable
class Halves:
    """Accesses that meet in halves of one size, and the pairs of them that must be in order.

    A half is the bytes between two neighbouring edges of accesses or, of the next size, two neighbouring halves. `accesses` has
    footprints of its own: all accesses of one owner and kind to one half; `of` has each access's number in the original
    Accesses. `pairs` are pairs of these footprints. `apart` are original footprints that share bytes with a core that no flag
    connects to theirs.
    """

    accesses: Accesses
    pairs: Pairs
    of: Ints
    apart: Ints


def halves(a: Accesses, shapes: Shapes, group: Ints) -> Iterator[Halves]:
    """Yield the pairs of accesses that must be in order, as one `Halves` for each size of halves in which accesses meet.

    `group` has for each program the number of its group of cores, which flags connect.
    """
    kinds, hears = kinds_of(a, shapes), group[a.owner // WIDTH]
    for covers, covered, part, touched in _by_size(_runs(a, shapes)):
        there = np.isin(touched, covered)
        footprint = np.concatenate((covers, part[there]))
        half = np.concatenate((covered, touched[there]))
        partly = np.repeat([False, True], [len(covers), int(there.sum())])
        if len(footprint):
            yield _of_size(a, kinds, hears, footprint, half, partly)


def _of_size(a: Accesses, kinds: Rows, hears: Ints, footprint: Ints, half: Ints, partly: Bits) -> Halves:
    """Return the `Halves` of one size: `footprint[i]` covers `half[i]` (a half's number, as in `Halves`) whole, or touches a
    part of it where `partly[i]`.

    `kinds` are those of `kinds_of`, `hears` the group of cores of each footprint's program.
    """
    owner = a.owner[footprint].astype(np.int64)
    order = np.lexsort((footprint, owner, kinds[footprint], partly, half))
    footprint, half, partly, owner = footprint[order], half[order], partly[order], owner[order]
    kind = kinds[footprint]
    columns = np.stack((half, partly, kind, owner))
    new = np.concatenate(([True], (columns[:, 1:] != columns[:, :-1]).any(axis=0)))
    again = np.concatenate(([False], ~new[1:] & (footprint[1:] == footprint[:-1])))  # rows of one footprint in one half
    number = (np.cumsum(new) - 1)[~again]
    counts = a.counts[footprint[~again]]
    access, number = ranges(a.first[footprint[~again]], counts), np.repeat(number, counts)
    order = np.lexsort((a.place[access], number))
    access = access[order]
    one = np.flatnonzero(new)
    first = np.searchsorted(number, np.arange(len(one) + 1))
    mine = Accesses(
        a.space, a.row[access], a.place[access], number.astype(np.int32), a.owner[footprint[one]],
        a.form[footprint[one]], a.start[footprint[one]], a.writes[footprint[one]], a.atomic[footprint[one]], first,
    )  # fmt: skip
    half, partly, kind, hears = half[one], partly[one], kind[one], hears[footprint[one]]
    f, g, apart = [np.empty(0, np.int64)], [np.empty(0, np.int64)], np.zeros(len(one), np.bool_)
    for k in distinct(kind).tolist():
        for other in distinct(kind).tolist():
            if not meet(k, other):
                continue
            whole = np.flatnonzero((kind == k) & ~partly)
            for rest in (False, True) if k <= other else (True,):
                theirs = np.flatnonzero((kind == other) & (partly == rest))
                pair = _joined(half, hears, whole, theirs)
                keep = pair[0] <= pair[1] if k == other and not rest else np.ones(len(pair[0]), np.bool_)
                f.append(pair[0][keep])
                g.append(pair[1][keep])
                apart[whole[_others(half, hears, whole, theirs)]] = True
                apart[theirs[_others(half, hears, theirs, whole)]] = True
    racing = distinct(a.footprint[access[apart[number]]]) if apart.any() else np.empty(0, np.int64)
    return Halves(mine, (np.concatenate(f), np.concatenate(g)), access, racing)


def _joined(half: Ints, hears: Ints, mine: Ints, theirs: Ints) -> Pairs:
    """Return the pairs (one of `mine`, one of `theirs`) that lie in the same half and whose programs are in the same group
    (`hears`).

    `mine` and `theirs` are indices into `half` and `hears`.
    """
    theirs = theirs[np.lexsort((hears[theirs], half[theirs]))]
    base = int(hears.max(initial=0)) + 1
    keys, own = half[theirs] * base + hears[theirs], half[mine] * base + hears[mine]
    first, end = np.searchsorted(keys, own), np.searchsorted(keys, own, side="right")
    return np.repeat(mine, end - first), theirs[ranges(first, end - first)]


def _others(half: Ints, hears: Ints, mine: Ints, theirs: Ints) -> Bits:
    """Return True for each of `mine` that shares its half with one of `theirs` whose program is in another group (`hears`).

    `mine` and `theirs` are indices into `half` and `hears`.
    """
    if not len(theirs):
        return np.zeros(len(mine), np.bool_)
    theirs = theirs[np.lexsort((hears[theirs], half[theirs]))]
    first, end = np.searchsorted(half[theirs], half[mine]), np.searchsorted(half[theirs], half[mine], side="right")
    there, last = first < end, len(theirs) - 1
    least, most = hears[theirs[np.minimum(first, last)]], hears[theirs[np.maximum(end - 1, 0)]]
    return there & ((least != hears[mine]) | (most != hears[mine]))
