"""Occupancy of a local buffer over time: the bytes that will still be read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.frozen import frozen
from ascend_sim.kernel.program import ranges
from ascend_sim.kernel.touches import operand_values
from ascend_sim.numerics.distinct import distinct


@frozen
class Occupancy:
    """A step curve: from `time[i]` on (cycles) `held[i]` bytes are occupied; the last entry is 0."""

    time: NDArray[np.int64]
    held: NDArray[np.int64]

    @property
    def peak(self) -> int:
        """Return the most bytes held at once."""
        return int(self.held.max(initial=0))

    def mean(self, begin: int, end: int) -> float:
        """Return the average number of bytes held between cycles `begin` and `end`; 0 for an empty span or curve."""
        if end <= begin or not len(self.time):
            return 0.0
        edges = np.clip(np.append(self.time, end), begin, end)
        return float((self.held * np.diff(edges)).sum() / (end - begin))


def occupancy(run: ProgramRun, buffer: str) -> Occupancy:
    """Return the occupancy of one buffer in one program.

    A piece of the buffer is occupied from the start of a write until its last read retires, and at most until the next write
    starts. Without a read it is occupied until the next write starts (a fill that data follows); without that, until the write
    retires. Reads of bytes never written do not count; strided accesses count with their hull.
    """
    low, high, start, retire, writes = _accesses(run, buffer)
    if not writes.any():
        return Occupancy(np.empty(0, np.int64), np.empty(0, np.int64))
    # The edges of all accesses cut the buffer into pieces that every access touches whole or not at all.
    edges = distinct(np.concatenate((low, high)))
    first = np.searchsorted(edges, low)
    counts = np.searchsorted(edges, high) - first
    piece, access = ranges(first, counts), np.repeat(np.arange(len(low)), counts)
    order = np.argsort(piece.astype(np.min_scalar_type(len(edges))), kind="stable")  # few bits: sorted in linear time
    piece, access = piece[order], access[order]
    begin, end, held = _tenures(piece, start[access], retire[access], writes[access])
    size = np.diff(edges)[held]
    moments, inverse = np.unique(np.concatenate((begin, end)), return_inverse=True)
    steps = np.bincount(inverse, weights=np.concatenate((size, -size)), minlength=len(moments))
    return Occupancy(moments, np.cumsum(steps.astype(np.int64)))


def _accesses(run: ProgramRun, buffer: str) -> tuple[NDArray[Any], ...]:
    """Return (low byte, end, start, retirement, True if it writes) of every access to the buffer, as columns sorted by start.

    Reads come before writes that start with them, writes of one cycle in order of rows. Accesses to no byte are left out.
    """
    row, place = run.program.accesses(buffer)
    touches = run.program.table.touches.columns
    order = np.lexsort((touches["writes"][place], run.start[row]))
    row, touch = row[order], touches[place[order]]
    base = operand_values(run.program.rows, row, touch["column"])
    low, high = base + touch["offset"], base + touch["extent"]
    columns = low, high, run.start[row], run.retire[row], touch["writes"] > 0
    touching = low < high
    return columns if touching.all() else tuple(column[touching] for column in columns)


def _tenures(
    piece: NDArray[np.int64], start: NDArray[np.int64], retire: NDArray[np.int64], writes: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (begin, end, piece) of every occupancy of a piece, from the accesses of all pieces sorted by piece and start."""
    heads = np.flatnonzero(writes | (np.diff(piece, prepend=-1) > 0))
    last_read = np.maximum.reduceat(np.where(writes, -1, retire), heads)
    written = writes[heads]  # the others are reads of what no write of this program put there
    heads, last_read = heads[written], last_read[written]
    piece, begin = piece[heads], start[heads]
    last = np.diff(piece, append=-1) != 0
    following = np.append(begin[1:], 0)
    end = np.where(last_read >= 0, last_read, np.where(last, retire[heads], following))
    # A read may still run when the next write starts (a hazard): tenures of one piece never overlap.
    return begin, np.where(last, end, np.minimum(end, following)), piece
