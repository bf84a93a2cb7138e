"""The arguments of matmul_custom.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 4
M, N, K = 128, 192, 256


def arguments(rng):
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    bias = rng.standard_normal(N).astype(np.float32)
    return a, b, bias, asim.empty((M, N), "float32"), M, N, K


def expected(a, b, bias):
    left, right = a.astype(np.float64), b.astype(np.float64)
    return asim.Expected(left @ right + bias, np.abs(left) @ np.abs(right) + np.abs(bias), products=K + 1)
