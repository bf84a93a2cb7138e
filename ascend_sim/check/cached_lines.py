"""Scalar accesses to GM as others see them: with the line of the data cache that they use, for as long as the cache holds it.

A line is fetched by its first load or store, and goes to GM whole, by `clean_data_cache` or at the end of the program. Until
then others read what was there before a store, loads read what was there at the fetch, and what others write beside a store
is lost (asc-devkit, GlobalTensor.SetValue and DataCacheCleanAndInvalid).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ascend_sim.check.accesses import Accesses, by_footprint
from ascend_sim.check.clocks import Bits
from ascend_sim.check.questions import Questions
from ascend_sim.check.sharing import sharing_pairs
from ascend_sim.check.subject import MOST_TOLD, Disorder, Subject
from ascend_sim.check.sync_rows import WIDTH, Ints
from ascend_sim.isa.base import PIPE_INDEX
from ascend_sim.isa.scalar import CleanDataCache
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.regions import Region
from ascend_sim.numerics.distinct import distinct

SCALAR = PIPE_INDEX["S"]
STAYS = "scalar stores to GM whose lines of the data cache reach it only when the program ends (assumed, not stated): "
"""Begin of the remark on stores that no row of their program writes back."""
_MOST = 4
"""Most lines of such stores that are listed."""


def stale_lines(subject: Subject) -> list[tuple[Accesses, Disorder]]:
    """Return three pairs (accesses to GM, those in no order): a task's scalar stores with the reads of their bytes, its loads
    with other pipes' writes of theirs, then, as whole lines of the data cache, its stores with all writes.

    A store is over when its line is written back. A load, and a store as a line, begins when the cache fetches the line.
    Accesses that race already are left out; [] without scalar accesses.
    """
    a = subject.accesses["GM"]
    scalar = a.owner[a.footprint] % WIDTH == SCALAR
    if not scalar.any():
        return []
    racing, writes = np.isin(a.footprint, subject.disorder["GM"].footprints), a.writes[a.footprint]
    start, form = a.start[a.footprint], a.form[a.footprint]
    size = subject.chip.scalar.data_cache_line_bytes
    begin, place, fetched = start // size * size, a.place.copy(), a.row.copy()
    for program, mine in _by_program(a, scalar):
        fetched[mine], behind = _held(subject, program, a.row[mine], begin[mine])
        place[mine] = np.where(writes[mine], behind, place[mine])
    stored, loaded, others = scalar & writes & ~racing, scalar & ~writes & ~racing, writes & ~scalar
    whole = subject.shapes.number(Region("dst", "GM", size))
    lines = np.where(stored, begin, start), np.where(stored, whole, form)
    elements = replace(a, place=place, held=np.where(writes, a.row, fetched))
    return [
        _in_no_order(subject, elements, stored | ~writes, start, form),
        _in_no_order(subject, elements, loaded | others, start, form),
        _in_no_order(subject, replace(elements, held=fetched), stored | others, *lines, both_write=True),
    ]


def stores_left(subject: Subject) -> list[str]:
    """Return one remark on scalar stores that no row of their program writes back: up to 4 of their source lines, and the
    number of further ones.

    [] if there are none, or if the chip has no instruction that writes lines of the data cache back.
    """
    a, size = subject.accesses["GM"], subject.chip.scalar.data_cache_line_bytes
    stored = (a.owner[a.footprint] % WIDTH == SCALAR) & a.writes[a.footprint]
    lines: dict[str, None] = {}
    for program, mine in _by_program(a, stored) if subject.chip.scalar.cleans_data_cache else ():
        _, back = _held(subject, program, a.row[mine], a.start[a.footprint[mine]] // size * size)
        left, notes = a.row[mine][back == (subject.synced[program].pipe == SCALAR).sum()], subject.programs[program].notes
        rows = left if notes is None else left[np.unique(notes.numbers(left), return_index=True)[1]]
        lines |= {subject.place(program, row).short(): None for row in rows.tolist()}
    more = f" and {len(lines) - _MOST} further lines" if len(lines) > _MOST else ""
    return [STAYS + ", ".join([*lines][:_MOST]) + more] if lines else []


def _by_program(a: Accesses, chosen: Bits) -> Iterator[tuple[int, Ints]]:
    """Yield each program with `chosen` accesses, and their numbers."""
    for program in distinct(a.program(np.flatnonzero(chosen))).tolist():
        yield program, np.flatnonzero(chosen & (a.owner[a.footprint] // WIDTH == program))


def _held(subject: Subject, number: int, rows: Ints, lines: Ints) -> tuple[Ints, Ints]:
    """Return for each scalar access, of `rows` to `lines` of program `number`, the row that fetched its line into the cache and
    the place on pipe S of the row that writes it back.

    The first is the first access to the line since the cache dropped it; without a row that writes it back, the second is the
    place behind the last.
    """
    program, synced = subject.programs[number], subject.synced[number]
    places = np.append(synced.place, (synced.pipe == SCALAR).sum())
    length, asked = len(program), rows.astype(np.int64)
    dropped, back = np.full(len(rows), -1), np.full(len(rows), length)
    for cleaned, same in _cleans(subject, number):
        wanted = lines * (same is not None)
        keys = cleaned if same is None else np.sort(same * length + cleaned)
        at = np.searchsorted(keys, wanted * length + asked)
        keys = np.concatenate([[-1], keys, [np.iinfo(np.int64).max]])
        before, behind = keys[at] - wanted * length, keys[at + 1] - wanted * length
        dropped = np.maximum(dropped, np.where(before >= 0, before, -1))
        back = np.minimum(back, np.where(behind < length, behind, length))
    order = np.lexsort((asked, lines))
    keys = (lines * length + asked)[order]
    return rows[order][np.searchsorted(keys, lines * length + dropped + 1)], places[back]


def _cleans(subject: Subject, number: int) -> Iterator[tuple[Ints, Ints | None]]:
    """Yield (rows of a program that write lines of the data cache back, addresses of the lines; None for all lines)."""
    program, table = subject.programs[number], subject.programs[number].table
    bases = np.asarray([tensor.base for tensor in subject.task.tensors], np.int64)
    size = subject.chip.scalar.data_cache_line_bytes
    for argument, one in enumerate(table.instructions):
        if isinstance(one, CleanDataCache):
            cleaned = np.flatnonzero(program.rows[:, 0] == argument)
            address = program.rows[cleaned, 1]
            lines = (bases[address >> SLOT_SHIFT] + (address & OFFSET_MASK)) // size * size
            yield cleaned, None if one.all_lines else lines


def _in_no_order(
    subject: Subject, a: Accesses, chosen: Bits, start: Ints, form: Ints, *, both_write: bool = False
) -> tuple[Accesses, Disorder]:
    """Return the accesses of `a` that are `chosen`, each at its `start` with its `form`, and the pairs with a scalar access
    that nothing orders, at most `MOST_TOLD`: of a read and a write, or of two writes.

    If there are none, the subject's needs get the knowledge that orders them (`Subject.need`). No pair is returned where far
    too many share bytes.
    """
    some = np.flatnonzero(chosen)
    f = a.footprint[some]
    part = a.row[some], a.place[some], a.owner[f], form[some], start[some], a.writes[f], a.atomic[f]
    mine = by_footprint("GM", [part], subject.shapes)
    pairs = sharing_pairs(mine, subject.shapes)
    none = np.empty(0, np.int64)
    if pairs is None:
        return mine, Disorder(none, none, none)
    mine.held = by_footprint("GM", [(a.begin[some], *part[1:])], subject.shapes).row  # in the same order
    scalar = mine.owner % WIDTH == SCALAR
    asked = (scalar[pairs[0]] | scalar[pairs[1]]) & ((mine.writes[pairs[0]] & mine.writes[pairs[1]]) == both_write)
    questions = Questions.of_pairs(mine, pairs[0][asked], pairs[1][asked])
    if subject.need("GM", questions):
        return mine, Disorder(none, none, none)
    return mine, Disorder(*questions.unordered(subject.order.clocks_in("GM"), MOST_TOLD), none)
