"""The arguments of gelu_custom.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 8
LENGTH = 50_003


def arguments(rng):
    x = rng.standard_normal(LENGTH).astype(np.float32)
    return x, asim.empty(x.shape, "float32"), {"length": LENGTH, "share": 6272, "tile": 2048}


def expected(x):
    wide = x.astype(np.float64)
    return asim.Expected(wide / (1 + np.exp(-1.702 * wide)), np.abs(wide), products=4)
