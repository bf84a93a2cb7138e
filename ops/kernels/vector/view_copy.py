"""ViewCopy: copies elements of one strided view to another (a result to the user's tensor, or a view made contiguous).

Only the DMA engines work: rows come through UB, each on its own 32-byte blocks. A row is as long as both views are contiguous;
where they have no contiguous dimension in common a row is one element. A row that is read again and again, or begins inside of
the one before it, takes an instruction of its own where the chip's word has no stride for it (all but the 950).

Where copies count whole blocks (the 910 and 310P) a row of a block or more backs off: its last block comes, and leaves, by
itself. Shorter rows are merged by one core; the caller's bytes in the gaps of a view and behind it are kept. What the vendor's
kernel does is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.kernel.function import kernel_function
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.vector.common import (
    KernelWork,
    call_info,
    known_loop,
    padded,
    require_positive,
    share,
    vector_cores,
)
from ascend_sim.ops.kernels.vector.whole_blocks import Merge, load_backed_off, load_rows, store_rows
from ascend_sim.ops.problem.sizes import ceil_div


class StridedCopy(NamedTuple):
    """target[target_offset + i . target_strides] = source[source_offset + i . source_strides] for every index i of `shape`.

    Strides and offsets count elements of `itemsize` (1, 2, 4 or 8) bytes. Strides may be negative, the source's also 0
    (expanded). `followed`: the target's last element is not that of its storage, and what follows must stay.
    """

    shape: Sequence[int]
    source_strides: Sequence[int]
    target_strides: Sequence[int]
    itemsize: int
    source_offset: int = 0
    target_offset: int = 0
    followed: bool = False


_WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "int64"}
_TILES = 4  # a quarter of UB each; two are in use at a time


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension of a copy: its size, and the strides `src` in the source and `dst` in the target, in elements."""

    size: int
    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """A copy as loops: outer dimensions, then `rows`, then a contiguous `run` of elements; offsets in elements."""

    outer: tuple[_Dim, ...]
    rows: _Dim
    run: int
    src_offset: int
    dst_offset: int

    @property
    def has_gaps(self) -> bool:
        """Return True if the target has other elements between those that are written."""
        dims = (*self.outer, self.rows)
        return self.run + sum((dim.size - 1) * dim.dst for dim in dims) > self.run * math.prod(dim.size for dim in dims)


def _simplified(name: str, shape: Sequence[int], src: Sequence[int], dst: Sequence[int]) -> tuple[list[_Dim], int, int]:
    """Return (dimensions, source offset, target offset) of a copy: neighbours merged, those of size 1 left out, target strides
    positive and falling.

    The offsets account for reversed dimensions. SimError for a target stride of 0 over several elements.
    """
    dims, src_offset, dst_offset = [], 0, 0
    for size, a, b in zip(shape, src, dst, strict=True):
        if size == 1:
            continue
        if b == 0:
            raise SimError(f"{name}: a target stride is 0 over {size} elements; they would all be written to one place")
        if b < 0:
            src_offset, dst_offset = src_offset + (size - 1) * a, dst_offset + (size - 1) * b
            a, b = -a, -b
        dims.append(_Dim(size, a, b))
    merged: list[_Dim] = []
    for dim in sorted(dims, key=lambda dim: -dim.dst):
        if merged and merged[-1].src == dim.size * dim.src and merged[-1].dst == dim.size * dim.dst:
            dim = _Dim(merged.pop().size * dim.size, dim.src, dim.dst)
        merged.append(dim)
    return merged, src_offset, dst_offset


def _plan(name: str, shape: Sequence[int], src: Sequence[int], dst: Sequence[int], in_order_below: int = 0) -> _Plan:
    """Return the plan of a copy: its run and, as `rows`, the longest axis with a source stride not negative, rather one that
    steps past the run. Below a run of `in_order_below` elements it is the target's innermost axis; if that has a negative one,
    there is one row.
    """
    dims, src_offset, dst_offset = _simplified(name, shape, src, dst)
    run = 1
    if dims and dims[-1].src == dims[-1].dst == 1:
        run = dims.pop().size
    # The DMA engines step forward only, and most of them past what they read: other dimensions are left to the outer loop.
    forward = [dim for dim in dims if dim.src >= 0]
    rows = max(forward, key=lambda dim: (dim.src >= run, dim.size), default=_Dim(1, 0, 0))
    if run < in_order_below:
        rows = dims[-1] if dims and dims[-1].src >= 0 else _Dim(1, 0, 0)
    outer = tuple(dim for dim in dims if dim is not rows)
    return _Plan(outer, rows, run, src_offset, dst_offset)


