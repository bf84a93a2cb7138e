"""Facts of one call for the rules of convolution backward, each computed in one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ascend_sim.numerics.cube_math import promote
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.checks.common import CallFacts, known
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall


class Named(NamedTuple):
    """A tensor and the name of its argument in the document ("gradOutput")."""

    name: str
    tensor: TensorArg


class Spatial(NamedTuple):
    """One spatial axis of the convolution x -> y: name `axis` ("D", "H", "W" or "L"), sizes in elements, and attributes."""

    axis: str
    x: int
    y: int
    kernel: int
    stride: int
    dilation: int
    pad_low: int
    pad_high: int
    output_padding: int

    @property
    def window(self) -> int:
        """Return the extent of the dilated kernel."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """Return the size of x with its declared padding."""
        return self.x + self.pad_low + self.pad_high


class ConvFacts(CallFacts):
    """Facts of one call of convolution backward and its product's limits, for the rules.

    `x` and `y` are the input and output map of the convolution that the weight belongs to: input and gradOutput, exchanged when
    transposed. A property may be read only after the rules on which it relies have passed: first null pointers, then ranks.
    """

    call: ConvBackwardCall

    # -- tensors ------------------------------------------------------------------------------------------------------

    @property
    def grad_output(self) -> TensorArg:
        return known(self.call.grad_output)

    @property
    def input(self) -> TensorArg:
        return known(self.call.input)

    @property
    def weight(self) -> TensorArg:
        return known(self.call.weight)

    @property
    def x(self) -> TensorArg:
        return self.grad_output if self.call.transposed else self.input

    @property
    def y(self) -> TensorArg:
        return self.input if self.call.transposed else self.grad_output

    @property
    def x_name(self) -> str:
        return "gradOutput" if self.call.transposed else "input"

    @property
    def y_name(self) -> str:
        return "input" if self.call.transposed else "gradOutput"

    @property
    def inputs(self) -> list[Named]:
        return [Named("gradOutput", self.grad_output), Named("input", self.input), Named("weight", self.weight)]

    @property
    def outputs(self) -> list[Named]:
        """Return (name, tensor) for each output that is not null."""
        named = (("gradInput", self.call.grad_input), ("gradWeight", self.call.grad_weight), ("gradBias", self.call.grad_bias))
        return [Named(name, tensor) for name, tensor in named if tensor is not None]

    @property
    def maps(self) -> list[Named]:
        """Return (name, tensor) for each non-null tensor but gradBias, weights included: those that must have the rank of the
        convolution.
        """
        return self.inputs + [entry for entry in self.outputs if entry.name != "gradBias"]

    @property
    def mask(self) -> tuple[bool, ...]:
        return self.call.output_mask or ()

    # -- dtypes -------------------------------------------------------------------------------------------------------

    @property
    def promoted(self) -> str | None:
        """Return the common dtype of the inputs, None if there is none.

        Where 8-bit rules hold, inputs without a common dtype (which pass only for gradBias) count as float32 (library).
        """
        common = promote(self.grad_output.dtype, self.input.dtype, self.weight.dtype)
        return "float32" if common is None and self.has("eight_bit_rules") else common

    # -- shapes -------------------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        return self.input.rank

    @property
    def some_empty(self) -> bool:
        return any(entry.tensor.is_empty for entry in self.inputs)

    @property
    def skips_shape_rules(self) -> bool:
        """Return True if input or weight is empty and the library on this product skips the shape rules for such calls.

        Later rules of the library (`tail`) check them instead.
        """
        return self.has("empty_skips_shape_rules") and (self.input.is_empty or self.weight.is_empty)

    @property
    def axes(self) -> str:
        """Return the spatial axes of the input, one letter each: "L", "HW" or "DHW"; "" for any other rank."""
        return {3: "L", 4: "HW", 5: "DHW"}.get(self.rank, "")

    @property
    def pads(self) -> list[tuple[int, int]]:
        """Return (low, high) for each value of the padding, [] for null; 4 values in 2-D are up, down, left, right.

        A padding of another length than the axes gives as many pairs as it has values.
        """
        padding = self.call.padding or ()
        if self.rank == 4 and len(padding) == 4:
            return [(padding[0], padding[1]), (padding[2], padding[3])]
        return [(value, value) for value in padding]

    def spatial(self) -> Iterator[Spatial]:
        """Yield the facts of each spatial axis; axes behind the end of the shortest attribute or shape are left out."""
        columns = zip(
            self.axes,
            self.x.shape[2:],
            self.y.shape[2:],
            self.weight.shape[2:],
            self.call.stride or (),
            self.call.dilation or (),
            self.pads,
            self.call.output_padding or (),
            strict=False,
        )
        for axis, x, y, kernel, stride, dilation, (low, high), extra in columns:
            yield Spatial(axis, x, y, kernel, stride, dilation, low, high, extra)
