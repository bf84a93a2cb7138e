"""The arguments of clip_until.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 1


def arguments(rng):
    x = (rng.standard_normal(256) * 40).astype(np.float32)
    return x, asim.empty(256, "float32"), 256


def expected(x):
    return x / 2 ** np.ceil(np.log2(np.abs(x).max()))
