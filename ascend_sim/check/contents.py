"""initcheck: reads of bytes that nobody wrote before, in the buffers of a core and in GM, and outputs that stay unwritten.

What was written stays written, so of each footprint only the first access is looked at, in an order that no flag contradicts.
A read that races with the write is told as a race and not here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ascend_sim.check.accesses import Accesses, Ints
from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.races import racing_footprints
from ascend_sim.check.regions import LOCAL_SPACES
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import WIDTH
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.isa.base import PIPE_INDEX, ceil_div
from ascend_sim.memory.gm import Allocation
from ascend_sim.memory.regions import Region

ROLES = ("input", "given", "spare", "output", "workspace")
"""What a tensor is to a check: an `input` holds values and is read whole, one that is `given` holds values and is used, one
that is `spare` holds values that nothing depends on, an `output` must be written whole, a `workspace` is empty at first."""

_MTE2 = PIPE_INDEX["MTE2"]
Bits = NDArray[np.bool_]


@dataclass
class _Bytes:
    """Which units of a tensor were written, and which were touched at all; `unit` bytes are one."""

    unit: int
    written: Bits
    touched: Bits


@dataclass
class Contents:
    """What GM holds from task to task. `roles` by the names of tensors; a name that is not there is `given`."""

    roles: Mapping[str, str]
    findings: list[CheckFinding] = field(default_factory=list)
    _units: dict[tuple[int, int, str], int] = field(default_factory=dict)
    _held: dict[tuple[int, int, str], _Bytes] = field(default_factory=dict)
    _seen: dict[tuple[int, int, str], tuple[Allocation, str]] = field(default_factory=dict)

    def plan(self, subject: Subject) -> None:
        """Hear of a task before any is looked at: how finely its tensors have to be divided."""
        a = subject.accesses["GM"]
        owner = _tensor_of(subject, a)
        for number, tensor in enumerate(subject.task.tensors):
            key = _key(tensor)
            unit = self._units.get(key, gcd(0, tensor.size))
            mine = np.flatnonzero(owner == number)
            if len(mine):
                unit = gcd(unit, int(np.gcd.reduce(a.start[mine] - tensor.base)))
                for form in np.unique(a.form[mine]).tolist():
                    region = subject.shapes.forms[form]
                    unit = gcd(unit, region.row_bytes, region.row_stride, region.plane_stride)
            self._units[key] = unit
            self._seen.setdefault(key, (tensor, subject.task.name))

    def find(self, subject: Subject, broken: Collection[str] = ()) -> list[CheckFinding]:
        """Uninitialised reads of one task; the tensors then hold what it wrote.

        Of spaces that are `broken` (accesses to wrong addresses) nothing is told: what is missing there went astray.
        """
        found = list(_gm_reads(subject, self))
        for space in LOCAL_SPACES:
            if space not in broken:
                found += _local_reads(subject, space)
        return [one for one in found if one.space not in broken]

    def finish(self) -> list[CheckFinding]:
        """After the last task: outputs that were not written (initcheck), and memory that nobody used (memcheck)."""
        found = []
        for key, (tensor, task) in self._seen.items():
            role = self.roles.get(tensor.name, "given")
            state = self._held.get(key)
            unit = 1 if state is None else state.unit
            untouched = tensor.size if state is None else int(np.count_nonzero(~state.touched)) * unit
            missing = tensor.size if state is None else int(np.count_nonzero(~state.written)) * unit
            if role == "output" and missing and state is not None and untouched < tensor.size:
                at = int(np.argmin(state.written)) * unit
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
                at = 0 if state is None else int(np.argmin(state.touched)) * unit
                found.append(
                    CheckFinding.of(
                        "memcheck",
                        "unused memory",
                        task,
                        f"Unused memory of {untouched} byte(s)",
                        details=(f"at {tensor.base + at:#x} on GM in {task}, {tensor.name}+{at:#x}",),
                        space="GM",
                        size=untouched,
                        level="WARNING",
                    )
                )
        return found

    def state(self, tensor: Allocation) -> _Bytes:
        """What is known of a tensor's bytes."""
        key = _key(tensor)
        known = self._held.get(key)
        if known is None:
            unit = self._units.get(key, 1) or 1
            count = tensor.size // unit
            full = self.roles.get(tensor.name, "given") in ("input", "given", "spare")
            known = self._held[key] = _Bytes(unit, np.full(count, full), np.zeros(count, np.bool_))
        return known


def _key(tensor: Allocation) -> tuple[int, int, str]:
    return (tensor.base, tensor.size, tensor.name)


