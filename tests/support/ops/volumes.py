"""3-D problems whose gradients are compared with torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ascend_sim


@dataclass(frozen=True)
class Volume:
    """A 3-D problem of whole numbers, whose sums are exact in any order."""

    x: tuple[int, ...]
    c_out: int
    kernel: tuple[int, int, int]
    stride: tuple[int, int, int] = (1, 1, 1)
    padding: tuple[int, int, int] = (1, 1, 1)
    dtype: Any = np.float16

    def run(self, gradient: str, tiling: dict[str, int], **options: Any) -> tuple[ascend_sim.Result, np.ndarray]:
        """The call on a 910B3, and what torch makes of the same numbers."""
        torch = pytest.importorskip("torch")
        sizes = zip(self.x[2:], self.kernel, self.stride, self.padding, strict=True)
        out = [(size + 2 * pad - k) // s + 1 for size, k, s, pad in sizes]
        rng = np.random.default_rng(0)
        y, x, weight = (
            rng.integers(-2, 3, shape).astype(self.dtype)
            for shape in ((self.x[0], self.c_out, *out), self.x, (self.c_out, self.x[1], *self.kernel))
        )
        wanted = tuple(gradient == name for name in ("grad_input", "grad_weight", "grad_bias"))
        attributes = (None, self.stride, self.padding, (1, 1, 1), False, (0, 0, 0), 1, wanted)
        result = ascend_sim.convolution_backward(
            y, x, weight, *attributes, chip="ascend910b3", tiling={gradient: tiling}, **options
        )
        like, other, function = {
            "grad_input": (x, weight, torch.nn.grad.conv3d_input),
            "grad_weight": (weight, x, torch.nn.grad.conv3d_weight),
        }[gradient]
        exact = [torch.from_numpy(array.astype(np.float64)) for array in (other, y)]
        operands = (like.shape, *exact) if gradient == "grad_input" else (exact[0], like.shape, exact[1])
        return result, function(*operands, self.stride, self.padding).numpy().astype(self.dtype)
