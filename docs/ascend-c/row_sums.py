"""The arguments of row_sums<float> in row_sums.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

ENTRY = "row_sums<float>"
BLOCKS = 4


def arguments(rng):
    return rng.standard_normal((BLOCKS * 32, 64)).astype(np.float32), asim.empty(BLOCKS * 32, "float32")


def expected(x):
    return np.abs(x.astype(np.float64)).sum(1)
