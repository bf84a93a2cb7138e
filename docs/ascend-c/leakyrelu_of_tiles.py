"""The arguments of leakyrelu_of_tiles.cpp, and what it gives. The tiling is made as a host program makes it."""

import numpy as np

import ascend_sim as asim
from ascend_sim.ascend_c.matmul_tilings import CubeFormat, DataType, MultiCoreMatmulTiling, TPosition

BLOCKS = 2
M, N, K = 256, 256, 128
host = MultiCoreMatmulTiling("ascend910b3")
host.SetDim(2 * BLOCKS)  # vector cores
host.SetAType(TPosition.GM, CubeFormat.ND, DataType.DT_FLOAT16)
host.SetBType(TPosition.GM, CubeFormat.ND, DataType.DT_FLOAT16)
host.SetCType(TPosition.VECIN, CubeFormat.ND, DataType.DT_FLOAT)
host.SetBiasType(TPosition.GM, CubeFormat.ND, DataType.DT_FLOAT)
host.SetShape(M, N, K)
host.SetOrgShape(M, N, K)
host.SetFixSplit(64, 128)
host.SetBias(True)
TILING = host.GetTiling()


def arguments(rng):
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    bias = rng.standard_normal(N).astype(np.float32)
    return a, b, bias, asim.empty((M, N), "float32"), TILING


def expected(a, b, bias):
    left, right = a.astype(np.float64), b.astype(np.float64)
    product, size = left @ right + bias, np.abs(left) @ np.abs(right) + np.abs(bias)
    return {"c": asim.Expected(np.where(product > 0, product, product * 0.001), size, products=K + 1)}
