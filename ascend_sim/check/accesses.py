"""Who touches which bytes: accesses gathered into footprints, and the pairs of footprints that share a byte.

A footprint is the bytes of one kind of access (program, pipe, read or write) at one address; a tile loop touches the same
few again and again, so that what is asked of pairs is asked of few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.clocks import Clocks
from ascend_sim.check.regions import SPACES, RegionColumns, Stack, regions_in
from ascend_sim.check.sync_rows import WIDTH, SyncRows
from ascend_sim.isa.base import PIPE_INDEX, Instruction
from ascend_sim.kernel.program import InstructionTable, ranges
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT, Allocation
from ascend_sim.memory.regions import Region, overlap

Ints = NDArray[np.int64]
APART = 44
"""Buffers of different cores lie so far apart (as a power of two) where they are looked at together."""
_CHUNK = 1 << 21
"""Questions that are asked at a time: what they take stays within some tens of megabytes."""

_FORMATS = 64
"""More than there are number formats."""


class Shapes:
    """Distinct forms of regions, without their places, by number."""

    def __init__(self) -> None:
        self.forms: list[Region] = []
        self._number: dict[tuple[int, ...], int] = {}
        self._formats: dict[str, int] = {"": 0}
        self._tables: dict[tuple[int, str], tuple[RegionColumns, Ints, Ints]] = {}
        self._held: list[InstructionTable] = []

    def of(self, table: InstructionTable, space: str) -> tuple[RegionColumns, Ints, Ints]:
        """The regions of a table in a space, the number of each one's form, and the format that its instruction adds: 0 for
        none.
        """
        known = self._tables.get((id(table), space))
        columns = regions_in(table.touches, space)
        if known is None or known[0] is not columns:
            self._held.append(table)
            numbers = np.asarray([self._form(region) for region in columns.regions], np.int64)
            counts = np.diff(columns.first)
            formats = [self._formats.setdefault(_added(one), len(self._formats)) for one in table.instructions]
            atomic = np.repeat(np.asarray(formats, np.int64), counts)
            known = self._tables[id(table), space] = (columns, numbers, atomic)
        return known

    def _form(self, region: Region) -> int:
        plain = region.simplified()
        key = (plain.row_bytes, plain.row_stride if plain.rows > 1 else 0, plain.rows,
               plain.plane_stride if plain.planes > 1 else 0, plain.planes)  # fmt: skip
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.forms)
            self.forms.append(Region("dst", "GM", *key))
        return number

    def extents(self) -> Ints:
        """Bytes from the first to the last of every form."""
        return np.asarray([form.extent for form in self.forms], np.int64)

    def contiguous(self) -> NDArray[np.bool_]:
        """Which forms are one run of bytes."""
        return np.asarray([form.rows == form.planes == 1 for form in self.forms], np.bool_)


def _added(one: Instruction) -> str:
    """The format in which an instruction adds to what is there; "" for one that overwrites."""
    if not one.atomic:
        return ""
    told = getattr(one, "atomic_add", True)
    return told if isinstance(told, str) else str(getattr(one, "dtype", "some"))


@dataclass
class Accesses:
    """Accesses of programs to one space, sorted by footprint and place in the pipe.

    Per access: `program`, `row`, `place` (in its pipe), `footprint`. Per footprint: `owner` (program * WIDTH + pipe), `form`,
    `start` (bytes), `writes`, `atomic` (the number of the format that is added, or 0), and `first`, where its accesses begin.
    """

    space: str
    program: Ints
    row: Ints
    place: Ints
    footprint: Ints
    owner: Ints
    form: Ints
    start: Ints
    writes: NDArray[np.bool_]
    atomic: Ints
    first: Ints

    @property
    def counts(self) -> Ints:
        """Accesses of every footprint."""
        return np.diff(self.first)


def gather(
    lined: Iterable[Stack],
    synced: Sequence[SyncRows] | Mapping[int, SyncRows],
    shapes: Shapes,
    tensors: Sequence[Allocation] = (),
) -> dict[str, Accesses]:
    """All accesses of the programs in stacks (numbers in `synced`), by space; those to GM at the addresses of `tensors`."""
    parts: dict[str, list[tuple[Any, ...]]] = {space: [] for space in SPACES}
    for stack in lined:
        place = np.concatenate([synced[one].place for one in stack.programs])
        owner = np.concatenate([synced[one].pipe for one in stack.programs]) + stack.number * WIDTH
        for space, found in parts.items():
            if len(regions_in(stack.table.touches, space).regions):
                found.append(_in_stack(stack, space, place, owner, shapes, tensors))
    return {space: _by_footprint(space, found, len(shapes.forms)) for space, found in parts.items()}


def _in_stack(
    stack: Stack, space: str, place: Ints, owner: Ints, shapes: Shapes, tensors: Sequence[Allocation]
) -> tuple[Any, ...]:
    """Program, row, place, owner, form, start, writes and atomic of every access to a space."""
    columns, forms, atomic = shapes.of(stack.table, space)
    row, region = stack.accesses(space)
    address = stack.rows[row, columns.column[region]]
    apart: Any
    limit: Any
    if space == "GM":
        slot = address >> SLOT_SHIFT
        slot[(slot < 0) | (slot >= len(tensors))] = -1
        address = address & OFFSET_MASK
        apart = np.asarray([*(tensor.base for tensor in tensors), 0], np.int64)[slot]
        limit = np.asarray([*(tensor.size for tensor in tensors), -1], np.int64)[slot]
    else:
        apart, limit = stack.number[row] << APART, stack.table.chip.buffers[space]  # type: ignore[index]
    start = address + columns.offset[region]
    # What lies outside is told by memcheck; it would be taken for its neighbour.
    inside = (start >= 0) & (address <= limit - columns.extent[region])
    start = start + apart
    if not inside.all():
        row, region, start = row[inside], region[inside], start[inside]
    return (
        stack.number[row], stack.row[row], place[row], owner[row], forms[region], start, columns.writes[region],
        atomic[region],
    )  # fmt: skip


def _by_footprint(space: str, parts: Sequence[tuple[Any, ...]], forms: int) -> Accesses:
    """Accesses of stacks, of `forms` distinct forms, together and sorted."""
    if not parts:
        empty, no = np.empty(0, np.int64), np.empty(0, np.bool_)
        return Accesses(space, *(empty,) * 7, no, empty, np.zeros(1, np.int64))
    program, row, place, owner, form, start, writes, atomic = (
        np.concatenate(column) if len(parts) > 1 else column[0] for column in zip(*parts, strict=True)
    )
    kind = ((owner * 2 + writes) * _FORMATS + atomic) * (forms + 1) + form
    order = np.lexsort((place, start, kind))
    kind, start = kind[order], start[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (kind[1:] != kind[:-1]) | (start[1:] != start[:-1])
    first = np.flatnonzero(new)
    one = order[first]
    return Accesses(
        space, program[order], row[order], place[order], np.cumsum(new) - 1, owner[one], form[one], start[first],
        writes[one], atomic[one], np.append(first, len(order)),
    )  # fmt: skip


def sharing_pairs(a: Accesses, shapes: Shapes) -> tuple[Ints, Ints]:
    """Pairs of footprints that share a byte, one of them a write, not both adding one format; each once.

    A write is paired with itself too.
    """
    written = np.flatnonzero(a.writes)
    if not len(written):
        return written, written
    low = a.start
    high = low + shapes.extents()[a.form]
    read = np.flatnonzero(~a.writes)
    written, read = written[np.argsort(low[written], kind="stable")], read[np.argsort(low[read], kind="stable")]
    low_w, low_r = low[written], low[read]
    found: list[tuple[Ints, Ints]] = []
    # Writes with writes that begin later, before they end; then each with reads that begin in it, and reads with writes.
    upto = np.searchsorted(low_w, high[written], side="left")
    here = np.arange(len(written))
    counts = np.maximum(upto - here, 0)
    found.append((np.repeat(written, counts), written[ranges(here, counts)]))
    begin, end = np.searchsorted(low_r, low_w, side="left"), np.searchsorted(low_r, high[written], side="left")
    found.append((np.repeat(written, end - begin), read[ranges(begin, end - begin)]))
    begin, end = np.searchsorted(low_w, low_r, side="right"), np.searchsorted(low_w, high[read], side="left")
    counts = np.maximum(end - begin, 0)
    found.append((np.repeat(read, counts), written[ranges(begin, counts)]))
    f, g = (np.concatenate(side) for side in zip(*found, strict=True))
    keep = (a.atomic[f] == 0) | (a.atomic[f] != a.atomic[g])
    if a.space == "L0C":  # the cube interlocks its own additions
        keep &= ~((a.owner[f] == a.owner[g]) & (a.owner[f] % WIDTH == PIPE_INDEX["M"]))
    f, g = f[keep], g[keep]
    exact = shapes.contiguous()
    sure = exact[a.form[f]] & exact[a.form[g]] if len(f) else np.empty(0, np.bool_)
    doubtful = np.flatnonzero(~sure)
    sure[doubtful] = _overlaps(a, f[doubtful], g[doubtful], shapes)
    return f[sure], g[sure]


def _overlaps(a: Accesses, f: Ints, g: Ints, shapes: Shapes) -> NDArray[np.bool_]:
    """Whether strided footprints share a byte: asked once for each two forms at a distance."""
    if not len(f):
        return np.empty(0, np.bool_)
    forms = a.form[f] * len(shapes.forms) + a.form[g]
    distance = a.start[g] - a.start[f]
    order = np.lexsort((distance, forms))
    forms, distance = forms[order], distance[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (forms[1:] != forms[:-1]) | (distance[1:] != distance[:-1])
    known = shapes.forms
    answers = [
        overlap(known[form // len(known)], known[form % len(known)], far)
        for form, far in zip(forms[new].tolist(), distance[new].tolist(), strict=True)
    ]
    result = np.empty(len(order), np.bool_)
    result[order] = np.asarray(answers, np.bool_)[np.cumsum(new) - 1]
    return result


class Questions:
    """What must be in order: for an access, the first later one of another footprint that does not lie before it.

    If that one comes after the access, all later ones do, for a pipe learns and never forgets.
    """

    def __init__(self, a: Accesses, f: Ints, g: Ints) -> None:
        self.a = a
        same = a.owner[f] == a.owner[g]
        apart = ~same
        swap = apart & (a.counts[f] > a.counts[g]) if len(f) else apart
        across = (np.where(swap, g, f)[apart], np.where(swap, f, g)[apart])
        onward = same & (a.writes[f] if len(f) else same)
        back = same & (f != g) & (a.writes[g] if len(f) else same)
        self.f = np.concatenate((across[0], f[onward], g[back]))
        self.g = np.concatenate((across[1], g[onward], f[back]))
        self._base = int(a.place.max(initial=0)) + 2
        self._keys = a.footprint * self._base + a.place

    def __len__(self) -> int:
        return len(self.f)

    def about(self, programs: Collection[int]) -> Questions:
        """Those of which accesses of these programs are a part."""
        f, g = self.a.owner[self.f] // WIDTH, self.a.owner[self.g] // WIDTH
        mine = np.zeros(max(int(f.max(initial=0)), int(g.max(initial=0)), *programs) + 1, np.bool_)
        mine[list(programs)] = True
        there = mine[f] | mine[g]
        if there.all():
            return self
        one = copy(self)
        one.f, one.g = self.f[there], self.g[there]
        return one

    def unordered(self, clocks: Clocks) -> tuple[Ints, Ints]:
        """Pairs of accesses (numbers in `a`) that no flag and no barrier orders; one for each access and footprint."""
        first, second = [], []
        for begin, end in self._parts():
            b, x = self._asked(begin, end, clocks)
            first.append(b)
            second.append(x)
        none = np.empty(0, np.int64)
        return np.concatenate([*first, none]), np.concatenate([*second, none])

    def _parts(self) -> list[tuple[int, int]]:
        if not len(self.f):
            return []
        total = np.cumsum(self.a.counts[self.f])
        cuts = np.searchsorted(total, np.arange(_CHUNK, int(total[-1]), _CHUNK), side="left") + 1
        edges = sorted({0, len(self.f), *np.minimum(cuts, len(self.f)).tolist()})
        return list(pairwise(edges))

    def _asked(self, begin: int, end: int, clocks: Clocks) -> tuple[Ints, Ints]:
        a = self.a
        f, g = self.f[begin:end], self.g[begin:end]
        counts = a.counts[f]
        b = ranges(a.first[f], counts)
        f, g = np.repeat(f, counts), np.repeat(g, counts)
        same_pipe = a.owner[f] == a.owner[g]
        known = np.where(same_pipe, a.place[b] + 1, clocks.known(a.program[b], a.row[b], a.owner[g]))
        x = np.searchsorted(self._keys, g * self._base + np.minimum(known, self._base - 1), side="left")
        there = x < a.first[g + 1]
        b, x, f = b[there], x[there], f[there]
        wrong = clocks.known(a.program[x], a.row[x], a.owner[f]) <= a.place[b]
        return b[wrong], x[wrong]

    def nearest(self, b: Ints, x: Ints, clocks: Clocks) -> tuple[Ints, Ints]:
        """For unordered pairs of one program the neighbours in the kernel's text instead of the first that is unordered.

        The last access of that footprint written before `b`, and the first behind it, as far as they are unordered.
        """
        a = self.a
        g = a.footprint[x]
        base = int(a.row.max(initial=0)) + 2
        behind = np.searchsorted(a.footprint * base + a.row, g * base + a.row[b], side="right")
        ahead = behind - 1
        own = a.program[b] == a.program[x]
        earlier = own & (ahead >= x) & (ahead >= a.first[g]) & (ahead != b)
        there = own & (behind < a.first[g + 1])
        later = np.zeros(len(b), np.bool_)
        at = behind[there]
        later[there] = clocks.known(a.program[at], a.row[at], a.owner[a.footprint[b[there]]]) <= a.place[b[there]]
        rest = ~(earlier | later)
        return (
            np.concatenate((b[earlier], b[later], b[rest])),
            np.concatenate((ahead[earlier], behind[later], x[rest])),
        )
