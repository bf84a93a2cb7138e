"""The formula of one element: the elements of the caller's tensors that are multiplied, from the definition alone.

Of the convolution x -> y with a weight:

    forward    y[o]      = sum over k of x[o stride - pad + k dilation] weight[k]
    data       x[i]      = sum over k of y[(i + pad - k dilation) / stride] weight[k]
    filter     weight[k] = sum over o of x[o stride - pad + k dilation] y[o]

Nothing here knows of kernels or layouts; a run is compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascend_sim.frozen import frozen
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.problem.conv_problem import ConvProblem

Array = NDArray[Any]


@frozen
class Formula:
    """Products of one output element: product i is element `left[i]` of tensor `left_name` times element `right[i]` of
    `right_name` (flat indices into the caller's tensors).

    `place` is the element's position in the problem: (n, c, d, h, w), in dW (co, ci, kd, kh, kw). `kind` is "forward" (y from
    x), "data" (x from y) or "filter" (dW from x and y). `added` is (tensor, flat index) of an element that is added to the
    products, or None. Products with padding are left out.
    """

    output: str
    kind: Literal["forward", "data", "filter"]
    place: tuple[int, ...]
    left_name: str
    right_name: str
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    added: tuple[str, int] | None = None

    def turned(self) -> Formula:
        """Return the formula with the two factors of each product exchanged; `kind`, `place` and `added` stay."""
        return replace(self, left_name=self.right_name, right_name=self.left_name, left=self.right, right=self.left)


def formula(call: ConvolutionCall, output: str, shapes: Mapping[str, tuple[int, ...]], index: tuple[int, ...]) -> Formula:
    """Return the products of element `index` of `output`: the map that the data kernel makes, or the weight's gradient. A bias
    that is added is not in it.

    `shapes` are those of the caller's tensors, and `index` counts in the caller's order of axes.
    """
    numbers = _numbers(call, shapes)
    p = call.problem
    own = call.maps.like if output == call.maps.made else "weight"
    flat = int(np.ravel_multi_index(index, shapes[own]))
    place = tuple(int(axis[0]) for axis in np.nonzero(numbers[own] == flat))
    if own == "weight":
        left, right = _of_weight(p, place, numbers[call.y], numbers[call.x])
        return Formula(output, "filter", place, call.y, call.x, left, right)
    source = call.maps.read
    of_map = _forward if call.forward else _of_input
    left, right = of_map(p, place, numbers[source], numbers["weight"])
    return Formula(output, "forward" if call.forward else "data", place, source, "weight", left, right)


def places(call: ConvolutionCall, tensor: str, shape: tuple[int, ...], flat: Array) -> tuple[Array, ...]:
    """Return the positions in the problem of elements of the caller's tensor `tensor`, given by `flat` indices: one
    array for each of the five axes.

    The axes are (n, c, d, h, w), for a weight or dW (co, ci, kd, kh, kw). `shape` is the caller's.
    """
    name = like(call, tensor)
    index: tuple[Array, ...] = np.unravel_index(flat, shape)
    volume = call.weight_volume if name == "weight" else call.volume(name)
    if call.axes is not None:
        order = tuple(reversed(range(len(shape)))) if name == "weight" else call.axes
        index, shape = tuple(index[axis] for axis in order), tuple(shape[axis] for axis in order)
    return np.unravel_index(np.ravel_multi_index(index, shape), volume)


def like(call: ConvolutionCall, tensor: str) -> str:
    """Return the name of the tensor of the shape of output `tensor`: `maps.like`, or "weight"; any other name unchanged."""
    return {call.maps.made: call.maps.like, "grad_weight": "weight"}.get(tensor, tensor)


def _numbers(call: ConvolutionCall, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return name -> 5-D array in the problem's order for both maps and the weight; elements are the caller's flat indices."""
    names = (call.maps.read, call.maps.like, "weight")
    plain = {name: np.arange(int(np.prod(shapes[name]))).reshape(shapes[name]) for name in names}
    ordered = call.in_problem_order(plain)
    return {n: a.reshape(call.weight_volume if n == "weight" else call.volume(n)) for n, a in ordered.items()}


def _axes(p: ConvProblem) -> tuple[tuple[int, ...], ...]:
    """Return the (D, H, W) of each of: stride, dilation, padding in front, kernel, size of x, size of y."""
    return (
        (p.stride_d, p.stride_h, p.stride_w),
        (p.dilation_d, p.dilation_h, p.dilation_w),
        (p.pad_front, p.pad_up, p.pad_left),
        (p.k_d, p.k_h, p.k_w),
        (p.d_in, p.h_in, p.w_in),
        (p.d_out, p.h_out, p.w_out),
    )


def _pairs(axes: list[tuple[Array, Array]]) -> tuple[list[Array], list[Array]]:
    """Return two lists, (first, second), with one flat index array for each axis, over all combinations of one pair from each
    axis.
    """
    choice = np.meshgrid(*(np.arange(len(first)) for first, _ in axes), indexing="ij")
    taken = [grid.ravel() for grid in choice]
    return (
        [first[index] for (first, _), index in zip(axes, taken, strict=True)],
        [second[index] for (_, second), index in zip(axes, taken, strict=True)],
    )


def _of_input(p: ConvProblem, place: tuple[int, ...], gradient: Array, weight: Array) -> tuple[Array, Array]:
    n, c, *at = place
    group, channel = divmod(c, p.c_in // p.groups)
    channels = np.arange(p.c_out // p.groups) + group * (p.c_out // p.groups)
    axes = [(channels, channels)]
    for i, stride, dilation, pad, taps, _, size in zip(at, *_axes(p), strict=True):
        tap = np.arange(taps)
        position = i + pad - tap * dilation
        met = (position % stride == 0) & (position >= 0) & (position < size * stride)
        axes.append((position[met] // stride, tap[met]))
    (co, *positions), (_, *tap_index) = _pairs(axes)
    return gradient[(n, co, *positions)], weight[(co, channel, *tap_index)]


def _forward(p: ConvProblem, place: tuple[int, ...], x: Array, weight: Array) -> tuple[Array, Array]:
    n, c, *at = place
    per_group = p.c_in // p.groups
    first = c // (p.c_out // p.groups) * per_group
    axes = [(np.arange(first, first + per_group), np.arange(per_group))]
    for o, stride, dilation, pad, taps, size, _ in zip(at, *_axes(p), strict=True):
        tap = np.arange(taps)
        position = o * stride - pad + tap * dilation
        met = (position >= 0) & (position < size)
        axes.append((position[met], tap[met]))
    (channels, *positions), (within, *tap_index) = _pairs(axes)
    return x[(n, channels, *positions)], weight[(c, within, *tap_index)]


def _of_weight(p: ConvProblem, place: tuple[int, ...], y: Array, x: Array) -> tuple[Array, Array]:
    co, ci, *taps_at = place
    channel = co // (p.c_out // p.groups) * (p.c_in // p.groups) + ci
    images = np.arange(p.n)
    axes = [(images, images)]
    for k, stride, dilation, pad, _, size, count in zip(taps_at, *_axes(p), strict=True):
        o = np.arange(count)
        position = o * stride - pad + k * dilation
        met = (position >= 0) & (position < size)
        axes.append((o[met], position[met]))
    (n, *outputs), (_, *positions) = _pairs(axes)
    return y[(n, co, *outputs)], x[(n, channel, *positions)]
