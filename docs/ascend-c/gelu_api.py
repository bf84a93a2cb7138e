"""The arguments of gelu_api.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 4
SHARE, TILE = 8192, 2048


def arguments(rng):
    x = rng.standard_normal(BLOCKS * SHARE).astype(np.float16)
    return x, asim.empty(x.shape, "float16"), SHARE, TILE


def expected(x):
    wide = x.astype(np.float64)
    power = np.exp(-1.59576912 * (wide + 0.044715 * wide**3))
    return asim.Expected(wide / (1 + power), np.abs(wide), products=4)
