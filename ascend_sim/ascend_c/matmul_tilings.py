"""TCubeTiling as a host program makes it: the classes of the vendor's `matmul_tiling` with their setters, in Python.

host = MultiCoreMatmulTiling("ascend910b3")
host.SetDim(4); host.SetAType(TPosition.GM, CubeFormat.ND, DataType.DT_FLOAT16); ...; host.SetShape(256, 256, 128)
tiling = host.GetTiling()

The vendor's choice of a tiling is not known: `matmul_tiling` chooses (assumed).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.isa.base import ceil_div
from ascend_sim.numerics.integers import storage

_MOST_M, _MOST_N = 128, 256
"""Rows and columns of a tile: assumed, they fill L0C with float32."""


def softmax_tiling(rows: int, columns: int) -> dict[str, int]:
    """Return the fields of SoftMaxTiling for `rows` rows of `columns` elements, padding included; the simulated calls
    read no others. Raises SimError for a number below 1.
    """
    _at_least_one({"rows": rows, "columns": columns})
    return {"srcM": rows, "srcK": columns, "srcSize": rows * columns}


def layer_norm_tiling(batch: int, sequence: int, columns: int, used: int | None = None) -> dict[str, int]:
    """Return the fields of LayerNormTiling for batch x sequence rows of `columns` elements, of which `used` are not padding
    (None: all). Raises SimError for a number below 1.
    """
    used = columns if used is None else used
    _at_least_one({"batch": batch, "sequence": sequence, "columns": columns, "used": used})
    return {"bLength": batch, "sLength": sequence, "hLength": columns, "originalHLength": used}


rms_norm_tiling = layer_norm_tiling
"""RmsNormTiling: its calls read the same four fields."""


def matmul_tiling(
    chip: ChipSpec, shape: tuple[int, int, int], dtype: str = "float16", cores: int = 1, bias: bool = False
) -> dict[str, int]:
    """Return the fields of a TCubeTiling for C [M, N] = A [M, K] B [K, N] on at most `cores` cube cores; `shape` is (M, N, K).

    Fields that are not set are left out. Cores split M and N; tiles have at most 128 rows and 256 columns and fill at most half
    of L0A and L0B. A row of an operand's tiles keeps its pieces of K in L1 where they fit into half of it. Raises SimError for
    a shape or a number of cores below 1.
    """
    m, n, k = shape
    _at_least_one({"M": m, "N": n, "K": k, "cores": cores})
    size = storage(dtype).itemsize
    unit = max(FRACTAL, BLOCK_BYTES // size)  # tiles are multiples of it (public documentation of Matmul)
    single_m, single_n = _split(m, n, cores, unit)
    base_m, base_n = min(_MOST_M, _up(single_m, unit)), min(_MOST_N, _up(single_n, unit))
    half = min(int(chip.buffers["L0A"]), int(chip.buffers["L0B"])) // 2
    base_k = min(half // size // max(base_m, base_n) // unit * unit, _up(k, unit))
    pieces = ceil_div(k, base_k)
    room = int(chip.buffers["L1"]) // 2 // size
    steps = [pieces if pieces * base * base_k <= room else 1 for base in (base_m, base_n)]
    depths = [step if step == pieces else 2 for step in steps]
    return {
        "usedCoreNum": ceil_div(m, single_m) * ceil_div(n, single_n),
        **{"M": m, "N": n, "Ka": k, "Kb": k},
        **{"singleCoreM": single_m, "singleCoreN": single_n, "singleCoreK": k},
        **{"baseM": base_m, "baseN": base_n, "baseK": base_k},
        **{"depthA1": depths[0], "depthB1": depths[1], "stepM": 1, "stepN": 1, "stepKa": steps[0], "stepKb": steps[1]},
        **{"isBias": int(bias), "dbL0A": 2, "dbL0B": 2, "dbL0C": 1},
    }


def _split(m: int, n: int, cores: int, unit: int) -> tuple[int, int]:
    """Return (rows, columns) of a core's share, multiples of `unit` but at most M and N: of all splits of M and N that with the
    smallest share, the squarest of equals.
    """
    found = []
    for rows in range(1, cores + 1):
        share = _up(ceil_div(m, rows), unit), _up(ceil_div(n, cores // rows), unit)
        found.append((share[0] * share[1], abs(share[0] - share[1]), (min(m, share[0]), min(n, share[1]))))
    return min(found)[2]


def _up(value: int, unit: int) -> int:
    return ceil_div(value, unit) * unit


def _at_least_one(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        if count < 1:
            raise SimError(f"{name} = {count}; allowed is 1 or more")


_CUBE_FIELDS = (
    "usedCoreNum M N Ka Kb singleCoreM singleCoreN singleCoreK baseM baseN baseK depthA1 depthB1 stepM stepN isBias "
    "transLength iterateOrder shareMode shareL1Size shareL0CSize shareUbSize batchM batchN singleBatchM singleBatchN stepKa "
    "stepKb depthAL1CacheUB depthBL1CacheUB dbL0A dbL0B dbL0C ALayoutInfoB ALayoutInfoS ALayoutInfoN ALayoutInfoG ALayoutInfoD "
    "BLayoutInfoB BLayoutInfoS BLayoutInfoN BLayoutInfoG BLayoutInfoD CLayoutInfoB CLayoutInfoS1 CLayoutInfoN CLayoutInfoG "
    "CLayoutInfoS2 BatchNum mxTypePara"
)
CUBE_FIELDS = tuple(_CUBE_FIELDS.split())
"""Fields of TCubeTiling in their order: int32 each (asim/matmul_operands.h)."""

TPosition = Enum("TPosition", "GM VECIN VECOUT VECCALC TSCM")
CubeFormat = Enum("CubeFormat", "ND NZ ND_ALIGN VECTOR")
DataType = Enum(
    "DataType",
    {"DT_FLOAT": "float32", "DT_FLOAT16": "float16", "DT_BF16": "bfloat16", "DT_BFLOAT16": "bfloat16", "DT_INT8": "int8",
     "DT_INT32": "int32"},
)  # fmt: skip
"""Type of an operand -> its dtype."""


def cube_tiling_bytes(fields: Mapping[str, int]) -> bytes:
    """Return the bytes of a TCubeTiling with these fields, the others 0. Raises SimError for an unknown field."""
    unknown = [name for name in fields if name not in CUBE_FIELDS]
    if unknown:
        raise SimError(f"{unknown[0]!r} is not a field of TCubeTiling; its fields are {', '.join(CUBE_FIELDS)}")
    return np.array([fields.get(name, 0) for name in CUBE_FIELDS], np.int32).tobytes()


def _dtype_of(setter: str, given: Any) -> str:
    """Return the dtype of a DataType, or of a dtype's name. Raises SimError, which names `setter`, for anything else."""
    try:
        return str(DataType(given).value)
    except ValueError:
        raise SimError(f"{setter}: {given!r} is no type; allowed are DataType.{', '.join(DataType.__members__)}") from None


