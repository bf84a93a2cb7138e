"""Overlap of a vector instruction's operands: the unit works repeat by repeat and reads the results of earlier repeats.

Within a repeat source and destination must be the same bytes or apart, and no repeat may read what an earlier one wrote. Add,
Sub, Mul, Max, Min, AddRelu and SubRelu may continue from their own result: dst and src1 in one place, one of them with a stride
of 0. Where a page does not mention overlap there may be none (asc-devkit, general constraints: stated). A cast to a narrower
format may begin where its source does (its page warns of wider ones alone: derived). A cast to a wider format may end where its
source does or before, so that no result covers a later element (derived: GeGluGradV2, LayerNormGradV3 and
MoeGatingTopKSoftmax convert so from the upper half of a buffer). Results of a reduction or a GatherMask may begin where the
source does, if no repeat reads those of an earlier one (stated: the library's ReduceSum, ReduceMax and SoftmaxGrad reduce
repeats, blocks and pairs in place on dav-2201; example of the GatherMask page).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.isa.base import Instruction, ceil_div
from ascend_sim.isa.moves import offsets_of
from ascend_sim.isa.vector.arithmetic import RUNNING, RUNNING_FORMATS, VectorBinary
from ascend_sim.isa.vector.base import OPERANDS, Elementwise, size_of
from ascend_sim.isa.vector.conversion import VectorCast
from ascend_sim.isa.vector.gather_mask import GatherMask
from ascend_sim.isa.vector.mask_register import SelectByRegister, SelectRegisterScalar
from ascend_sim.isa.vector.movement import VectorCopy
from ascend_sim.isa.vector.named.pair_reduce_sum import PairReduceSum
from ascend_sim.isa.vector.pieces import ReducePieces
from ascend_sim.isa.vector.rearrangement import Transpose
from ascend_sim.isa.vector.reduction import ReduceBlocks, ReduceRows
from ascend_sim.isa.vector.selection import Select
from ascend_sim.isa.vector.two_formats import VectorBinaryCast
from ascend_sim.memory.regions import Region

_SOURCE = "asc-devkit, general constraints of overlapping addresses"
_SQUARE = 16
"""Rows and columns of the only matrix that may be transposed in place."""
_ByElements = Elementwise | VectorCast | VectorBinaryCast | VectorCopy | Select | SelectByRegister
_Reduction = ReduceRows | ReduceBlocks | PairReduceSum | ReducePieces | GatherMask


class Pieces(NamedTuple):
    """Pieces of an operand's bytes: `start` (inclusive) and `end` (exclusive) of each."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]


def overlap_fault(instruction: Instruction, chip: ChipSpec, operand: str, distance: int) -> str:
    """Return the reason why source `operand` ("src0", "src1") may not begin `distance` bytes behind dst; "" if it may or does
    not overlap.
    """
    if isinstance(instruction, Select) and operand == "src1":
        fault = _of_selection(instruction, chip, distance)
    elif isinstance(instruction, _ByElements):
        fault = _of_repeats(instruction, chip, operand, distance)
    elif not _meet(_touched(instruction.writes(), "dst", 0), _touched(instruction.reads(), operand, distance)):
        return ""
    elif isinstance(instruction, _Reduction):
        fault = _of_results(instruction, operand, distance)
    elif isinstance(instruction, Transpose) and distance == 0:
        square = instruction.rows == instruction.columns == _SQUARE and instruction.dst_stride == instruction.src_stride
        fault = "" if square else f"in place it turns {_SQUARE} x {_SQUARE} elements, no others"
    else:
        fault = f"{operand} begins {distance} bytes from dst and lies over it; they must lie apart"
    return fault and f"{fault} ({_SOURCE})"


def _of_selection(instruction: Select, chip: ChipSpec, distance: int) -> str:
    """Return the reason why src1 of a selection, its bits and its second tensor, may not begin `distance` bytes behind dst, or
    "".
    """
    if _meet(_touched(instruction.writes(), "dst", 0), _touched([instruction.bits()], "src1", distance)):
        return "the bits of the selection lie over dst; they must lie apart"
    if instruction.scalar is not None or isinstance(instruction, SelectRegisterScalar):
        return ""
    return _of_repeats(instruction, chip, "src1", distance + instruction.other_offset)


def _of_results(instruction: _Reduction, operand: str, distance: int) -> str:
    """Return the reason why a reduction's source, which lies over dst, may not begin `distance` bytes behind it, or ""."""
    if distance:
        return f"{operand} begins {distance} bytes from dst and lies over it; a reduction in place begins where dst does"
    if isinstance(instruction, ReduceRows):
        row = sum(region.row_bytes for region in instruction.writes()) // instruction.rows
        rows, written, read = instruction.rows, row, instruction.row_stride
    elif isinstance(instruction, GatherMask):
        row = sum(region.row_bytes for region in instruction.writes()) // instruction.rows
        rows, written, read = instruction.rows, row, instruction.src_stride
    elif isinstance(instruction, ReducePieces):
        row = max(region.offset + region.row_bytes for region in instruction.writes())
        rows, written, read = instruction.rows, instruction.dst_stride, instruction.src_stride
    else:
        return ""  # repeats adjoin, and each has fewer results than elements
    number = np.arange(rows)
    extent = max(region.extent for region in instruction.reads()) - (rows - 1) * read
    return _read_again(
        operand, distance, Pieces(number * written, number * written + row), Pieces(number * read, number * read + extent)
    )


