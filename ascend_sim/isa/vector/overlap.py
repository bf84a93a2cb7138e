"""Overlap of a vector instruction's operands: the unit works repeat by repeat and reads the results of earlier repeats.

Within a repeat source and destination must be the same bytes or apart, and no repeat may read what an earlier one wrote. Add,
Sub, Mul, Max and Min may continue from their own result: dst and src1 in one place, one of them with a stride of 0. Where a
page does not mention overlap there may be none (asc-devkit, general constraints: stated).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.isa.base import Instruction, ceil_div
from ascend_sim.isa.moves import offsets_of
from ascend_sim.isa.vector.arithmetic import VectorBinary
from ascend_sim.isa.vector.base import OPERANDS, Elementwise, size_of
from ascend_sim.isa.vector.conversion import VectorCast
from ascend_sim.isa.vector.movement import VectorCopy
from ascend_sim.isa.vector.rearrangement import Transpose
from ascend_sim.isa.vector.reduction import ReduceRows
from ascend_sim.memory.regions import Region

_SOURCE = "asc-devkit, general constraints of overlapping addresses"
_RUNNING = ("add", "sub", "mul", "max", "min")
_SQUARE = 16
"""Rows and columns of the only matrix that may be transposed in place."""
_ByElements = Elementwise | VectorCast | VectorCopy


class Pieces(NamedTuple):
    """Pieces of an operand's bytes: `start` (inclusive) and `end` (exclusive) of each."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]


def overlap_fault(instruction: Instruction, chip: ChipSpec, operand: str, distance: int) -> str:
    """Return the reason why source `operand` may not begin `distance` bytes behind dst; "" if it may, or if they do not
    overlap.
    """
    if isinstance(instruction, _ByElements):
        fault = _of_repeats(instruction, chip, operand, distance)
    elif not _meet(_touched(instruction.writes(), "dst", 0), _touched(instruction.reads(), operand, distance)):
        return ""
    elif isinstance(instruction, ReduceRows) and distance == 0 and _stays_behind(instruction):
        fault = ""
    elif isinstance(instruction, Transpose) and distance == 0:
        square = instruction.rows == instruction.columns == _SQUARE and instruction.dst_stride == instruction.src_stride
        fault = "" if square else f"in place it turns {_SQUARE} x {_SQUARE} elements, no others"
    else:
        fault = f"{operand}, {distance} bytes from dst, lies over it, and the instruction has no such form"
    return fault and f"{fault} ({_SOURCE})"


def _stays_behind(instruction: ReduceRows) -> bool:
    """Return True if no row reads results of earlier rows (stated: ReduceMax of the library reduces in place)."""
    results = sum(region.row_bytes for region in instruction.writes()) // instruction.rows
    return instruction.rows == 1 or instruction.row_stride >= results


def _of_repeats(instruction: _ByElements, chip: ChipSpec, operand: str, distance: int) -> str:
    if isinstance(instruction, Elementwise) and instruction.blocks:
        return _of_blocks(instruction, operand, distance)
    written, read = _repeats(instruction, chip, "dst", 0), _repeats(instruction, chip, operand, distance)
    same = (written.start == read.start) & (written.end == read.end)
    if ((written.start < read.end) & (read.start < written.end) & ~same).any():
        return f"{operand} begins {distance} bytes from dst and lies partly over it within a repeat"
    if _runs_on(instruction, operand, distance):
        return ""
    before = np.minimum.accumulate(written.start)[:-1], np.maximum.accumulate(written.end)[:-1]
    for number in np.flatnonzero((read.start[1:] < before[1]) & (before[0] < read.end[1:])).tolist():
        earlier = slice(number + 1)
        if _meet(
            Pieces(written.start[earlier], written.end[earlier]), Pieces(read.start[number + 1], read.end[number + 1])
        ):
            return f"{operand} begins {distance} bytes from dst: a repeat reads what an earlier one wrote"
    return ""


def _of_blocks(i: Elementwise, operand: str, distance: int) -> str:
    """Return the fault of operands whose blocks do not adjoin, compared block by block, a row being a repeat; "" if there is
    none.
    """
    shape = i.rows, i.count * size_of(i.dtype) // BLOCK_BYTES
    strides = {"dst": i.dst_stride, "src0": i.src_stride, "src1": getattr(i, "src1_stride", 0)}
    written, read = (
        start + offsets_of(shape, (strides[one], i.blocks[OPERANDS.index(one)])).ravel()
        for start, one in ((0, "dst"), (distance, operand))
    )
    number = np.arange(written.size)
    for first in range(0, written.size, shape[1]):
        row = slice(first, first + shape[1])
        over = np.abs(written[:, None] - read[row]) < BLOCK_BYTES
        if over[:first].any():
            return f"{operand} begins {distance} bytes from dst: a repeat reads what an earlier one wrote"
        same = (number[row, None] == number[row]) & (written[row, None] == read[row])
        if (over[row] & ~same).any():
            return f"{operand} begins {distance} bytes from dst and lies partly over it within a repeat"
    return ""


def _runs_on(instruction: _ByElements, operand: str, distance: int) -> bool:
    """Return True if each row continues from the result of the row before: dst and src1 in one place, one with stride 0."""
    if not isinstance(instruction, VectorBinary) or instruction.operation not in _RUNNING or operand != "src1":
        return False
    return distance == 0 and instruction.rows > 1 and 0 in (instruction.dst_stride, instruction.src1_stride)


def _repeats(instruction: _ByElements, chip: ChipSpec, operand: str, distance: int) -> Pieces:
    """Return the pieces of an operand that each repeat touches: in each row as many elements as a repeat of the wider operand
    has.
    """
    i = instruction
    if isinstance(i, VectorCast):
        target, source = size_of(i.target), size_of(i.source)
    else:
        target = source = size_of(i.dtype)
    strides = {"dst": i.dst_stride, "src0": i.src_stride, "src1": getattr(i, "src1_stride", 0)}
    size, elements = target if operand == "dst" else source, chip.vector.repeat_bytes // max(target, source)
    first = np.arange(ceil_div(i.count, elements)) * elements
    rows = distance + np.arange(i.rows)[:, None] * (strides[operand] if i.rows > 1 else 0)
    return Pieces((rows + first * size).ravel(), (rows + np.minimum(first + elements, i.count) * size).ravel())


def _touched(regions: Sequence[Region], operand: str, distance: int) -> list[Pieces]:
    """Return the pieces of one operand's regions, one for each row; `distance` is where the operand begins."""
    found = []
    for region in regions:
        if region.operand == operand:
            planes = np.arange(region.planes)[:, None] * region.plane_stride
            start = (distance + region.offset + planes + np.arange(region.rows) * region.row_stride).ravel()
            found.append(Pieces(start, start + region.row_bytes))
    return found


def _meet(one: Pieces | list[Pieces], other: Pieces | list[Pieces]) -> bool:
    """Return True if some byte belongs to a piece of both."""
    first, second = (([pieces] if isinstance(pieces, Pieces) else pieces) for pieces in (one, other))
    for a in first:
        for b in second:
            if ((a.start < np.max(b.end)) & (np.min(b.start) < a.end)).any():
                order = np.argsort(a.start, kind="stable")
                starts, ends = a.start[order], np.maximum.accumulate(a.end[order])
                at = np.searchsorted(starts, np.atleast_1d(b.end)) - 1  # the last that begins before each ends
                if ((at >= 0) & (ends[at] > np.atleast_1d(b.start))).any():
                    return True
    return False
