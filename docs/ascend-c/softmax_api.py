"""The arguments of softmax_api.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim
from ascend_sim.ascend_c.matmul_tilings import softmax_tiling

BLOCKS = 4
TILES, ROWS, COLUMNS = 8, 12, 240


def arguments(rng):
    x = rng.standard_normal((TILES * ROWS, COLUMNS)).astype(np.float16)
    tiling = {f"softmax.{name}": value for name, value in softmax_tiling(ROWS, COLUMNS).items()}
    return x, asim.empty(x.shape, "float16"), {"rows": ROWS, "tiles": TILES} | tiling


def expected(x):
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    return asim.Expected(powers / powers.sum(1, keepdims=True), powers / powers.sum(1, keepdims=True), products=COLUMNS)
