"""Pairs of footprints that share a byte, one of them a write.

Most kernels touch a few places again and again, and few pairs share a byte. Where very many do, `halves` asks instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ascend_sim.check.accesses import Accesses, Shapes
from ascend_sim.check.sync_rows import WIDTH, Ints, Rows
from ascend_sim.isa.base import PIPE_INDEX
from ascend_sim.kernel.program import ranges
from ascend_sim.memory.regions import overlap
from ascend_sim.numerics.distinct import distinct

Pairs = tuple[Ints, Ints]
MOST_PAIRS, MOST_ASKED = 2, 16
"""Pairs of footprints for each access, and questions about each, above which bytes are halved instead."""
_FEW = 1 << 12
"""Pairs that are few whatever the accesses."""
_CHUNK = 1 << 18
"""Pairs that are looked at together."""


def kinds_of(a: Accesses, shapes: Shapes) -> Rows:
    """Return a number for each footprint that `meet` compares: bit 0 a write, bit 1 by the cube on a tile of L0C that
    interlocks, the rest the number of an atomic operation and its format (0: none).
    """
    cube = (a.owner % WIDTH == PIPE_INDEX["M"]) & (shapes.extents[a.form] > shapes.small_tile) & (a.space == "L0C")
    return (a.atomic * 2 + cube) * 2 + a.writes


def meet(one: int, other: int) -> bool:
    """Return True if accesses of these two kinds (`kinds_of`) to the same bytes must be in order.

    Two reads need not, nor equal atomic operations in one format, nor two of the cube to large tiles of L0C, which interlock.
    """
    writes, cube, atomic = (one | other) & 1, one & other & 2, one >> 2
    return bool(writes) and not cube and not (atomic and atomic == other >> 2)


def _candidates(a: Accesses, shapes: Shapes) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    """Yield arrays (footprints, first, count, others) with the pairs of footprints whose byte ranges overlap, for every two
    kinds that must be in order.

    The partners of `footprints[i]` are `others[first[i] : first[i] + count[i]]`: they begin inside its range.
    """
    low = a.start
    high = low + shapes.extents[a.form]
    kinds = kinds_of(a, shapes)
    of_kind = {kind: np.flatnonzero(kinds == kind) for kind in distinct(kinds).tolist()}
    of_kind = {kind: mine[np.argsort(low[mine], kind="stable")] for kind, mine in of_kind.items()}
    for one, mine in of_kind.items():
        for other, theirs in of_kind.items():
            if other < one or not meet(one, other):
                continue
            upto = np.searchsorted(low[theirs], high[mine], side="left")
            if one == other:
                yield mine, np.arange(len(mine)), np.maximum(upto - np.arange(len(mine)), 0), theirs
                continue
            first = np.searchsorted(low[theirs], low[mine], side="left")
            yield mine, first, np.maximum(upto - first, 0), theirs
            first = np.searchsorted(low[mine], low[theirs], side="right")
            upto = np.searchsorted(low[mine], high[theirs], side="left")
            yield theirs, first, np.maximum(upto - first, 0), mine


def sharing_pairs(a: Accesses, shapes: Shapes) -> Pairs | None:
    """Return the pairs of footprints that share a byte and must be in order (`meet`), each once; also a write with itself if
    `meet` asks for that (not an atomic one, nor one of the cube to a large tile of L0C).

    Returns None if they are too many: more than MOST_PAIRS overlapping ranges, or MOST_ASKED accesses to compare, for each
    access, and _FEW more. A pair counts the accesses of its footprint with fewer.
    """
    found = list(_candidates(a, shapes))
    if sum(int(counts.sum()) for _, _, counts, _ in found) > MOST_PAIRS * len(a.row) + _FEW:
        return None
    none = np.empty(0, np.int64)
    f = np.concatenate([none, *(np.repeat(mine, counts) for mine, _, counts, _ in found)])
    g = np.concatenate([none, *(theirs[ranges(first, counts)] for _, first, counts, theirs in found)])
    f, g = _exactly(a, f, g, shapes)
    asked = np.minimum(a.counts[f], a.counts[g])
    return None if int(asked.sum()) > MOST_ASKED * len(a.row) + _FEW else in_message_order(a, f, g)


def in_message_order(a: Accesses, f: Ints, g: Ints) -> Pairs:
    """Return the pairs (f, g) sorted for messages: writes with writes, then writes with reads that begin in them, then all
    others, each by address.

    In each pair the footprint that begins first comes first; at one address the write.
    """
    together = a.start[f] == a.start[g]
    swap = np.where(together & (a.writes[f] != a.writes[g]), a.writes[g], (a.start[f] > a.start[g]) | (together & (f > g)))
    f, g = np.where(swap, g, f), np.where(swap, f, g)
    part = np.where(a.writes[f] & a.writes[g], 0, np.where(a.writes[f], 1, 2))
    order = np.lexsort((g, a.start[g], f, a.start[f], part))
    return f[order], g[order]


def _exactly(a: Accesses, f: Ints, g: Ints, shapes: Shapes) -> Pairs:
    """Return the pairs, whose ranges overlap, that share a byte; each two shapes at one distance are tested once."""
    whole = shapes.contiguous
    sure = whole[a.form[f]] & whole[a.form[g]] if len(f) else np.empty(0, np.bool_)
    doubtful = np.flatnonzero(~sure)
    if len(doubtful):
        forms = a.form[f[doubtful]].astype(np.int64) * len(shapes.forms) + a.form[g[doubtful]]
        distance = a.start[g[doubtful]] - a.start[f[doubtful]]
        order = np.lexsort((distance, forms))
        forms, distance = forms[order], distance[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (forms[1:] != forms[:-1]) | (distance[1:] != distance[:-1])
        known = shapes.forms
        answers = [
            overlap(known[form // len(known)], known[form % len(known)], far)
            for form, far in zip(forms[new].tolist(), distance[new].tolist(), strict=True)
        ]
        sure[doubtful[order]] = np.asarray(answers, np.bool_)[np.cumsum(new) - 1]
    return f[sure], g[sure]


def pairs_among(a: Accesses, shapes: Shapes, chosen: Ints) -> Iterator[Pairs]:
    """Yield the pairs of `chosen` footprints that share a byte and must be in order, in chunks.

    Over all chunks the pairs are `in_message_order`, so a caller that wants only the first can stop early.
    """
    order = chosen[np.lexsort((chosen, a.start[chosen]))]
    written, read = order[a.writes[order]], order[~a.writes[order]]
    kinds, high = kinds_of(a, shapes), a.start + shapes.extents[a.form]
    low_w, low_r = a.start[written], a.start[read]
    for mine, theirs, low, first in (
        (written, written, low_w, np.arange(len(written))),
        (written, read, low_r, np.searchsorted(low_r, low_w, side="left")),
        (read, written, low_w, np.searchsorted(low_w, low_r, side="right")),
    ):
        counts = np.maximum(np.searchsorted(low, high[mine], side="left") - first, 0)
        total = np.cumsum(counts)
        cuts = np.searchsorted(total, np.arange(_CHUNK, total[-1] if len(total) else 0, _CHUNK)) + 1
        for begin, end in pairwise([0, *np.minimum(cuts, len(mine)).tolist(), len(mine)]):
            some = slice(begin, end)
            f, g = np.repeat(mine[some], counts[some]), theirs[ranges(first[some], counts[some])]
            one, other = kinds[f], kinds[g]
            keep = (one & other & 2 == 0) & ((one >> 2 != other >> 2) | (one >> 2 == 0))
            yield _exactly(a, f[keep], g[keep], shapes)
