"""From the arguments of a checked call to one `ConvProblem`, and the output shape that follows from the rest.

1-D and 2-D become 3-D with D = 1. Every call is one convolution x -> y with its weight. Not transposed, x is input and
y gradOutput; transposed, the roles are exchanged: gradInput is that convolution forwards, gradWeight keeps its form.

    not transposed   gradInput[i]  = sum over k of gradOutput[(i + pad_low - k dilation) / stride] weight[k]
    transposed       gradInput[o]  = sum over k of x[o stride - pad_low + k dilation] weight[k]
    both             gradWeight[k] = sum over o of x[o stride - pad_low + k dilation] y[o]

Source: derived from the definition of the convolution; the documents' formulas leave out stride, padding and dilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascend_sim.errors import AclnnError
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.status import Status

__all__ = ["Normalised", "infer_output_shape", "infer_tbc_output_shape", "normalise"]

# The library lays a grouped 1-D convolution out with L on H, except for one tuned dilation (ops-nn e5c3fa93).
_DILATION_WITH_L_ON_W = 45


@dataclass(frozen=True)
class Normalised:
    """A call as one 3-D problem.

    `problem`: x -> y with exact trailing padding (negative where x is larger than what the kernel reaches).
    `transposed`: x is the call's gradOutput and y its input. `rank`: of the caller's tensors (TBC: 3). `spatial_axes`:
    which of D, H, W the caller's spatial axes became, in their order. `declared_padding`: (front, back, up, down, left,
    right) as the caller gave it.
    """

    problem: ConvProblem
    transposed: bool
    rank: int
    spatial_axes: tuple[str, ...]
    declared_padding: tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class _Axis:
    """One spatial axis of x -> y; the default is the axis that a lower rank lacks."""

    x: int = 1
    y: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0

    @property
    def exact_high(self) -> int:
        """Trailing padding with which x has just the elements that y needs."""
        return (self.y - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 - self.x - self.low


def normalise(call: ConvBackwardCall | ConvTbcCall, *, batch_on_width: bool = False) -> Normalised:
    """The problem of a call that passed its checks.

    `batch_on_width` is the layout of TBC on dav-3510 in ops-nn e5c3fa93: T on H and B on W with a kernel of 1;
    otherwise B is the batch and T stands on W. AclnnError 561103 where shapes do not fit each other, 161001 for a null
    tensor. A call of conv backward that is empty, or wants the bias gradient alone, convolves nothing; the library accepts
    some whose sizes do not fit. Their problem has gradOutput's batch, or none.
    """
    if isinstance(call, ConvTbcCall):
        return _normalise_tbc(call, batch_on_width)
    grad_output, input, weight = (
        _given(name, tensor)
        for name, tensor in (("gradOutput", call.grad_output), ("input", call.input), ("weight", call.weight))
    )
    x, y = (grad_output, input) if call.transposed else (input, grad_output)
    spatial_rank = weight.rank - 2
    stride, dilation = call.stride or (), call.dilation or ()
    pads = _paired_padding(call.padding or (), spatial_rank)
    empty = any(tensor.is_empty for tensor in (x, y, weight))
    convolves = not empty and any((call.output_mask or ())[:2])
    lengths = {x.rank - 2, y.rank - 2, spatial_rank, len(stride), len(dilation), len(pads)}
    if not empty and (len(lengths) != 1 or spatial_rank not in (1, 2, 3)):
        raise _misfit(
            f"ranks {x.rank}, {y.rank}, {weight.rank} and attribute lengths {len(stride)}, {len(dilation)}, {len(pads)}"
        )
    if x.shape[0] != y.shape[0] and convolves:
        raise _misfit(f"gradOutput has batch {grad_output.shape[0]}, input {input.shape[0]}")
    if not empty and (y.shape[1] != weight.shape[0] or x.shape[1] != weight.shape[1] * call.groups):
        tensors = f"gradOutput {grad_output.shape}, input {input.shape}, weight {weight.shape}"
        raise _misfit(f"channels of {tensors}, groups {call.groups}")
    columns = zip(x.shape[2:], y.shape[2:], weight.shape[2:], stride, dilation, pads, strict=not empty)
    axes = [_Axis(xs, ys, ks, s, d, low, high) for xs, ys, ks, s, d, (low, high) in columns]
    for axis in axes if convolves else ():
        _check_size(axis)
    names = ("D", "H", "W")[3 - spatial_rank :]
    if spatial_rank == 1 and not (call.transposed or call.groups == 1 or dilation[0] == _DILATION_WITH_L_ON_W):
        names = ("H",)
    by_name = dict(zip(names, axes, strict=not empty))
    batch = 0 if empty else grad_output.shape[0]
    return _assemble(batch, x.shape[1], y.shape[1], by_name, call.groups, call.transposed, weight.rank)


def _normalise_tbc(call: ConvTbcCall, batch_on_width: bool) -> Normalised:
    """[T, B, C] -> one problem with stride, dilation and groups 1."""
    grad_output, input, weight = (
        _given(name, tensor) for name, tensor in (("self", call.self), ("input", call.input), ("weight", call.weight))
    )
    if {grad_output.rank, input.rank, weight.rank} != {3}:
        raise _misfit(f"ranks {grad_output.rank}, {input.rank}, {weight.rank}")
    (t_out, b_out, c_out), (t_in, b_in, c_in), (kernel, w_in, w_out) = grad_output.shape, input.shape, weight.shape
    if (b_out, c_out, c_in) != (b_in, w_out, w_in):
        raise _misfit(f"self {grad_output.shape}, input {input.shape}, weight {weight.shape}")
    time = _Axis(t_in, t_out, kernel, low=call.pad, high=call.pad)
    _check_size(time)
    if batch_on_width:
        return _assemble(1, c_in, c_out, {"H": time, "W": _Axis(b_in, b_in)}, 1, False, 3, ("H",))
    return _assemble(b_in, c_in, c_out, {"W": time}, 1, False, 3)


def _assemble(
    n: int,
    c_in: int,
    c_out: int,
    axes: dict[str, _Axis],
    groups: int,
    transposed: bool,
    rank: int,
    spatial_axes: tuple[str, ...] | None = None,
) -> Normalised:
    d, h, w = (axes.get(name, _Axis()) for name in "DHW")
    problem = ConvProblem(
        n=n, c_in=c_in, c_out=c_out, groups=groups,
        d_in=d.x, h_in=h.x, w_in=w.x,
        d_out=d.y, h_out=h.y, w_out=w.y,
        k_d=d.kernel, k_h=h.kernel, k_w=w.kernel,
        stride_d=d.stride, stride_h=h.stride, stride_w=w.stride,
        dilation_d=d.dilation, dilation_h=h.dilation, dilation_w=w.dilation,
        pad_front=d.low, pad_back=d.exact_high,
        pad_up=h.low, pad_down=h.exact_high,
        pad_left=w.low, pad_right=w.exact_high,
    )  # fmt: skip
    declared = (d.low, d.high, h.low, h.high, w.low, w.high)
    return Normalised(problem, transposed, rank, spatial_axes or tuple(axes), declared)


def infer_output_shape(
    input_shape: Sequence[int],
    weight_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool = False,
    output_padding: Sequence[int] | None = None,
    groups: int = 1,
) -> tuple[int, ...]:
    """Shape of gradOutput, [N, C_out, spatial...], from the other arguments of a convolution.

    `weight_shape` [C_out, C_in/groups, k...], transposed [C_in, C_out/groups, k...]; padding one value per axis, or 4
    in 2-D (up, down, left, right). AclnnError 161002 when lengths do not fit or an axis would have no element.
    """
    spatial_rank = len(weight_shape) - 2
    pads = _paired_padding(padding, spatial_rank)
    extra = tuple(output_padding) if output_padding is not None else (0,) * spatial_rank
    lists = (tuple(input_shape)[2:], tuple(weight_shape)[2:], stride, dilation, pads, extra)
    if spatial_rank < 1 or any(len(values) != spatial_rank for values in lists):
        shapes = f"input {list(input_shape)}, weight {list(weight_shape)}"
        raise AclnnError(
            Status.PARAM_INVALID, f"{shapes}: every attribute needs rank - 2 values (padding also 4 in 2-D)"
        )
    if min((*stride, *dilation)) < 1:
        raise AclnnError(
            Status.PARAM_INVALID, f"stride {list(stride)}, dilation {list(dilation)}: every value must be at least 1"
        )
    sizes = []
    for size, kernel, s, d, (low, high), added in zip(*lists, strict=True):
        window = (kernel - 1) * d + 1
        out = (size - 1) * s + window - low - high + added if transposed else (size + low + high - window) // s + 1
        if out < 1:
            limits = f"input {size}, padding {low} and {high}, dilated kernel {window}"
            raise AclnnError(
                Status.PARAM_INVALID, f"gradOutput would have {out} elements on an axis ({limits}): at least 1"
            )
        sizes.append(out)
    channels = weight_shape[1] * groups if transposed else weight_shape[0]
    return (input_shape[0], channels, *sizes)


def infer_tbc_output_shape(input_shape: Sequence[int], weight_shape: Sequence[int], pad: int) -> tuple[int, int, int]:
    """Shape of self, [T_in + 2 pad - K + 1, B, C_out], of a TBC convolution; AclnnError 161002 when nothing fits."""
    if len(input_shape) != 3 or len(weight_shape) != 3:
        raise AclnnError(
            Status.PARAM_INVALID, f"input {list(input_shape)}, weight {list(weight_shape)}: both need rank 3"
        )
    time = input_shape[0] + 2 * pad - weight_shape[0] + 1
    if time < 0:
        raise AclnnError(
            Status.PARAM_INVALID, f"self would have T = {time} (input {list(input_shape)}, pad {pad}): at least 0"
        )
    return (time, input_shape[1], weight_shape[2])


def _paired_padding(padding: Sequence[int], spatial_rank: int) -> list[tuple[int, int]]:
    """Low and high padding per axis; 4 values in 2-D are up, down, left, right."""
    if spatial_rank == 2 and len(padding) == 4:
        return [(padding[0], padding[1]), (padding[2], padding[3])]
    return [(value, value) for value in padding]


def _check_size(axis: _Axis) -> None:
    """y = floor((x + paddings - window) / stride) + 1; a map that is empty is nobody's problem here."""
    window = (axis.kernel - 1) * axis.dilation + 1
    expected = (axis.x + axis.low + axis.high - window) // axis.stride + 1
    if axis.x and axis.y and axis.y != expected:
        raise _misfit(
            f"an axis of {axis.x} gives {expected} with kernel window {window}, stride {axis.stride}, not {axis.y}"
        )


def _given(name: str, tensor: TensorArg | None) -> TensorArg:
    if tensor is None:
        raise AclnnError(Status.PARAM_NULLPTR, f"{name} is a null pointer")
    return tensor


def _misfit(what: str) -> AclnnError:
    return AclnnError(Status.INNER_NULLPTR, f"shapes do not fit one convolution: {what}")
