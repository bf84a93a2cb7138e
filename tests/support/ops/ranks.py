"""Calls of every rank, and their gradients by PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

from ascend_sim.numerics import half_ulp, numpy_dtype

torch = pytest.importorskip("torch")


@dataclass(frozen=True)
class RankCall:
    """One call: `x` is the map that the kernel slides over, `y` the other one (their roles change when transposed)."""

    transposed: bool
    n: int
    groups: int
    x_channels: int
    y_channels: int
    x: tuple[int, ...]
    y: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dtype: str
    seed: int

    def tensors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """gradOutput, input and weight."""
        rng = np.random.default_rng(self.seed)
        shapes = [
            (self.n, self.x_channels, *self.x),
            (self.n, self.y_channels, *self.y),
            (self.y_channels, self.x_channels // self.groups, *self.kernel),
        ]
        x, y, weight = (rng.standard_normal(shape).astype(numpy_dtype(self.dtype)) for shape in shapes)
        return (x, y, weight) if self.transposed else (y, x, weight)


@st.composite
def calls(draw: st.DrawFn) -> RankCall:
    rank = draw(st.integers(1, 3))
    transposed, groups = draw(st.booleans()), draw(st.sampled_from([1, 1, 1, 2, 3, 4]))

    def axes(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    kernel, stride, dilation = axes(1, 4), axes(1, 3), axes(1, 3)
    # What y needs of x without padding, so that every example is a convolution.
    y = axes(1, 7 - rank)
    grown = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(y, stride, kernel, dilation, strict=True)]
    padding = tuple(draw(st.integers(0, min(3, (size - 1) // 2))) for size in grown)
    beyond = tuple(draw(st.integers(0, s - 1)) for s in stride)
    x = tuple(size - 2 * p + e for size, p, e in zip(grown, padding, beyond, strict=True))
    output_padding = beyond if transposed else (0,) * rank
    channels = [groups * draw(st.sampled_from([1, 2, 3, 7, 8, 16, 17, 20])) for _ in range(2)]
    dtype = draw(st.sampled_from(["float16", "bfloat16", "float32"]))
    return RankCall(
        transposed,
        draw(st.integers(1, 3)),
        groups,
        *channels,
        x,
        y,
        kernel,
        stride,
        dilation,
        padding,
        output_padding,
        dtype,
        draw(st.integers(0, 2**31)),
    )


def torch_gradients(call: RankCall, tensors: tuple[np.ndarray, ...], power: int) -> list[np.ndarray]:
    """torch's float64 gradients of the operands, or of their squares: sum (ab)^2."""
    dy, x, w = (torch.from_numpy(t.astype(np.float64) ** power) for t in tensors)
    found = torch.ops.aten.convolution_backward(
        dy,
        x,
        w,
        [dy.shape[1]],
        call.stride,
        call.padding,
        call.dilation,
        call.transposed,
        call.output_padding,
        call.groups,
        [True, True, True],
    )
    return [gradient.numpy() for gradient in found]


def assert_close(found: np.ndarray, exact: np.ndarray, squares: np.ndarray, count: int, dtype: str) -> None:
    """Within fp32 accumulation of `count` products and one rounding to `dtype` (the verdict's bound, worked out here)."""
    bound = 4 * 2.0**-24 * np.sqrt(count) * (np.abs(exact) + np.sqrt(squares))
    bound += half_ulp(np.abs(exact) + bound, dtype)
    assert found.shape == exact.shape
    assert (np.abs(found.astype(np.float64) - exact) <= bound).all()
