"""Convolution backward in float64: the reference for gradients and for the output of a transposed convolution.

Plain numpy; no code is shared with the kernels. Beside each gradient (a sum of products ab) stands sum (ab)^2, from the
same routine on squared operands: the error bound of the verdict `correct` needs it. The work goes slab by slab (a slab
is a box of positions of the output map), one matrix product per slab and sum, so that the memory beyond operands and
results stays at a few slabs: of `_SLAB_BYTES`, of more where the matrix would have few columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import ceil, gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.problem.conv_problem import ConvProblem

Array = NDArray[Any]
_Float64 = NDArray[np.float64]
_Box = tuple[slice, ...]

# The im2col matrix of a slab: small enough for the cache, unless too few columns would starve the matrix product.
_SLAB_BYTES = 4 << 20
_SLAB_BYTES_MAX = 128 << 20
_SLAB_COLUMNS = 256


def grad_input_reference(
    problem: ConvProblem, grad_output: Array, weight: Array, *, absolute: bool = False
) -> tuple[_Float64, ...]:
    """Return the gradient of the input as (sum ab, sum (ab)^2), and sum |ab| as a third array with `absolute`.

    `grad_output` [N, C_out, D_out, H_out, W_out], `weight` [C_out, C_in/groups, kD, kH, kW], any real dtype; results
    float64 [N, C_in, D, H, W]. Raises ValueError when a shape is not the problem's.
    """
    _check_shape("grad_output", grad_output, _output_shape(problem))
    _check_shape("weight", weight, _weight_shape(problem))
    groups, c_in = problem.groups, problem.c_in // problem.groups
    taps = list(_taps(problem))
    powers = _powers(absolute)
    by_tap = _float64(weight).reshape(groups, problem.c_out // groups, c_in, len(taps))
    if set(_strides(problem)) == {1} and problem.c_out <= problem.c_in:
        return _gathered(_mirrored(problem), grad_output, by_tap[..., ::-1].transpose(0, 2, 1, 3), powers)
    matrix = by_tap.transpose(0, 3, 2, 1).reshape(groups, len(taps) * c_in, problem.c_out // groups)
    matrices = [power(matrix) for power in powers]
    results = [np.zeros(_input_shape(problem)) for _ in powers]
    for box in _slabs(problem):
        inside, local, window_shape = _window(problem, box)
        gradient = _columns(grad_output, box, groups)
        positions = [part.stop - part.start for part in box]
        for power, factor, result in zip(powers, matrices, results, strict=True):
            products = (factor @ power(gradient)).reshape(groups, len(taps), c_in, *positions)
            window = np.zeros((groups, c_in, *window_shape))
            for index, tap in enumerate(taps):
                _tap_view(problem, window, tap, positions)[...] += products[:, index]
            target = _by_group(result[inside], groups)
            target += window[local]
    return tuple(results)


def grad_weight_reference(
    problem: ConvProblem, grad_output: Array, input: Array, *, absolute: bool = False
) -> tuple[_Float64, ...]:
    """Return the gradient of the weight as (sum ab, sum (ab)^2), and sum |ab| as a third array with `absolute`.

    `grad_output` [N, C_out, D_out, H_out, W_out], `input` [N, C_in, D, H, W], any real dtype; results float64
    [C_out, C_in/groups, kD, kH, kW]. Raises ValueError when a shape is not the problem's.
    """
    _check_shape("grad_output", grad_output, _output_shape(problem))
    _check_shape("input", input, _input_shape(problem))
    groups, powers = problem.groups, _powers(absolute)
    taps = problem.k_d * problem.k_h * problem.k_w
    sums = [np.zeros((groups, problem.c_out // groups, problem.c_in // groups * taps)) for _ in powers]
    for box in _slabs(problem):
        matrix = _im2col(problem, input, box)
        gradient = _columns(grad_output, box, groups)
        for power, total in zip(powers, sums, strict=True):
            total += power(gradient) @ power(matrix).transpose(0, 2, 1)
    return tuple(total.reshape(_weight_shape(problem)) for total in sums)


def grad_bias_reference(grad_output: Array, *, absolute: bool = False) -> tuple[_Float64, ...]:
    """Return the gradient of the bias as (sum a, sum a^2), and sum |a| as a third array with `absolute` (the other factor is
    1).

    `grad_output` [N, C_out, D_out, H_out, W_out] (any number of axes behind C_out); results float64 [C_out].
    """
    powers = _powers(absolute)
    sums = [np.zeros(grad_output.shape[1]) for _ in powers]
    axes = tuple(range(1, grad_output.ndim - 1))
    for image in grad_output:
        values = _float64(image)
        for power, total in zip(powers, sums, strict=True):
            total += power(values).sum(axis=axes)
    return tuple(sums)


def products_per_element(problem: ConvProblem) -> dict[str, int]:
    """Return gradient -> number of products in its longest sum, the K of the error bound, of a convolution that is not
    transposed.

    A sum of grad_input has only every (stride / gcd(stride, dilation))-th tap of an axis; near a border fewer.
    """
    sizes = (problem.k_d, problem.k_h, problem.k_w)
    taps = prod(
        ceil(size * gcd(stride, dilation) / stride)
        for size, stride, dilation in zip(sizes, _strides(problem), _dilations(problem), strict=True)
    )
    positions = prod(_positions(problem))
    return {"grad_input": problem.c_out // problem.groups * taps, "grad_weight": positions, "grad_bias": positions}


def _mirrored(problem: ConvProblem) -> ConvProblem:
    """Return the problem whose forward convolution of grad_output, with mirrored taps, gives grad_input; right only where all
    strides are 1. Paddings in front may be negative; those behind stay as they were, and `_gathered` reads none.
    """
    p = problem
    reach = [(taps - 1) * dilation for taps, dilation in zip((p.k_d, p.k_h, p.k_w), _dilations(p), strict=True)]
    return replace(
        p, c_in=p.c_out, d_in=p.d_out, h_in=p.h_out, w_in=p.w_out, c_out=p.c_in, d_out=p.d_in, h_out=p.h_in, w_out=p.w_in,
        pad_front=reach[0] - p.pad_front, pad_up=reach[1] - p.pad_up, pad_left=reach[2] - p.pad_left,
    )  # fmt: skip


def _gathered(
    problem: ConvProblem, x: Array, weight: _Float64, powers: Sequence[Callable[[_Float64], _Float64]]
) -> tuple[_Float64, ...]:
    """Return the sums of the convolution of `x` with `weight` [groups, C_out/groups, C_in/groups, taps], for each power."""
    factor = weight.reshape(*weight.shape[:2], -1)
    results = [np.empty(_output_shape(problem)) for _ in powers]
    for box in _slabs(problem):
        matrix = _im2col(problem, x, box)
        for power, result in zip(powers, results, strict=True):
            target = _by_group(result[box[0], :, box[1], box[2], box[3]], problem.groups)
            target[...] = (power(factor) @ power(matrix)).reshape(target.shape)
    return tuple(results)


def _im2col(problem: ConvProblem, x: Array, box: _Box) -> _Float64:
    """Return the elements of `x` that a box of output positions reads, 0 in the padding, as [groups, C_in/groups x taps,
    positions].
    """
    groups, c_in = problem.groups, problem.c_in // problem.groups
    inside, local, window_shape = _window(problem, box)
    window = np.zeros((groups, c_in, *window_shape))
    window[local] = _by_group(x[inside], groups)
    positions = [part.stop - part.start for part in box]
    taps = list(_taps(problem))
    columns = np.empty((groups, c_in, len(taps), *positions))
    for index, tap in enumerate(taps):
        columns[:, :, index] = _tap_view(problem, window, tap, positions)
    return columns.reshape(groups, c_in * len(taps), prod(positions))


def _powers(absolute: bool) -> list[Callable[[_Float64], _Float64]]:
    """Return the functions that are applied to both operands for sum ab, sum (ab)^2 and, with `absolute`, sum |ab|."""
    powers: list[Callable[[_Float64], _Float64]] = [lambda values: values, np.square]
    return [*powers, np.abs] if absolute else powers


def _slabs(problem: ConvProblem) -> Iterator[_Box]:
    """Yield boxes (slices of n, d, h, w) that together cover the output map, each small enough for the im2col buffer."""
    row_bytes = max(1, 8 * problem.c_in * problem.k_d * problem.k_h * problem.k_w)
    columns = min(max(_SLAB_BYTES // row_bytes, _SLAB_COLUMNS), _SLAB_BYTES_MAX // row_bytes)
    parts: list[list[slice]] = []
    for size in reversed(_positions(problem)):
        step = max(1, min(size, columns))
        columns //= step
        parts.append([slice(start, min(start + step, size)) for start in range(0, size, step)])
    return itertools.product(*reversed(parts))


def _window(problem: ConvProblem, box: _Box) -> tuple[_Box, _Box, tuple[int, ...]]:
    """Return the part of the padded input that a box of output positions reads, as three values.

    They are its overlap with the real input, an index of [N, C, D, H, W]; the same overlap within the window, an index
    of [groups, C/groups, n, d, h, w]; and the window's shape (n, d, h, w).
    """
    inside, local, shape = [box[0], slice(None)], [slice(None)] * 3, [box[0].stop - box[0].start]
    pads = (problem.pad_front, problem.pad_up, problem.pad_left)
    kernel = (problem.k_d, problem.k_h, problem.k_w)
    sizes = _input_shape(problem)[2:]
    axes = zip(box[1:], sizes, kernel, _strides(problem), _dilations(problem), pads, strict=True)
    for part, size, taps, stride, dilation, pad in axes:
        start = part.start * stride - pad
        length = (part.stop - part.start - 1) * stride + (taps - 1) * dilation + 1
        low = min(max(start, 0), size)
        high = max(min(start + length, size), low)
        inside.append(slice(low, high))
        local.append(slice(low - start, high - start))
        shape.append(length)
    return tuple(inside), tuple(local), tuple(shape)


def _tap_view(problem: ConvProblem, window: _Float64, tap: tuple[int, int, int], positions: list[int]) -> _Float64:
    """Return a view of the elements of a window [groups, C, N, D, H, W] that kernel position `tap` reads for the output
    positions: [groups, C, *positions], with `positions` the numbers of images, planes, rows and columns.
    """
    index = [slice(None)] * 3
    for at, dilation, stride, count in zip(tap, _dilations(problem), _strides(problem), positions[1:], strict=True):
        index.append(slice(at * dilation, at * dilation + (count - 1) * stride + 1, stride))
    return window[tuple(index)]


def _columns(grad_output: Array, box: _Box, groups: int) -> _Float64:
    """Return the part of grad_output in `box` (n, d, h, w) as a contiguous float64 matrix [groups, C_out/groups, positions]."""
    part = _float64(_by_group(grad_output[box[0], :, box[1], box[2], box[3]], groups))
    return part.reshape(*part.shape[:2], -1)


def _by_group(array: Array, groups: int) -> Array:
    """Return a view [groups, C/groups, N, D, H, W] of an array [N, C, D, H, W]."""
    n, channels, *rest = array.shape
    return array.reshape(n, groups, channels // groups, *rest).transpose(1, 2, 0, 3, 4, 5)


def _float64(array: Array) -> _Float64:
    return array.astype(np.float64, order="C")


def _taps(problem: ConvProblem) -> Iterator[tuple[int, int, int]]:
    return itertools.product(range(problem.k_d), range(problem.k_h), range(problem.k_w))


def _positions(problem: ConvProblem) -> tuple[int, int, int, int]:
    return problem.n, problem.d_out, problem.h_out, problem.w_out


def _strides(problem: ConvProblem) -> tuple[int, int, int]:
    return problem.stride_d, problem.stride_h, problem.stride_w


def _dilations(problem: ConvProblem) -> tuple[int, int, int]:
    return problem.dilation_d, problem.dilation_h, problem.dilation_w


def _input_shape(problem: ConvProblem) -> tuple[int, ...]:
    return problem.n, problem.c_in, problem.d_in, problem.h_in, problem.w_in


def _output_shape(problem: ConvProblem) -> tuple[int, ...]:
    return problem.n, problem.c_out, problem.d_out, problem.h_out, problem.w_out


def _weight_shape(problem: ConvProblem) -> tuple[int, ...]:
    return problem.c_out, problem.c_in // problem.groups, problem.k_d, problem.k_h, problem.k_w


def _check_shape(name: str, array: Array, expected: tuple[int, ...]) -> None:
    if array.shape != expected:
        raise ValueError(f"{name} has shape {list(array.shape)}, the problem needs {list(expected)}")
