"""The arguments of layer_norm_rows.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 4
EPSILON = 1e-5


def arguments(rng):
    x = rng.standard_normal((10, 320)).astype(np.float32)
    return x, asim.empty(x.shape, "float32"), 10, 320, EPSILON


def expected(x):
    wide = x.astype(np.float64)
    middle = wide - wide.mean(1, keepdims=True)
    normed = middle / np.sqrt((middle**2).mean(1, keepdims=True) + EPSILON)
    return asim.Expected(normed, np.abs(normed) + 1, products=320)
