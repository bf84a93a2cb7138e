"""y = 2 x + 1 on the vector cores:  ascend-sim kernel FILE   (--html page.html, --out DIR; check FILE looks for mistakes)."""

import numpy as np

import ascend_sim as asim

# BLOCKS = 8                    # left out: one block for each core


@asim.kernel_function(core=("AI_CORE", "AIV"))  # whatever of them the chip has
def scale(k, x, y, *, tile=2048):  # tensors, then keywords: ascend-sim kernel FILE --tiling tile=1024
    # Two buffers each: MTE2 fills one while V reads the other, and MTE3 stores one while V fills the other.
    sources = k.ub_queue("x", tile, x.dtype, "MTE2", "V")
    results = k.ub_queue("y", tile, y.dtype, "V", "MTE3")
    for start in k.range(k.block * tile, len(x), k.blocks * tile):  # this block's share
        place = slice(start, start + tile)
        count = len(x[place])
        with sources.write() as source:  # waits until it is free, and tells V when it is full
            k.gm_to_ub(source[:count], x[place])
        with sources.read() as source, results.write() as result:
            k.muls(result[:count], source[:count], 2.0)
            k.pipe_barrier("V")  # the next one reads what this one writes
            k.adds(result[:count], result[:count], 1.0)
        with results.read() as result:
            k.ub_to_gm(y[place], result[:count])


def arguments(rng):
    """The kernel's tensors, in order; `rng` is a numpy generator."""
    x = rng.standard_normal(100_000).astype(np.float16)
    return x, asim.empty(x.shape, "float16")


def expected(x):
    """Return the expected result in float64, with which every output is compared."""
    return 2 * x.astype(np.float64) + 1
