"""The forward convolution in float64: the reference for its output, and for grad_input of a transposed call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.problem.conv_problem import ConvProblem

Array = NDArray[Any]
_CHUNK_BYTES = 64 << 20


def conv_forward_reference(
    problem: ConvProblem, x: Array, weight: Array, *, absolute: bool = False
) -> tuple[NDArray[np.float64], ...]:
    """Return (sum ab, sum (ab)^2) of y = x * weight, and sum |ab| with `absolute`; computed tap by tap, some images at a time.

    `x` [N, C_in, D, H, W], `weight` [C_out, C_in/groups, kD, kH, kW], of the problem's shapes, which are not checked, nor that
    no padding in front is negative; results float64 [N, C_out, D_out, H_out, W_out].
    """
    p = problem
    powers: list[Any] = [np.asarray, np.square, *([np.abs] if absolute else [])]
    sums = tuple(np.zeros((p.n, p.c_out, p.d_out, p.h_out, p.w_out)) for _ in powers)
    image_bytes = 8 * p.c_in * p.d_out * p.h_out * p.w_out
    step = max(1, _CHUNK_BYTES // max(image_bytes, 1))
    for start in range(0, p.n, step):
        images = slice(start, start + step)
        for power, result in zip(powers, sums, strict=True):
            _accumulate(p, power(x[images].astype(np.float64)), power(weight.astype(np.float64)), result[images])
    return sums


def _accumulate(p: ConvProblem, x: Array, weight: Array, result: Array) -> None:
    n, groups = x.shape[0], p.groups
    cin, cout = p.c_in // groups, p.c_out // groups
    pads = [
        (max(low, 0), max(high, 0))
        for low, high in ((p.pad_front, p.pad_back), (p.pad_up, p.pad_down), (p.pad_left, p.pad_right))
    ]
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    for d in range(p.k_d):
        for h in range(p.k_h):
            for w in range(p.k_w):
                starts = (d * p.dilation_d, h * p.dilation_h, w * p.dilation_w)
                sizes, strides = (p.d_out, p.h_out, p.w_out), (p.stride_d, p.stride_h, p.stride_w)
                window = tuple(
                    slice(first, first + (size - 1) * stride + 1, stride)
                    for first, size, stride in zip(starts, sizes, strides, strict=True)
                )
                taken = padded[(slice(None), slice(None), *window)].reshape(n, groups, cin, -1)
                tap = weight[:, :, d, h, w].reshape(groups, cout, cin)
                result += np.matmul(tap[None], taken).reshape(result.shape)
