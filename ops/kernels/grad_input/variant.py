"""What sets the grad_input kernels of the chip families apart: a row of `VARIANTS` each, which tilings and programs ask."""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.family import BLOCKED_SPLIT, COUPLED, PLAIN_SPLIT
from ascend_sim.ops.problem.tiling_input import TilingInput


@frozen
class Variant:
    """One family's kernel.

    `task_unit`: a task begins with a multiple of so many pixels, 0 for whole rows. `slice_c0`: L1 holds output channels in
    blocks of C0, else in units of a base block (inferred from tests of dav-3510). `whole_slices`: baseK divides, or is a
    multiple of, K of such a block. `keeps_operands`: L1 keeps an operand from tile to tile, stepM and stepN of them, and a core
    gets its images at one go (singleCoreBatch); then the number of blocks that a call asks for decides the tiling too.
    `tile_tasks`: a task is whole tiles, takes no more of K than there is, and tasks are dealt in the order of arch35.
    `kernel_parts`: kernels can be split by stride, weights can stay from task to task. `cuts_kernels`: kernels can be taken row
    by row or tap by tap.
    """

    task_unit: int = 0
    slice_c0: bool = False
    whole_slices: bool = False
    keeps_operands: bool = False
    tile_tasks: bool = False
    kernel_parts: bool = False
    cuts_kernels: bool = False


VARIANTS = {
    COUPLED.name: Variant(task_unit=FRACTAL, keeps_operands=True),
    BLOCKED_SPLIT.name: Variant(whole_slices=True, cuts_kernels=True),
    PLAIN_SPLIT.name: Variant(task_unit=1, slice_c0=True, tile_tasks=True, kernel_parts=True, cuts_kernels=True),
}


def variant_of(inp: TilingInput) -> Variant:
    """The kernel of the family that the problem is for."""
    return VARIANTS[inp.family.name]
