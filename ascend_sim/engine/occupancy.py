"""How full a local buffer is over time: bytes that hold something somebody will still read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.kernel.program import OPERAND_COLUMN


@dataclass(frozen=True)
class Occupancy:
    """A step curve: from `time[i]` on (cycles) `held[i]` bytes are occupied; the last entry is 0."""

    time: NDArray[np.int64]
    held: NDArray[np.int64]

    @property
    def peak(self) -> int:
        """Most bytes held at once."""
        return int(self.held.max(initial=0))

    def mean(self, begin: int, end: int) -> float:
        """Bytes held on average between two cycles."""
        if end <= begin or not len(self.time):
            return 0.0
        edges = np.clip(np.append(self.time, end), begin, end)
        return float((self.held * np.diff(edges)).sum() / (end - begin))


def occupancy(run: ProgramRun, buffer: str) -> Occupancy:
    """The curve of one buffer in one program.

    A piece of the buffer is occupied from the start of a write until the last read before the next write retires; where
    nobody reads in between (a fill that data follows) until the next write, at the end of the program until the write's
    retirement. Strided writes count with their hull.
    """
    low, high, start, retire, writes = _accesses(run, buffer)
    edges = np.unique(np.concatenate((low, high)))
    changes: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        touching = np.flatnonzero((low < last) & (high > first))
        if writes[touching].any():
            changes.append((*_spans(start[touching], retire[touching], writes[touching]), last - first))
    if not changes:
        return Occupancy(np.empty(0, np.int64), np.empty(0, np.int64))
    times = np.concatenate([np.concatenate((begin, end)) for begin, end, _ in changes])
    steps = np.concatenate([np.repeat((size, -size), len(begin)) for begin, _, size in changes])
    moments, inverse = np.unique(times, return_inverse=True)
    held = np.cumsum(np.bincount(inverse, weights=steps, minlength=len(moments)).astype(np.int64))
    return Occupancy(moments, held)


def _accesses(run: ProgramRun, buffer: str) -> tuple[NDArray[np.int64], ...]:
    """Low and high byte, start, retirement and whether it writes, for every access to the buffer in order of start."""
    rows = run.program.rows
    parts: list[tuple[NDArray[np.int64], ...]] = []
    for argument in np.unique(rows[:, 0]).tolist():
        instruction = run.program.table.instructions[argument]
        selected = np.flatnonzero(rows[:, 0] == argument)
        for writes, regions in ((0, instruction.reads()), (1, instruction.writes())):
            for region in regions:
                if region.space == buffer:
                    base = rows[selected, OPERAND_COLUMN[region.operand]]
                    kind = np.full(len(selected), writes)
                    parts.append(
                        (base + region.offset, base + region.extent, run.start[selected], run.retire[selected], kind)
                    )
    if not parts:
        return tuple(np.empty(0, np.int64) for _ in range(5))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[4], columns[2]))
    return tuple(column[order] for column in columns)


def _spans(
    start: NDArray[np.int64], retire: NDArray[np.int64], writes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Begin and end of every write's tenure of one piece of the buffer."""
    first = np.flatnonzero(writes)
    start, retire, writes = start[first[0] :], retire[first[0] :], writes[first[0] :]
    first = np.flatnonzero(writes)
    begin = start[first]
    last_read = np.maximum.reduceat(np.where(writes == 1, -1, retire), first)
    following = np.append(begin[1:], retire[first[-1]])
    end = np.where(last_read >= 0, last_read, np.maximum(following, begin))
    # A read may still run when the next write starts (a hazard): tenures of one piece never overlap.
    return begin, np.minimum(end, np.append(begin[1:], np.iinfo(np.int64).max))
