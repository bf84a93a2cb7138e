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
    blocks_of,
    needed,
)
from ascend_sim.ops.convolution.case import attributes_of, output_shape

CubeKernel = Literal["grad_input", "grad_weight"]


class GradientCase(Case):
    """A call whose cube kernels are those of the two gradients."""

    tiling: dict[CubeKernel, TilingFields] = Field({})  # type: ignore[assignment]
    block_dim: Annotated[dict[CubeKernel, CountedFromOne], blocks_of(CubeKernel)] = Field({})  # type: ignore[assignment]


class ConvolutionBackwardCase(GradientCase):
    """A call of convolution_backward; attributes that are left out are those of a plain convolution of its rank."""

    operator: Literal["convolution_backward"]
    grad_output: TensorEntry = TensorEntry()
    input: TensorEntry
    weight: TensorEntry
    bias_sizes: tuple[CountedFromZero, ...] | None = None
    stride: tuple[CountedFromOne, ...] | None = None
    padding: tuple[CountedFromZero, ...] | None = None
    dilation: tuple[CountedFromOne, ...] | None = None
    transposed: StrictBool = False
    output_padding: tuple[CountedFromZero, ...] | None = None
    groups: CountedFromOne = 1
    output_mask: Annotated[tuple[StrictBool, ...], Field(min_length=3, max_length=3)] = (True, True, True)

    @property
    def attributes(self) -> dict[str, Any]:
        return {"bias_sizes": self.bias_sizes, **attributes_of(self), "output_mask": self.output_mask}

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        dtype = needed("input.dtype", self.input.dtype)
        input_shape = needed("input.shape", self.input.shape)
        weight_shape = needed("weight.shape", self.weight.shape)
        shape = output_shape(self, "grad_output", self.grad_output.shape)
        return {
            "grad_output": (shape, self.grad_output.dtype or dtype),
            "input": (input_shape, dtype),
            "weight": (weight_shape, self.weight.dtype or dtype),
        }

    @property
    def results(self) -> dict[str, tuple[Shape, str]]:
        (gradient, gradient_dtype), data, (weight, dtype) = self.tensors.values()
        found = {
            "grad_input": data,
            "grad_weight": (weight, "float32" if dtype in EIGHT_BIT else dtype),
            "grad_bias": (gradient[1:2], gradient_dtype),
        }
        return {name: made for (name, made), wanted in zip(found.items(), self.output_mask, strict=True) if wanted}
