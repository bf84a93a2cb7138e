"""MemSet: zeros over a tensor, launched before a kernel that adds to it atomically."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ascend_sim.chip import ChipSpec
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector.common import (
    Launch,
    Loop,
    known_loop,
    looped_task,
    require_positive,
    share,
    vector_cores,
)
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.runtime import Task

_TILES = 4  # a quarter of UB is zeroed once and written as often as needed


def mem_set_task(
    chip: ChipSpec,
    target: Allocation,
    nbytes: int,
    *,
    op_type: str = "MemSet",
    dtype: str = "float32",
    value: float = 0.0,
    name: str = "",
    disarm: Collection[str] = (),
) -> Task:
    """A launch that fills the first `nbytes` of `target` with `value` in `dtype`, zero unless given."""
    name = name or f"MemSet_{target.name}"
    require_positive(name, nbytes=nbytes)
    # The vector unit fills 16 and 32 bits alone; zeros of an 8-bit format are zeros there too, and no other value is asked for.
    filled = "float16" if numpy_dtype(dtype).itemsize == 1 and not value else dtype
    info = {"dtypes": {}, "formats": {"output": "ND"}, "shapes": {"output": [nbytes]}}
    return looped_task(chip, Launch(op_type, name, disarm), _loop(chip, nbytes, filled, value), [target], info)


@known_loop
def _loop(chip: ChipSpec, nbytes: int, filled: str, value: float) -> Loop:
    line = chip.memory.l2_line_bytes
    lines = ceil_div(nbytes, line)
    blocks = min(lines, vector_cores(chip))

    def pieces(block: int) -> Iterator[tuple[tuple[int, int], int]]:
        """((bytes that are zeroed in UB, bytes of a copy), where it goes)."""
        first, count = share(lines, blocks, block)
        begin, end = first * line, min((first + count) * line, nbytes)
        tile = min(chip.buffers["UB"] // _TILES, count * line)
        yield from (((tile, min(tile, end - start)), start) for start in range(begin, end, tile))

    def body(k: KernelBuilder, pieces: Sequence[tuple[tuple[int, int], int]]) -> None:
        tile = pieces[0][0][0]
        zeros = k.allocate("UB", tile, "zeros")
        ready = k.flag("V", "MTE3", "zeros ready")
        k.vector_duplicate(zeros, filled, tile // int(numpy_dtype(filled).itemsize), value)
        k.set_flag(ready)
        k.wait_flag(ready)
        for (_, size), start in k.stamped(pieces):
            k.next_tile()
            k.data_copy("UB", "GM", gm_operand(0, start), zeros, size)
        # Nothing is written to UB after the flag, so the copies need no more of them.

    return Loop(blocks, pieces, body)
