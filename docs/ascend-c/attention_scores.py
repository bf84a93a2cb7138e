"""The arguments of attention_scores.cpp, and what it gives."""

import numpy as np

import ascend_sim as asim

BLOCKS = 2
M, N, K = 64, 128, 64
TILING = {"M": M, "N": N, "Ka": K, "Kb": K, "singleCoreM": M // BLOCKS, "singleCoreN": N, "singleCoreK": K}
TILING |= {"baseM": 16, "baseN": N, "baseK": 64, "depthA1": 2, "depthB1": 1, "stepKa": 1, "stepKb": 1}
TILING |= {"stepM": 1, "stepN": 1, "dbL0A": 2, "dbL0B": 2, "dbL0C": 2}


def arguments(rng):
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((N, K)).astype(np.float16)
    room = asim.empty((M, N), "float32", workspace=True)
    return a, b, room, asim.empty((M, N), "float32"), TILING


def expected(a, b):
    left, right = a.astype(np.float64), b.astype(np.float64).T
    score, size = left @ right, np.abs(left) @ np.abs(right)
    power = np.exp(score - score.max(1, keepdims=True))
    share = power / power.sum(1, keepdims=True)
    return asim.Expected(share, share * (1 + size), products=K)
