"""Case files of the forward convolution."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from ascend_sim.ops.case_entries import (
    Case,
    CountedFromOne,
    CountedFromZero,
    Shape,
    TensorEntry,
    TilingFields,
    agreed,
    blocks_of,
    needed,
)
from ascend_sim.ops.convolution.case import attributes_of, output_shape

CubeKernel = Literal["output"]


class ConvolutionCase(Case):
    """A call of convolution; attributes that are left out are those of a plain convolution of its rank.

    `bias` is false for none, or an entry whose shape and dtype follow where they are left out.
    """

    operator: Literal["convolution"]
    tiling: dict[CubeKernel, TilingFields] = Field({})  # type: ignore[assignment]
    block_dim: Annotated[dict[CubeKernel, CountedFromOne], blocks_of(CubeKernel)] = Field({})  # type: ignore[assignment]
    input: TensorEntry
    weight: TensorEntry
    bias: TensorEntry | Literal[False] = TensorEntry()
    stride: tuple[CountedFromOne, ...] | None = None
    padding: tuple[CountedFromZero, ...] | None = None
    dilation: tuple[CountedFromOne, ...] | None = None
    transposed: StrictBool = False
    output_padding: tuple[CountedFromZero, ...] | None = None
    groups: CountedFromOne = 1

    @property
    def attributes(self) -> dict[str, Any]:
        return attributes_of(self)

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        dtype = needed("input.dtype", self.input.dtype)
        found = {
            "input": (needed("input.shape", self.input.shape), dtype),
            "weight": (needed("weight.shape", self.weight.shape), self.weight.dtype or dtype),
        }
        channels = output_shape(self, "output", None)[1]
        if self.bias is not False:
            shape = agreed("bias", self.bias.shape, [channels], ["the output channels of weight"])
            found["bias"] = shape, self.bias.dtype or dtype
        return found

    @property
    def results(self) -> dict[str, tuple[Shape, str]]:
        return {"output": (output_shape(self, "output", None), self.tensors["input"][1])}
