"""The grid of grad_input tilings that a search tries.

- a task: rows of dx, as many as cut H_in into any number of even parts; all channels of one baseN
- baseN: C_in in even parts, in steps of 16
- baseM: the task in even parts, in steps of 16, from half of what L0A and L0C hold
- baseK: the longest three that L0A and L0B hold and that divide, or are multiples of, kh*kw*16
- L1: whole blocks of 16 output channels, divisors of their number or powers of two; the same for both operands, or
  one of them with all of K
- one or two buffers of L0C, L1-A and L1-B; always two halves of L0A and L0B, unless fixed
- of a signal whole rows, and strips as wide as the tile of the simulator's own tiling.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.ops.kernels.cube.capacity import fits_l0, l0_base_k
from ascend_sim.ops.kernels.cube.ladder import Refusal, answered, attempt
from ascend_sim.ops.kernels.cube.space import Fixed, axis, even_parts, pairs
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input, grad_input_fits_l1, grad_input_l1, is_resident
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, k_slice, variant_of
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.parts import tiling_input
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import finish
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

_LONGEST_K = 3


def grad_input_tilings(inp: TilingInput, given: Fixed, chip: ChipSpec | None) -> Iterator[GradInputTiling]:
    """Yield the tilings of the grid that fit, with the user's fields `given`; `chip` None: a 910B. TilingError, before the
    first tiling, where the ladder has none to start from.

    A one-row signal that the ladder cuts is tried in strips as wide as the ladder's and in whole rows, unless the user fixes
    the strips. A choice that the ladder refuses is left out.
    """
    strip = 0
    if inp.problem.one_row and "split_wi" not in given:
        strip = GradInputQuestion(inp, chip=chip, op_type="Conv2DBackpropInput").tiling().split_wi
    choices: list[Fixed] = [{**given, "split_wi": width} for width in (strip, 0)] if strip else [given]
    starts = [(fixed, attempt(_first, inp, fixed, chip)) for fixed in choices]
    if all(isinstance(start, Refusal) for _, start in starts):
        answered(starts[0][1])  # raises its reason
    for fixed, start in starts:
        if not isinstance(start, Refusal):
            yield from _from_first(start, inp, fixed)


def _first(inp: TilingInput, given: Fixed, chip: ChipSpec | None) -> GradInputTiling:
    """Return the ladder's tiling for the strips, cut and split of `given`, with one step of M and N and the other fields of
    `given` unchecked. TilingError where the ladder has none.
    """
    parts = {"kernel_split": "kernelSplitMode", "split_wi": "splitWi", "load_b1": "loadB1Condition"}
    own = {vendor: given[ours] for ours, vendor in parts.items() if ours in given}
    start = GradInputQuestion(inp, own, chip).tiling()
    return start.but(al0_buffers=2, bl0_buffers=2, step_m=1, step_n=1, single_core_batch=0, source="manual").but(**given)


def _from_first(start: GradInputTiling, inp: TilingInput, given: Fixed) -> Iterator[GradInputTiling]:
    """Yield the tilings of the grid that fit, with the strips, cut and split of `start`."""
    whole, inp = inp, tiling_input(start, inp)
    if variant_of(inp).kernel_parts:
        start = start.but(full_load=0, single_core_din=1).but(**given)
    width, channels = inp.problem.w_in, ceil_to(inp.cin1 * inp.c0, inp.unit)
    rows = even_parts(inp.problem.h_in)
    tasks = [given["single_core_m"]] if "single_core_m" in given else [count * width for count in rows]
    columns = axis(given, "base_n", even_parts(channels, inp.unit))
    for base_n, cl0 in product(columns, axis(given, "cl0_buffers", (2, 1))):
        most = _largest_base_m(start.but(base_n=base_n, cl0_buffers=cl0), inp)
        for pixels in tasks:
            sizes = [size for size in even_parts(pixels, FRACTAL) if size <= most]
            sizes = [size for size in sizes if 2 * size >= most] or sizes[:1]
            for base_m in axis(given, "base_m", sizes):
                block = start.but(base_m=base_m, base_n=base_n, cl0_buffers=cl0, single_core_m=pixels)
                for tiling in _grad_input_steps(block, inp, given):
                    tiling = finish(tiling, whole, keep=frozenset({*given, "single_core_m"}))
                    if _passes(tiling, whole):
                        yield from _buffered(tiling, inp, given)


def _buffered(tiling: GradInputTiling, inp: TilingInput, given: Fixed) -> Iterator[GradInputTiling]:
    """Yield the tiling with each choice of L1 buffers that fits, most first; other checks do not depend on them.

    On dav-3510 weights are kept from task to task (`full_load`) if L1 holds all of them, unless the user gives it; choices with
    a given one that L1 cannot keep are left out.
    """
    a1, b1 = grad_input_l1(tiling.but(al1_buffers=1, bl1_buffers=1), inp)
    stay = variant_of(inp).kernel_parts and "full_load" not in given
    for al1, bl1 in product(axis(given, "al1_buffers", (2, 1)), axis(given, "bl1_buffers", (2, 1))):
        if al1 * a1 + bl1 * b1 > inp.buffers["L1"]:
            continue
        buffered = tiling.but(al1_buffers=al1, bl1_buffers=bl1)
        resident = is_resident(buffered, inp)
        if resident or not tiling.full_load:
            yield buffered.but(weights_resident=resident, full_load=int(resident) if stay else tiling.full_load)


def _largest_base_m(tiling: GradInputTiling, inp: TilingInput) -> int:
    """Return the largest base_m beside the tiling's base_n for which L0A has room with the shortest K, and L0C for the tile;
    one fractal at least, even if that does not fit.
    """
    l0a = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize // inp.unit
    return floor_to(min(l0a, inp.buffers["L0C"] // ACCUMULATOR_BYTES // tiling.cl0_buffers // tiling.base_n), FRACTAL)


def _grad_input_steps(block: GradInputTiling, inp: TilingInput, given: Fixed) -> Iterator[GradInputTiling]:
    """Yield the tilings that fit L0 and L1 with each of the three longest base_k and each pair of L1 steps for the M
    and N of `block`, with one buffer in L1 (or the user's number).
    """
    fewest = {name: given.get(name, 1) for name in ("al1_buffers", "bl1_buffers")}
    whole, unit = k_slice(inp), block.k_unit(inp)
    blocks = ceil_div(inp.cout_g, unit)
    limit = min(l0_base_k(block, inp), blocks * whole)
    lengths = [k for k in range(floor_to(limit, unit), 0, -unit) if k % whole == 0 or whole % k == 0]
    divisors = divisors_down(blocks, blocks)
    counts = sorted({*divisors, *(2**power for power in range(blocks.bit_length()))})
    slices = {(count, count) for count in counts} | {pair for d in divisors for pair in ((d, blocks), (blocks, d))}
    for base_k in axis(given, "base_k", lengths[:_LONGEST_K]):
        tiled = block.but(base_k=base_k)
        if not fits_l0(tiled, inp):
            continue
        steps = {(ceil_div(a * whole, base_k), ceil_div(b * whole, base_k)) for a, b in slices}
        for step_ka, step_kb in pairs(steps, given):
            tiling = tiled.but(step_ka=step_ka, step_kb=step_kb, **fewest)
            if grad_input_fits_l1(tiling, inp):
                yield tiling


def _passes(tiling: GradInputTiling, inp: TilingInput) -> bool:
    """Return True if the kernel can run with the tiling (`check_grad_input`)."""
    return not isinstance(attempt(check_grad_input, tiling, inp), Refusal)
