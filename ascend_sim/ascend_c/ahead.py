"""Values computed while blocks are recorded, for scalar code of a kernel that reads memory.

The rows that a block has recorded so far are executed by their instructions, in order, on copies of the launch's tensors.
Blocks are coroutines: one continues until it ends, waits for a flag between cores, or polls GM; then another one has its turn.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ascend_c.errors import SourceError
from ascend_sim.ascend_c.rows import ShapeSteps, translated
from ascend_sim.ascend_c.session import Session
from ascend_sim.ascend_c.stream import FINE, WordStream
from ascend_sim.ascend_c.words import Word, word_of
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.compiled import library
from ascend_sim.engine.compiled.values import CompiledValues, Workspace, rows_for_python
from ascend_sim.engine.task import Task
from ascend_sim.engine.values import BlockShadow, ProgramValues
from ascend_sim.errors import RowError, SimError
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.scalar import CleanDataCache, ScalarAccess, ScalarLoad
from ascend_sim.isa.sync import (
    ONE_VECTOR,
    CrossCore,
    CrossCoreSetFlag,
    CrossCoreWaitFlag,
    CrossCounter,
    cross_counter,
    cross_members,
    cross_name,
)
from ascend_sim.isa.vector import GatherMask
from ascend_sim.kernel.check import check_addresses
from ascend_sim.kernel.inspection import Line
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.memory.gm import Allocation, room_of
from ascend_sim.memory.local import POISON

_MANY = 64
"""Least number of rows that are run in C; fewer run in Python."""
MOST_POLLS = 1000
"""Polls of GM in a row, while no block advances, after which they count as endless."""


class Blocks:
    """The programs of one launch, recorded together.

    `begin` starts recording the program of one of `cores`. `contents` are the values of the tensors by slot (None: none
    were given, so poison), `sizes` their bytes.
    """

    def __init__(
        self,
        chip: ChipSpec,
        begin: Callable[[CrossCore], Session],
        cores: Sequence[CrossCore],
        contents: Sequence[NDArray[Any] | None],
        sizes: Sequence[int],
    ) -> None:
        self.chip, self.cores = chip, cores
        self.tables = {kind: InstructionTable(chip, kind) for _, kind, _ in cores}
        self.sizes = sizes
        self.gm = [_bytes(one, size) for one, size in zip(contents, sizes, strict=True)]
        self.model, self.shadow = ValueModel.of(chip), BlockShadow()
        self.work = Workspace(chip, self.model) if library.load() is not None else None
        self.raised: dict[CrossCounter, Counter[int]] = defaultdict(Counter)
        self.posts: dict[CrossCounter, list[Line]] = defaultdict(list)
        """Counter of a vector core's messages -> the line that sent each."""
        self._blocks = [_Block(self, number, begin) for number in range(len(cores))]

    def recordings(self) -> dict[CrossCore, WordStream]:
        """Run all programs to their ends and return {core: its recording}.

        If a program ended badly, those that then wait for ever get its error in their recordings. Raises SourceError if
        programs wait for each other for ever and none ended badly, and for an operand outside its buffer or tensor.
        """
        running = {block: block.run() for block in self._blocks}
        polls = 0
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                while running:
                    got_on = False
                    for block, steps in [*running.items()]:
                        try:
                            got_on |= next(steps)
                        except StopIteration:
                            got_on = True
                            del running[block]
                    polls = 0 if got_on else polls + 1
                    if not got_on and (polls > MOST_POLLS or not any(one.polls for one in running)):
                        self._end_with_error(list(running))
                        break
        finally:
            for block in self._blocks:
                block.close()
        return {block.core: block.session.recording for block in self._blocks if block.session is not None}

    def _end_with_error(self, stuck: Sequence[_Block]) -> None:
        """Copy the error of a program that ended badly to those that wait for ever. Raises SourceError if none ended badly."""
        recordings = [block.session.recording for block in self._blocks if block.session is not None]
        cause = next((one for one in recordings if one.how != FINE), None)
        if cause is None:
            _deadlock(stuck)
        for block in stuck:
            assert block.session is not None and cause is not None
            mine = block.session.recording
            block.name_askers()
            mine.how, mine.detail, mine.last, mine.text = cause.how, cause.detail, cause.last, cause.text


