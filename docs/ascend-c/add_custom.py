"""The arguments of add_custom.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 8


def arguments(rng):
    x, y = (rng.standard_normal(262_144).astype(np.float16) for _ in range(2))
    return x, y, asim.empty(x.shape, "float16"), x.size


def expected(x, y):
    return x.astype(np.float64) + y.astype(np.float64)
