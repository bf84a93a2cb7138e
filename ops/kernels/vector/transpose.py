"""Transpose: transposes matrices in UB, for views whose innermost axis differs between source and target.

target[o][s, r] = source[o][r, s]: in the source the elements of a row (s) adjoin, in the target those of a column (r).
A tile is loaded as padded rows, transposed in groups of C0 rows, and stored as padded rows of the transposed matrix.

Where copies count whole blocks (the 910 and 310P) rows are loaded rounded up. A row of the transposed matrix of a block or more
backs off: its last group is that of the last C0 rows. Shorter ones are merged by one core. The vendor's kernel is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.frozen import frozen
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop, TurnLayout
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.vector.common import SOURCE, TARGET, Loop, buffer_queue, known_loop, padded, share, vector_cores
from ascend_sim.ops.kernels.vector.view_copy import StridedCopy
from ascend_sim.ops.kernels.vector.whole_blocks import Merge, load_rows, store_rows, with_whole_end
from ascend_sim.ops.problem.sizes import ceil_div, cut

_BUFFERS = 4  # two in, two out
_KEPT_BUFFERS = 5  # and what rows that merge overwrite
_GROUPS = 8  # groups of C0 rows in one tile at most


@frozen
class MatrixTurn:
    """Batch of matrices to transpose, `rows` x `columns` in the source; `outer` axes are (size, source stride, target stride).

    Strides and offsets are elements: `row_stride` between source rows, `column_stride` between target rows. `followed`: see
    StridedCopy.
    """

    rows: int
    columns: int
    row_stride: int
    column_stride: int
    outer: tuple[tuple[int, int, int], ...]
    source_offset: int
    target_offset: int
    followed: bool = False

    def as_in_target(self) -> MatrixTurn:
        """Return the batch with outer axes in the target's order; by column if only that writes the target without gaps."""
        turn = replace(self, outer=tuple(sorted(self.outer, key=lambda axis: -axis[2])))
        if self.columns == 1 or not turn.has_gaps:
            return turn
        outer = (*self.outer, (self.columns, 1, self.column_stride))
        single = replace(self, columns=1, column_stride=self.rows, outer=outer).as_in_target()
        return turn if single.has_gaps else single

    @property
    def has_gaps(self) -> bool:
        """Return True if writes along `outer` in its order, then column by column, do not fill the target from end to end."""
        size = self.rows
        for length, stride in ((self.columns, self.column_stride), *[(axis[0], axis[2]) for axis in self.outer[::-1]]):
            if stride != size:
                return True
            size *= length
        return False


def as_turn(copy: StridedCopy) -> MatrixTurn | None:
    """Return the copy as a batch of transpositions; None if no axis is contiguous in the source alone and another in
    the target alone, or for 1-byte elements.
    """
    strides = zip(copy.shape, copy.source_strides, copy.target_strides, strict=True)
    axes = [(size, src, dst) for size, src, dst in strides if size > 1]
    along_source = [i for i, (_, src, dst) in enumerate(axes) if src == 1 and dst > 1]
    along_target = [i for i, (_, src, dst) in enumerate(axes) if dst == 1 and src > 1]
    if copy.itemsize == 1 or not along_source or not along_target:
        return None
    s, r = along_source[0], along_target[0]
    outer = tuple(axis for i, axis in enumerate(axes) if i not in (s, r))
    ends = copy.source_offset, copy.target_offset, copy.followed
    return MatrixTurn(axes[r][0], axes[s][0], axes[r][1], axes[s][2], outer, *ends)


@known_loop
def transpose_work(chip: ChipSpec, turn: MatrixTurn, itemsize: int) -> Loop:
    """Return the work of transposing a batch of matrices of `itemsize` 2 or 4 bytes, for `work_task`; blocks get equal
    shares of the tiles.

    One block does all where rows of the target are shorter than the blocks that copies count.
    """
    c0 = BLOCK_BYTES // itemsize
    if merges := copies_whole_blocks(chip) and turn.rows < c0:
        turn = turn.as_in_target()
    keeps = turn.has_gaps or turn.followed
    room = chip.buffers["UB"] // (_KEPT_BUFFERS if merges and keeps else _BUFFERS)
    row_parts = cut(turn.rows, c0 * _GROUPS, c0)
    if copies_whole_blocks(chip):
        row_parts = with_whole_end(row_parts, c0)
    high = row_parts[0][1]
    most = min(room // (ceil_div(high, c0) * BLOCK_BYTES), room // high // itemsize - c0)
    column_parts = cut(turn.columns, max(most, c0), c0)
    matrices = prod(size for size, _, _ in turn.outer)
    total = matrices * len(row_parts) * len(column_parts)
    blocks = min(total, 1 if merges else vector_cores(chip))

    def tiles(block: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yield ((rows, columns), (offset in the source, in the target)) of each tile of a block, in elements."""
        first, count = share(total, blocks, block)
        for number in range(first, first + count):
            rest, column = divmod(number, len(column_parts))
            rest, row = divmod(rest, len(row_parts))
            src, dst = turn.source_offset, turn.target_offset
            for size, src_stride, dst_stride in reversed(turn.outer):
                rest, index = divmod(rest, size)
                src, dst = src + index * src_stride, dst + index * dst_stride
            (r, rows), (s, columns) = row_parts[row], column_parts[column]
            src, dst = src + r * turn.row_stride + s, dst + s * turn.column_stride + r
            yield (rows, columns), (src, dst)

    def body(k: KernelBuilder, pieces: Sequence[tuple[Any, Any]]) -> None:
        incoming = buffer_queue(k, "rows", "MTE2", "V", room // BLOCK_BYTES * BLOCK_BYTES)
        outgoing = buffer_queue(k, "turned", "V", "MTE3", room // BLOCK_BYTES * BLOCK_BYTES)
        merge = Merge(k, room // BLOCK_BYTES if keeps else 0) if merges else None
        for (rows, columns), (src, dst) in k.stamped(pieces):
            k.next_tile()
            pitch, groups = padded(columns * itemsize), ceil_div(rows, c0)
            place, loop = gm_operand(SOURCE, src * itemsize), CopyLoop(rows, turn.row_stride * itemsize, pitch)
            load_rows(k, incoming.acquire(), place, columns * itemsize, loop)
            incoming.publish()
            values, result = incoming.take(), outgoing.acquire()
            for group in range(groups):
                first, channels = group * c0, min(c0, rows - group * c0)
                if channels < c0 and merge is None and k.copies_whole_blocks:
                    first, channels = rows - c0, c0
                plain, blocks_at = values + first * pitch, result + group * BLOCK_BYTES
                layout = TurnLayout(pitch, groups * BLOCK_BYTES)
                k.transpose_blocks(blocks_at, plain, True, itemsize, channels, columns, layout)
            incoming.release()
            outgoing.publish()
            loop = CopyLoop(columns, groups * BLOCK_BYTES, turn.column_stride * itemsize)
            move = gm_operand(TARGET, dst * itemsize), outgoing.take(), rows * itemsize, loop
            if merge is None:
                store_rows(k, move)
            else:
                merge.store(*move)
            outgoing.release()
        incoming.close()
        outgoing.close()

    sides = ("input", "output")
    info: dict[str, Any] = {
        "dtypes": dict.fromkeys(sides, ""),
        "formats": dict.fromkeys(sides, "ND"),
        "shapes": {"input": [matrices, turn.rows, turn.columns], "output": [matrices, turn.columns, turn.rows]},
    }
    return Loop(blocks, tiles, body, info)
