"""Stores of the scalar unit to GM as others see them: with their line of the data cache, once it is written back.

A line goes to GM whole, by `clean_data_cache` or at the end of the program. Until then others read what was there before, and
what they write beside the store is lost (asc-devkit, GlobalTensor.SetValue: cores store at least 64 bytes apart).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def lost_stores(subject: Subject) -> list[tuple[Accesses, Disorder]]:
    """Return two pairs (accesses to GM, those in no order): a task's scalar stores with the reads of their bytes, then, as
    whole lines of the data cache, with each other and the writes of other pipes.

    A store is over when its line is written back. Stores that race already are left out; [] without stores.
    """
    a = subject.accesses["GM"]
    scalar = (a.owner[a.footprint] % WIDTH == SCALAR) & a.writes[a.footprint]
    if not scalar.any():
        return []
    racing = np.isin(a.footprint, subject.disorder["GM"].footprints)
    stored, writes = scalar & ~racing, a.writes[a.footprint]
    size = subject.chip.scalar.data_cache_line_bytes
    start, form, place = a.start[a.footprint], a.form[a.footprint], a.place.copy()
    begin = start // size * size
    for program, mine in _by_program(a, stored):
        place[mine] = _written_back(subject, program, a.row[mine], begin[mine])
    whole = subject.shapes.number(Region("dst", "GM", size))
    lines = np.where(stored, begin, start), np.where(stored, whole, form)
    over = replace(a, place=place)
    return [
        _in_no_order(subject, over, stored | ~writes, start, form),
        _in_no_order(subject, over, stored | (writes & ~scalar), *lines),
    ]


def stores_left(subject: Subject) -> list[str]:
    """Return one remark that names up to 4 source lines of scalar stores which no row of their program writes back.

    [] if there are none, or if the chip has no instruction for it.
    """
    a, size = subject.accesses["GM"], subject.chip.scalar.data_cache_line_bytes
    stored = (a.owner[a.footprint] % WIDTH == SCALAR) & a.writes[a.footprint]
    lines: dict[str, None] = {}
    for program, mine in _by_program(a, stored) if subject.chip.scalar.cleans_data_cache else ():
        back = _written_back(subject, program, a.row[mine], a.start[a.footprint[mine]] // size * size)
        left, notes = a.row[mine][back == (subject.synced[program].pipe == SCALAR).sum()], subject.programs[program].notes
        rows = left if notes is None else left[np.unique(notes.numbers(left), return_index=True)[1]]
        lines |= {subject.place(program, row).short(): None for row in rows.tolist()}
    more = f" and {len(lines) - _MOST} further lines" if len(lines) > _MOST else ""
    return [STAYS + ", ".join([*lines][:_MOST]) + more] if lines else []


def _by_program(a: Accesses, chosen: Bits) -> Iterator[tuple[int, Ints]]:
    """Yield each program with `chosen` accesses, and their numbers."""
    for program in distinct(a.program(np.flatnonzero(chosen))).tolist():
        yield program, np.flatnonzero(chosen & (a.owner[a.footprint] // WIDTH == program))


def _written_back(subject: Subject, number: int, rows: Ints, lines: Ints) -> Ints:
    """Return for each store, of `rows` to `lines` of program `number`, the place on pipe S of the row that writes its line
    back; without one the place behind the last.
    """
    program, place = subject.programs[number], subject.synced[number].place
    found = np.full(len(rows), int((subject.synced[number].pipe == SCALAR).sum()))
    table, bases = program.table, np.asarray([tensor.base for tensor in subject.task.tensors], np.int64)
    for argument in [i for i, one in enumerate(table.instructions) if isinstance(one, CleanDataCache)]:
        cleaned = np.flatnonzero(program.rows[:, 0] == argument)
        if table.instructions[argument].all_lines:  # type: ignore[attr-defined]
            keys, asked = cleaned, rows.astype(np.int64)
            same: NDArray[Any] = np.zeros(len(cleaned), np.int64)
            wanted: NDArray[Any] = np.zeros(len(rows), np.int64)
        else:
            address = program.rows[cleaned, 1]
            size = subject.chip.scalar.data_cache_line_bytes
            same = (bases[address >> SLOT_SHIFT] + (address & OFFSET_MASK)) // size * size
            order = np.lexsort((cleaned, same))
            cleaned, same, wanted = cleaned[order], same[order], lines
            keys, asked = same * len(program) + cleaned, lines * len(program) + rows
        at = np.searchsorted(keys, asked)
        there = np.flatnonzero(at < len(cleaned))
        there = there[same[at[there]] == wanted[there]]
        found[there] = np.minimum(found[there], place[cleaned[at[there]]])
    return found


def _in_no_order(subject: Subject, a: Accesses, chosen: Bits, start: Ints, form: Ints) -> tuple[Accesses, Disorder]:
    """Return the accesses of `a` that are `chosen`, each at its `start` with its `form`, and the pairs with a scalar store
    that nothing orders, at most `MOST_TOLD`.

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
    store = (mine.owner % WIDTH == SCALAR) & mine.writes
    asked = store[pairs[0]] | store[pairs[1]]
    questions = Questions.of_pairs(mine, pairs[0][asked], pairs[1][asked])
    if subject.need("GM", questions):
        return mine, Disorder(none, none, none)
    return mine, Disorder(*questions.unordered(subject.order.clocks_in("GM"), MOST_TOLD), none)
