"""The formula of one element of a gradient: which numbers of the caller's tensors are multiplied, from the definition alone.

    not transposed   grad_input[i]  = sum over k of grad_output[(i + pad - k dilation) / stride] weight[k]
    transposed       grad_input[o]  = sum over k of grad_output[o stride - pad + k dilation] weight[k]
    both             grad_weight[k] = sum over o of x[o stride - pad + k dilation] y[o]

Nothing here knows of kernels or layouts; a run is compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.operators.convolution_backward.verdicts import in_problem_order
from ascend_sim.ops.problem.conv_problem import ConvProblem

Array = NDArray[Any]


@dataclass(frozen=True)
class Formula:
    """The products of one element: `left[i]` is an index into the caller's tensor `left_name` taken flat, `right[i]` one
    into `right_name`; `place` is the element in the problem, (n, c, d, h, w) or (co, ci, kd, kh, kw)."""

    gradient: str
    place: tuple[int, ...]
    left_name: str
    right_name: str
    left: NDArray[np.int64]
    right: NDArray[np.int64]

    def turned(self) -> Formula:
        """The same with left and right exchanged."""
        return Formula(self.gradient, self.place, self.right_name, self.left_name, self.right, self.left)


def formula(
    call: AcceptedCall, gradient: str, shapes: Mapping[str, tuple[int, ...]], index: tuple[int, ...]
) -> Formula:
    """The products of element `index` of "grad_input" or "grad_weight"; `shapes` are the caller's, `index` in his order."""
    numbers = _numbers(call, shapes)
    p = call.problem
    flat = int(np.ravel_multi_index(index, shapes["input" if gradient == "grad_input" else "weight"]))
    own = numbers["input" if gradient == "grad_input" else "weight"]
    place = tuple(int(axis[0]) for axis in np.nonzero(own == flat))
    if gradient == "grad_weight":
        left, right = _of_weight(p, place, numbers[call.y], numbers[call.x])
        return Formula(gradient, place, call.y, call.x, left, right)
    of_input = _of_input_transposed if call.transposed else _of_input
    left, right = of_input(p, place, numbers["grad_output"], numbers["weight"])
    return Formula(gradient, place, "grad_output", "weight", left, right)


def places(call: AcceptedCall, tensor: str, shape: tuple[int, ...], flat: Array) -> tuple[Array, ...]:
    """Flat indices into the caller's tensor as places in the problem: (n, c, d, h, w), of a weight (co, ci, kd, kh, kw).

    A gradient has the places of its tensor: "grad_input" those of "input".
    """
    name = {"grad_input": "input", "grad_weight": "weight"}.get(tensor, tensor)
    index: tuple[Array, ...] = np.unravel_index(flat, shape)
    p = call.problem
    volume = (p.c_out, p.c_in // p.groups, p.k_d, p.k_h, p.k_w) if name == "weight" else call.volume(name)
    if call.axes is not None:
        order = tuple(reversed(range(len(shape)))) if name == "weight" else call.axes
        index, shape = tuple(index[axis] for axis in order), tuple(shape[axis] for axis in order)
    return np.unravel_index(np.ravel_multi_index(index, shape), volume)


def _numbers(call: AcceptedCall, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Every tensor's flat indices, as 5-D volumes of the problem."""
    p = call.problem
    plain = {name: np.arange(int(np.prod(shape))).reshape(shape) for name, shape in shapes.items()}
    ordered = in_problem_order(call, plain)
    weight = (p.c_out, p.c_in // p.groups, p.k_d, p.k_h, p.k_w)
    return {name: a.reshape(weight if name == "weight" else call.volume(name)) for name, a in ordered.items()}


def _axes(p: ConvProblem) -> tuple[tuple[int, ...], ...]:
    """stride, dilation, padding in front, kernel, size of x and size of y, along (D, H, W) each."""
    return (
        (p.stride_d, p.stride_h, p.stride_w),
        (p.dilation_d, p.dilation_h, p.dilation_w),
        (p.pad_front, p.pad_up, p.pad_left),
        (p.k_d, p.k_h, p.k_w),
        (p.d_in, p.h_in, p.w_in),
        (p.d_out, p.h_out, p.w_out),
    )


def _pairs(axes: list[tuple[Array, Array]]) -> tuple[list[Array], list[Array]]:
    """All combinations of the pairs (first, second) of several axes, flat."""
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


def _of_input_transposed(p: ConvProblem, place: tuple[int, ...], x: Array, weight: Array) -> tuple[Array, Array]:
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
