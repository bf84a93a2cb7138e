"""Loops of a kernel that repeat their rows by stamps."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import index, sub
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.kernel.field_types import is_whole
from ascend_sim.kernel.inspection import Inspection, Notes
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.kernel.stamp import NO_MOVES, Moving, Place, Stamp, absolute, like, placed, relative
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.kernel.touches import OPERAND_COLUMN
from ascend_sim.kernel.tracked import Trace, Tracked

What = TypeVar("What", bound=Hashable)
"""The part of a stamped loop's piece that decides its rows."""
Where = TypeVar("Where", bound=int | tuple[int, ...])
"""The place of a stamped loop's piece, by which its addresses move: a number or several."""


class _Outer(NamedTuple):
    """State of the builder (sheet, tiles, notes) that is put aside while a stamp is written."""

    sheet: Sheet
    tile: int
    tiles: int
    notes: Notes | None


class StampedLoops:
    """Base of a builder whose loops (`stamped`) are written once as stamps (kernel/stamp.py), with the state that one piece
    leaves to the next (`carry`).
    """

    if TYPE_CHECKING:
        core_kind: str
        sub_block: int
        notes: Notes | None
        _inspection: Inspection | None
        _disarm: frozenset[str]
        _flags: dict[str, Any]
        _used: dict[str, int]

        @property
        def block(self) -> int: ...

    def __init__(self, table: InstructionTable, sizes: Sequence[int]) -> None:
        self.table, self._sizes = table, tuple(sizes)
        self._sheet = Sheet(table.stamps, self._sizes)
        self._tile = -1
        self._tiles = 0
        self._balance: dict[Any, int] = {}
        self._carried: list[tuple[object, str]] = []
        self._outer: _Outer | None = None
        self._moves = array("q")
        self._turn: Place | None = None
        self._trace: Trace | None = None
        self._ordered: tuple[str, ...] = ()

    stamping: bool = True
    """True if loops repeat rows by stamps; otherwise every row is written singly, and the programs are equal."""

    def carry(self, owner: object, *names: str) -> None:
        """Register attributes of `owner` as part of the phase: one piece of a stamped loop leaves their values (numbers, names,
        tuples) to the next.

        Raises SimError inside a stamped loop; a traced loop goes on as a plain one.
        """
        self._outside_stamps(f"carry of {', '.join(names)}")
        self._carried += [(owner, name) for name in names]

    def stamped(self, items: Iterable[tuple[What, Where]], *same: Hashable) -> Iterator[tuple[What, Where]]:
        """Yield pairs (what, where) for a loop body, which runs once for each `what` and phase; later turns repeat its rows.

        `what` decides the rows and `where` is the place by which addresses move. `same` lists the other values on which
        the rows depend in another block's run, and a name if several loops share one `for`. The loop may not be left early.
        Without `stamping`, or inside another loop, it is a plain loop.
        """
        if not self.stamping or self._outer is not None:
            yield from items
            return
        stamps = self.table.stamps
        if self._inspection is not None:
            self._inspection.stamped = True
        body = sys._getframe(1)  # two loops of a kernel stand in two lines of its code
        loop = (body.f_code, body.f_lineno, same, self._surroundings())
        found, steps = stamps.of_loops.setdefault(loop, ({}, {}))
        phase = -1
        last: Place = ()
        for what, where in items:
            place: Place = where if isinstance(where, tuple) else (where,)
            by = tuple(map(sub, place, last))
            step = (what, phase, by)
            stamp = steps.get(step) if phase >= 0 else None
            if stamp is None:
                phase = stamps.number(self._phase(place)) if phase < 0 else stamps.moved(phase, by)
                stamp = found.get((what, phase))
                if stamp is None:
                    self._resume(phase, Moving)
                    self._begin_stamp()
                    axes: list[Any] = [Moving.along(axis, len(place)) for axis in range(len(place))]
                    anywhere: Any = like(where, axes) if isinstance(where, tuple) else axes[0]
                    yield what, anywhere
                    stamp = found[what, phase] = stamps.add(self._end_stamp(place))
                if step[1] >= 0:
                    steps[step] = stamp
            self._put(stamp, place)
            phase, last = stamp.after, place
        if phase >= 0:
            self._resume(phase, placed(last))

    def _surroundings(self) -> Hashable:
        """Return the builder's state on which the rows of any loop depend, as a key: core, sizes, flags, disarmed flags,
        buffers in use, pipes in `ordered`, and whether lines are noted.
        """
        return (
            self.notes is None,
            self.core_kind,
            self.sub_block,
            self._sizes,
            self._disarm,
            tuple(self._flags),
            self._ordered,
            *self._used.items(),
        )

    def _begin_stamp(self) -> None:
        """Direct the rows that follow to a new stamp."""
        self._outer = _Outer(self._sheet, self._tile, self._tiles, self.notes)
        self._sheet, self._tile, self._tiles, self._moves = Sheet(self.table.stamps), 0, 0, array("q")
        self.notes = None if self.notes is None else Notes(self.notes.source)

    def _end_stamp(self, place: Place) -> Stamp:
        """Return the stamp of the rows written since `_begin_stamp`, with the phase after it; later rows go to the program."""
        assert self._outer is not None
        moves = np.frombuffer(self._moves, np.int64).reshape(-1, 3) if self._moves else NO_MOVES
        after = self.table.stamps.number(self._phase(place))
        made = Stamp(self._sheet.written_rows(), moves, 0, len(place), self._tile, self._tiles, after, self.notes)
        self._sheet, self._tile, self._tiles, self.notes = self._outer
        self._outer = None
        return made

    def _put(self, stamp: Stamp, place: Place) -> None:
        """Append a stamp at `place` to the program, with its notes and tiles.

        Raises SimError for a place beyond 64 bits, and for one with more or fewer numbers than the stamp's.
        """
        if len(place) != stamp.axes:
            raise SimError(
                f"stamped loop: place {place} has {len(place)} numbers; an earlier one of its piece has {stamp.axes}"
            )
        if self.notes is not None and stamp.notes is not None:
            self.notes.rows.extend(stamp.notes.rows)
        try:
            self._sheet.put(stamp, place, self._tile)
        except OverflowError:
            raise self._too_far(f"a stamped loop's place {place}") from None
        self._tile += stamp.tiles
        self._tiles += stamp.counted

    def _outside_stamps(self, what: str) -> None:
        """Raise SimError for `what` inside a stamped loop, since no stamp repeats it; a traced turn's loop becomes a plain one
        instead.
        """
        if self._turn is not None:
            self._leave_turn()
        elif self._outer is not None:
            raise SimError(f"block {self.block} {self.core_kind}: {what} in a stamped loop; it must come before the loop")

    def _end_turn(self) -> Stamp:
        """Return the stamp of the traced turn that ends, with its guards; its tracked numbers are integers from then on."""
        assert self._turn is not None
        made = self._end_stamp(self._turn)
        if self._trace is not None:
            made.guards, self._trace.over = self._trace.guards(), True
        self._turn = self._trace = None
        return made

    def _leave_turn(self) -> None:
        """End the tracing of the running turn: its rows so far become a stamp of the program, and later rows follow singly."""
        assert self._turn is not None
        place = self._turn
        stamp = self.table.stamps.add(self._end_turn())
        self._put(stamp, place)
        self._resume(stamp.after, placed(place))

    @property
    def _row(self) -> int:
        """Return the number that the next row gets in the program: rows so far, those of the stamp being written included."""
        return len(self._sheet) + (len(self._outer.sheet) if self._outer is not None else 0)

    def _phase(self, where: Place) -> Any:
        """Return (carried values relative to the place `where`, balances of the flags): the state for the next rows."""
        values = [getattr(owner, name) for owner, name in self._carried]
        carried = tuple([value if type(value) is int else relative(value, where) for value in values])
        return carried, tuple(self._balance.values())

    def _resume(self, phase: int, number: Callable[[Place, int], Any]) -> None:
        """Set the builder's state to phase number `phase`: the carried attributes, moving ones by `number` (`absolute`), and
        the balances of flags.
        """
        carried, balance = self.table.stamps.phases[phase]
        for (owner, name), value in zip(self._carried, carried, strict=True):
            setattr(owner, name, value if type(value) is int else absolute(value, number))
        self._balance = dict(zip(self._balance, balance, strict=True))

    def _emit_moving(self, row: list[Any]) -> None:
        """Append a row of which operands are no plain integers: tensors stand for their addresses, places of a loop may move in
        its stamp.

        Raises SimError for a place of a stamped loop that is used after it, for what is no address, and for numbers beyond 64
        bits.
        """
        first, moves = len(self._sheet.written), array("q")
        try:
            for number, cell in enumerate(row):
                if type(cell) is int:
                    continue
                if type(cell) is Tensor:
                    cell = row[number] = cell.address
                if type(cell) is Tracked and cell.trace is not self._trace:
                    row[number] = index(cell)
                elif isinstance(cell, Moving):
                    if self._outer is None:
                        raise SimError(
                            f"block {self.block} {self.core_kind}: {row}: a place of a stamped loop is used after the loop"
                        )
                    if max(map(abs, cell.steps)) >= 1 << 63:
                        raise self._too_far("a step of a stamped loop")
                    row[number] = cell.start  # a fraction if its steps are, which the error names
                    for axis, step in enumerate(cell.steps):
                        if step:
                            moves.extend((first + number, axis, step))
            self._sheet.written.fromlist(row)
            self._moves.extend(moves)  # of rows that were written alone: a body may catch the error
        except OverflowError:
            raise self._too_far("an address") from None
        except TypeError:
            raise self._no_address(row) from None

    def _no_address(self, row: list[Any]) -> SimError:
        """Return the SimError for a row with an operand that is not an address."""
        what = self.table.instructions[row[0]].name
        given = {name: row[column] for name, column in OPERAND_COLUMN.items()}
        wrong = next(name for name, place in given.items() if not is_whole(place))
        return SimError(
            f"block {self.block} {self.core_kind}: {what}: {wrong} is {given[wrong]!r}; an address is a whole number of bytes "
            f"in a buffer, or a tensor in GM"
        )

    def _too_far(self, what: str) -> SimError:
        """Return the SimError for a number, `what`, that does not fit into 64 bits."""
        return SimError(f"block {self.block} {self.core_kind}: {what} must fit into 64 bits")
