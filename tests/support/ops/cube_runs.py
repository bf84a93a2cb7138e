"""Cube kernels on whole numbers, whose results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from ascend_sim import Result
from tests.support.ops.conv_problems import Array, CallAttributes, Mask, operands

ONLY: dict[str, Mask] = {"grad_input": (True, False, False), "grad_weight": (False, True, False)}


SETTINGS = settings(
    max_examples=20, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=[HealthCheck.too_slow]
)


def whole_numbers(problem: CallAttributes, dtype: str = "float16", seed: int = 0) -> dict[str, Array]:
    return {
        name: np.rint(2 * array.astype(np.float32)).astype(array.dtype)
        for name, array in operands(problem, dtype, seed).items()
    }


def kernel_of(result: Result, name: str) -> dict[str, Any]:
    return next(kernel for kernel in result.report.kernels if kernel["name"] == name)


def sixteens(most: int) -> st.SearchStrategy[int]:
    return st.integers(1, most).map(lambda fractals: 16 * fractals)


COMMON: dict[str, st.SearchStrategy[int]] = {
    "baseM": sixteens(8), "baseN": sixteens(12), "baseK": sixteens(9), "stepKa": st.integers(1, 9),
    "stepKb": st.integers(1, 9),
} | dict.fromkeys(("al0Pbuffer", "bl0Pbuffer", "cl0Pbuffer", "al1Pbuffer", "bl1Pbuffer"), st.integers(1, 2))  # fmt: skip


FIELDS: dict[str, dict[str, st.SearchStrategy[int]]] = {
    "grad_input": COMMON | {"singleCoreM": st.integers(1, 200), "singleCoreCin": sixteens(4), "coreNum": st.integers(1, 30)},
    "grad_weight": COMMON
    | {"stepM": st.integers(1, 3), "stepN": st.integers(1, 3), "singleCoreM": sixteens(4), "singleCoreBatch": st.integers(1, 3),
       "singleCoreK": st.integers(1, 12).map(lambda rows: 10 * rows), "splitWo": st.integers(1, 12),
       "streamKType": st.integers(0, 2), "iterateOrder": st.integers(0, 1), "usedCoreNum": st.integers(1, 20)},
}  # fmt: skip
