"""Kernels of one Matmul, with their tilings and types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[str, Any] = {
    "half": np.float16, "bfloat16_t": ml_dtypes.bfloat16, "float": np.float32, "int8_t": np.int8, "int32_t": np.int32,
}  # fmt: skip
GO = """
#define ASCENDC_CUBE_ONLY
#include "lib/matmul_intf.h"
template <class T> GlobalTensor<T> view(GM_ADDR x) { GlobalTensor<T> g; g.SetGlobalBuffer((__gm__ T *)x); return g; }
template <class M, class T, class C, class S>
void go(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, const TCubeTiling &t, bool ta, bool tb, uint32_t how) {
    TPipe pipe;
    M mm;
    REGIST_MATMUL_OBJ(&pipe, nullptr, mm, &t);
    mm.SetTensorA(view<T>(a), ta);
    mm.SetTensorB(view<T>(b), tb);
    if (t.isBias) mm.SetBias(view<S>(bias));
    if (how == 0) mm.IterateAll(view<C>(c));
    else if (how == 1) while (mm.template Iterate()) mm.GetTensorC(view<C>(c));
    else if (how == 2) { mm.SetTail(t.singleCoreM - 8, t.singleCoreN - 8); mm.IterateAll(view<C>(c)); }
    else if (how == 5) { mm.IterateAll(view<C>(c)); mm.End(); mm.SetTensorB(view<T>(b), tb); mm.IterateAll(view<C>(c), 1); }
    else if (how > 10) { mm.IterateAll(view<C>(c)); mm.SetTail(-1, -1, 16); mm.IterateAll(view<C>(c), how - 10); }
    else if (how == 3) { mm.IterateAll(view<C>(c)); mm.SetTensorB(view<T>(b), tb); mm.IterateAll(view<C>(c), 1); }
    else mm.GetTensorC(view<C>(c));
    mm.End();
}
"""


def tiling(shape: tuple[int, int, int], **changed: int) -> dict[str, int]:
    """Return tiles of 64 x 64 x 64 in two rooms for each operand: always the same fields, so that one library serves all."""
    m, n, k = shape
    usual = {"M": m, "N": n, "Ka": k, "Kb": k, "singleCoreM": m, "singleCoreN": n, "singleCoreK": k}
    usual |= {"baseM": 64, "baseN": 64, "baseK": 64, "depthA1": 2, "depthB1": 2, "stepKa": 1, "stepKb": 1}
    usual |= {"usedCoreNum": 1, "stepM": 1, "stepN": 1, "isBias": 0, "iterateOrder": 0}
    return usual | {"dbL0A": 2, "dbL0B": 2, "dbL0C": 1} | changed