class MatmulApiTiling:
    """Tiling of a product for one core. `chip` is a chip or its name."""

    def __init__(self, chip: ChipSpec | str) -> None:
        self.chip = load_chip(chip) if isinstance(chip, str) else chip
        self._cores, self._bias = 1, False
        self._dtype = "float16"
        self._shape: tuple[int, int, int] | None = None
        self._whole: tuple[int, int, int] | None = None
        self._fixed: dict[str, int] = {}

    def SetAType(self, position: Any, format: Any, dtype: Any, transposed: bool = False) -> int:
        """Set A's type, by which the tiles are chosen; position, format and transposition change no tiling. Return 0.

        Raises SimError for a type that is none of `DataType`.
        """
        self._dtype = _dtype_of("SetAType", dtype)
        return 0

    def SetBType(self, position: Any, format: Any, dtype: Any, transposed: bool = False) -> int:
        """Check B's type; return 0. Raises SimError if it is none of `DataType`, or another than A's, which must be set before
        (else float16).
        """
        if (given := _dtype_of("SetBType", dtype)) != self._dtype:
            raise SimError(f"SetBType: {given}; A is {self._dtype}, and both must have one type")
        return 0

    def SetCType(self, position: Any, format: Any, dtype: Any) -> int:
        """Accept C's type, which changes no tiling; return 0."""
        return 0

    def SetBiasType(self, position: Any, format: Any, dtype: Any) -> int:
        """Accept the bias's type, which changes no tiling; return 0."""
        return 0

    def SetShape(self, m: int, n: int, k: int) -> int:
        """Set the product to compute: M, N and K; return 0."""
        self._shape = (m, n, k)
        return 0

    def SetOrgShape(self, m: int, n: int, ka: int, kb: int | None = None) -> int:
        """Set the sizes of the whole matrices (`kb` None: that of `ka`), which are also the product's without SetShape; return
        0.
        """
        self._whole = (m, n, ka)
        if kb is not None:
            self._fixed["Kb"] = kb
        return 0

    def SetBias(self, bias: bool = False) -> int:
        """Set whether a bias is added; return 0."""
        self._bias = bias
        return 0

    EnableBias = SetBias

    def SetFixSplit(self, base_m: int = -1, base_n: int = -1, base_k: int = -1) -> int:
        """Fix the sizes of a tile, unchecked; -1 leaves a size as it was: fixed by an earlier call, or open. Return 0."""
        given = {"baseM": base_m, "baseN": base_n, "baseK": base_k}
        self._fixed |= {name: size for name, size in given.items() if size != -1}
        return 0

    def SetTraverse(self, order: Any) -> int:
        """Set the order of the tiles: 0 goes along M, 1 along N; return 0."""
        self._fixed["iterateOrder"] = int(getattr(order, "value", order))
        return 0

    def SetBufferSpace(self, l1: int = -1, l0c: int = -1, ub: int = -1, bt: int = -1) -> int:
        """Accept -1 or 0 for each buffer: all of it is used, whatever is given. Raises SimError for other sizes; return 0."""
        if any(size not in (-1, 0) for size in (l1, l0c, ub, bt)):
            raise SimError(f"SetBufferSpace({l1}, {l0c}, {ub}, {bt}): allowed is -1, the whole buffer")
        return 0

    def GetTiling(self, tiling: dict[str, int] | None = None) -> dict[str, int]:
        """Return the fields of the TCubeTiling; with `tiling` they are set in it, and it is returned. Raises SimError unless
        SetShape or SetOrgShape was called, and for sizes or cores below 1.
        """
        shape = self._shape or self._whole
        if shape is None:
            raise SimError("GetTiling: SetShape(M, N, K) comes first")
        found = matmul_tiling(self.chip, shape, self._dtype, self._cores, self._bias)
        if self._whole is not None:
            m, n, k = self._whole
            found |= {"M": m, "N": n, "Ka": k, "Kb": k}
        fixed = found | self._fixed
        if {"baseM", "baseN", "baseK"} & set(self._fixed):
            fixed |= self._steps(fixed)
        result = {} if tiling is None else tiling
        result.update({name: fixed[name] for name in CUBE_FIELDS if name in fixed})
        return result

    def _steps(self, fields: Mapping[str, int]) -> dict[str, int]:
        """Return baseK, steps and depths for tiles of fixed sizes: two pieces of each operand in L1."""
        size = np.dtype(self._dtype).itemsize if self._dtype != "bfloat16" else 2
        unit, half = max(16, 32 // size), int(self.chip.buffers["L0A"]) // 2
        most = half // size // max(fields["baseM"], fields["baseN"]) // unit * unit
        base_k = self._fixed.get("baseK", min(most, ceil_div(fields["singleCoreK"], unit) * unit))
        return {"baseK": base_k, "stepKa": 1, "stepKb": 1, "depthA1": 2, "depthB1": 2}


class MultiCoreMatmulTiling(MatmulApiTiling):
    """Tiling of a product that several cores share."""

    def SetDim(self, cores: int) -> int:
        """Set the number of cores that call Matmul: vector cores in a kernel of both kinds. Return 0."""
        self._cores = cores
        return 0

    def SetSingleShape(self, m: int = -1, n: int = -1, k: int = -1) -> int:
        """Set a core's share; -1 leaves a size as it was. The field usedCoreNum does not follow, GetCoreNum does. Return 0."""
        given = {"singleCoreM": m, "singleCoreN": n, "singleCoreK": k}
        self._fixed |= {name: size for name, size in given.items() if size != -1}
        return 0

    def GetCoreNum(self) -> tuple[int, int, int]:
        """Return (cores, those along M, those along N) of the tiling, after SetShape or SetOrgShape."""
        t = self.GetTiling()
        m, n = ceil_div(t["M"], t["singleCoreM"]), ceil_div(t["N"], t["singleCoreN"])
        return m * n, m, n
