"""Values for the tensors of a case: named distributions, each of which tests one weakness of gradients."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Distribution = Literal["uniform", "normal", "relu", "wide", "ones", "adversarial"]


def draw(distribution: Distribution, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return float32 values for tensor `name`, from a distribution; the case's scale is not applied yet.

    ones: all 1. uniform: [-1, 1). normal: N(0, 1). relu: `input` is an activation, max(0, N(0, 1)); the others are normal.
    wide: either sign, magnitudes spread evenly over the binades 2^-8 to 2^4 (sums of products still fit into float16).
    adversarial: magnitudes in [1, 1 + 2^-3], all positive but for the output's gradient (`grad_output`, with channels on axis
    1, or `self`, with channels on axis 2): that is negative in the second half of its channels, and in the second half of its
    first other axis longer than 1 (the batch, the time of `self`) the sign is reversed: with even sizes and one group every sum
    grows to half of sum |ab| and falls back to almost nothing.
    """
    if distribution == "ones":
        return np.ones(shape, np.float32)
    if distribution in ("normal", "relu"):
        values = rng.standard_normal(shape, np.float32)
        return np.maximum(values, 0) if (distribution, name) == ("relu", "input") else values
    uniform = rng.random(shape, np.float32)
    if distribution == "uniform":
        return 2 * uniform - 1
    if distribution == "wide":
        return np.exp2(12 * uniform - 8) * rng.choice(np.array([-1, 1], np.float32), shape)
    values = np.float32(1) + uniform / np.float32(8)
    if name in ("grad_output", "self"):
        channel = 1 if name == "grad_output" else 2
        position = next((axis for axis, size in enumerate(shape) if axis != channel and size > 1), 0)
        for axis in (channel, position):
            second_half = np.moveaxis(values, axis, 0)[(shape[axis] + 1) // 2 :]
            np.negative(second_half, out=second_half)
    return values
