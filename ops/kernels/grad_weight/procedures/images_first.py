"""Blocks and shares of the dW kernels measured on the first 910: images first (guessed).

No source has the tiler of these kernels, which were compiled in 2021 for each shape; what is published later (canndev 2022,
NPUKernelBench) gives other numbers of blocks.

    batch 16   16 blocks in 19 of 23 rows. Where dW is large (512 x 512 of 3x3) the time is that of 16 blocks that each add all
               of dW, 2.5 times that of 16 shares of dW: a block has an image. 22 of 23 kernels of dX have a block an image too
    batch 64   32 blocks in 18 of 23 rows, though the chip has 30 cores: two rounds, as if tiled for the 910A's 32. The other
               five, 1x1 layers with much to load and little to multiply, have 28

Images that fill more than half of the cores are dealt out one a block. More images than cores: a grid for 32 cores (`tiled_for`
in configs/tilings.yaml), by the least time of loads, products and additions (`stand_in`). Fewer images: a grid for the cores
that there are. A call that asks for another number of blocks than that has a grid cut for it.
"""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.ladder import TilingQuestion
from ascend_sim.ops.kernels.cube.vendor import Procedure, open_procedures
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.stand_in import sound_grad_weight
from ascend_sim.ops.problem.tiling_input import TilingInput

ITEMSIZE = 2


def tiled_for() -> int:
    """Return the cores of the chip for which calls with more images than cores are tiled (configs/tilings.yaml: guessed)."""
    cores: int = open_procedures()["dav-1001"]["grad_weight"]["tiled_for"]["value"]
    return cores


def covers_images_first(inp: TilingInput) -> bool:
    """Return True if the rule decides this problem: 2-D, 16-bit operands, one group, not deterministic."""
    p = inp.problem
    return inp.itemsize == ITEMSIZE and p.groups == 1 and p.k_d == p.d_in == p.d_out == 1 and not inp.deterministic


def blocks_of(images: int, cores: int) -> int:
    """Return the number of blocks to launch for `images` images on `cores` cores.

    It is the assumed number `tiled_for` if there are more images than cores, one for each image if they fill more than
    half of the cores, else all cores.
    """
    if images > cores:
        return tiled_for()
    return images if 2 * images > cores else cores


def images_first(q: TilingQuestion) -> GradWeightTiling:
    """Return a tiling of our own (source "stand-in") for at most `blocks_of` blocks, or as many as the call asks for.

    The question must have a chip. Raises TilingError where this rule does not apply, or no grid fits.
    """
    inp, chip = q.dealt, q.chip
    assert chip is not None
    if not covers_images_first(inp):
        raise TilingError("grad_weight: images come first in 2-D fp16 problems with one group, whose sums may be in any order")
    cores = chip.cores.aic
    own = blocks_of(inp.images, cores)
    if q.blocks not in (None, own):
        return sound_grad_weight(inp, chip)
    return sound_grad_weight(replace(inp, cores=own), chip, image_each=own == inp.images <= cores)


PROCEDURE = Procedure(covers_images_first, images_first)
