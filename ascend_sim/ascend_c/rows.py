"""From a recording to the rows of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ascend_c.errors import SourceError
from ascend_sim.ascend_c.recorder import GM_SHIFT
from ascend_sim.ascend_c.stream import ROW, WordStream
from ascend_sim.ascend_c.translate import key_of
from ascend_sim.ascend_c.words import NAMES, PIPE_NUMBERS, WORDS, Word, word_of
from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import CleanDataCache, ScalarAccess, ScalarLoad
from ascend_sim.isa.sync import CrossCoreWaitFlag, SetFlag, WaitFlag
from ascend_sim.kernel.inspection import Allocated, Line, Notes, current_inspection
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable, Key
from ascend_sim.kernel.sync import Flag
from ascend_sim.memory.gm import SLOT_SHIFT

_POSITIONS = {9: "VECIN", 10: "VECOUT", 11: "VECCALC"}
"""Positions of buffers by their number (TPosition)."""


def append(k: Kernel, recording: WordStream, tensors: int) -> None:
    """Write the rows of a recording to a program that has so many `tensors`, each row with its line.

    Raises SourceError for a word that no instruction can say and for a GM address in no tensor; an inspection notes them, and
    the rows stay out.
    """
    notes = k.notes = k.notes or Notes(k.table.source)
    words = [word_of(shape) for shape in recording.shapes]
    shape, line = recording.rows[:, 0], recording.rows[:, 1]
    first = np.full(len(words), -1, np.int64)
    first[shape[::-1]] = line[::-1]
    times = np.bincount(shape, minlength=len(words)).tolist()
    kinds = np.full(len(words), -1, np.int64)
    in_gm = np.zeros((len(words), 3), np.bool_)
    balance: Counter[str] = Counter()
    for number, word in enumerate(words):
        where = recording.lines[first[number]] if first[number] >= 0 else None
        try:
            kinds[number] = _kind(k, word, times[number], balance)
        except SimError as error:
            _refuse(k, str(error), where)
        for column, space in enumerate(WORDS[word.name].addresses):
            in_gm[number, column] = space == "GM"
    _check_waits(k, recording, words, balance)
    _check_sets(k, recording, words)
    k.table.flags_count = (
        True  # EnQue sets an id again once the wait behind its last set was issued, which may be over later
    )
    _note_library(k, notes, recording, words)
    rows = np.zeros_like(recording.rows)
    rows[:, 0], rows[:, 1:4] = kinds[shape], recording.rows[:, 2:]
    kept = _moved_to_tensors(k, rows, in_gm[shape], recording, tensors) & (rows[:, 0] >= 0)
    _find_cached(k.table, rows, kept)
    numbers = np.array([notes.source.number(one) for one in recording.lines], np.int32)
    k.extend(rows[kept], numbers[line[kept]] if len(numbers) else np.empty(0, np.int32))


def _kind(k: Kernel, word: Word, times: int, balance: Counter[str]) -> int:
    """Return the number of a word's instruction in the table, or -1 for a word without a row; sets and waits are counted."""
    key: Key | None
    if word.name in ("set_flag", "wait_flag"):
        flag = _flag(k, word)
        sets = word.name == "set_flag"
        k.count_flag(flag, times if sets else -times)
        balance[flag.name] += times if sets else -times
        fields = flag.source, flag.destination, flag.identity
        key = (SetFlag, *fields) if sets else (WaitFlag, *fields, k.is_armed(flag))
    elif word.name == "wait_flag_dev":
        number = word.fields["flag"]
        key = CrossCoreWaitFlag, number, word.fields["mode"], "S", k.is_cross_armed(number)
    else:
        key = key_of(word, k.chip)
    if key is None:
        return -1
    return _number(k.table, key)


def _number(table: InstructionTable, key: Key) -> int:
    """Return the number of an instruction in a table, which takes it in."""
    known = table.index.get(key)
    return table.add(key) if known is None else known


class Kinds:
    """Instructions of shapes: the number of each in a table (-1: none), and which addresses are in GM."""

    def __init__(self) -> None:
        self.numbers, self.in_gm = np.empty(0, np.int64), np.empty((0, 3), np.bool_)