def view_copy_work(chip: ChipSpec, copy: StridedCopy, name: str) -> KernelWork:
    """Return the work of a strided copy for `work_task`. Raises SimError for a target stride of 0 over several elements, and
    for an empty view.
    """
    require_positive(name, elements=math.prod(copy.shape), itemsize=copy.itemsize)
    _plan(name, copy.shape, copy.source_strides, copy.target_strides)  # which refuses what cannot be copied
    shape, source, target = tuple(copy.shape), tuple(copy.source_strides), tuple(copy.target_strides)
    return _work(chip, copy._replace(shape=shape, source_strides=source, target_strides=target))


def _even(total: int, largest: int) -> int:
    """Return the size of the fewest equal parts of at most `largest` into which `total` is cut, rounded up."""
    return ceil_div(total, ceil_div(total, largest))


def _part(number: int, step: int, total: int) -> slice:
    """Return the slice of part `number`, if `total` is cut in steps of `step`."""
    return slice(number * step, min((number + 1) * step, total))


@known_loop
def _work(chip: ChipSpec, copy: StridedCopy) -> KernelWork:
    """Return the work. A piece is one index of the outer dimensions, some rows and a part of a run: at most a quarter
    of UB. One block does all where rows merge.
    """
    shape, itemsize = copy.shape, copy.itemsize
    short = BLOCK_BYTES // itemsize if copies_whole_blocks(chip) else 0
    plan = _plan("", shape, copy.source_strides, copy.target_strides, short)
    merges = plan.run < short
    tile = chip.buffers["UB"] // _TILES
    # Counted, not listed: a tensor that is never copied may have a hundred million rows.
    run_step = _even(plan.run, tile // itemsize)
    row_step = _even(plan.rows.size, max(tile // padded(run_step * itemsize), 1))
    counts = [*[dim.size for dim in plan.outer], ceil_div(plan.rows.size, row_step), ceil_div(plan.run, run_step)]
    total = math.prod(counts)
    blocks = min(total, 1 if merges else vector_cores(chip))

    def pieces(block: int) -> list[tuple[int | slice, ...]]:
        first, count = share(total, blocks, block)
        indices = [one.tolist() for one in np.unravel_index(np.arange(first, first + count), counts)]
        return [
            (*outer, _part(row, row_step, plan.rows.size), _part(run, run_step, plan.run))
            for *outer, row, run in zip(*indices, strict=True)
        ]

    dims = (*plan.outer, plan.rows, _Dim(plan.run, 1, 1))
    sides = (
        (copy.source_offset + plan.src_offset, [dim.src for dim in dims]),
        (copy.target_offset + plan.dst_offset, [dim.dst for dim in dims]),
    )
    views = [
        Tensor(
            "",
            tuple([dim.size for dim in dims]),
            _WORDS[itemsize],
            gm_operand(slot, offset * itemsize),
            tuple([step * itemsize for step in steps]),
        )
        for slot, (offset, steps) in enumerate(sides)
    ]
    element = f"{8 * itemsize}-bit"
    info = call_info((element, element), ("ND", "ND"), (shape, shape))
    info["strides"] = {"input": list(copy.source_strides), "output": list(copy.target_strides)}
    fields = {"tile": tile, "merges": merges, "keeps": merges and (plan.has_gaps or copy.followed)}
    return KernelWork(view_copy, views, blocks, pieces, fields, info)


@kernel_function(core=("AI_CORE", "AIV"))
def view_copy(
    k: Kernel,
    source: Tensor,
    target: Tensor,
    pieces: Sequence[tuple[int | slice, ...]],
    *,
    tile: int,
    merges: bool,
    keeps: bool,
) -> None:
    """Kernel function of ViewCopy: copies `pieces` through UB, where each row has its own 32-byte blocks.

    `merges`: rows are shorter than the blocks that copies count; `keeps`: the target's bytes behind them are put back.
    """
    queue = k.queue("tile", "UB", tile, "MTE2", "MTE3")
    merge = Merge(k, tile // BLOCK_BYTES if keeps else 0) if merges else None
    for part in k.each(pieces):
        k.next_tile()
        before, after = source[part], target[part]
        rows, run = before.shape
        size, pitch = run * before.itemsize, k.row_bytes(run * before.itemsize)
        with queue.write() as place:
            load = load_backed_off if merge is None else load_rows
            load(k, place, before.address, size, CopyLoop(rows, before.strides[0], pitch))
        with queue.read() as place:
            move = after.address, place, size, CopyLoop(rows, pitch, after.strides[0])
            if merge is None:
                store_rows(k, move)
            else:
                merge.store(*move)
