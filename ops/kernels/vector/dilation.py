"""Dilation: the pixels of a C0-blocked map spread out, zeros between them; before or after grad_input with stride > 1.

target[y * stride_h + top, x * stride_w + left] = source[y, x] for every plane [H][W][C0]; what falls outside is dropped,
the rest of the target is zero. `top` and `left` are negative where padding crops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.queue import ZeroedQueue
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.ops.kernels.vector.common import SOURCE, TARGET, Launch, share, vector_cores, vector_task
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.runtime import Task

_BUFFERS = 2


@frozen
class Spread:
    """Where pixels go, per plane: source sizes, target sizes, strides, and the place of source pixel (0, 0)."""

    height: int
    width: int
    target_height: int
    target_width: int
    stride_h: int
    stride_w: int
    top: int = 0
    left: int = 0

    def inside(self, first: int, count: int, stride: int, start: int, size: int) -> range:
        """Source indices of `size` whose place, index * stride + start, falls in first .. first + count - 1."""
        low = max(ceil_div(first - start, stride), 0)
        high = min((first + count - 1 - start) // stride, size - 1)
        return range(low, max(high + 1, low))


def dilation_task(
    chip: ChipSpec,
    source: Allocation,
    target: Allocation,
    planes: int,
    spread: Spread,
    *,
    dtype: str = "",
    name: str = "",
    disarm: Collection[str] = (),
) -> Task:
    """The launch over `planes` planes; one block takes a run of tiles, a tile is whole rows (or a piece of one)."""
    room = chip.buffers["UB"] // _BUFFERS // BLOCK_BYTES
    columns = min(spread.target_width, room)
    rows = max(room // spread.target_width, 1) if columns == spread.target_width else 1
    row_parts, column_parts = ceil_div(spread.target_height, rows), ceil_div(spread.target_width, columns)
    total = planes * row_parts * column_parts
    blocks = min(total, vector_cores(chip))

    def tiles(block: int) -> Iterator[tuple[tuple[int, int, int, int], int]]:
        """((first row, rows, first column, columns), plane) of each tile of a block."""
        first, count = share(total, blocks, block)
        for number in range(first, first + count):
            rest, column = divmod(number, column_parts)
            plane, row = divmod(rest, row_parts)
            height = min(rows, spread.target_height - row * rows)
            width = min(columns, spread.target_width - column * columns)
            yield (row * rows, height, column * columns, width), plane

    def body(k: KernelBuilder, block: int) -> None:
        buffers = [k.allocate("UB", rows * columns * BLOCK_BYTES, f"tile[{i}]") for i in range(_BUFFERS)]
        queue = ZeroedQueue(k, "tile", buffers)
        for (row, height, column, width), plane in k.stamped(tiles(block)):
            k.next_tile()
            target = queue.acquire_zeroed(height * width * BLOCK_BYTES)
            sources = spread.inside(column, width, spread.stride_w, spread.left, spread.width)
            for y in spread.inside(row, height, spread.stride_h, spread.top, spread.height) if sources else ():
                place = (y * spread.stride_h + spread.top - row) * width
                place += sources.start * spread.stride_w + spread.left - column
                pixel = (plane * spread.height + y) * spread.width + sources.start
                k.data_copy(
                    "GM",
                    "UB",
                    target + place * BLOCK_BYTES,
                    gm_operand(SOURCE, pixel * BLOCK_BYTES),
                    BLOCK_BYTES,
                    len(sources),
                    BLOCK_BYTES,
                    spread.stride_w * BLOCK_BYTES,
                )
            queue.publish()
            pixel = (plane * spread.target_height + row) * spread.target_width + column
            k.data_copy("UB", "GM", gm_operand(TARGET, pixel * BLOCK_BYTES), queue.take(), height * width * BLOCK_BYTES)
            queue.release()
        queue.close()

    sides = ("input", "output")
    info = {
        "dtypes": dict.fromkeys(sides, dtype),
        "formats": dict.fromkeys(sides, "NC1HWC0"),
        "shapes": {
            "input": [planes, spread.height, spread.width, BLOCK_BYTES],
            "output": [planes, spread.target_height, spread.target_width, BLOCK_BYTES],
        },
    }
    return vector_task(
        chip, Launch("Dilation", name or f"Dilation_{target.name}", disarm), blocks, [source, target], body, info
    )
