"""BiasAdd: [N, C, pixels] plus one number for each channel, added in fp32 and rounded once.

The vector unit adds element by element, so a bias is spread over a tile first: eight channels of fp32 fill one 32-byte
block, copies of that block (each step doubles them) make [pixels][8], and a transpose makes [8][pixels] of it. That is done
once for a group of eight channels; then the tiles of all its images are added to it.

The vendor's kernel is a closed one: how it divides the work is assumed, one group of channels of one image at a time, as
evenly over the cores as it goes. So is what it does where copies count whole blocks (the 910 and 310P): here a row of a block
or more backs off, as it comes and as it leaves; of shorter rows one core does all, and merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.kernel.function import kernel_function
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import CopyLoop, TurnLayout
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector.common import (
    BLOCK_BYTES,
    KernelWork,
    contiguous,
    known_loop,
    require_positive,
    share,
    vector_cores,
)
from ascend_sim.ops.kernels.vector.whole_blocks import Merge, load_backed_off, load_rows, store_rows, whole, with_whole_end
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut

DTYPES = ("float16", "bfloat16", "float32")
_WIDE = "float32"
_WIDE_BYTES = 4
_GROUP = BLOCK_BYTES // _WIDE_BYTES
"""Number of channels that are added together: as many fp32 numbers as a 32-byte block holds."""


def bias_add_work(chip: ChipSpec, n: int, c: int, pixels: int, dtype: str, name: str) -> KernelWork:
    """Return the work of a BiasAdd for `work_task`, whose tensors are source [n][c][pixels], bias [c] and target.

    Raises SimError for a size below 1 and for a dtype other than float16, bfloat16 and float32.
    """
    require_positive(name, n=n, c=c, pixels=pixels)
    if dtype not in DTYPES:
        raise SimError(f"{name}: dtype is {dtype}; it adds {', '.join(DTYPES)}")
    return _work(chip, n, c, pixels, dtype)


class ImageChannels(NamedTuple):
    """Piece of work: up to eight channels of an image; `begins`: their bias must be spread over a tile first."""

    begins: bool
    image: int
    channels: slice


@known_loop
def _work(chip: ChipSpec, n: int, c: int, pixels: int, dtype: str) -> KernelWork:
    """Return the work in units of eight channels of an image: a block has all images of some channels before the next channels.

    If rows are shorter than the blocks that copies count (`merges`), one block takes all channels of an image before
    the next image.
    """
    groups = ceil_div(c, _GROUP)
    units = groups * n
    merges = copies_whole_blocks(chip) and pixels * int(numpy_dtype(dtype).itemsize) < BLOCK_BYTES
    blocks = min(units, 1 if merges else vector_cores(chip))

    def pieces(block: int) -> list[ImageChannels]:
        first, count = share(units, blocks, block)
        found = []
        for unit in range(first, first + count):
            group, image = divmod(unit, groups)[::-1] if merges else divmod(unit, n)
            channels = slice(group * _GROUP, min((group + 1) * _GROUP, c))
            found.append(ImageChannels(merges or unit == first or image == 0, image, channels))
        return found

    shapes = {"input": [n, c, pixels], "bias": [c], "output": [n, c, pixels]}
    info = {
        "dtypes": dict.fromkeys(shapes, dtype), "formats": dict.fromkeys(shapes, "ND"), "shapes": shapes,
    }  # fmt: skip
    tensors = contiguous(*[(shape, dtype) for shape in shapes.values()])
    return KernelWork(bias_add, tensors, blocks, pieces, {"merges": merges}, info)


@kernel_function(core=("AI_CORE", "AIV"))
def bias_add(k: Kernel, source: Tensor, bias: Tensor, target: Tensor, pieces: Sequence[ImageChannels], *, merges: bool) -> None:
    """Kernel function of BiasAdd: adds the bias of each channel to the pixels of `pieces`, tile by tile. `merges`: rows
    are shorter than the blocks that copies count.
    """
    pixels, dtype, narrow = source.shape[2], source.dtype, source.dtype != _WIDE
    # Two tiles in, two out, the bias spread out, the same before its transpose and, for narrow numbers, a wide tile.
    per_pixel = _GROUP * (4 * source.itemsize + (3 if narrow else 2) * _WIDE_BYTES)
    unit = BLOCK_BYTES // 2  # a row of either width begins on a block
    room = k.chip.buffers["UB"] - 2 * BLOCK_BYTES
    tile = _GROUP, min(ceil_to(pixels, unit), room // per_pixel // unit * unit)
    biases = k.ub_queue("bias", _GROUP, dtype, "MTE2", "V", 1)
    incoming = k.ub_queue("in", tile, dtype, "MTE2", "V")
    outgoing = k.ub_queue("out", tile, dtype, "V", "MTE3")
    spread, copies = k.local_tensor(tile, _WIDE, "spread"), k.local_tensor(_GROUP * tile[1], _WIDE, "copies")
    wide = k.local_tensor(tile, _WIDE, "fp32") if narrow else spread
    merge = Merge(k) if merges else None
    for begins, image, channels in k.each(pieces):
        count = channels.stop - channels.start
        if begins:
            with biases.write() as place:
                load_rows(k, place.address, bias[channels].address, count * bias.itemsize)
            k.duplicate(copies[:_GROUP])  # channels that there are not
            k.pipe_barrier("V")
            with biases.read() as values:
                if narrow:
                    k.cast(copies[:count], values[:count])
                elif k.copies_whole_blocks:
                    k.muls(copies[:count], values[:count], 1.0)  # a copy inside UB would move whole blocks
                else:
                    k.copy(copies[:count], values[:count])
            _spread(k, spread, copies)
        parts = cut(pixels, tile[1])
        if k.copies_whole_blocks:
            parts = with_whole_end(parts, unit)
        for pixel, columns in parts:
            k.next_tile()
            before, after = (tensor[image, channels, pixel : pixel + columns] for tensor in (source, target))
            row, step, pitch = columns * before.itemsize, before.strides[0], tile[1] * before.itemsize
            with incoming.write() as place:
                load = load_backed_off if merge is None else load_rows
                load(k, place.address, before.address, row, CopyLoop(count, step, pitch))
            held = whole(k, row) // before.itemsize
            with outgoing.write() as result, incoming.read() as values:
                together = held == tile[1]  # no gaps between the rows
                for rows in [slice(count)] if together else [slice(one, one + 1) for one in range(count)]:
                    operands = [tensor[rows, :held] for tensor in (result, values, spread, wide)]
                    _add(k, *operands)
            with outgoing.read() as result:
                move = after.address, result.address, row, CopyLoop(count, pitch, step)
                if merge is None:
                    store_rows(k, move)
                else:
                    merge.store(*move)


def _spread(k: Kernel, spread: LocalTensor, copies: LocalTensor) -> None:
    """Append the filling of the tile `spread` ([8][pixels], fp32) with one bias a row, from the eight numbers at the start of
    `copies`, whose rest gets copies of them.
    """
    pitch, done = spread.columns, 1
    while done < pitch:
        more = min(done, pitch - done)
        k.pipe_barrier("V")
        k.copy(copies[done * _GROUP : (done + more) * _GROUP], copies[: more * _GROUP])
        done += more
    k.pipe_barrier("V")
    layout = TurnLayout(pitch * _WIDE_BYTES)
    k.transpose_blocks(spread.address, copies.address, False, _WIDE_BYTES, _GROUP, pitch, layout)
    k.pipe_barrier("V")


def _add(k: Kernel, result: LocalTensor, values: LocalTensor, spread: LocalTensor, wide: LocalTensor) -> None:
    """Append result = values + spread for rows without gaps; 16-bit rows are widened to fp32 in `wide` and rounded once."""
    if result.dtype == _WIDE:
        k.add(result, values, spread)
        return
    k.cast(wide, values)
    k.pipe_barrier("V")
    k.add(wide, wide, spread)
    k.pipe_barrier("V")
    k.cast(result, wide)
