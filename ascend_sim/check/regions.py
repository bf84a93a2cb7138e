"""What the instructions of a table touch in one space, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ascend_sim.kernel.program import SPACES, Program, Touches, ranges
from ascend_sim.memory.regions import Region


@dataclass(frozen=True, eq=False)
class RegionColumns:
    """The regions of a table's instructions in one space: those of instruction `i` from `first[i]` to `first[i + 1]`, reads
    before writes. `column` is where a row has the operand that a region is relative to; `offset` and `extent` are in bytes.
    """

    first: NDArray[np.int64]
    regions: list[Region]
    column: NDArray[np.int64]
    offset: NDArray[np.int64]
    extent: NDArray[np.int64]
    writes: NDArray[np.bool_]


@lru_cache(maxsize=64)
def regions_in(touches: Touches, space: str) -> RegionColumns:
    """Those of a table's `touches` that lie in a buffer, or in "GM"."""
    here = np.flatnonzero(touches.columns["space"] == SPACES.index(space))
    owners = np.repeat(np.arange(len(touches.first) - 1), np.diff(touches.first))[here]
    columns = touches.columns[here]
    return RegionColumns(
        np.searchsorted(owners, np.arange(len(touches.first))),
        [touches.regions[index] for index in here.tolist()],
        columns["column"],
        columns["offset"],
        columns["extent"],
        columns["writes"].astype(np.bool_),
    )


def accesses_in(program: Program, space: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and place in `regions_in` of every access of a program to a space, in order of rows."""
    first, instruction = regions_in(program.table.touches, space).first, program.rows[:, 0]
    counts = np.diff(first)[instruction]
    return np.repeat(np.arange(len(program)), counts), ranges(first[instruction], counts)
