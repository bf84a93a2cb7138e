"""initcheck: reads of bytes that were never written, in a core's buffers and in GM, and outputs that stay unwritten.

Written bytes stay written, so only the first access of each footprint is examined, in an order that no flag contradicts.
A read that races with the write is reported as a race and not here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.accesses import APART, Accesses
from ascend_sim.check.findings import REMARK, CheckFinding
from ascend_sim.check.regions import LOCAL_SPACES
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import WIDTH, Ints
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.frozen import mutable
from ascend_sim.isa.base import PIPE_INDEX, ceil_div
from ascend_sim.isa.forms import copies_whole_blocks
from ascend_sim.memory.gm import Allocation
from ascend_sim.memory.regions import Region
from ascend_sim.numerics.distinct import distinct

ROLES = ("input", "given", "spare", "output", "workspace")
"""Roles of a tensor in a check: an `input` holds values and is read whole, one that is `given` holds values and is used, one
that is `spare` holds values that nothing depends on, an `output` must be written whole, a `workspace` is empty at first.
"""

_MTE2 = PIPE_INDEX["MTE2"]
_MARKED = memoryview(b"\1" * (1 << 16))


class _Units:
    """Marks of bytes in units of `size` bytes: `all` has one item for each unit, 1 where it is marked.

    Regions must begin at units and consist of whole ones; nothing checks that.
    """

    def __init__(self, count: int, size: int = 1, marked: bool = False) -> None:
        self.size = size
        self._held = bytearray(b"\1") * count if marked else bytearray(count)
        self.all: NDArray[np.bool_] = np.ndarray((count,), np.bool_, self._held)

    def mark(self, region: Region, start: int) -> None:
        """Mark the units of a region that begins at byte `start`."""
        if region.rows == region.planes == 1:
            first, end = start // self.size, (start + region.row_bytes) // self.size
            self._held[first:end] = _MARKED[: end - first] if end - first <= len(_MARKED) else b"\1" * (end - first)
        else:
            self._view(region, start)[...] = True

    def missing(self, region: Region, start: int) -> int:
        """Return the number of bytes of a region, from byte `start`, that are not marked."""
        if region.rows == region.planes == 1:
            first, end = start // self.size, (start + region.row_bytes) // self.size
            if self._held.find(0, first, end) < 0:
                return 0
            return self._held.count(0, first, end) * self.size
        view = self._view(region, start)
        return int(view.size - np.count_nonzero(view)) * self.size

    def _view(self, region: Region, start: int) -> NDArray[np.bool_]:
        """Return the marks of a region at byte `start` as a writable array [planes, rows, units]."""
        size = self.size
        shape = (region.planes, region.rows, region.row_bytes // size)
        strides = (region.plane_stride // size, region.row_stride // size, 1)
        return np.ndarray(shape, np.bool_, self._held, start // size, strides)


@mutable
class _TouchedUnits:
    """Marks of one tensor: the units that hold a written value, and the units that any access touched."""

    written: _Units
    touched: _Units


@mutable
class Contents:
    """State of GM during a check: the bytes that tasks have written so far.

    `roles` says by name whose tensors hold values at the beginning (ROLES); an unlisted one is "given".
    """

    roles: Mapping[str, str]
    _units: dict[tuple[int, int, str], int] = field(default_factory=dict)
    _held: dict[tuple[int, int, str], _TouchedUnits] = field(default_factory=dict)
    _seen: dict[tuple[int, int, str], tuple[Allocation, str]] = field(default_factory=dict)

    def plan(self, subject: Subject) -> None:
        """Choose how many bytes of each tensor of a task are marked at a time (the greatest common divisor of its size and of
        the offsets, rows and strides of its accesses), and note the tensor for `finish`; called for every task before any is
        checked.
        """
        a = subject.accesses["GM"]
        for tensor, mine in zip(subject.task.tensors, _by_tensor(subject, a), strict=True):
            key = _key(tensor)
            unit = self._units.get(key, gcd(0, tensor.size))
            if len(mine):
                unit = gcd(unit, int(np.gcd.reduce(a.start[mine] - tensor.base)))
                for form in distinct(a.form[mine]).tolist():
                    region = subject.shapes.forms[form]
                    unit = gcd(unit, region.row_bytes, region.row_stride, region.plane_stride)
            self._units[key] = unit
            self._seen.setdefault(key, (tensor, subject.task.name))

    def find(self, subject: Subject, broken: Collection[str] = ()) -> list[CheckFinding]:
        """Return findings on the reads of unwritten bytes in one task, in GM and in buffers, and mark the bytes that it wrote.

        Spaces that are `broken` (accesses to wrong addresses) are left out: bytes missing there were written elsewhere.
        """
        found = list(_gm_reads(subject, self))
        for space in LOCAL_SPACES:
            if space not in broken:
                found += _local_reads(subject, space)
        return [one for one in found if one.space not in broken]

    def finish(self) -> list[CheckFinding]:
        """Return findings after the last task: outputs that were touched but not written whole (initcheck), and unused memory.

        Unused (memcheck, a remark) is a tensor that nothing touched, and of an input each byte not touched; a spare tensor
        never is.
        """
        found = []
        for key, (tensor, task) in self._seen.items():
            role = self.roles.get(tensor.name, "given")
            state = self._held.get(key)
            unit = 1 if state is None else state.written.size
            untouched = tensor.size if state is None else int(np.count_nonzero(~state.touched.all)) * unit
            missing = tensor.size if state is None else int(np.count_nonzero(~state.written.all)) * unit
            if role == "output" and missing and state is not None and untouched < tensor.size:
                at = int(np.argmin(state.written.all)) * unit
                found.append(
                    CheckFinding.of(
                        "initcheck",
                        "unwritten output",
                        task,
                        f"uninitialized output of size {missing}",
                        details=(f"at {tensor.base + at:#x} on GM in {task}, {tensor.name}+{at:#x}, never written",),
                        space="GM",
                        size=missing,
                    )
                )
            elif untouched and role != "spare" and (role == "input" or untouched == tensor.size):
                at = 0 if state is None else int(np.argmin(state.touched.all)) * unit
                found.append(
                    CheckFinding.of(
                        "memcheck",
                        "unused memory",
                        task,
                        f"Unused memory of {untouched} byte(s)",
                        details=(f"at {tensor.base + at:#x} on GM in {task}, {tensor.name}+{at:#x}",),
                        space="GM",
                        size=untouched,
                        level=REMARK,
                    )
                )
        return found

    def state(self, tensor: Allocation) -> _TouchedUnits:
        """Return the marks of a tensor, created at its first use.

        A tensor that holds values from the beginning by its role (input, given, spare) starts as wholly written. The slack
        behind a tensor always counts as written and touched.
        """
        key = _key(tensor)
        known = self._held.get(key)
        if known is None:
            unit = self._units.get(key, 1) or 1
            count, end = ceil_div(tensor.room, unit), tensor.size // unit
            full = self.roles.get(tensor.name, "given") in ("input", "given", "spare")
            known = self._held[key] = _TouchedUnits(_Units(count, unit, full), _Units(count, unit))
            known.written.all[end:] = known.touched.all[end:] = True  # the slack need not be written
        return known


def _key(tensor: Allocation) -> tuple[int, int, str]:
    return (tensor.base, tensor.size, tensor.name)


def _by_tensor(subject: Subject, a: Accesses) -> list[Ints]:
    """Return for each tensor of the task an array with the footprints that begin in it."""
    owner = subject.slots(a.start)
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(len(subject.task.tensors) + 1)))[1:-1]


def _in_order(subject: Subject, a: Accesses, chosen: Ints) -> Ints:
    """Return the `chosen` footprints sorted by their first accesses, in an order that the flags allow.

    In one row reads come before writes.
    """
    first = a.first[chosen]
    program, row = a.program(first), a.row[first]
    clocks = subject.order.clocks
    level = clocks.levels(clocks.event[clocks.offset[program] + row])
    turn = row.copy()
    for number, rank in subject.ranks.items():
        mine = program == number
        turn[mine] = rank[row[mine]]
    return chosen[np.lexsort((a.writes[chosen], turn, program, level))]


def _gm_reads(subject: Subject, contents: Contents) -> Iterator[CheckFinding]:
    a = subject.accesses["GM"]
    tensors = subject.task.tensors
    states = [contents.state(tensor) for tensor in tensors]
    owner = np.full(len(a.start), -1)
    for slot, (tensor, state, mine) in enumerate(zip(tensors, states, _by_tensor(subject, a), strict=True)):
        _mark(state.touched, subject, a, mine, tensor.base)
        if not state.written.all.all():
            if (a.writes[mine] & (a.atomic[mine] == 0)).all():
                _mark(state.written, subject, a, mine, tensor.base)
            else:
                owner[mine] = slot
    by_line: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    order = _in_order(subject, a, np.flatnonzero(owner >= 0))
    asks = ~a.writes[order] | (a.atomic[order] != 0)
    columns = (order, owner[order], a.start[order], a.form[order], asks, a.writes[order])
    for one, slot, start, form, reads, writes in zip(*(column.tolist() for column in columns), strict=True):
        written, region, at = states[slot].written, subject.shapes.forms[form], start - tensors[slot].base
        if reads and (missing := written.missing(region, at)) and not subject.races("GM", one):
            first = int(a.first[one])
            key = subject.line_key(int(a.program(first)), int(a.row[first]))
            by_line.setdefault((slot, *key), []).append((one, missing))
        if writes:
            written.mark(region, at)
    yield from _unwritten_reads(subject, "GM", a, by_line, 0)


def _mark(units: _Units, subject: Subject, a: Accesses, chosen: Ints, base: int) -> None:
    """Mark the bytes of the `chosen` footprints in `units`, which begin at address `base`; adjoining ones together."""
    whole = subject.shapes.contiguous[a.form[chosen]]
    for one in chosen[~whole].tolist():
        units.mark(subject.shapes.forms[a.form[one]], int(a.start[one]) - base)
    runs = chosen[whole]
    runs = runs[np.argsort(a.start[runs], kind="stable")]
    if len(runs):
        low, high = (a.start[runs] - base, np.maximum.accumulate(a.start[runs] + subject.shapes.extents[a.form[runs]]) - base)
        first = np.flatnonzero(np.concatenate(([True], low[1:] > high[:-1])))
        for begin, end in zip(low[first].tolist(), high[np.append(first[1:] - 1, -1)].tolist(), strict=True):
            units.mark(Region("dst", "GM", end - begin), begin)


def _local_reads(subject: Subject, space: str) -> Iterator[CheckFinding]:
    a = subject.accesses[space]
    if not len(a.start):
        return
    capacity = subject.chip.buffers[space]  # type: ignore[index]
    forms = subject.shapes.forms
    order = _in_order(subject, a, np.arange(len(a.start)))
    order = order[np.argsort(a.owner[order] // WIDTH, kind="stable")]
    owner = a.owner[order]
    starts = a.start[order] - ((owner // WIDTH).astype(np.int64) << APART)
    columns = (order, owner // WIDTH, owner % WIDTH, starts, a.form[order], a.writes[order])
    by_line: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    units, current = _Units(capacity), -1
    in_blocks = space == "UB" and copies_whole_blocks(subject.chip)
    for one, program, pipe, start, form, writes in zip(*(column.tolist() for column in columns), strict=True):
        if program != current:
            units, current = _Units(capacity), program
        region = forms[form]
        if writes:
            units.mark(_whole_blocks(region, capacity - start) if pipe == _MTE2 or in_blocks else region, start)
        elif (missing := units.missing(region, start)) and not subject.races(space, one):
            row = int(a.row[a.first[one]])
            if missing < region.total and subject.chooses_from(current, row, start):
                continue  # the elements that are read may be written
            key = subject.line_key(current, row)
            by_line.setdefault(key, []).append((one, missing))
    yield from _unwritten_reads(subject, space, a, by_line, APART)


def _whole_blocks(region: Region, room: int) -> Region:
    """Return a written region with each row extended to whole blocks of 32 bytes.

    It stays as it is if it would exceed `room` bytes, or if its rows are no whole number of blocks apart. MTE2 writes whole
    blocks. Other writes count so on chips whose copies out of UB take whole blocks, since the rest of a last block is only
    copied along.
    """
    if region.rows > 1 and region.row_stride % BLOCK_BYTES:
        return region
    whole = ceil_div(region.row_bytes, BLOCK_BYTES) * BLOCK_BYTES
    wide = replace(region, row_bytes=whole)
    return wide if wide.extent <= room else region


def _unwritten_reads(
    subject: Subject, space: str, a: Accesses, by_line: Mapping[tuple[object, ...], list[tuple[int, int]]], apart: int
) -> Iterator[CheckFinding]:
    """Yield a finding on an uninitialised read for each source line.

    `by_line` has {key of the line: [(footprint, unwritten bytes), ...]}; the first one is shown and all are counted. Addresses
    of program p are lowered by p << `apart`, unless `apart` is 0.
    """
    for found in by_line.values():
        one, missing = found[0]
        first = int(a.first[one])
        program, row = int(a.program(first)), int(a.row[first])
        address = int(a.start[one]) - (program << apart if apart else 0)
        yield CheckFinding.of(
            "initcheck",
            "uninitialized read",
            subject.task.name,
            f"uninitialized read of size {missing}",
            details=(f"at {subject.spot(space, address)}",),
            places=(subject.place(program, row, "read", address),),
            space=space,
            size=missing,
            count=len(found),
        )
