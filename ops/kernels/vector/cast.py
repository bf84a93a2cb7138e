"""Cast: converts a contiguous tensor to another floating-point format, rounded once (nearest even; hifloat8: half away).

The vector unit converts between fp32 and narrower formats only (the 16-bit ones: asc-devkit, Vector instruction performance
page). A cast between two narrower formats is two instructions, through an exact fp32 copy in UB. Pieces begin on L2 lines.
Where copies count whole blocks (the 910 and 310P) the last piece is rounded up, on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.kernel.function import kernel_function
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector.common import (
    KernelWork,
    call_info,
    contiguous,
    known_loop,
    require_positive,
    share,
    vector_cores,
)
from ascend_sim.ops.kernels.vector.whole_blocks import load_rows, store_end
from ascend_sim.ops.problem.sizes import ceil_div, cut

DTYPES = ("float16", "bfloat16", "float32")
TARGETS = (*DTYPES, "hifloat8", "float8_e4m3fn")
WIDE = "float32"
_LINE_ELEMENTS = 512  # blocks begin on a 512-byte L2 line of an 8-bit side, so of a wider one too


def cast_work(chip: ChipSpec, count: int, from_dtype: str, to_dtype: str, name: str) -> KernelWork:
    """Return the work of a Cast of `count` elements for `work_task`.

    Raises SimError for a count below 1, and unless it converts float16, bfloat16 or float32 to another of these, to
    hifloat8 or to float8_e4m3fn.
    """
    require_positive(name, count=count)
    if from_dtype == to_dtype or from_dtype not in DTYPES or to_dtype not in TARGETS:
        raise SimError(
            f"{name}: cast from {from_dtype} to {to_dtype}; it converts from {', '.join(DTYPES)} to {', '.join(TARGETS)}"
        )
    return _work(chip, count, from_dtype, to_dtype)


@known_loop
def _work(chip: ChipSpec, count: int, from_dtype: str, to_dtype: str) -> KernelWork:
    """Return the work: a block gets whole lines of 512 elements, the last one the rest; there are no more blocks than tiles, or
    than cores.

    UB holds two pieces before the cast, two behind it, and one fp32 copy between them if neither dtype is float32.
    """
    each = 2 * (numpy_dtype(from_dtype).itemsize + numpy_dtype(to_dtype).itemsize)
    each += 0 if WIDE in (from_dtype, to_dtype) else numpy_dtype(WIDE).itemsize
    tile = chip.buffers["UB"] // each // _LINE_ELEMENTS * _LINE_ELEMENTS
    lines = ceil_div(count, _LINE_ELEMENTS)
    blocks = min(ceil_div(count, tile), vector_cores(chip))

    def pieces(block: int) -> list[slice]:
        first, own = share(lines, blocks, block)
        end = min((first + own) * _LINE_ELEMENTS, count)
        begin = first * _LINE_ELEMENTS
        return [slice(begin + at, begin + at + size) for at, size in cut(end - begin, tile, _LINE_ELEMENTS)]

    info = call_info((from_dtype, to_dtype), ("ND", "ND"), ([count], [count]))
    sides = contiguous(([count], from_dtype), ([count], to_dtype))
    return KernelWork(cast, sides, blocks, pieces, {"tile": tile}, info)


@kernel_function(core=("AI_CORE", "AIV"))
def cast(k: Kernel, source: Tensor, target: Tensor, pieces: Sequence[slice], *, tile: int) -> None:
    """Kernel function of Cast: converts `pieces`, slices of at most `tile` elements; through fp32 if neither side is fp32."""
    incoming = k.ub_queue("in", tile, source.dtype, "MTE2", "V")
    outgoing = k.ub_queue("out", tile, target.dtype, "V", "MTE3")
    middle = None if WIDE in (source.dtype, target.dtype) else k.local_tensor(tile, WIDE, "fp32")
    for part in k.each(pieces):
        k.next_tile()
        count = part.stop - part.start
        with incoming.write() as place:
            load_rows(k, place.address, source[part].address, count * source.itemsize)
        with outgoing.write() as result, incoming.read() as values:
            if middle is None:
                k.cast(result[:count], values[:count])
            else:
                k.cast(middle[:count], values[:count])
                k.pipe_barrier("V")
                k.cast(result[:count], middle[:count])
        with outgoing.read() as result:
            store_end(k, target[part].address, result.address, count * target.itemsize)
