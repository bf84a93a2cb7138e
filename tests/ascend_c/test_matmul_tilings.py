"""The host's tiling classes: their setters, and the bytes of a TCubeTiling."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ascend_sim.ascend_c.compiler import HEADERS
from ascend_sim.ascend_c.matmul_tilings import (
    CUBE_FIELDS,
    CubeFormat,
    DataType,
    MatmulApiTiling,
    MultiCoreMatmulTiling,
    TPosition,
    cube_tiling_bytes,
    matmul_tiling,
)
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError

CHIP = load_chip("ascend910b3")


def host(cores: int = 4, dtype: DataType = DataType.DT_FLOAT16) -> MultiCoreMatmulTiling:
    made = MultiCoreMatmulTiling("ascend910b3")
    made.SetDim(cores)
    assert made.SetAType(TPosition.GM, CubeFormat.ND, dtype) == made.SetBType(TPosition.GM, CubeFormat.ND, dtype) == 0
    made.SetCType(TPosition.VECIN, CubeFormat.ND, DataType.DT_FLOAT)
    made.SetBiasType(TPosition.GM, CubeFormat.ND, DataType.DT_FLOAT)
    made.SetShape(512, 256, 128)
    made.SetOrgShape(512, 256, 128)
    made.EnableBias(True)
    return made


def test_fields_are_those_of_the_structure_in_its_order() -> None:
    text = (HEADERS / "asim" / "matmul_operands.h").read_text()
    body = text.partition("struct TCubeTiling {")[2].partition("};")[0]
    assert tuple(re.findall(r"(\w+) = 0", body)) == CUBE_FIELDS


def test_a_tiling_of_several_cores_is_that_of_the_shape() -> None:
    assert host().GetTiling() == matmul_tiling(CHIP, (512, 256, 128), "float16", 4, True)
    assert host().GetCoreNum()[0] == 4 == np.prod(host().GetCoreNum()[1:])


def test_fixed_sizes_stay_and_the_depth_of_a_piece_follows() -> None:
    made = host(dtype=DataType.DT_FLOAT)
    made.SetFixSplit(64, 96)
    made.SetSingleShape(m=128)
    made.SetTraverse(1)
    t = made.GetTiling()
    assert (t["baseM"], t["baseN"], t["singleCoreM"], t["iterateOrder"], t["stepKa"], t["depthB1"]) == (64, 96, 128, 1, 1, 2)
    assert t["baseK"] * 96 * 4 * 2 <= CHIP.buffers["L0A"] and t["baseK"] % 16 == 0
    made.SetFixSplit(base_k=32)
    assert made.GetTiling()["baseK"] == 32


def test_a_share_of_larger_matrices_keeps_their_sizes() -> None:
    made = MatmulApiTiling(CHIP)
    made.SetShape(64, 32, 48)
    made.SetOrgShape(640, 320, 480, 512)
    given: dict[str, int] = {"mxTypePara": 7}
    t = made.GetTiling(given)
    assert t is given and (t["M"], t["N"], t["Ka"], t["Kb"]) == (640, 320, 480, 512)
    assert (t["singleCoreM"], t["singleCoreN"], t["singleCoreK"], t["mxTypePara"]) == (64, 32, 48, 7)


def test_bytes_are_int32_in_order() -> None:
    data = np.frombuffer(cube_tiling_bytes({"M": 5, "mxTypePara": 9}), np.int32)
    assert len(data) == len(CUBE_FIELDS) and data[1] == 5 and data[-1] == 9 and data.sum() == 14


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(SimError, match="'baseQ' is not a field of TCubeTiling; its fields are usedCoreNum, M, N"):
        cube_tiling_bytes({"baseQ": 1})
    with pytest.raises(SimError, match=r"GetTiling: SetShape\(M, N, K\) comes first"):
        MatmulApiTiling(CHIP).GetTiling()
    with pytest.raises(SimError, match="SetBType: int8; A is float16, and both must have one type"):
        host().SetBType(TPosition.GM, CubeFormat.ND, DataType.DT_INT8)
    with pytest.raises(SimError, match=r"SetBufferSpace\(1024, -1, -1, -1\): allowed is -1, the whole buffer"):
        host().SetBufferSpace(1024)
    assert host().SetBufferSpace(-1, -1, -1) == 0
    for setter in ("SetAType", "SetBType"):
        with pytest.raises(SimError, match=rf"{setter}: 'DT_HALF' is no type; allowed are DataType\.DT_FLOAT, DT_FLOAT16, "):
            getattr(host(), setter)(TPosition.GM, CubeFormat.ND, "DT_HALF")
    assert host().SetAType(TPosition.GM, CubeFormat.ND, "float32") == 0
