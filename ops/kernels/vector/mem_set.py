"""MemSet: fills a tensor with a value, usually zeros before a kernel that adds to it atomically.

Pieces begin on L2 lines. Where copies count whole blocks (the 910 and 310P) the last one is rounded up.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.chip import ChipSpec
from ascend_sim.kernel.function import kernel_function
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector.common import KernelWork, contiguous, known_loop, require_positive, share, vector_cores
from ascend_sim.ops.kernels.vector.whole_blocks import store_end
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to

_TILES = 4  # a quarter of UB is zeroed once and written as often as needed


def mem_set_work(chip: ChipSpec, nbytes: int, name: str, *, dtype: str = "float32", value: float = 0.0) -> KernelWork:
    """Return the work of filling `nbytes` bytes with `value` in `dtype`, for `work_task`. SimError if `nbytes` is below 1 or
    `dtype` is no number format.

    A `value` other than 0 needs a dtype of 16 or 32 bits; with another the build of the launch fails.
    """
    require_positive(name, nbytes=nbytes)
    # The vector unit fills 16 and 32 bits alone; zeros of an 8-bit format are zeros there too, and no other value is asked for.
    filled = "float16" if numpy_dtype(dtype).itemsize == 1 and not value else dtype
    return _work(chip, nbytes, filled, value)


@known_loop
def _work(chip: ChipSpec, nbytes: int, filled: str, value: float) -> KernelWork:
    """Return the work: blocks get whole L2 lines; a piece is at most a quarter of UB, filled once and stored repeatedly."""
    line = chip.memory.l2_line_bytes
    lines = ceil_div(nbytes, line)
    blocks = min(lines, vector_cores(chip))

    def pieces(block: int) -> list[slice]:
        first, count = share(lines, blocks, block)
        begin, end = first * line, min((first + count) * line, nbytes)
        tile = min(chip.buffers["UB"] // _TILES, count * line)
        return [slice(start, min(start + tile, end)) for start in range(begin, end, tile)]

    info = {"dtypes": {}, "formats": {"output": "ND"}, "shapes": {"output": [nbytes]}}
    fields = {"filled": filled, "value": value}
    return KernelWork(mem_set, contiguous(([nbytes], "uint8")), blocks, pieces, fields, info)


@kernel_function(core=("AI_CORE", "AIV"))
def mem_set(k: Kernel, target: Tensor, pieces: Sequence[slice], *, filled: str, value: float) -> None:
    """Kernel function of MemSet: fills UB with `value` in dtype `filled`, then stores it over `pieces`, slices of bytes; the
    first must be the longest.
    """
    longest = ceil_to(pieces[0].stop - pieces[0].start, k.chip.memory.l2_line_bytes)
    zeros = k.local_tensor(longest // int(numpy_dtype(filled).itemsize), filled, "zeros")
    ready = k.flag("V", "MTE3", "zeros ready")
    k.duplicate(zeros, value)
    k.set_flag(ready)
    k.wait_flag(ready)
    for part in k.each(pieces):  # nothing is written to UB after the flag, so the copies need no more of them
        k.next_tile()
        store_end(k, target[part].address, zeros.address, part.stop - part.start)
