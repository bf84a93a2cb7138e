"""The arguments of softmax_rows.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 4


def arguments(rng):
    x = rng.standard_normal((16, 512)).astype(np.float32)
    return x, asim.empty(x.shape, "float32"), 16, 512


def expected(x):
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return asim.Expected(powers / powers.sum(1, keepdims=True), powers / powers.sum(1, keepdims=True), products=512)
