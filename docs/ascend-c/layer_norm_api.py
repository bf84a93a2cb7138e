"""The arguments of layer_norm_api.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim
from ascend_sim.ascend_c.matmul_tilings import layer_norm_tiling

BLOCKS = 4
ROWS, COLUMNS, EPSILON = 16, 320, 1e-5


def arguments(rng):
    x = rng.standard_normal((BLOCKS * ROWS, COLUMNS)).astype(np.float32)
    gamma, beta = rng.standard_normal((2, COLUMNS)).astype(np.float32)
    return x, gamma, beta, asim.empty(x.shape, "float32"), layer_norm_tiling(1, ROWS, COLUMNS), EPSILON


def expected(x, gamma, beta):
    wide = x.astype(np.float64)
    middle = wide - wide.mean(1, keepdims=True)
    normed = middle / np.sqrt((middle**2).mean(1, keepdims=True) + EPSILON)
    return asim.Expected(normed * gamma + beta, (np.abs(normed) + 1) * np.abs(gamma) + np.abs(beta), products=COLUMNS)
