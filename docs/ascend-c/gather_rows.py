"""The arguments of gather_rows.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 6


def arguments(rng):
    table = rng.standard_normal((100, 128)).astype(np.float16)
    index = rng.integers(0, 100, 40).astype(np.int32)
    return table, index, asim.empty((40, 128), "float16"), 40, 128


def expected(table, index):
    return table[index]
