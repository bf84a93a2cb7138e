"""Zeros in dx before the sums of the open kernel of dav-2201, where some pixels may get no contribution (initOutputFlag).

Each core multiplies zeros to fill L0C, whose Fixpipe clears the core's share of dx; then all cores meet (ops-nn arch22,
Conv3DBackpropInputV2: stated; no row of it was seen).
"""

from __future__ import annotations

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.tpipe import ClearingPipe
from ascend_sim.ops.kernels.grad_input.turn import GRAD_INPUT
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut

SHARE_UNIT = 32
"""Unit of a core's share of dx, in elements (stated)."""


def clear(k: KernelBuilder, elements: int, itemsize: int, dtype: str, blocks: int) -> None:
    """Append the clearing of this core's share of dx (`elements` in all, over `blocks` cores), then a wait for all cores."""
    pipe = ClearingPipe(k)
    share = ceil_to(ceil_div(elements, blocks), SHARE_UNIT)
    start = k.block * share
    count = min(share, elements - start)
    if count > 0:
        rows = k.chip.buffers["L0C"] // (FRACTAL * ACCUMULATOR_BYTES)
        loaded, summed = k.flag("MTE1", "M", "zeros"), k.flag("M", "FIX", "zeros in L0C")
        sizes = {buffer: k.chip.buffers[buffer] for buffer in ("L0A", "L0B", "L0C")}
        left, right, sums = (k.allocate(buffer, size, "zeros", keep=False) for buffer, size in sizes.items())
        k.fill("L0A", left, sizes["L0A"])
        k.fill("L0B", right, sizes["L0B"])
        k.set_flag(loaded)
        k.wait_flag(loaded)
        k.mmad(sums, left, right, rows, 1, FRACTAL, "float16", False)
        k.set_flag(summed)
        k.wait_flag(summed)
        whole = count // FRACTAL * FRACTAL
        for first, height in cut(whole // FRACTAL, rows) if whole else ():
            target = gm_operand(GRAD_INPUT, (start + first * FRACTAL) * itemsize)
            k.fixpipe(target, sums, height, FRACTAL, rows, dtype, FRACTAL, height * FRACTAL * itemsize)
        if rest := count - whole:
            k.fixpipe_nd(gm_operand(GRAD_INPUT, (start + whole) * itemsize), sums, 1, rest, rows, dtype, rest * itemsize)
    pipe.meet("FIX")
