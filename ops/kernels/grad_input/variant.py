"""What sets the grad_input kernels of the chip families apart: the one place where their tilings and programs ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.problem.tiling_input import TilingInput


@dataclass(frozen=True)
class Variant:
    """One family's kernel.

    `task_unit`: a task begins with a multiple of so many pixels, 0 for whole rows. `slice_c0`: L1 holds output channels in
    blocks of C0, else in units of a base block (inferred from tests of dav-3510). `whole_slices`: baseK divides, or is a
    multiple of, K of such a block. `keeps_operands`: L1 keeps an operand from tile to tile, stepM and stepN of them, and a core
    gets its images at one go (singleCoreBatch); then the number of blocks that a call asks for decides the tiling too.
    `tile_tasks`: a task is whole tiles, takes no more of K than there is, and tasks are dealt in the order of arch35.
    `kernel_parts`: kernels can be split by stride or cut by rows and taps, weights can stay from task to task.
    """

    task_unit: int = 0
    slice_c0: bool = False
    whole_slices: bool = False
    keeps_operands: bool = False
    tile_tasks: bool = False
    kernel_parts: bool = False


COUPLED = Variant(task_unit=FRACTAL, keeps_operands=True)
"""dav-1001 and dav-2002."""
BLOCKED_SPLIT = Variant(whole_slices=True)
"""dav-2201."""
PLAIN_SPLIT = Variant(task_unit=1, slice_c0=True, tile_tasks=True, kernel_parts=True)
"""dav-3510."""


def variant_of(inp: TilingInput) -> Variant:
    """The kernel that reads such a layout on such cores."""
    if inp.layout.plain:
        return PLAIN_SPLIT
    return COUPLED if inp.coupled else BLOCKED_SPLIT
