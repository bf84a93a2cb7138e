"""z = x + y: tiles of a vector over the vector cores, loads, sums and stores overlapping."""

import numpy as np

import ascend_sim as asim


@asim.kernel_function(core=("AI_CORE", "AIV"))  # whatever of them the chip has
def vector_add(k, x, y, z, *, tile=4096):
    pairs = k.ub_queue("x, y", (2, tile), x.dtype, "MTE2", "V")
    sums = k.ub_queue("z", tile, z.dtype, "V", "MTE3")
    for start in k.range(k.block * tile, len(x), k.blocks * tile):
        k.next_tile()
        place = slice(start, start + tile)
        count = len(x[place])
        with pairs.write() as pair:
            k.gm_to_ub(pair[0, :count], x[place])
            k.gm_to_ub(pair[1, :count], y[place])
        with pairs.read() as pair, sums.write() as total:
            k.add(total[:count], pair[0, :count], pair[1, :count])
        with sums.read() as total:
            k.ub_to_gm(z[place], total[:count])


def arguments(rng):
    x, y = (rng.standard_normal(200_000).astype(np.float16) for _ in range(2))
    return x, y, asim.empty(x.shape, "float16")


def expected(x, y):
    return x.astype(np.float64) + y.astype(np.float64)
