"""Patterns: what programs have in common that are made of the same pieces in the same order, at other places.

The blocks of a kernel mostly do the same elsewhere. The first of them is built and checked row by row; of every further one
only the numbers that move are written and checked. A pattern lives as long as one of its programs does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT

Numbers = NDArray[np.int64]
ROW = 5
"""Numbers of a row."""


@dataclass(frozen=True, eq=False)
class Moves:
    """What moves in rows: number `cells` of them all by `steps` times number `axes` of the place.

    A cell may stand there several times.
    """

    cells: Numbers
    steps: Numbers
    axes: Numbers

    def only(self, stays: NDArray[np.bool_]) -> Moves:
        """The moves when only the rows that `stays` says are left."""
        row = self.cells // ROW
        kept, closed = stays[row], (np.cumsum(~stays) * ROW)[row]
        return Moves((self.cells - closed)[kept], self.steps[kept], self.axes[kept])


@dataclass(frozen=True, slots=True)
class _Limits:
    """What is asked of the cells that move, in the order of `Pattern.cells`: `in_gm` those that are addresses in GM."""

    in_gm: NDArray[np.bool_]
    extent: Numbers
    limit: Numbers
    unit: Numbers


@dataclass(eq=False)
class Pattern:
    """`rows` of its first program, which stands at `place`; `moves` say what is otherwise elsewhere.

    `limits` are those of its table (`InstructionTable.limits`), `sizes` the bytes of its task's tensors.
    """

    rows: Numbers
    place: Numbers
    moves: Moves
    limits: Numbers
    sizes: Sequence[int]

    def at(self, place: Numbers) -> Numbers:
        """The rows of its program at another place."""
        rows = self.rows.copy()
        flat = rows.reshape(-1)
        by = place - self.place
        for cells, steps, axes in self._rounds:
            flat[cells] += steps * by[axes]
        return rows

    def is_right(self, rows: Numbers) -> bool:
        """Whether what moved still lies inside its buffers and tensors, at aligned addresses."""
        asked, address = self._asked, rows.reshape(-1)[self.cells]
        limit = asked.limit
        if asked.in_gm.any():
            slot = address >> SLOT_SHIFT
            sizes = np.asarray((*self.sizes, -1), np.int64)
            there = np.where((slot >= 0) & (slot < len(self.sizes)), slot, len(self.sizes))
            limit = np.where(asked.in_gm, sizes[there], limit)
            address = np.where(asked.in_gm, address & OFFSET_MASK, address)
        return not ((address < 0) | (address + asked.extent > limit) | (address % asked.unit != 0)).any()

    def moved(self, rows: Numbers, tensors: int) -> Numbers | None:
        """How far the operands of a program with these `rows` lie behind those of the first, by tensor; None where the operands
        of a tensor do not all move alike, or others move.
        """
        first, now = self.rows.reshape(-1)[self.cells], rows.reshape(-1)[self.cells]
        far, in_gm = now - first, self._asked.in_gm
        slot = first >> SLOT_SHIFT
        if far[~in_gm].any() or not np.array_equal(slot, now >> SLOT_SHIFT):
            return None
        moved = np.zeros(tensors, np.int64)
        moved[slot[in_gm]] = far[in_gm]
        moved[self._fixed] = 0
        return moved if np.array_equal(moved[slot[in_gm]], far[in_gm]) else None

    @cached_property
    def counts(self) -> Numbers:
        """How often each instruction of the table stands in it, as far as it has one."""
        return np.bincount(self.rows[:, 0])

    @cached_property
    def cells(self) -> Numbers:
        """The numbers that move."""
        return np.unique(self.moves.cells)

    @cached_property
    def _rounds(self) -> list[tuple[Numbers, Numbers, Numbers]]:
        """The moves, so that no cell stands twice in a round."""
        left, rounds = self.moves, []
        while len(left.cells):
            cells, first = np.unique(left.cells, return_index=True)
            rounds.append((cells, left.steps[first], left.axes[first]))
            rest = np.ones(len(left.cells), np.bool_)
            rest[first] = False
            left = Moves(left.cells[rest], left.steps[rest], left.axes[rest])
        return rounds

    @cached_property
    def _asked(self) -> _Limits:
        kind, operand = self.rows[self.cells // ROW, 0], self.cells % ROW - 1
        extent, limit, unit = self.limits[:, operand, kind]
        return _Limits((limit < 0) & (extent > 0), extent, limit, unit)

    @cached_property
    def _fixed(self) -> Numbers:
        """The tensors that have operands which do not move."""
        extent, limit, _ = self.limits[:, :, self.rows[:, 0]]
        in_gm = ((limit < 0) & (extent > 0)).T
        moves = np.zeros(self.rows.shape, np.bool_)
        moves.reshape(-1)[self.cells] = True
        return np.unique(self.rows[:, 1:4][in_gm & ~moves[:, 1:4]] >> SLOT_SHIFT)