def translated(
    table: InstructionTable, recording: WordStream, first: int, known: Kinds, tensors: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows from the `first` piece on that have values or join cores, and their lines; `known` grows with shapes.

    What cannot be said, or lies in no tensor, is left out: `append` refuses it.
    """
    kinds = known.numbers.tolist()
    for shape in recording.shapes[len(kinds) :]:
        word = word_of(shape)
        key: Key | None = None
        if word.name == "wait_flag_dev":
            key = CrossCoreWaitFlag, word.fields["flag"], word.fields["mode"], "S", True
        elif word.name not in ("set_flag", "wait_flag", "pipe_barrier"):
            with suppress(SimError):
                key = key_of(word, table.chip)
        kinds.append(-1 if key is None else _number(table, key))
    if len(kinds) > len(known.numbers):
        forms = [WORDS[NAMES[shape[0]]].addresses for shape in recording.shapes]
        spaces = [[*(space == "GM" for space in form), *(False,) * (3 - len(form))] for form in forms]
        known.numbers, known.in_gm = np.array(kinds, np.int64), np.array(spaces, np.bool_)
    in_gm = known.in_gm
    told = np.concatenate([np.empty((0, ROW), np.int64), *recording.pieces[first:]])
    rows = np.zeros_like(told)
    rows[:, 0], rows[:, 1:4] = known.numbers[told[:, 0]], told[:, 2:]
    right = rows[:, 0] >= 0
    for column in range(3):
        which = in_gm[told[:, 0], column]
        slots = (rows[:, 1 + column] >> GM_SHIFT) - 1
        right &= ~which | ((slots >= 0) & (slots < tensors))
        moved = (slots << SLOT_SHIFT) + (rows[:, 1 + column] & (1 << GM_SHIFT) - 1)
        rows[:, 1 + column] = np.where(which, moved, rows[:, 1 + column])
    return rows[right], told[right, 1]


def _find_cached(table: InstructionTable, rows: NDArray[np.int64], kept: NDArray[np.bool_]) -> None:
    """Set the cycles of loads and stores of GM whose line the data cache holds, in place."""
    known = [isinstance(one, ScalarAccess | CleanDataCache) for one in table.instructions]
    if not any(known):
        return
    size, held = table.chip.scalar.data_cache_line_bytes, set[int]()
    for row in np.flatnonzero(kept & np.array(known, np.bool_)[rows[:, 0]]).tolist():
        one = table.instructions[rows[row, 0]]
        if isinstance(one, CleanDataCache):
            if one.all_lines:
                held.clear()
            else:
                held.discard(int(rows[row, 1]) // size)
        elif isinstance(one, ScalarAccess) and one.space == "GM":
            line = int(rows[row, 2 if isinstance(one, ScalarLoad) else 1]) // size
            if line in held:
                rows[row, 0] = _number(table, (type(one), one.space, one.size, True))
            held.add(line)


def _check_waits(k: Kernel, recording: WordStream, words: Sequence[Word], balance: Counter[str]) -> None:
    """SourceError for a flag with more waits than sets, at its last wait; an inspection looks at flags by itself."""
    if current_inspection() is not None or min(balance.values(), default=0) >= 0:
        return
    for number, word in enumerate(words):
        if word.name == "wait_flag" and balance[(flag := _flag(k, word)).name] < 0:
            line = recording.rows[recording.rows[:, 0] == number][-1, 1]
            more = -balance[flag.name]
            text = f"flag {flag.name!r} has {more} waits more than sets; a wait without a set never ends"
            raise SourceError(text, recording.lines[line])


def _check_sets(k: Kernel, recording: WordStream, words: Sequence[Word]) -> None:
    """Refuse a set of a flag whose last set has no wait between them, in the order of issue."""
    moves = np.array([{"set_flag": 1, "wait_flag": -1}.get(word.name, 0) for word in words], np.int64)
    names = [_flag(k, word).name if moves[number] else "" for number, word in enumerate(words)]
    shape = recording.rows[:, 0]
    for name in sorted({*names} - {""}):
        own = np.array([one == name for one in names])
        stands = np.cumsum(np.where(own, moves, 0)[shape])
        twice = np.flatnonzero(stands > k.chip.sync.flag_max)
        if len(twice):
            text = f"flag {name!r} is set twice without a wait between; a flag holds {k.chip.sync.flag_max} (sync.flag_max)"
            _refuse(k, text, recording.lines[recording.rows[twice[0], 1]])


def _flag(k: Kernel, word: Word) -> Flag:
    """Return the flag that a word names, by its pipes and its event id."""
    pipes = PIPE_NUMBERS[word.fields["source"]], PIPE_NUMBERS[word.fields["destination"]]
    return k.flag(*pipes, f"{pipes[0]}->{pipes[1]} {word.fields['id']}")


def _refuse(k: Kernel, text: str, line: Line | None) -> None:
    inspection = current_inspection()
    if inspection is None:
        raise SourceError(text, line)
    inspection.add(f"block {k.block} {k.core_kind}{k.sub_block}", text, line)


def _moved_to_tensors(
    k: Kernel, rows: NDArray[np.int64], in_gm: NDArray[np.bool_], recording: WordStream, tensors: int
) -> NDArray[np.bool_]:
    """Turn GM pointers of C++ into addresses of tensors, in place; return which rows have none outside all tensors."""
    right = np.ones(len(rows), np.bool_)
    for column in range(3):
        which = np.flatnonzero(in_gm[:, column])
        pointers = rows[which, 1 + column]
        slots = (pointers >> GM_SHIFT) - 1
        wrong = which[(slots < 0) | (slots >= tensors)]
        right[wrong] = False
        for line in dict.fromkeys(recording.rows[wrong, 1].tolist()):
            _refuse(k, "a copy from or to GM at an address that lies in no tensor of the kernel", recording.lines[line])
        rows[which, 1 + column] = (slots << SLOT_SHIFT) + (pointers & (1 << GM_SHIFT) - 1)
    return right


def _note_library(k: Kernel, notes: Notes, recording: WordStream, words: Sequence[Word]) -> None:
    """Note what TPipe and TQue did: buffers, the flags of queues, the barrier at the end.

    Of buffers that were handed out twice (Reset) there is nothing to say.
    """
    found = []
    for number, word in enumerate(words):
        if not WORDS[word.name].note:
            continue
        mine = recording.rows[recording.rows[:, 0] == number]
        if word.name == "own_barrier_":
            notes.own_barriers |= {recording.lines[line] for line in mine[:, 1].tolist()}
        elif word.name == "queue_event_":
            flag = _flag(k, word)
            notes.queues[flag.source, flag.destination, flag.identity] = f"of queues {flag.name}"
        else:
            name = _POSITIONS.get(word.fields["position"], "UB")
            found += [(row[2], word.fields["size"], name, recording.lines[row[1]]) for row in mine.tolist()]
    found.sort(key=lambda one: one[0])
    ends = [start + size for start, size, _, _ in found]
    if all(start >= end for (start, _, _, _), end in zip(found[1:], ends, strict=False)):
        notes.allocated += [
            Allocated("UB", start, size, f"{name} buffer {number}", line)
            for number, (start, size, name, line) in enumerate(found)
        ]