def _tensor_of(subject: Subject, a: Accesses) -> Ints:
    """The tensor (slot) of every footprint in GM."""
    found = np.full(len(a.start), -1, np.int64)
    for number, tensor in enumerate(subject.task.tensors):
        found[(a.start >= tensor.base) & (a.start < tensor.base + tensor.size)] = number
    return found


def _view(bits: Bits, region: Region, start: int, unit: int) -> Bits:
    """The units of a region as an array of planes, rows and units."""
    shape = (region.planes, region.rows, region.row_bytes // unit)
    return as_strided(bits[start // unit :], shape, (region.plane_stride // unit, region.row_stride // unit, 1))


def _in_order(subject: Subject, a: Accesses) -> list[int]:
    """Footprints by their first accesses, so that who comes before comes first; of one row reads before writes."""
    first = a.first[:-1]
    program, row = a.program[first], a.row[first]
    clocks = subject.order.clocks
    level = clocks.level[clocks.outer[clocks.event[clocks.offset[program] + row]]] if len(first) else first
    turn = row.copy()
    for number, rank in subject.ranks.items():
        mine = program == number
        turn[mine] = rank[row[mine]]
    return np.lexsort((a.writes, turn, program, level)).tolist()


def _gm_reads(subject: Subject, contents: Contents) -> Iterator[CheckFinding]:
    a = subject.accesses["GM"]
    owner = _tensor_of(subject, a).tolist()
    racing = racing_footprints(subject, "GM")
    forms = subject.shapes.forms
    starts, form, writes, adds = a.start.tolist(), a.form.tolist(), a.writes.tolist(), a.atomic.tolist()
    tensors = subject.task.tensors
    states = [contents.state(tensor) for tensor in tensors]
    whole = [bool(state.written.all()) for state in states]
    told: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for one in _in_order(subject, a):
        slot = owner[one]
        if slot < 0:
            continue
        state = states[slot]
        region, at = forms[form[one]], starts[one] - tensors[slot].base
        _view(state.touched, region, at, state.unit)[...] = True
        if whole[slot]:
            continue
        written = _view(state.written, region, at, state.unit)
        if (not writes[one] or adds[one]) and one not in racing and not written.all():
            missing = int(written.size - np.count_nonzero(written)) * state.unit
            first = int(a.first[one])
            key = subject.line_key(int(a.program[first]), int(a.row[first]))
            told.setdefault((slot, *key), []).append((one, missing))
        if writes[one]:
            written[...] = True
    yield from _told(subject, "GM", a, told, 0)


def _local_reads(subject: Subject, space: str) -> Iterator[CheckFinding]:
    a = subject.accesses[space]
    if not len(a.start):
        return
    racing = racing_footprints(subject, space)
    capacity = subject.chip.buffers[space]  # type: ignore[index]
    forms = subject.shapes.forms
    program, pipes = (a.owner // WIDTH).tolist(), (a.owner % WIDTH).tolist()
    starts, form, writes = (a.start - (a.owner // WIDTH << 44)).tolist(), a.form.tolist(), a.writes.tolist()
    order = _in_order(subject, a)
    order.sort(key=program.__getitem__)
    told: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    bits, current = np.zeros(capacity, np.bool_), -1
    for one in order:
        if program[one] != current:
            current = program[one]
            bits[:] = False
        if writes[one]:
            landed = (
                forms[form[one]] if pipes[one] != _MTE2 else _whole_blocks(forms[form[one]], capacity - starts[one])
            )
            _view(bits, landed, starts[one], 1)[...] = True
            continue
        view = _view(bits, forms[form[one]], starts[one], 1)
        if view.all():
            continue
        if one not in racing:
            missing = int(view.size - np.count_nonzero(view))
            key = subject.line_key(current, int(a.row[a.first[one]]))
            told.setdefault(key, []).append((one, missing))
    yield from _told(subject, space, a, told, 44)


def _whole_blocks(region: Region, room: int) -> Region:
    """What a transfer out of GM fills: its last block to the end, with whatever stands there."""
    if region.rows > 1 and region.row_stride % BLOCK_BYTES:
        return region
    whole = ceil_div(region.row_bytes, BLOCK_BYTES) * BLOCK_BYTES
    wide = replace(region, row_bytes=whole)
    return wide if wide.extent <= room else region


def _told(
    subject: Subject, space: str, a: Accesses, told: Mapping[tuple[object, ...], list[tuple[int, int]]], apart: int
) -> Iterator[CheckFinding]:
    for found in told.values():
        one, missing = found[0]
        first = int(a.first[one])
        program, row = int(a.program[first]), int(a.row[first])
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
