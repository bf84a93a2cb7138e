"""Normalisation common to the convolutions: from the spatial axes of a call to one 3-D problem."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.errors import AclnnError
from ascend_sim.frozen import frozen
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.status import Status


@frozen
class Normalised:
    """Result of normalising a call: one 3-D problem, and how the caller's axes became it.

    `problem`: x -> y with exact trailing padding (negative where x is larger than what the kernel reaches).
    `transposed`: x is the call's (grad) output and y its input. `rank`: of the caller's tensors (TBC: 3). `spatial_axes`:
    those of D, H, W that the caller's spatial axes became, in their order. `declared_padding`: (front, back, up, down,
    left, right) as the caller gave it.
    """

    problem: ConvProblem
    transposed: bool
    rank: int
    spatial_axes: tuple[str, ...]
    declared_padding: tuple[int, int, int, int, int, int]


@frozen
class Axis:
    """One spatial axis of x -> y: sizes, kernel, stride, dilation, and padding before (`low`) and behind (`high`) x.
    The defaults are those of an axis that a lower rank lacks.
    """

    x: int = 1
    y: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0

    @property
    def exact_high(self) -> int:
        """Return the trailing padding with which x is just as long as y needs, in place of `high`; negative if x is longer."""
        return (self.y - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 - self.x - self.low


def assemble(
    n: int,
    c_in: int,
    c_out: int,
    axes: dict[str, Axis],
    groups: int,
    transposed: bool,
    rank: int,
    spatial_axes: tuple[str, ...] | None = None,
) -> Normalised:
    """Return the normalised call, unchecked: its 3-D problem x -> y from `axes` by name ("D", "H", "W"), of which a missing one
    has size 1 and no padding.

    Trailing padding becomes exact (`Axis.exact_high`). `rank` is that of the caller's tensors. `spatial_axes` None: the keys of
    `axes`.
    """
    d, h, w = (axes.get(name, Axis()) for name in "DHW")
    problem = ConvProblem(
        n=n,
        c_in=c_in,
        c_out=c_out,
        groups=groups,
        d_in=d.x,
        h_in=h.x,
        w_in=w.x,
        d_out=d.y,
        h_out=h.y,
        w_out=w.y,
        k_d=d.kernel,
        k_h=h.kernel,
        k_w=w.kernel,
        stride_d=d.stride,
        stride_h=h.stride,
        stride_w=w.stride,
        dilation_d=d.dilation,
        dilation_h=h.dilation,
        dilation_w=w.dilation,
        pad_front=d.low,
        pad_back=d.exact_high,
        pad_up=h.low,
        pad_down=h.exact_high,
        pad_left=w.low,
        pad_right=w.exact_high,
    )
    declared = (d.low, d.high, h.low, h.high, w.low, w.high)
    return Normalised(problem, transposed, rank, spatial_axes or tuple(axes), declared)


def paired_padding(padding: Sequence[int], spatial_rank: int) -> list[tuple[int, int]]:
    """Return (low, high) padding of each axis: each value for both sides, but 4 values in 2-D are up, down, left, right."""
    if spatial_rank == 2 and len(padding) == 4:
        return [(padding[0], padding[1]), (padding[2], padding[3])]
    return [(value, value) for value in padding]


def check_size(axis: Axis) -> None:
    """Raise AclnnError (INNER_NULLPTR) unless y = floor((x + paddings - window) / stride) + 1; an axis with x or y 0 passes."""
    window = (axis.kernel - 1) * axis.dilation + 1
    expected = (axis.x + axis.low + axis.high - window) // axis.stride + 1
    if axis.x and axis.y and axis.y != expected:
        raise misfit(f"an axis of {axis.x} gives {expected} with kernel window {window}, stride {axis.stride}, not {axis.y}")


def given(name: str, tensor: TensorArg | None) -> TensorArg:
    """Return `tensor`; raises AclnnError (PARAM_NULLPTR) that names it if it is None."""
    if tensor is None:
        raise AclnnError(Status.PARAM_NULLPTR, f"{name} is a null pointer")
    return tensor


def misfit(what: str) -> AclnnError:
    """Return, not raise, the AclnnError (INNER_NULLPTR) for shapes that do not fit one convolution; `what` says which."""
    return AclnnError(Status.INNER_NULLPTR, f"shapes do not fit one convolution: {what}")
