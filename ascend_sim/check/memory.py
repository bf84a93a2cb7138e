"""memcheck: addresses outside a tensor or a buffer, unaligned ones, cores that write the same bytes, unused memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.accesses import APART, Accesses
from ascend_sim.check.findings import REMARK, CheckFinding, FindingPlace
from ascend_sim.check.regions import LOCAL_SPACES, SPACES, regions_in
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import Ints
from ascend_sim.isa.base import ceil_div
from ascend_sim.isa.forms import reach
from ascend_sim.isa.vector.arithmetic import VectorBinary
from ascend_sim.kernel.inspection import Allocated
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.touches import operand_values
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT, Allocation

_PLACE = re.compile(r"\[\d+\]$")
"""A place of a queue."""

_FAR = 1 << 62
"""Further than any address."""


def find_memory_faults(subject: Subject, races: Sequence[CheckFinding], strict: bool) -> list[CheckFinding]:
    """Return findings on the memory faults of one task; those on whole tensors need all tasks (`contents`).

    `races` are its races, of which writes of two cores to GM are faults too. With `strict` unused pieces of buffers are
    reported as well, unless an access is wrong (a race aside).
    """
    wrong = [*_addresses(subject), *_overruns(subject), *_strays(subject), *_rows_over_each_other(subject)]
    unused = _unused_buffers(subject) if strict and not wrong else ()  # a stray access may be meant for any of them
    return [*wrong, *_several_cores(races), *unused]


class _WrongAddress(NamedTuple):
    """Access at a wrong address: its program and row, its bytes (`size`; of an access outside only those that lie outside), its
    address in the buffer or tensor, and the unit that must divide that.
    """

    program: int
    row: int
    size: int
    address: int
    unit: int


def _addresses(subject: Subject) -> Iterator[CheckFinding]:
    """Yield findings on accesses outside a tensor or buffer and misaligned ones, one for each source line, kind, direction and
    space.
    """
    found: dict[tuple[str, str, bool, tuple[object, ...]], list[_WrongAddress]] = {}
    for stack in subject.stacks():
        for space in SPACES:
            columns = regions_in(stack.table.touches, space)
            if not len(columns.regions):
                continue
            row, region = stack.accesses(space)
            address = operand_values(stack.rows, row, columns.column[region])
            near = np.clip(address, -_FAR, _FAR)  # so that no sum wraps
            low, high = near + columns.offset[region], near + columns.extent[region]
            unit = stack.table.limits()[stack.rows[row, 0], columns.column[region] - 1, 2]
            if space == "GM":
                sizes = np.asarray([*(reach(tensor, subject.chip) for tensor in subject.task.tensors), 0], np.int64)
                slot = address >> SLOT_SHIFT
                known = (slot >= 0) & (slot < len(subject.task.tensors))
                limit = sizes[np.where(known, slot, -1)]
                start = np.where(known, slot << SLOT_SHIFT, 0)
                low, high, address = low - start, high - start, np.where(known, address - start, address & OFFSET_MASK)
            else:
                limit = np.full(len(row), subject.chip.buffers.get(space, 0), np.int64)  # type: ignore[call-overload]
            beyond = np.maximum(high - np.maximum(limit, low), 0) + np.maximum(np.minimum(0, high) - low, 0)
            wrong = (low < 0) | (high > limit)
            for kind, mask in (("outside", wrong), ("misaligned", ~wrong & (address % unit != 0))):
                for i in np.flatnonzero(mask).tolist():
                    number, at = int(stack.number[row[i]]), int(stack.row[row[i]])
                    writes = bool(columns.writes[region[i]])
                    key = (kind, space, writes, subject.line_key(number, at))
                    total = int(columns.extent[region[i]] - columns.offset[region[i]])
                    size = int(beyond[i]) if kind == "outside" else total
                    found.setdefault(key, []).append(_WrongAddress(number, at, size, int(address[i]), int(unit[i])))
    found = dict(sorted(found.items(), key=lambda entry: entry[1][0][:2]))
    for (kind, space, writes, _), places in found.items():
        number, row_, size, at, multiple = places[0]
        access = "write" if writes else "read"
        tensor = _tensor(subject, number, row_, writes) if space == "GM" else None
        byte = at + (0 if tensor is None else tensor.base)
        place = subject.place(number, row_, access, byte)
        if kind == "outside":
            title, name = f"illegal {access} of size {size}", f"illegal {access}"
            advice = _limit(subject, space)
        else:
            title, name = f"misaligned access of size {size}", "misaligned access"
            advice = f"this instruction's addresses on {space} are multiples of {multiple} bytes"
        yield CheckFinding.of(
            "memcheck",
            name,
            subject.task.name,
            title,
            details=(f"at {byte:#x} on {space} in {subject.task.name}" + (_offset(tensor, at) if space == "GM" else ""),),
            places=(place,),
            space=space,
            size=size,
            count=len(places),
            advice=advice,
        )


def _overruns(subject: Subject) -> Iterator[CheckFinding]:
    """Yield findings on accesses that begin in an allocated piece of a buffer and end after it, one for each buffer, source
    line and direction.

    A piece ends with its last unit of address, because no other piece begins in that.
    """
    accesses = subject.accesses
    extents = subject.shapes.extents
    taken = [program.notes.allocated if program.notes is not None else [] for program in subject.programs]
    for space in LOCAL_SPACES:
        a = accesses[space]
        pieces = [(number, one) for number, some in enumerate(taken) for one in some if one.buffer == space]
        if not pieces or not len(a.start):
            continue
        unit = subject.chip.alignment.unit(space)
        begin = np.asarray([(number << APART) + one.start for number, one in pieces], np.int64)
        end = np.asarray([(number << APART) + ceil_div(one.start + one.size, unit) * unit for number, one in pieces], np.int64)
        order = np.lexsort((end, begin))  # of those that begin at one place the longest counts
        at = np.searchsorted(begin[order], a.start, side="right") - 1
        piece = order[np.maximum(at, 0)]
        beyond = a.start + extents[a.form] - end[piece]
        found: dict[tuple[object, ...], list[int]] = {}
        for one in np.flatnonzero((at >= 0) & (a.start < end[piece]) & (beyond > 0)).tolist():
            access = int(a.first[one])
            key = (bool(a.writes[one]), *subject.line_key(int(a.program(access)), int(a.row[access])))
            found.setdefault(key, []).append(one)
        for some in found.values():
            yield _overrun(subject, a, some, pieces[int(piece[some[0]])][1], int(beyond[some[0]]))


def _overrun(subject: Subject, a: Accesses, footprints: list[int], piece: Allocated, beyond: int) -> CheckFinding:
    one = footprints[0]
    number, row = int(a.program(a.first[one])), int(a.row[a.first[one]])
    access = "write" if a.writes[one] else "read"
    start = int(a.start[one]) - (number << APART)
    others = subject.programs[number].notes.allocated  # type: ignore[union-attr]
    behind = [other.name for other in others if other.buffer == a.space and other.start >= piece.start + piece.size]
    return CheckFinding.of(
        "memcheck",
        "overrun",
        subject.task.name,
        f"illegal {access} of size {beyond}",
        details=(
            f"at {piece.start + piece.size:#x} on {a.space} in {subject.task.name}, behind {piece.name} of {piece.size} "
            f"byte(s)" + (f", where {behind[0]} begins" if behind else ""),
        ),
        places=(subject.place(number, row, access, start),),
        space=a.space,
        size=beyond,
        count=int(a.counts[footprints].sum()),
        advice=f"{piece.name} was taken with {piece.size} byte(s) from {piece.start:#x}; the {access} begins in it",
    )


def _strays(subject: Subject) -> Iterator[CheckFinding]:
    """Yield findings on accesses that begin outside the buffer of their tensor, or in UB outside everything that their program
    took there, one for each source line.

    A program that took nothing chooses its addresses itself.
    """
    found: dict[tuple[object, ...], tuple[FindingPlace, str, str]] = {}
    for number, program in enumerate(subject.programs):
        if (notes := program.notes) is None:
            continue
        for line, space in notes.strays.items():
            rows = np.flatnonzero(notes.numbers(np.arange(len(program))) == notes.source.number(line))
            if len(rows):
                row = int(rows[0])
                place = subject.place(number, row)
                found.setdefault(subject.line_key(number, row), (place, space, "outside the buffer of its tensor"))
    a = subject.accesses["UB"]
    for one in np.flatnonzero(_in_no_buffer(subject, a)).tolist():
        number, row = int(a.program(a.first[one])), int(a.row[a.first[one]])
        start = int(a.start[one]) - (number << APART)
        place = subject.place(number, row, "write" if a.writes[one] else "read", start)
        found.setdefault(subject.line_key(number, row), (place, "UB", f"at {start:#x}, in no buffer that the kernel took"))
    for place, space, where in found.values():
        yield CheckFinding.of(
            "memcheck",
            "stray",
            subject.task.name,
            f"illegal access of {space}",
            details=(f"an operand begins {where}",),
            places=(place,),
            space=space,
            advice="an index is beyond the end of a buffer or before its start, or an address belongs to no buffer",
        )


def _in_no_buffer(subject: Subject, a: Accesses) -> NDArray[np.bool_]:
    """Return for each footprint in UB True if it begins in UB outside all that its program took there.

    False for a program that took nothing by name.
    """
    held, took = [], set[int]()
    for number, program in enumerate(subject.programs):
        for one in () if program.notes is None else (*program.notes.allocated, *program.notes.shared):
            if one.buffer == "UB":
                held.append(((number << APART) + one.start, (number << APART) + one.start + one.size))
                if one.name:
                    took.add(number)
    if not took:
        return np.zeros(len(a.start), np.bool_)
    begin, end = np.asarray(sorted(held), np.int64).T
    at = np.searchsorted(begin, a.start, side="right") - 1
    outside = (at < 0) | (np.maximum.accumulate(end)[at] <= a.start)
    inside = a.start % (1 << APART) < subject.chip.buffers.get("UB", 0)
    return outside & inside & np.isin(a.start >> APART, list(took))


def _continues(program: Program, row: int) -> bool:
    """Return True if program row `row` is a vector instruction whose rows each continue from the result of the one before.

    They do if src1 lies at dst (`VectorBinary.runs_on`).
    """
    argument, dst, _, src1 = program.rows[row, :4].tolist()
    instruction = program.table.instructions[argument]
    return isinstance(instruction, VectorBinary) and instruction.runs_on and dst == src1


def _rows_over_each_other(subject: Subject) -> Iterator[CheckFinding]:
    """Yield findings on writes whose rows overlap (one begins before the one before has ended), for each space and source line.

    Atomic writes may overlap, and rows that continue from the result of the row before.
    """
    found: dict[tuple[object, ...], list[tuple[str, int]]] = {}
    for space, a in subject.accesses.items():
        lost = np.asarray([form.rows > 1 and form.row_stride < form.row_bytes for form in subject.shapes.forms], np.bool_)
        if not lost.any() or not len(a.start):
            continue
        for one in np.flatnonzero(lost[a.form] & a.writes & (a.atomic == 0)).tolist():
            access = int(a.first[one])
            number, row = int(a.program(access)), int(a.row[access])
            if not _continues(subject.programs[number], row):
                found.setdefault((space, *subject.line_key(number, row)), []).append((space, one))
    for some in found.values():
        space, one = some[0]
        a = subject.accesses[space]
        form, (number, row) = (subject.shapes.forms[a.form[one]], (int(a.program(a.first[one])), int(a.row[a.first[one]])))
        start = int(a.start[one]) - (0 if space == "GM" else number << APART)
        yield CheckFinding.of(
            "memcheck",
            "rows over each other",
            subject.task.name,
            f"rows of {form.row_bytes} byte(s) written {form.row_stride} byte(s) apart",
            details=(f"at {subject.spot(space, start)}",),
            places=(subject.place(number, row, "write", start),),
            space=space,
            size=form.row_bytes - form.row_stride,
            count=sum(int(a.counts[footprint]) for _, footprint in some),
            advice="each row overwrites the end of the row before it: strides count from one row's start to the next",
        )


def _tensor(subject: Subject, number: int, row: int, writes: bool) -> Allocation | None:
    """Return the tensor that row `row` of program `number` reads in GM, or with `writes` writes; None for none of the task."""
    view = subject.programs[number][row]
    regions = view.instruction.writes() if writes else view.instruction.reads()
    slot = int(getattr(view, next(region.operand for region in regions if region.space == "GM"))) >> SLOT_SHIFT
    return subject.task.tensors[slot] if 0 <= slot < len(subject.task.tensors) else None


def _offset(tensor: Allocation | None, at: int) -> str:
    """Return the words for byte `at` of a tensor in GM behind an address: its name, the offset and its size.

    Without a tensor they say that the address lies in none.
    """
    return ", in no tensor of it" if tensor is None else f", {tensor.name}+{at:#x} of {tensor.size:#x} bytes"


def _limit(subject: Subject, space: str) -> str:
    """Return in words the size that no access to a space may exceed: of the buffer, or of each tensor of the launch."""
    if space != "GM":
        has = subject.chip.buffers.get(space, 0)  # type: ignore[call-overload]
        return f"{space} has {has} bytes (chip {subject.chip.name}, buffers.{space})"
    return "the launch gave it " + ", ".join(f"{tensor.name} of {tensor.size} bytes" for tensor in subject.task.tensors)


def _several_cores(races: Sequence[CheckFinding]) -> Iterator[CheckFinding]:
    """Yield a warning for each of `races` in which two cores (also two AIVs of one block) write the same bytes of GM; other
    races yield none.
    """
    for race in races:
        a, b = race.places
        if race.kind != "WAW" or race.space != "GM" or (a.block, a.core, a.sub_block) == (b.block, b.core, b.sub_block):
            continue
        yield CheckFinding.of(
            "memcheck",
            "several cores",
            race.task,
            f"out of bounds of size {race.size}, written by {a.block_text} and {b.block_text}",
            details=race.details,
            places=race.places,
            space="GM",
            size=race.size,
            count=race.count,
            advice="each core writes bytes of its own, or adds (atomic_add)",
            level="WARNING",
        )


def _unused_buffers(subject: Subject) -> Iterator[CheckFinding]:
    """Yield remarks on allocated pieces of buffers that no instruction touches in any program of that kind of core.

    Pieces of one name count as one piece, and so do the buffers of one queue. Programs that broke off or have no notes do not
    count.
    """
    touched: dict[tuple[str, str], bool] = {}
    first: dict[tuple[str, str], tuple[int, Allocated]] = {}
    sorted_starts: dict[str, tuple[Ints, Ints]] = {}
    for space, a in subject.accesses.items():
        order = np.argsort(a.start, kind="stable")
        ends = np.maximum.accumulate((a.start + subject.shapes.extents[a.form])[order]) if len(order) else a.start
        sorted_starts[space] = a.start[order], ends
    for number, program in enumerate(subject.programs):
        if program.notes is None or not program.notes.whole:
            continue
        for piece in program.notes.allocated:
            key = (program.core_kind, _PLACE.sub("", piece.name))  # a short kernel may not come round to every place
            first.setdefault(key, (number, piece))
            if touched.get(key) or piece.buffer not in subject.accesses or not piece.size:
                continue
            low = (number << APART) + piece.start
            starts, ends = sorted_starts[piece.buffer]
            before = int(np.searchsorted(starts, low + piece.size))
            touched[key] = before > 0 and int(ends[before - 1]) > low
    for key, used in touched.items():
        if not used:
            number, piece = first[key]
            program = subject.programs[number]
            yield CheckFinding.of(
                "memcheck",
                "unused memory",
                subject.task.name,
                f"Unused memory of {piece.size} byte(s)",
                details=(f"at {piece.start:#x} on {piece.buffer} in {subject.task.name}, {piece.name}, in {program.where}",),
                space=piece.buffer,
                size=piece.size,
                level=REMARK,
            )