class _Block:
    """The program of one core: its recording, the number of its pieces that were executed, and its memory."""

    def __init__(self, whole: Blocks, number: int, begin: Callable[[CrossCore], Session]) -> None:
        self.whole, self.number, self._begin = whole, number, begin
        self.core = whole.cores[number]
        self.table = whole.tables[self.core[1]]
        self.session: Session | None = None
        self.polls = False
        """True while it reads the same element of GM again and again."""
        self.stands: Line | None = None
        self.waits_for = ""
        self._values: ProgramValues | None = None
        self._taken: Counter[CrossCounter] = Counter()
        self._done = 0
        self._kinds = ShapeSteps()
        self._last: list[list[int]] = []
        self._asker: Line | None = None
        """On a cube core the line of a vector core for which it computes."""
        self._served: dict[int, Line] = {}
        """Number of a piece of the recording -> the line of a vector core that asked for it."""

    def run(self) -> Iterator[bool]:
        """Run the program; yield at each wait for another core or poll of GM: True if it advanced since the last yield.

        Raises SourceError for an operand outside its buffer or tensor.
        """
        session = self.session = self._begin(self.core)
        while True:
            asks = session.goes_on()
            rows, lines = translated(self.table, session.recording, self._done, self._kinds, len(self.whole.gm))
            if self._asker is not None:
                self._served |= dict.fromkeys(range(self._done, len(session.recording.pieces)), self._asker)
            self._done = len(session.recording.pieces)
            if asks and self._polls_again(rows):
                self.polls, self.stands = True, self._line(lines[-1])
                yield False
                self.polls = False
            try:
                yield from self._execute(rows, lines)
            except ValueError:  # a view beyond the end of a buffer or tensor
                self._refuse_outside(rows, lines)
                raise
            if (word := _last_word(session.recording)) is not None and asks and word.name == "any_message_":
                yield from self._message(session, word.fields)
                continue
            if not asks:
                if self._values is not None:
                    self._values.memory.cache.clean()
                self.name_askers()
                return
            session.answer(self._asked(rows[-1:]))

    def _message(self, session: Session, asked: Mapping[str, int]) -> Iterator[bool]:
        """Answer with the number of a vector core that sent a message, for whose line this core computes from then on; until
        then yield True if the block got on, else False.

        The cores are those in the bits of `cores`; the search begins with number `first`.
        """
        block, kind, _ = self.core
        vectors = sum(one == block and other != kind for one, other, _ in self.whole.cores)
        order = [(asked["first"] + number) % vectors for number in range(vectors)]
        flags = {number: CrossCoreWaitFlag(asked["flag"] + asked["step"] * number, ONE_VECTOR, "S") for number in order}
        counters = {number: cross_counter(flag, self.core) for number, flag in flags.items()}
        self.stands, self.waits_for = session.recording.lines[int(session.recording.pieces[-1][-1, 1])], "of a message"
        got_on = True
        while True:
            for number in order:
                raised = sum(self.whole.raised[counters[number]].values())
                if asked["cores"] >> number & 1 and raised > self._taken[counters[number]]:
                    self.waits_for = ""
                    self._asker = self.whole.posts[counters[number]][self._taken[counters[number]]]
                    return session.answer(number)
            yield got_on
            got_on = False

    @property
    def name(self) -> str:
        """Return the block's name for messages, with the core if the kernel has several kinds."""
        number, kind, sub_block = self.core
        both = len(self.whole.tables) > 1
        return f"block {number}" + (f" {kind}{sub_block if kind == 'AIV' else ''}" if both else "")

    def _line(self, number: int) -> Line:
        """Return the line with a number in the recording, or that of the vector core for which this core computes."""
        assert self.session is not None
        return self._asker or self.session.recording.lines[number]

    def name_askers(self) -> None:
        """Move rows recorded for vector cores, and an error among them, to the lines that asked for them."""
        assert self.session is not None
        recording = self.session.recording
        for piece, line in self._served.items():
            if line not in recording.lines:
                recording.lines.append(line)
            recording.pieces[piece][:, 1] = recording.lines.index(line)
        if self._asker is not None and recording.how != FINE:
            recording.last = self._asker

    def close(self) -> None:
        """End the process that records the program, if one was started."""
        if self.session is not None:
            self.session.close()

    def _polls_again(self, rows: NDArray[np.int64]) -> bool:
        """Return True if the block polls GM: the rows equal those of the last call and are only scalar loads and cache cleans,
        the last one of GM.

        `_MANY` rows or more never count. The rows are kept for the next call.
        """
        instructions = self.table.instructions
        told: list[list[int]] = rows[:, :4].tolist() if len(rows) < _MANY else []
        again = bool(told) and told == self._last
        self._last = told
        kinds = [instructions[one] for one in rows[:, 0].tolist()] if again else []
        only_reads = all(isinstance(one, ScalarLoad | CleanDataCache) for one in kinds)
        return again and only_reads and cast(ScalarAccess, kinds[-1]).space == "GM"

    def _execute(self, rows: NDArray[np.int64], lines: NDArray[np.int64]) -> Iterator[bool]:
        """Execute rows; yield at each wait for a cross-core flag that is not raised yet, as `run` does.

        `lines` has each row's line number.
        """
        instructions = self.table.instructions
        kinds = {*rows[:, 0].tolist()}  # a table may have thousands of instructions
        cross = [one for one in kinds if isinstance(instructions[one], CrossCoreSetFlag | CrossCoreWaitFlag)]
        stops = np.flatnonzero(np.isin(rows[:, 0], cross)) if cross else ()
        first, raised = 0, self.whole.raised
        for stop in stops:
            self._run(rows[first:stop])
            first = int(stop) + 1
            one = instructions[rows[stop, 0]]
            assert isinstance(one, CrossCoreSetFlag | CrossCoreWaitFlag)
            counter = cross_counter(one, self.core)
            if isinstance(one, CrossCoreSetFlag):
                raised[counter][self.number] += 1
                if one.mode == ONE_VECTOR:
                    self.whole.posts[counter].append(self._line(lines[stop]))
                continue
            got_on = True
            whose = cross_members(counter, self.whole.cores)
            self.stands, self.waits_for = self._line(lines[stop]), cross_name(one.flag)
            while any(raised[counter][block] <= self._taken[counter] for block in whose):
                yield got_on
                got_on = False
            self._taken[counter] += 1
            self.waits_for = ""
        self._run(rows[first:])

    def _refuse_outside(self, rows: NDArray[np.int64], lines: NDArray[np.int64]) -> None:
        """Raise SourceError for the first of `rows` with an operand outside its buffer or tensor, if there is one."""
        try:
            check_addresses(Program(*self.core, self.table, Sheet.of(rows)), self.whole.sizes)
        except RowError as error:
            raise SourceError(str(error), self._line(lines[error.row])) from None

    def _run(self, rows: NDArray[np.int64]) -> None:
        """Execute rows that have no cross-core flags: in C where there are many, else in Python."""
        if not len(rows):
            return
        whole, instructions = self.whole, self.table.instructions
        if self._values is None or len(rows) >= _MANY:
            program = Program(*self.core, self.table, Sheet.of(rows))
            tensors = [Allocation(0, len(one), f"tensor {slot}", one) for slot, one in enumerate(whole.gm)]
            task = cast(Task, SimpleNamespace(name="values ahead", tensors=tensors))
            values = ProgramValues(task, program, whole.chip, [], whole.shadow, whole.model)
            if self._values is not None:
                values.local, values.memory = self._values.local, self._values.memory
            self._values = values
        memory = self._values.memory
        order = np.arange(len(rows))
        work = whole.work if len(rows) >= _MANY else None
        in_c = work and rows_for_python(CompiledValues(self._values, work, order), work)
        for row in in_c or order.tolist():
            argument, dst, src0, src1 = rows[row, :4].tolist()
            one = instructions[argument]
            one.commit(memory, dst, one.read(memory, dst, src0, src1))

    def _asked(self, last: NDArray[np.int64]) -> int:
        """Return the bits of the element that the load in the row of `last` reads, or the number of elements that a GatherMask
        takes.

        `last` has the last row, or none. Raises SimError for any other row and for none: the kernel wrote the question itself.
        """
        one, row = (self.table.instructions[last[0, 0]], last[0]) if len(last) else (None, last)
        if not isinstance(one, ScalarLoad | GatherMask):
            raise SimError("the kernel asks for a value that no call reads; the kernel overwrote the recorder's memory")
        assert self._values is not None
        if isinstance(one, GatherMask):
            return int(one.chosen(self._values.memory, int(row[3])).sum())
        return int.from_bytes(one.read(self._values.memory, 0, int(row[2]), 0).tobytes(), "little")


