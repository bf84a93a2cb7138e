"""The arguments of matmul_relu_mix.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 4
ROWS, DEPTH, TILE = 512, 128, 64


def arguments(rng):
    a = rng.standard_normal((ROWS, DEPTH)).astype(np.float16)
    b = rng.standard_normal((DEPTH, TILE)).astype(np.float16)
    d = rng.standard_normal((ROWS, TILE)).astype(np.float32)
    workspace = np.zeros((BLOCKS, TILE, TILE), np.float32)
    return {
        "a": a,
        "b": b,
        "d": d,
        "c": asim.empty((ROWS, TILE), "float32"),
        "workspace": workspace,
        "rows": ROWS,
        "depth": DEPTH,
    }


def expected(a, b, d):
    left, right = a.astype(np.float64), b.astype(np.float64)
    return {"c": asim.Expected(np.maximum(left @ right, 0) + d, np.abs(left) @ np.abs(right) + np.abs(d), products=DEPTH + 1)}
