"""Tiling data of Ascend C calls, as the host would make it: TCubeTiling, SoftMaxTiling, LayerNormTiling, RmsNormTiling.

The choice of the vendor's library is not known; the numbers here are assumed, and a tiling of the library may be given instead.
"""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.isa.base import ceil_div
from ascend_sim.numerics.integers import storage

_MOST_M, _MOST_N = 128, 256
"""Rows and columns of a tile: assumed, they fill L0C with float32."""


def softmax_tiling(rows: int, columns: int) -> dict[str, int]:
    """Return the fields of SoftMaxTiling for `rows` rows of `columns` elements, padding included; the calls here read no
    others.
    """
    _at_least_one({"rows": rows, "columns": columns})
    return {"srcM": rows, "srcK": columns, "srcSize": rows * columns}


def layer_norm_tiling(batch: int, sequence: int, columns: int, used: int | None = None) -> dict[str, int]:
    """Return the fields of LayerNormTiling for batch x sequence rows of `columns` elements, of which `used` are not padding
    (None: all).
    """
    used = columns if used is None else used
    _at_least_one({"batch": batch, "sequence": sequence, "columns": columns, "used": used})
    return {"bLength": batch, "sLength": sequence, "hLength": columns, "originalHLength": used}


rms_norm_tiling = layer_norm_tiling
"""RmsNormTiling: its calls read the same four fields."""


def matmul_tiling(
    chip: ChipSpec, shape: tuple[int, int, int], dtype: str = "float16", cores: int = 1, bias: bool = False
) -> dict[str, int]:
    """Return the fields of a TCubeTiling for C [M, N] = A [M, K] B [K, N] on `cores` cube cores; `shape` is (M, N, K).

    Cores split M and N; tiles fill half of L0A and L0B, and rows of tiles keep their pieces of K in L1 where these fit. Raises
    SimError for a shape or a number of cores below 1.
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
    """Return (rows, columns) of a core's share: of all splits of M and N that with the smallest share, the squarest of
    equals.
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
