"""The arguments of matmul_leakyrelu.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 2
M, N, K = 256, 128, 128
TILING = {"M": M, "N": N, "Ka": K, "Kb": K, "singleCoreM": 64, "singleCoreN": N, "singleCoreK": K, "baseM": 64, "baseN": N}
TILING |= {"baseK": 64, "depthA1": 2, "depthB1": 2, "stepKa": 2, "stepKb": 2, "dbL0A": 2, "dbL0B": 2, "dbL0C": 2}


def arguments(rng):
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    return a, b, np.zeros((M, N), np.float32), asim.empty((M, N), "float32"), TILING


def expected(a, b):
    left, right = a.astype(np.float64), b.astype(np.float64)
    product, size = left @ right, np.abs(left) @ np.abs(right)
    return {"c": asim.Expected(np.where(product > 0, product, product / 8), size, products=K)}
