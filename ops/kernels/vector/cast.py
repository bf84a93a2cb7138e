"""Cast: a contiguous tensor in another floating-point format, rounded once (nearest even; hifloat8: half away).

The vector unit converts between fp32 and the 16-bit formats only (asc-devkit, Vector instruction performance page), so fp16
to bf16 and back are two instructions through an exact fp32 copy in UB.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector.common import (
    SOURCE,
    TARGET,
    Launch,
    Loop,
    buffer_queue,
    call_info,
    known_loop,
    looped_task,
    require_positive,
    share,
    vector_cores,
)
from ascend_sim.ops.problem.sizes import ceil_div, cut
from ascend_sim.runtime import Task

DTYPES = ("float16", "bfloat16", "float32")
TARGETS = (*DTYPES, "hifloat8", "float8_e4m3fn")
WIDE = "float32"
_LINE_ELEMENTS = 512  # blocks begin on a 512-byte L2 line of an 8-bit side, so of a wider one too


def cast_task(
    chip: ChipSpec,
    source: Allocation,
    target: Allocation,
    count: int,
    from_dtype: str,
    to_dtype: str,
    *,
    name: str = "",
    disarm: Collection[str] = (),
) -> Task:
    """A launch that writes `count` elements of `source` to `target` in `to_dtype`. Raises SimError for other dtypes."""
    name = name or f"Cast_{source.name}"
    require_positive(name, count=count)
    if from_dtype == to_dtype or from_dtype not in DTYPES or to_dtype not in TARGETS:
        raise SimError(
            f"{name}: cast from {from_dtype} to {to_dtype}; it converts from {', '.join(DTYPES)} to {', '.join(TARGETS)}"
        )
    info = call_info((from_dtype, to_dtype), ("ND", "ND"), ([count], [count]))
    return looped_task(
        chip, Launch("Cast", name, disarm), _loop(chip, count, from_dtype, to_dtype), [source, target], info
    )


@known_loop
def _loop(chip: ChipSpec, count: int, from_dtype: str, to_dtype: str) -> Loop:
    sizes = numpy_dtype(from_dtype).itemsize, numpy_dtype(to_dtype).itemsize
    two_steps = WIDE not in (from_dtype, to_dtype)
    bytes_per_element = 2 * sum(sizes) + (4 if two_steps else 0)
    tile = chip.buffers["UB"] // bytes_per_element // _LINE_ELEMENTS * _LINE_ELEMENTS
    lines = ceil_div(count, _LINE_ELEMENTS)
    blocks = min(ceil_div(count, tile), vector_cores(chip))

    def pieces(block: int) -> Iterator[tuple[int, int]]:
        """(elements, the first of them) of each tile."""
        first_line, line_count = share(lines, blocks, block)
        begin = first_line * _LINE_ELEMENTS
        end = min((first_line + line_count) * _LINE_ELEMENTS, count)
        yield from ((elements, begin + offset) for offset, elements in cut(end - begin, tile, _LINE_ELEMENTS))

    def body(k: KernelBuilder, pieces: Sequence[tuple[int, int]]) -> None:
        incoming = buffer_queue(k, "in", "MTE2", "V", tile * sizes[0])
        outgoing = buffer_queue(k, "out", "V", "MTE3", tile * sizes[1])
        middle = k.allocate("UB", tile * 4, "fp32") if two_steps else 0
        for elements, start in k.stamped(pieces):
            k.next_tile()
            k.data_copy("GM", "UB", incoming.acquire(), gm_operand(SOURCE, start * sizes[0]), elements * sizes[0])
            incoming.publish()
            values, result = incoming.take(), outgoing.acquire()
            if two_steps:
                k.vector_cast(middle, values, from_dtype, WIDE, elements)
                k.pipe_barrier("V")
                k.vector_cast(result, middle, WIDE, to_dtype, elements)
            else:
                k.vector_cast(result, values, from_dtype, to_dtype, elements)
            incoming.release()
            outgoing.publish()
            k.data_copy("UB", "GM", gm_operand(TARGET, start * sizes[1]), outgoing.take(), elements * sizes[1])
            outgoing.release()
        incoming.close()
        outgoing.close()

    return Loop(blocks, pieces, body)