def _of_repeats(instruction: _ByElements, chip: ChipSpec, operand: str, distance: int) -> str:
    """Return the reason why an element-wise instruction's source may not begin `distance` bytes behind dst; "" if it may.

    A repeat may not read what an earlier one wrote (`_runs_on` apart), nor overlap its own result in part. Allowed are equal
    bytes, results that are narrower and begin at the same byte, and wider ones that end at the same byte or before.
    """
    if instruction.blocks:
        return _of_blocks(instruction, operand, distance)
    written, read = _repeats(instruction, chip, "dst", 0), _repeats(instruction, chip, operand, distance)
    same = (written.start == read.start) & (written.end <= read.end)
    if isinstance(instruction, VectorCast) and operator.gt(*_sizes(instruction)):
        same |= written.end <= read.end
    if ((written.start < read.end) & (read.start < written.end) & ~same).any():
        return f"{operand} begins {distance} bytes from dst and lies partly over it within a repeat"
    return "" if _runs_on(instruction, operand, distance) else _read_again(operand, distance, written, read)


def _read_again(operand: str, distance: int, written: Pieces, read: Pieces) -> str:
    """Return a sentence if some repeat reads what an earlier one wrote; "" if none does."""
    before = np.minimum.accumulate(written.start)[:-1], np.maximum.accumulate(written.end)[:-1]
    for number in np.flatnonzero((read.start[1:] < before[1]) & (before[0] < read.end[1:])).tolist():
        earlier = slice(number + 1)
        if _meet(Pieces(written.start[earlier], written.end[earlier]), Pieces(read.start[number + 1], read.end[number + 1])):
            return f"{operand} begins {distance} bytes from dst: a repeat reads what an earlier one wrote"
    return ""


def _of_blocks(i: _ByElements, operand: str, distance: int) -> str:
    """Return the reason why a source may not begin `distance` bytes behind dst where blocks do not adjoin; "" if it may.

    Each row counts as a repeat, and its blocks are compared one by one with those written so far. A block of dst may be its own
    source if both have elements of one width.
    """
    target, source = _sizes(i)
    strides = _strides(i)
    held = [i.count * size // BLOCK_BYTES for size in (target, source)]
    written, read = (
        start + offsets_of((i.rows, many), (strides[one], i.blocks[OPERANDS.index(one)]))
        for many, start, one in zip(held, (0, distance), ("dst", operand), strict=True)
    )
    for row in range(i.rows):
        over = np.abs(written.reshape(-1, 1) - read[row]) < BLOCK_BYTES
        if over[: row * held[0]].any():
            return f"{operand} begins {distance} bytes from dst: a repeat reads what an earlier one wrote"
        inside = over[row * held[0] : (row + 1) * held[0]]
        if target == source:
            inside &= ~(np.eye(held[0], dtype=np.bool_) & (written[row][:, None] == read[row]))
        if inside.any():
            return f"{operand} begins {distance} bytes from dst and lies partly over it within a repeat"
    return ""


def _runs_on(instruction: _ByElements, operand: str, distance: int) -> bool:
    """Return True if each row of an operation in `RUNNING` may read the result of the row before as `operand`.

    It may if there are several rows in a format of `RUNNING_FORMATS`, `operand` is src1 and begins at the address of dst
    (`distance` 0), and it or dst has stride 0.
    """
    if not isinstance(instruction, VectorBinary) or instruction.operation not in RUNNING or operand != "src1":
        return False
    if instruction.dtype not in RUNNING_FORMATS:
        return False
    return distance == 0 and instruction.rows > 1 and 0 in (instruction.dst_stride, instruction.src1_stride)


def _repeats(instruction: _ByElements, chip: ChipSpec, operand: str, distance: int) -> Pieces:
    """Return the pieces of an operand that each repeat touches: of each row as many elements as a repeat of the wider has."""
    i = instruction
    target, source = _sizes(i)
    strides = _strides(i)
    size, elements = target if operand == "dst" else source, chip.vector.repeat_bytes // max(target, source)
    first = np.arange(ceil_div(i.count, elements)) * elements
    rows = distance + np.arange(i.rows)[:, None] * (strides[operand] if i.rows > 1 else 0)
    return Pieces((rows + first * size).ravel(), (rows + np.minimum(first + elements, i.count) * size).ravel())


def _sizes(i: _ByElements) -> tuple[int, int]:
    """Return the bytes of an element of dst and of a source."""
    if isinstance(i, VectorCast | VectorBinaryCast):
        return size_of(i.target), size_of(i.source)
    return size_of(i.dtype), size_of(i.dtype)


def _strides(i: _ByElements) -> dict[str, int]:
    """Return the bytes from row to row of each operand."""
    return {"dst": i.dst_stride, "src0": i.src_stride, "src1": getattr(i, "src1_stride", 0)}


def _touched(regions: Sequence[Region], operand: str, distance: int) -> list[Pieces]:
    """Return, for each region of one operand, the Pieces of its rows; the operand begins at `distance`."""
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
