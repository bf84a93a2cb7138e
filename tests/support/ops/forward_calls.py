"""Calls of the forward convolution, with what torch makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from ascend_sim import convolution

torch = pytest.importorskip("torch")
Array = NDArray[Any]
TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype(np.float32)}
COUPLED = ("ascend910a", "ascend310p3")
SPLIT = ("ascend910b3", "ascend910_9391", "ascend950pr_9589")


@dataclass(frozen=True)
class Forward:
    """One call; `x` and `k` are spatial sizes, channels are those of a group."""

    n: int
    c_in: int
    c_out: int
    x: tuple[int, ...]
    k: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool = False
    output_padding: tuple[int, ...] = ()
    groups: int = 1
    bias: bool = True

    @property
    def attributes(self) -> tuple[Any, ...]:
        extra = self.output_padding or (0,) * len(self.x)
        return self.stride, self.padding, self.dilation, self.transposed, extra, self.groups

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        g = self.groups
        outer, inner = (self.c_in * g, self.c_out) if self.transposed else (self.c_out * g, self.c_in)
        return (self.n, self.c_in * g, *self.x), (outer, inner, *self.k), (self.c_out * g,)

    def operands(self, dtype: str, seed: int = 0) -> list[Array | None]:
        """Small whole numbers, whose sums are exact in any order."""
        rng = np.random.default_rng(seed)
        x, weight, bias = (rng.integers(-3, 4, shape).astype(TYPES[dtype]) for shape in self.shapes)
        return [x, weight, bias * TYPES[dtype].type(8) if self.bias else None]

    def rounds_once(self, chip: str) -> bool:
        """Return True if the cube's sums begin with the bias."""
        return not self.transposed and chip not in COUPLED

    def wanted(self, operands: list[Array | None], stored: str, chip: str) -> Array:
        """torch's sums in float64, rounded to what the kernel stores, and again behind a bias that is added to that."""
        x, weight, bias = (None if a is None else torch.from_numpy(a.astype(np.float64)) for a in operands)
        assert operands[0] is not None
        dtype = operands[0].dtype
        if self.rounds_once(chip):
            once: Array = torch.ops.aten.convolution(x, weight, bias, *self.attributes).numpy()
            return once.astype(TYPES[stored]).astype(dtype)
        sums = torch.ops.aten.convolution(x, weight, None, *self.attributes).numpy()
        found: Array = sums.astype(TYPES[stored]).astype(dtype)
        if bias is None:
            return found
        spread = bias.numpy().reshape(1, -1, *(1,) * len(self.x))
        return (found.astype(np.float64) + spread).astype(dtype)

    def check(self, dtype: str, chip: str, mode: str = "functional", cube_math_type: int = 0, seed: int = 0) -> None:
        operands = self.operands(dtype, seed)
        how = {"chip": chip, "mode": mode, "cube_math_type": cube_math_type, "probe": False}
        result = convolution(*operands, *self.attributes, **how)
        compute = result.report.problem["compute_dtype"]
        expected = self.wanted(operands, "float32" if compute == "hf32" else compute, chip)
        found = result.outputs["output"]
        assert found.dtype == expected.dtype and result.dtypes == {"output": dtype}
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
        assert result.report.passed and result.report.findings == ()
