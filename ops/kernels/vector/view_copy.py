"""ViewCopy: elements of one strided view to another (a result into the user's tensor, or a view made contiguous).

Only the DMA engines work: rows come through UB, each on its own 32-byte blocks. A row is as long as both views are contiguous;
where they have no contiguous dimension in common a row is one element. A row that is read again and again, or begins inside of
the one before it, takes an instruction of its own where the chip's word has no stride for it (all but the 950).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.ops.kernels.vector.common import (
    SOURCE,
    TARGET,
    Launch,
    buffer_queue,
    call_info,
    padded,
    require_positive,
    share,
    vector_cores,
    vector_task,
)
from ascend_sim.ops.kernels.vector.strided import StridedCopy
from ascend_sim.ops.problem.sizes import cut
from ascend_sim.runtime import Task

_TILES = 4  # a quarter of UB each; two are in use at a time


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension: elements, and the steps (in elements) that they lie apart on either side."""

    size: int
    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """A copy as outer dimensions x `rows` x a contiguous `run` of elements; offsets in elements."""

    outer: tuple[_Dim, ...]
    rows: _Dim
    run: int
    src_offset: int
    dst_offset: int


def _simplified(name: str, shape: Sequence[int], src: Sequence[int], dst: Sequence[int]) -> tuple[list[_Dim], int, int]:
    """Dimensions with neighbours merged, outermost first by target step, all target steps positive; offset corrections."""
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


def _plan(name: str, shape: Sequence[int], src: Sequence[int], dst: Sequence[int]) -> _Plan:
    dims, src_offset, dst_offset = _simplified(name, shape, src, dst)
    run = 1
    if dims and dims[-1].src == dims[-1].dst == 1:
        run = dims.pop().size
    # The DMA engines step forward only, and most of them past what they read: other dimensions are left to the outer loop.
    forward = [dim for dim in dims if dim.src >= 0]
    rows = max(forward, key=lambda dim: (dim.src >= run, dim.size), default=_Dim(1, 0, 0))
    outer = tuple(dim for dim in dims if dim is not rows)
    return _Plan(outer, rows, run, src_offset, dst_offset)


def view_copy_task(
    chip: ChipSpec,
    source: Allocation,
    target: Allocation,
    copy: StridedCopy,
    *,
    op_type: str = "ViewCopy",
    name: str = "",
    disarm: Collection[str] = (),
) -> Task:
    """The launch. Raises SimError for a target stride of 0. `name` only says what stands in reports."""
    name, shape, itemsize = name or f"ViewCopy_{target.name}", copy.shape, copy.itemsize
    require_positive(name, elements=math.prod(shape), itemsize=itemsize)
    plan = _plan(name, shape, copy.source_strides, copy.target_strides)
    room = chip.buffers["UB"] // _TILES
    runs = cut(plan.run, room // itemsize)
    rows = cut(plan.rows.size, max(room // padded(runs[0][1] * itemsize), 1))
    counts = [dim.size for dim in plan.outer] + [len(rows), len(runs)]
    tiles = math.prod(counts)
    blocks = min(tiles, vector_cores(chip))

    def places(first: int, count: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """((rows, run), (source, target)) of each tile, in elements."""
        for number in range(first, first + count):
            src, dst = copy.source_offset + plan.src_offset, copy.target_offset + plan.dst_offset
            number, run_index = divmod(number, len(runs))
            number, row_index = divmod(number, len(rows))
            for dim in reversed(plan.outer):
                number, index = divmod(number, dim.size)
                src, dst = src + index * dim.src, dst + index * dim.dst
            (row, row_count), (start, run) = rows[row_index], runs[run_index]
            yield (row_count, run), (src + row * plan.rows.src + start, dst + row * plan.rows.dst + start)

    def body(k: KernelBuilder, block: int) -> None:
        queue = buffer_queue(k, "tile", "MTE2", "MTE3", room)
        src_stride, dst_stride = plan.rows.src * itemsize, plan.rows.dst * itemsize
        for (count, run), (src, dst) in k.stamped(places(*share(tiles, blocks, block))):
            k.next_tile()
            size = run * itemsize
            pitch = padded(size)
            tile, gm = queue.acquire(), gm_operand(SOURCE, src * itemsize)
            if src_stride >= size or k.can_copy("GM", "UB", size, count, src_stride, pitch):
                k.data_copy("GM", "UB", tile, gm, size, count, src_stride, pitch)
            else:
                for row in range(count):
                    k.data_copy("GM", "UB", tile + row * pitch, gm + row * src_stride, size)
            queue.publish()
            gm = gm_operand(TARGET, dst * itemsize)
            k.data_copy("UB", "GM", gm, queue.take(), size, count, pitch, dst_stride)
            queue.release()
        queue.close()

    element = f"{8 * itemsize}-bit"
    info = call_info((element, element), ("ND", "ND"), (shape, shape))
    info["strides"] = {"input": list(copy.source_strides), "output": list(copy.target_strides)}
    return vector_task(chip, Launch(op_type, name, disarm), blocks, [source, target], body, info)
