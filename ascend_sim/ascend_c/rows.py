"""Translation of a recording into the rows of a program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ascend_c.cube_words import WordStep
from ascend_sim.ascend_c.errors import SourceError
from ascend_sim.ascend_c.recorder import BUFFERS, GM_SHIFT
from ascend_sim.ascend_c.stream import ROW, WordStream
from ascend_sim.ascend_c.translate import steps_of
from ascend_sim.ascend_c.words import NOTES, PIPE_NUMBERS, WORDS, Word, word_of
from ascend_sim.engine.compiled import library
from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import CleanDataCache, ScalarAccess, ScalarLoad
from ascend_sim.isa.sync import CrossCoreWaitFlag, SetFlag, WaitFlag
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.inspection import Allocated, Line, Notes, current_inspection, shown_file
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.sync import Flag
from ascend_sim.memory.gm import SLOT_SHIFT

_POSITIONS = {
    0: ("", "UB"),
    1: ("A1", "L1"), 2: ("A2", "L0A"), 3: ("B1", "L1"), 4: ("B2", "L0B"), 5: ("C1", "L1"), 6: ("C2", "BT"), 7: ("CO1", "L0C"),
    9: ("VECIN", "UB"), 10: ("VECOUT", "UB"), 11: ("VECCALC", "UB"), 13: ("TSCM", "L1"), 14: ("C2PIPE2GM", "FB"),
}  # fmt: skip
"""Number of a TPosition -> (its name, the memory in which it lies; asim/types.h, hardware_of); 0, without a name, stands
for memory that the library takes for itself."""


class ShapeSteps:
    """The instructions of each recorded shape (distinct word): their numbers in a table, operand offsets, and operands
    in GM.
    """

    def __init__(self) -> None:
        self.count, self.in_gm = np.empty(0, np.int64), np.empty((0, 3), np.bool_)
        self._steps = np.empty((0, 4), np.int64)

    def add(self, shapes: Sequence[Sequence[tuple[int, int, int, int]]], words: Sequence[Word]) -> None:
        """Append further shapes; each is a list of steps (number in the table, offsets of dst, src0, src1).

        `words` are their words.
        """
        if not shapes:
            return
        in_gm = np.array([[one == "GM" for one in WORDS[word.name].spaces] for word in words], np.bool_)
        self.in_gm = np.concatenate((self.in_gm, in_gm))
        self.count = np.concatenate((self.count, np.array([len(one) for one in shapes], np.int64)))
        new = np.array([step for one in shapes for step in one], np.int64).reshape(-1, 4)
        self._steps = np.concatenate((self._steps, new))

    def rows(self, recorded: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (rows of the recorded words, index of its word for each row); pointers into GM stay as C++ has them."""
        shape = recorded[:, 0]
        count = self.count[shape]
        word = np.repeat(np.arange(len(recorded)), count)
        step = np.arange(len(word)) - np.repeat(np.cumsum(count) - count, count)
        step += (np.cumsum(self.count) - self.count)[shape[word]]
        made = np.zeros((len(word), recorded.shape[1]), np.int64)
        made[:, 0] = self._steps[step, 0]
        made[:, 1:4] = recorded[word, 2:5] + self._steps[step, 1:]
        return made, word

    def rows_in_c(
        self, recorded: NDArray[np.int64], tensors: int, line_numbers: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Return (rows with addresses of tensors, their lines) of recorded words, computed by the compiled engine.

        None if the engine is missing, there are no words, or a pointer into GM lies in no tensor.
        """
        lib = library.beside()
        if lib is None or not len(recorded):
            return None
        first = np.cumsum(self.count) - self.count
        shapes = np.column_stack((first, self.count, self.in_gm)).astype(np.int64)
        many = int(self.count @ np.bincount(recorded[:, 0], minlength=len(self.count)))
        rows, lines = np.empty((many, ROW), np.int64), np.empty(many, np.int32)
        tables = np.ascontiguousarray(recorded), shapes, self._steps, line_numbers, rows, lines
        words, shape, step, number, row, line = (one.ctypes.data for one in tables)
        made = lib.words_to_rows(words, len(recorded), shape, step, tensors, number, row, line)
        return None if made < 0 else (rows, lines)


def append(k: Kernel, recording: WordStream, tensors: int, auto_sync: bool = False) -> None:
    """Append the rows of a recording, each with its line, to the program that `k` builds; `tensors` is the number of its
    tensors.

    With `auto_sync` the synchronisation is added that the vendor's compiler adds. Raises SourceError for a word that no
    instruction can express, a GM address in no tensor, a flag that is set twice without a wait and one with more waits than
    sets. An inspection records the first three as faults, and leaves rows of the first two out.
    """
    notes = k.notes = k.notes or Notes(k.table.source)
    words = [word_of(shape) for shape in recording.shapes]
    shape, line = recording.rows[:, 0], recording.rows[:, 1]
    first = np.full(len(words), -1, np.int64)
    first[shape[::-1]] = line[::-1]
    times = np.bincount(shape, minlength=len(words)).tolist()
    balance: Counter[str] = Counter()
    made = []
    for number, word in enumerate(words):
        try:
            made.append(_steps(k, word, times[number], balance))
        except SimError as error:
            made.append([])
            _refuse(k, str(error), recording.lines[first[number]] if first[number] >= 0 else None)
    _check_waits(k, recording, words, balance)
    _check_sets(k, recording, words)
    k.table.flags_count = True  # EnQue sets an id again once the wait behind its last set was issued, which may be over later
    _note_library(k, notes, recording, words)
    steps = ShapeSteps()
    steps.add(made, words)
    numbers = np.array([notes.source.number(one) for one in recording.lines], np.int32)
    has_unit_flags = any(word.fields.get("unit_flag") for word in words)
    in_c = None if has_unit_flags or auto_sync else steps.rows_in_c(recording.rows, tensors, numbers)
    if in_c is not None:
        rows, lines = in_c
    else:
        rows, source = steps.rows(recording.rows)
        kept = _moved_to_tensors(k, rows, steps.in_gm[shape[source]], line[source], recording, tensors)
        rows, source = rows[kept], source[kept]
        if has_unit_flags:
            from ascend_sim.ascend_c.unit_flags import with_unit_flags  # few kernels have them

            told = line[source]
            named = [words[one] for one in shape[source].tolist()]
            rows, source = with_unit_flags(k, rows, source, named, lambda row: recording.lines[told[row]])
        if auto_sync:
            from ascend_sim.ascend_c.auto_sync import with_auto_sync

            rows, source = with_auto_sync(k, rows, source)
        lines = numbers[line[source]] if len(numbers) else np.empty(0, np.int32)
    _find_cached(k.table, rows)
    k.extend(rows, lines)


def _steps(k: Kernel, word: Word, times: int, balance: Counter[str]) -> list[tuple[int, int, int, int]]:
    """Return the instructions of a word as (number in the table, offsets of dst, src0 and src1); new ones are added to the
    table.

    The `times` sets of a flag are added to its counts in the builder and in `balance`, and waits subtracted. Raises SimError
    for a word that no instruction expresses.
    """
    key: Key
    if word.name in ("set_flag", "wait_flag"):
        flag = _flag(k, word)
        sets = word.name == "set_flag"
        k.count_flag(flag, times if sets else -times)
        balance[flag.name] += times if sets else -times
        fields = flag.source, flag.destination, flag.identity
        key = (SetFlag, *fields) if sets else (WaitFlag, *fields, k.is_armed(flag))
        return [(_number(k.table, key), 0, 0, 0)]
    if word.name == "wait_flag_dev":
        number = word.fields["flag"]
        key = CrossCoreWaitFlag, number, word.fields["mode"], "S", k.is_cross_armed(number)
        return [(_number(k.table, key), 0, 0, 0)]
    return [(_number(k.table, one.key), *one[1:]) for one in steps_of(word, k.chip)]


def _number(table: InstructionTable, key: Key) -> int:
    """Return the number of an instruction in a table; a new one is added."""
    known = table.index.get(key)
    return table.add(key) if known is None else known


def translated(
    table: InstructionTable, recording: WordStream, first: int, known: ShapeSteps, tensors: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (rows, the index of its line in the recording for each) of the pieces from number `first` on, without the flags
    and barriers inside a core; new shapes are added to `known`, and new instructions to `table`.

    Words that no instruction can express, and addresses in no tensor, are left out: `append` refuses them.
    """
    words = [word_of(shape) for shape in recording.shapes[len(known.count) :]]
    made: list[list[tuple[int, int, int, int]]] = []
    for word in words:
        steps: Sequence[WordStep] = ()
        if word.name == "wait_flag_dev":
            steps = (WordStep((CrossCoreWaitFlag, word.fields["flag"], word.fields["mode"], "S", True)),)
        elif word.name not in ("set_flag", "wait_flag", "pipe_barrier"):
            with suppress(SimError):
                steps = steps_of(word, table.chip)
        made.append([(_number(table, one.key), *one[1:]) for one in steps])
    known.add(made, words)
    told = np.concatenate([np.empty((0, ROW), np.int64), *recording.pieces[first:]])
    rows, source = known.rows(told)
    right = np.ones(len(rows), np.bool_)
    for column in range(3):
        which = known.in_gm[told[source, 0], column]
        slots = (rows[:, 1 + column] >> GM_SHIFT) - 1
        right &= ~which | ((slots >= 0) & (slots < tensors))
        moved = (slots << SLOT_SHIFT) + (rows[:, 1 + column] & (1 << GM_SHIFT) - 1)
        rows[:, 1 + column] = np.where(which, moved, rows[:, 1 + column])
    return rows[right], told[source[right], 1]


def _find_cached(table: InstructionTable, rows: NDArray[np.int64]) -> None:
    """Mark, in place, the scalar loads and stores of GM whose line the data cache already holds, which take fewer cycles; the
    instructions for these are added to `table`.
    """
    known = [isinstance(one, ScalarAccess | CleanDataCache) for one in table.instructions]
    if not any(known):
        return
    size, held = table.chip.scalar.data_cache_line_bytes, set[int]()
    for row in np.flatnonzero(np.array(known, np.bool_)[rows[:, 0]]).tolist():
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
    """Raise SourceError for a flag with more waits than sets, at its last wait; not in an inspection, which checks flags
    itself.
    """
    if current_inspection() is not None or min(balance.values(), default=0) >= 0:
        return
    for number, word in enumerate(words):
        if word.name == "wait_flag" and balance[(flag := _flag(k, word)).name] < 0:
            line = recording.rows[recording.rows[:, 0] == number][-1, 1]
            more = -balance[flag.name]
            text = f"flag {flag.name!r} has {more} waits more than sets; a wait without a set never ends"
            raise SourceError(text, recording.lines[line])


def _check_sets(k: Kernel, recording: WordStream, words: Sequence[Word]) -> None:
    """Refuse each flag that is set while it already holds the chip's maximum because no wait came since; once for each flag."""
    moves = np.array([{"set_flag": 1, "wait_flag": -1}.get(word.name, 0) for word in words], np.int64)
    names = [_flag(k, word).name if moves[number] else "" for number, word in enumerate(words)]
    shape = recording.rows[:, 0]
    if not _may_set_twice(k, recording.rows, names, moves):
        return
    for name in sorted({*names} - {""}):
        own = np.array([one == name for one in names])
        stands = np.cumsum(np.where(own, moves, 0)[shape])
        twice = np.flatnonzero(stands > k.chip.sync.flag_max)
        if len(twice):
            earlier = np.flatnonzero(own[shape[: twice[0]]])[-1]
            before, line = (recording.lines[recording.rows[row, 1]] for row in (earlier, twice[0]))
            place = "" if before in (None, line) else f", first in {shown_file(before[0])}:{before[1]}"
            text = (
                f"flag {name!r} is set twice without a wait between{place}; a flag holds {k.chip.sync.flag_max} (sync.flag_max)"
            )
            _refuse(k, text, line)


def _may_set_twice(k: Kernel, rows: NDArray[np.int64], names: Sequence[str], moves: NDArray[np.int64]) -> bool:
    """Return False if C finds that no flag is set twice without a wait; True if one may be, or without the compiled engine."""
    lib, known = library.beside(), [*dict.fromkeys(name for name in names if name)]
    if lib is None:
        return True
    number = {"": -1} | {name: place for place, name in enumerate(known)}
    flags = np.column_stack((np.array([number[name] for name in names], np.int64), moves))
    stands, twice, rows = np.zeros(len(known), np.int64), np.full(len(known), -1, np.int64), np.ascontiguousarray(rows)
    places = [one.ctypes.data for one in (rows, flags, stands, twice)]
    return bool(lib.words_set_twice(places[0], len(rows), places[1], k.chip.sync.flag_max, *places[2:]))


def _flag(k: Kernel, word: Word) -> Flag:
    """Return the builder's flag for the pipes and the event id of a word."""
    pipes = PIPE_NUMBERS[word.fields["source"]], PIPE_NUMBERS[word.fields["destination"]]
    return k.flag(*pipes, f"{pipes[0]}->{pipes[1]} {word.fields['id']}")


def _refuse(k: Kernel, text: str, line: Line | None) -> None:
    inspection = current_inspection()
    if inspection is None:
        raise SourceError(text, line)
    inspection.add(f"block {k.block} {k.core_kind}{k.sub_block}", text, line)


def _moved_to_tensors(
    k: Kernel, rows: NDArray[np.int64], in_gm: NDArray[np.bool_], lines: NDArray[np.int64], recording: WordStream, tensors: int
) -> NDArray[np.bool_]:
    """Turn GM pointers of C++ in `rows` into addresses of tensors, in place; return for each row False if a pointer lies in no
    tensor.

    Each line with such a pointer is refused.
    """
    right = np.ones(len(rows), np.bool_)
    for column in range(3):
        which = np.flatnonzero(in_gm[:, column])
        pointers = rows[which, 1 + column]
        slots = (pointers >> GM_SHIFT) - 1
        wrong = which[(slots < 0) | (slots >= tensors)]
        right[wrong] = False
        for line in dict.fromkeys(lines[wrong].tolist()):
            _refuse(k, "a copy from or to GM at an address that lies in no tensor of the kernel", recording.lines[line])
        rows[which, 1 + column] = (slots << SLOT_SHIFT) + (pointers & (1 << GM_SHIFT) - 1)
    return right


def _note_library(k: Kernel, notes: Notes, recording: WordStream, words: Sequence[Word]) -> None:
    """Record in the notes what the library (TPipe, TQue) did (buffers, the flags of queues, its own barriers) and saw: operands
    outside the buffer of their tensor, and atomic modes still on at the end.

    Memory that the library takes for itself is noted as shared. Buffers that it hands out are noted as allocated, but as shared
    all those of a memory in which two overlap, as they were handed out twice (Reset).
    """
    found: dict[str, list[Allocated]] = defaultdict(list)
    looked_at = np.array([word.name in ("own_barrier_", "allocate_", "stray_", "atomic_left_") for word in words], np.bool_)
    told = recording.rows[looked_at[recording.rows[:, 0]]] if looked_at.any() else recording.rows[:0]
    for number, word in enumerate(words):
        if word.name not in NOTES:
            continue
        mine = told[told[:, 0] == number]
        if word.name == "own_barrier_":
            lines = {recording.lines[line] for line in mine[:, 1].tolist()}
            notes.own_barriers |= lines
            if word.fields["with_flags"]:
                notes.own_flags |= lines
        elif word.name == "stray_":
            notes.strays |= {recording.lines[line]: BUFFERS[word.fields["memory"] - 1] for line in mine[:, 1].tolist()}
        elif word.name == "atomic_left_":
            notes.atomics |= dict.fromkeys(recording.lines[line] for line in mine[:, 1].tolist())
        elif word.name == "queue_event_":
            flag = _flag(k, word)
            notes.queues[flag.source, flag.destination, flag.identity] = f"of queues {flag.name}"
        elif word.name == "allocate_":
            name, space = _POSITIONS.get(word.fields["position"], ("UB", "UB"))
            if space in k.chip.cores.kinds[k.core_kind].buffers:  # type: ignore[index]
                size = word.fields["size"]
                pieces = [Allocated(space, row[2], size, name, recording.lines[row[1]]) for row in mine.tolist()]
                (found[space] if name else notes.shared).extend(pieces)
    for taken in found.values():
        taken.sort(key=lambda one: one.start)
        if any(here.start + here.size > behind.start for here, behind in pairwise(taken)):
            notes.shared += taken
        else:
            notes.allocated += [replace(one, name=f"{one.name} buffer {number}") for number, one in enumerate(taken)]
