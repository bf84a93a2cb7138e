"""Dilation: spreads the pixels of a C0-blocked map out, with zeros between them; before or after grad_input with stride > 1.

target[y * stride_h + top, x * stride_w + left] = source[y, x] for every plane [H][W][C0]; what falls outside is dropped,
the rest of the target is zero. `top` and `left` are negative where padding crops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.frozen import frozen
from ascend_sim.kernel.function import kernel_function
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.ops.kernels.vector.common import KernelWork, contiguous, known_loop, share, vector_cores
from ascend_sim.ops.problem.sizes import ceil_div

_BUFFERS = 2


@frozen
class Spread:
    """Geometry of a Dilation of a plane: source and target sizes, strides, target position (`top`, `left`) of source (0, 0)."""

    height: int
    width: int
    target_height: int
    target_width: int
    stride_h: int
    stride_w: int
    top: int = 0
    left: int = 0

    def inside(self, first: int, count: int, stride: int, start: int, size: int) -> range:
        """Return the source indices below `size` whose target index * stride + start is in first .. first + count - 1."""
        low = max(ceil_div(first - start, stride), 0)
        high = min((first + count - 1 - start) // stride, size - 1)
        return range(low, max(high + 1, low))


class Window(NamedTuple):
    """A tile of the target: ranges of rows and columns of one plane."""

    plane: int
    rows: range
    columns: range


@known_loop
def dilation_work(chip: ChipSpec, planes: int, spread: Spread, dtype: str) -> KernelWork:
    """Return the work of a Dilation of `planes` planes for `work_task`; `dtype` only serves reports.

    A tile is as many rows of the target as half of UB holds, or a part of a row that is longer.
    """
    room = chip.buffers["UB"] // _BUFFERS // BLOCK_BYTES
    width = min(spread.target_width, room)
    height = max(room // spread.target_width, 1) if width == spread.target_width else 1
    down, across = ceil_div(spread.target_height, height), ceil_div(spread.target_width, width)
    total = planes * down * across
    blocks = min(total, vector_cores(chip))

    def part(index: int, most: int, size: int) -> range:
        return range(index * most, min(index * most + most, size))

    def pieces(block: int) -> list[Window]:
        first, count = share(total, blocks, block)
        found = []
        for number in range(first, first + count):
            rest, column = divmod(number, across)
            plane, row = divmod(rest, down)
            found.append(Window(plane, part(row, height, spread.target_height), part(column, width, spread.target_width)))
        return found

    shapes = {
        "input": [planes, spread.height, spread.width, BLOCK_BYTES],
        "output": [planes, spread.target_height, spread.target_width, BLOCK_BYTES],
    }
    info = {"dtypes": dict.fromkeys(shapes, dtype), "formats": dict.fromkeys(shapes, "NC1HWC0"), "shapes": shapes}
    fields = {"spread": spread, "tile": height * width * BLOCK_BYTES}
    maps = contiguous(*[(shape, "uint8") for shape in shapes.values()])
    return KernelWork(dilation, maps, blocks, pieces, fields, info)


@kernel_function(core=("AI_CORE", "AIV"))
def dilation(k: Kernel, source: Tensor, target: Tensor, pieces: Sequence[Window], *, spread: Spread, tile: int) -> None:
    """Kernel function of Dilation: for each tile V writes zeros, MTE2 loads source pixels to their places, MTE3 stores it."""
    places = [k.allocate("UB", tile, f"tile[{i}]") for i in range(_BUFFERS)]
    tiles = k.queue_of("tile", places, "MTE2", "MTE3", opener="V")
    cleared = {place: k.flag("V", "MTE2", f"tile[{i}] zeroed") for i, place in enumerate(places)}
    for plane, rows, columns in k.each(pieces):
        k.next_tile()
        size, width = len(rows) * len(columns) * BLOCK_BYTES, len(columns)
        with tiles.write() as place:
            k.vector_duplicate(place, "float32", size // 4)
            k.set_flag(cleared[place])
            k.wait_flag(cleared[place])
            taken = spread.inside(columns.start, width, spread.stride_w, spread.left, spread.width)
            first = taken.start * spread.stride_w + spread.left - columns.start
            for y in spread.inside(rows.start, len(rows), spread.stride_h, spread.top, spread.height) if taken else ():
                row = y * spread.stride_h + spread.top - rows.start
                pixels, at = source[plane, y, taken.start : taken.stop], place + (row * width + first) * BLOCK_BYTES
                step = spread.stride_w * BLOCK_BYTES
                k.data_copy("GM", "UB", at, pixels.address, BLOCK_BYTES, len(taken), BLOCK_BYTES, step)
        with tiles.read() as place:
            corner = target[plane, rows.start, columns.start]
            k.data_copy("UB", "GM", corner.address, place, size)
