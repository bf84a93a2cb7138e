"""Storage layouts as numpy permutations: NC1HWC0 and FRACTAL_Z from and to plain arrays.

C0 is the channel count of a 32-byte block: 16 for 16-bit items, 8 for 32-bit ones. Kernels move data between these layouts
on the simulated cores; these functions say what they must arrive at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip.fractal import FRACTAL


def to_ndc1hwc0(array: NDArray[Any], c0: int) -> NDArray[Any]:
    """[N, C, D, H, W] -> [N, D, C1, H, W, C0]; missing channels of the last block are zero."""
    n, c, d, h, w = array.shape
    c1 = -(-c // c0)
    padded = np.zeros((n, c1 * c0, d, h, w), array.dtype)
    padded[:, :c] = array
    return np.ascontiguousarray(padded.reshape(n, c1, c0, d, h, w).transpose(0, 3, 1, 4, 5, 2))


def from_ndc1hwc0(blocks: NDArray[Any], channels: int) -> NDArray[Any]:
    """[N, D, C1, H, W, C0] -> [N, C, D, H, W] with `channels` channels."""
    n, d, c1, h, w, c0 = blocks.shape
    plain = blocks.transpose(0, 2, 5, 1, 3, 4).reshape(n, c1 * c0, d, h, w)
    return np.ascontiguousarray(plain[:, :channels])


def fractal_z_shape(
    c_out: int, c_in_per_group: int, k_d: int, taps: int, groups: int, extension: int, c0: int
) -> tuple[int, ...]:
    """[real groups, k_d, cin1, taps, cout1, 16, C0] for groups merged `extension` at a time."""
    real = -(-groups // extension)
    cin1 = -(-extension * c_in_per_group // c0)
    cout1 = -(-extension * (c_out // groups) // FRACTAL)
    return (real, k_d, cin1, taps, cout1, FRACTAL, c0)


def to_fractal_z(weight: NDArray[Any], groups: int, extension: int, c0: int) -> NDArray[Any]:
    """[C_out, C_in / groups, D, H, W] -> FRACTAL_Z; the groups of a real group stand block-diagonally, the rest is zero."""
    c_out, cin, k_d, k_h, k_w = weight.shape
    cout = c_out // groups
    shape = fractal_z_shape(c_out, cin, k_d, k_h * k_w, groups, extension, c0)
    dense = np.zeros((shape[0], shape[4] * FRACTAL, shape[2] * c0, k_d, k_h * k_w), weight.dtype)
    for group in range(groups):
        real, inner = divmod(group, extension)
        block = weight[group * cout : (group + 1) * cout].reshape(cout, cin, k_d, -1)
        dense[real, inner * cout : (inner + 1) * cout, inner * cin : (inner + 1) * cin] = block
    split = dense.reshape(shape[0], shape[4], FRACTAL, shape[2], c0, k_d, k_h * k_w)
    return np.ascontiguousarray(split.transpose(0, 5, 3, 6, 1, 2, 4))


def from_fractal_z(
    blocks: NDArray[Any], c_out: int, c_in_per_group: int, k_h: int, k_w: int, groups: int, extension: int
) -> NDArray[Any]:
    """FRACTAL_Z [real groups, k_d, cin1, taps, cout1, 16, C0] -> [C_out, C_in / groups, D, H, W]."""
    real, k_d, cin1, taps, cout1, _, c0 = blocks.shape
    dense = blocks.transpose(0, 4, 5, 2, 6, 1, 3).reshape(real, cout1 * FRACTAL, cin1 * c0, k_d, taps)
    cout, cin = c_out // groups, c_in_per_group
    weight = np.empty((c_out, cin, k_d, k_h, k_w), blocks.dtype)
    for group in range(groups):
        index, inner = divmod(group, extension)
        block = dense[index, inner * cout : (inner + 1) * cout, inner * cin : (inner + 1) * cin]
        weight[group * cout : (group + 1) * cout] = block.reshape(cout, cin, k_d, k_h, k_w)
    return weight
