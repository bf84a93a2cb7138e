"""dX of the first 910 where images fill more than half of its cores: images first (guessed), not the vendor's open procedure.

Of 69 published ResNet-50 rows of a 910 with 30 cores (dX alone or fused with what follows) 46 have as many blocks as images, or
30 where there are more images; 18 have the number of the procedure that canndev published in 2022, which cuts channels and
pixels rather than leave cores idle. 14 of these 18 are of one run with other software. So the procedure decides where images
are too few to fill the cores, of which no row is known, and what a call with another number of blocks does with them.
"""

from __future__ import annotations

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.ladder import TilingQuestion
from ascend_sim.ops.kernels.cube.vendor import Procedure
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.procedures.dav_1001 import covers_grad_input_1001, vendor_grad_input_1001


def few_images(q: TilingQuestion) -> GradInputTiling:
    """Return the vendor's open tiling; TilingError where the library deals out whole images, or that procedure finds none.

    It deals them out if they fill more than half of the chip's cores, unless the call asks for another number of blocks than
    one for each image, at most the cores.
    """
    inp = q.dealt
    cores = inp.cores if q.chip is None else q.chip.cores.aic
    first = 2 * inp.images > cores and q.blocks in (None, min(inp.images, cores))
    if first and covers_grad_input_1001(inp):
        raise TilingError(f"grad_input: the library gives whole images to the cores, for {inp.images} images on {cores} cores")
    return vendor_grad_input_1001(inp)


PROCEDURE = Procedure(covers_grad_input_1001, few_images)
