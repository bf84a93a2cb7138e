"""Loops of a kernel that repeat their rows: what the builder does with stamps."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator
from operator import sub
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.kernel.inspection import Inspection, Notes
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.kernel.stamp import Moving, Place, Stamp, absolute, like, relative

What = TypeVar("What", bound=Hashable)
"""What of a stamped loop's piece decides its rows."""
Where = TypeVar("Where", bound=int | tuple[int, ...])
"""By what it moves: a number or several."""


class StampedLoops:
    """Stamped loops over the sheet of a builder, and what one piece of them leaves to the next; see `stamp`."""

    if TYPE_CHECKING:
        block: int
        core_kind: str
        sub_block: int
        notes: Notes | None
        _inspection: Inspection | None
        _sizes: tuple[int, ...]
        _disarm: frozenset[str]
        _flags: dict[str, Any]
        _used: dict[str, int]

    def __init__(self, table: InstructionTable) -> None:
        self.table = table
        self._sheet = Sheet(table.stamps)
        self._tile = -1
        self._tiles = 0
        self._balance: dict[Any, int] = {}
        self._carried: list[tuple[object, str]] = []
        self._moves: list[tuple[int, int, int]] | None = None

    stamping: bool = True
    """Whether `stamped` repeats rows; without, every row is written by itself, and the programs are the same."""

    def carry(self, owner: object, *names: str) -> None:
        """Attributes of `owner` that one piece of a stamped loop leaves to the next: numbers, names, tuples of them."""
        self._outside_stamps(f"carry of {', '.join(names)}")
        self._carried += [(owner, name) for name in names]

    def stamped(self, items: Iterable[tuple[What, Where]], *same: Hashable) -> Iterator[tuple[What, Where]]:
        """The pairs (what, where) of a loop whose body is run once for every `what` and phase of the kernel; see `stamp`.

        `same` is what else the rows depend on: whatever the body uses that another run of this loop, in the program of
        another block, has otherwise, and a name where several loops of a program go through one `for`. The loop is not left
        early.
        """
        if not self.stamping or self._moves is not None:
            yield from items
            return
        stamps, notes = self.table.stamps, self.notes
        if self._inspection is not None:
            self._inspection.stamped = True
        body = sys._getframe(1)  # two loops of a kernel are two places of its code
        loop = (
            (body.f_code, body.f_lasti, same),
            notes is None,
            self.core_kind,
            self.sub_block,
            self._sizes,
            self._disarm,
            tuple(self._flags),
            *self._used.items(),
        )
        found, steps = stamps.of_loops.setdefault(loop, ({}, {}))
        sheet, phase = self._sheet, -1
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
                    self._resume(absolute(stamps.phases[phase], None))
                    tile, tiles = self._tile, self._tiles
                    self._sheet, self._tile, self._tiles, self._moves = Sheet(stamps), 0, 0, []
                    self.notes = None if notes is None else Notes(notes.source)
                    axes: list[Any] = [Moving.along(axis, len(place)) for axis in range(len(place))]
                    anywhere: Any = like(where, axes) if isinstance(where, tuple) else axes[0]
                    yield what, anywhere
                    moves = np.array(self._moves, np.int64).reshape(-1, 3)
                    after = stamps.number(self._phase(place))
                    made = Stamp(self._sheet.rows, moves, 0, len(place), self._tile, self._tiles, after, self.notes)
                    stamp = stamps.add(made)
                    found[what, phase] = stamp
                    self._sheet, self._tile, self._tiles, self._moves = sheet, tile, tiles, None
                    self.notes = notes
                if step[1] >= 0:
                    steps[step] = stamp
            if notes is not None and stamp.notes is not None:
                notes.rows.extend(stamp.notes.rows)
            try:
                sheet.put(stamp, place, self._tile)
            except OverflowError:
                raise self._too_far(f"a stamped loop's place {place}") from None
            self._tile += stamp.tiles
            self._tiles += stamp.counted
            phase, last = stamp.after, place
        if phase >= 0:
            self._resume(absolute(stamps.phases[phase], last))

    def _outside_stamps(self, what: str) -> None:
        if self._moves is not None:
            raise SimError(
                f"block {self.block} {self.core_kind}: {what} in a stamped loop; it must come before the loop"
            )

    def _phase(self, where: Place) -> Any:
        """What the rows that follow depend on, but for their own `what`."""
        values = [getattr(owner, name) for owner, name in self._carried]
        carried = tuple([value if type(value) is int else relative(value, where) for value in values])
        return carried, tuple(self._balance.values())

    def _resume(self, phase: Any) -> None:
        carried, balance = phase
        for (owner, name), value in zip(self._carried, carried, strict=True):
            setattr(owner, name, value)
        self._balance = dict(zip(self._balance, balance, strict=True))

    def _emit_moving(self, row: list[Any]) -> None:
        """A row of a stamp, addresses of which move; whatever else is no integer is refused as `_emit` does."""
        written, first = self._sheet.written, len(self._sheet.written)
        try:
            written.fromlist([cell.start if type(cell) is Moving else cell for cell in row])
        except OverflowError:
            raise self._too_far("an address") from None
        if self._moves is None:
            raise SimError(
                f"block {self.block} {self.core_kind}: {row}: a place of a stamped loop is used after the loop"
            )
        for number, cell in enumerate(row, first):
            if type(cell) is Moving:
                if max(map(abs, cell.steps)) >= 1 << 63:
                    raise self._too_far("a step of a stamped loop")
                self._moves += [(number, axis, step) for axis, step in enumerate(cell.steps) if step]

    def _too_far(self, what: str) -> SimError:
        return SimError(f"block {self.block} {self.core_kind}: {what} must fit into 64 bits")
