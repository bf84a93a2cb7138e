"""Which L2 lines a strided region touches, worked out once per instruction and alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.l2 import Lines
from ascend_sim.memory.regions import Region, row_starts


@dataclass(frozen=True, slots=True)
class Footprint:
    """Lines of a region, relative to the line of its address.

    `touched` counts lines row by row (what port and L2 pay); `lines` are the distinct ones, ascending;
    `tails` are positions in `lines` that a row at least a line long ends inside; `partial` those not covered whole;
    `whole` says from where to where (exclusive) the lines go, if none is left out.
    """

    touched: int
    lines: NDArray[np.int64]
    tails: NDArray[np.int64]
    partial: NDArray[np.int64]
    whole: tuple[int, int] | None

    def at(self, first: int) -> Lines:
        """The lines of a region whose address lies in line `first`."""
        return self.lines + first if self.whole is None else slice(first + self.whole[0], first + self.whole[1])


def footprint(region: Region, phase: int, line: int) -> Footprint:
    """The footprint of `region` at an address `phase` bytes behind the start of a line of `line` bytes."""
    merged = region.simplified()
    starts = row_starts(merged) + phase
    ends = starts + merged.row_bytes
    first, last = starts // line, (ends - 1) // line
    counts = last - first + 1
    touched = int(counts.sum())
    offsets = np.arange(touched) - np.repeat(np.cumsum(counts) - counts, counts)
    every = np.repeat(first, counts) + offsets
    lines, inverse = np.unique(every, return_inverse=True)
    covered = np.minimum(np.repeat(ends, counts), (every + 1) * line) - np.maximum(
        np.repeat(starts, counts), every * line
    )
    bytes_per_line = np.bincount(inverse, weights=covered, minlength=len(lines))
    partial = np.flatnonzero(bytes_per_line < line)
    cut = (counts > 1) & (merged.row_bytes >= line) & (ends % line != 0)
    tails = np.unique(inverse[(np.cumsum(counts) - 1)[cut]]) if cut.any() else np.empty(0, np.int64)
    begin, end = int(lines[0]), int(lines[-1]) + 1
    whole = (begin, end) if end - begin == len(lines) else None
    return Footprint(touched, lines, tails.astype(np.int64), partial.astype(np.int64), whole)
