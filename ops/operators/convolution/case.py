"""Case files of the forward convolution."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ascend_sim.ops.case_entries import Case, CountedFromOne, Shape, TilingFields, agreed, by_kernel, needed
from ascend_sim.ops.convolution.case import ConvolutionFields, attributes_of, output_shape

CubeKernel = Literal["output"]


class ConvolutionCase(ConvolutionFields, Case):
    """Call of convolution; attributes that are left out are those of a plain convolution of its rank.

    A forward call computes no gradient: `requires_grad` has no effect.
    """

    operator: Literal["convolution"] = Field(description="What is called.")
    tiling: dict[CubeKernel, TilingFields] = Field(default={}, description="The vendor's tiling fields.")  # type: ignore[assignment]
    block_dim: Annotated[dict[CubeKernel, CountedFromOne], by_kernel("block_dim", CubeKernel)] = Field(  # type: ignore[assignment]
        {}, description="Blocks to launch, by cube kernel; a bare number means each."
    )

    @property
    def attributes(self) -> dict[str, Any]:
        return attributes_of(self)

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        dtype = needed("input.dtype", self.input.dtype or self.dtype)
        found = {
            "input": (needed("input.shape", self.input.shape), dtype),
            "weight": (needed("weight.shape", self.weight.shape), self.weight.dtype or self.dtype or dtype),
        }
        channels = output_shape(self, "output", None)[1]
        if self.bias is not None:
            shape = agreed(self, "bias", self.bias.shape, [channels], ["the output channels of weight"])
            found["bias"] = shape, self.bias.dtype or self.dtype or dtype
        return found

    @property
    def results(self) -> dict[str, tuple[Shape, str]]:
        return {"output": (output_shape(self, "output", None), self.tensors["input"][1])}