def _last_word(recording: WordStream) -> Word | None:
    """Return the last word that was recorded; None without one."""
    pieces = [one for one in recording.pieces if len(one)]
    return word_of(recording.shapes[int(pieces[-1][-1, 0])]) if pieces else None


def _bytes(content: NDArray[Any] | None, size: int) -> NDArray[np.uint8]:
    """Return a tensor's bytes with its slack; the poison of fresh device memory behind the content, or everywhere
    without one.
    """
    found = np.full(room_of(size), POISON, np.uint8)
    if content is not None:
        found[:size] = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    return found


def _deadlock(stuck: Sequence[_Block]) -> None:
    """Raise SourceError for blocks that wait for each other, at the line of the first; it says for what 8 of them wait."""
    told = []
    for block in stuck[:8]:
        what = f"flag {block.waits_for}" if block.waits_for else "a value of GM that no block writes"
        line = f" (line {block.stands[1]})" if block.stands is not None else ""
        told.append(f"{block.name} for {what}{line}")
    more = f" and {len(stuck) - 8} further blocks" if len(stuck) > 8 else ""
    raise SourceError(f"deadlock: these blocks wait for ever: {'; '.join(told)}{more}", stuck[0].stands)


def contents_known(contents: Sequence[NDArray[Any] | None] | None) -> Sequence[NDArray[Any] | None]:
    """Return `contents`, the values of a launch's tensors. Raises SimError for None: a program built without a launch."""
    if contents is None:
        raise SimError("scalar code reads memory, but this program was built without the tensors of a launch")
    return contents
