"""The arguments of reduce_all.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 8


def arguments(rng):
    x = rng.standard_normal(8 * 4096).astype(np.float32)
    return x, asim.empty(8 * 16, "float32", workspace=True), asim.empty(1, "float32"), x.size


def expected(x):
    wide = x.astype(np.float64)
    return {"total": asim.Expected(wide.sum(keepdims=True), np.abs(wide).sum(keepdims=True), products=wide.size)}
