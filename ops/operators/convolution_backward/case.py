"""Case files of convolution_backward."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.case_entries import (
    Case,
    CountedFromOne,
    CountedFromZero,
    Shape,
    TensorEntry,
    TilingFields,
    agreed,
    by_kernel,
    needed,
)
from ascend_sim.ops.convolution.case import ConvolutionFields, attributes_of, output_shape

CubeKernel = Literal["grad_input", "grad_weight"]


class GradientCase(Case):
    """Base of the cases of operators with the cube kernels grad_input and grad_weight, which have tilings and blocks."""

    tiling: Annotated[dict[CubeKernel, TilingFields], by_kernel("tiling")] = Field(  # type: ignore[assignment]
        default={}, description="The vendor's tiling fields, by cube kernel."
    )
    block_dim: Annotated[dict[CubeKernel, CountedFromOne], by_kernel("block_dim", CubeKernel)] = Field(  # type: ignore[assignment]
        {}, description="Blocks to launch, by cube kernel; a bare number means each."
    )


class ConvolutionBackwardCase(ConvolutionFields, GradientCase):
    """Call of convolution_backward; left-out attributes are those of a plain convolution. Of `bias` only shape and
    `requires_grad` count.
    """

    operator: Literal["convolution_backward"] = Field(description="What is called.")
    grad_output: TensorEntry = Field(default=TensorEntry(), description="[N, C_out, spatial...].")
    bias_sizes: tuple[CountedFromZero, ...] | None = Field(default=None, description="Left out: [C_out].")
    output_mask: Annotated[tuple[StrictBool, ...], Field(min_length=3, max_length=3)] | None = Field(
        default=None,
        description="Which gradients are computed, of input, weight and bias. Left out: those with `requires_grad`.",
    )

    @property
    def attributes(self) -> dict[str, Any]:
        sizes = self.bias_sizes
        if self.as_given and sizes is None and self.bias is not None:
            sizes = self.bias.shape  # may contradict weight, for the call to refuse
        return {"bias_sizes": sizes, **attributes_of(self), "output_mask": self.mask}

    @property
    def mask(self) -> tuple[bool, ...]:
        """Return, for (input, weight, bias), True if its gradient is computed: `output_mask`, or for None each tensor's
        `requires_grad`, False without a bias.

        ValueError where `output_mask` asks for a gradient that `requires_grad` leaves out, unless the case is read `as_given`.
        """
        asked = tuple(entry is not None and entry.requires_grad for entry in (self.input, self.weight, self.bias))
        if self.output_mask is None:
            return asked
        if self.as_given:
            return self.output_mask
        if any(wanted and not ask for wanted, ask in zip(self.output_mask, asked, strict=True)):
            raise ValueError(f"output_mask: {list(self.output_mask)} given; requires_grad and bias leave {list(asked)}")
        return self.output_mask

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        dtype = needed("input.dtype", self.input.dtype or self.dtype)
        input_shape = needed("input.shape", self.input.shape)
        weight_shape = needed("weight.shape", self.weight.shape)
        shape = output_shape(self, "grad_output", self.grad_output.shape)
        if self.bias is not None:
            agreed(self, "bias", self.bias.shape, [shape[1]], ["the output channels of weight"])
        _ = self.mask
        return {
            "grad_output": (shape, self.grad_output.dtype or self.dtype or dtype),
            "input": (input_shape, dtype),
            "weight": (weight_shape, self.weight.dtype or self.dtype or dtype),
        }

    @property
    def results(self) -> dict[str, tuple[Shape, str]]:
        (gradient, gradient_dtype), data, (weight, dtype) = self.tensors.values()
        found = {
            "grad_input": data,
            "grad_weight": (weight, "float32" if dtype in EIGHT_BIT else dtype),
            "grad_bias": (gradient[1:2], gradient_dtype),
        }
        return {name: made for (name, made), wanted in zip(found.items(), self.mask, strict=True) if wanted}
