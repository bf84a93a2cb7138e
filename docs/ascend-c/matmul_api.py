"""The arguments of matmul_api.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim
from ascend_sim.ascend_c.matmul_tilings import matmul_tiling

M, N, K = 240, 320, 256
TILING = matmul_tiling(asim.load_chip("ascend910b3"), (M, N, K), cores=4, bias=True)
BLOCKS = TILING["usedCoreNum"]


def arguments(rng):
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    bias = rng.standard_normal(N).astype(np.float32)
    return a, b, bias, asim.empty((M, N), "float32"), TILING


def expected(a, b, bias):
    left, right = a.astype(np.float64), b.astype(np.float64)
    return asim.Expected(left @ right + bias, np.abs(left) @ np.abs(right) + np.abs(bias), products=K + 1)
