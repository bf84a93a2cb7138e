"""The arguments of a forward convolution as plain data, null pointers included."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.frozen import frozen
from ascend_sim.ops.arguments import IntArray, TensorArg, freeze_integers
from ascend_sim.ops.problem.normal import Axis, Normalised, assemble, given, paired_padding


@frozen
class ForwardCall:
    """Arguments in the order of torch's convolution, then cubeMathType and the output; None is a null pointer.

    `weight` is [C_out, C_in / groups, k...], transposed [C_in, C_out / groups, k...]. `bias` [C_out] may be null.
    """

    input: TensorArg | None
    weight: TensorArg | None
    bias: TensorArg | None
    stride: IntArray | None
    padding: IntArray | None
    dilation: IntArray | None
    transposed: bool
    output_padding: IntArray | None
    groups: int
    cube_math_type: int
    output: TensorArg | None

    def __post_init__(self) -> None:
        for name in ("stride", "padding", "dilation", "output_padding"):
            freeze_integers(self, name)

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """Return the output shape [N, C_out, spatial...] that the other arguments give; None if input or weight is null, ranks
        and lengths do not fit each other, or a stride or dilation is below 1.

        A size is below 1 if no window fits the input.
        """
        if self.input is None or self.weight is None or min(self.input.rank, self.weight.rank) < 3:
            return None
        weight, spatial = self.weight.shape, self.weight.rank - 2
        pads = paired_padding(self.padding or (), spatial)
        lists: tuple[Sequence[int], ...] = (self.stride or (), self.dilation or (), self.output_padding or ())
        if self.input.rank != self.weight.rank or any(len(values) != spatial for values in (*lists, pads)):
            return None
        if min((*(self.stride or ()), *(self.dilation or ())), default=1) < 1:
            return None
        sizes = []
        rows = zip(self.input.shape[2:], weight[2:], *lists, pads, strict=True)
        for size, kernel, stride, dilation, extra, (low, high) in rows:
            window = (kernel - 1) * dilation + 1
            if self.transposed:
                sizes.append((size - 1) * stride + window - low - high + extra)
            else:
                sizes.append((size + low + high - window) // stride + 1)
        return (self.input.shape[0], weight[1] * self.groups if self.transposed else weight[0], *sizes)


def normalise(call: ForwardCall) -> Normalised:
    """Return the 3-D problem of a call that passed its checks; x is its input and y its output or, transposed, x its output and
    y its input. AclnnError 161001 for a null tensor.

    1-D and 2-D calls become 3-D with sizes 1 for the axes that they lack. The axis L of 1-D becomes W: with groups that is
    assumed, since there the library puts the L of gradients on H.
    """
    source, output, weight = (
        given(name, tensor) for name, tensor in (("input", call.input), ("output", call.output), ("weight", call.weight))
    )
    x, y = (output, source) if call.transposed else (source, output)
    spatial = weight.rank - 2
    pads = paired_padding(call.padding or (), spatial)
    columns = zip(x.shape[2:], y.shape[2:], weight.shape[2:], call.stride or (), call.dilation or (), pads, strict=True)
    axes = [Axis(xs, ys, ks, s, d, low, high) for xs, ys, ks, s, d, (low, high) in columns]
    by_name = dict(zip(("D", "H", "W")[3 - spatial :], axes, strict=True))
    return assemble(x.shape[0], x.shape[1], y.shape[1], by_name, call.groups, call.transposed, weight.rank)
