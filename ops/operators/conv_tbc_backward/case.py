"""Case files of conv_tbc_backward."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ascend_sim.ops.case_entries import (
    CountedFromZero,
    Dtype,
    FileEntry,
    InputEntry,
    Shape,
    TensorEntry,
    agreed,
    contradiction,
    needed,
    output_size,
)
from ascend_sim.ops.operators.convolution_backward.case import GradientCase


class ConvTbcFields(FileEntry):
    """Fields for the arguments of a convolution over time, shared by cases and by layers of a network."""

    input: InputEntry = Field(description="[T_in, B, C_in].")
    weight: InputEntry = Field(description="[K, C_in, C_out].")
    bias: InputEntry = Field(default=InputEntry(), description="[C_out].")
    pad: CountedFromZero = Field(default=0, description="Steps of zeros before and behind.")


class ConvTbcBackwardCase(ConvTbcFields, GradientCase):
    """Call of conv_tbc_backward, which makes all three gradients; `requires_grad: false` is refused."""

    operator: Literal["conv_tbc_backward"] = Field(description="What is called.")
    self_: TensorEntry = Field(default=TensorEntry(), alias="self", description="The output's gradient, [T_out, B, C_out].")
    grad_weight_dtype: Dtype | None = Field(default=None, description="Of gradWeight, where it is another than weight's.")

    @property
    def attributes(self) -> dict[str, Any]:
        return {"pad": self.pad, "grad_weight_dtype": self.grad_weight_dtype}

    @property
    def tensors(self) -> dict[str, tuple[Shape, str]]:
        dtype = needed("input.dtype", self.input.dtype or self.dtype)
        for name in ("input", "weight", "bias"):
            if not getattr(self, name).requires_grad:
                raise ValueError(f"{name}.requires_grad: false given; conv_tbc_backward makes all three gradients")
        input_shape = needed("input.shape", self.input.shape)
        weight_shape = needed("weight.shape", self.weight.shape)
        for name, shape, axes in (("input", input_shape, "T_in, B, C_in"), ("weight", weight_shape, "K, C_in, C_out")):
            if len(shape) != 3:
                contradiction(self, f"{name}.shape: {list(shape)} given; allowed: three axes [{axes}]")
        kernel, c_in, c_out = (*weight_shape, 1, 1, 1)[:3]
        steps, batch, channels = (*input_shape, 1, 1, 1)[:3]
        if channels != c_in:
            contradiction(self, f"input.shape: {channels} channels given; weight.shape[1] is {c_in}")
        size, formula = output_size(self, "T", steps, kernel, 1, (self.pad, self.pad), 1, None)
        shape = [size, batch, c_out]
        formulas = [formula, "the batch of input", "the output channels of weight"]
        return {
            "self": (agreed(self, "self", self.self_.shape, shape, formulas), self.self_.dtype or self.dtype or dtype),
            "input": (input_shape, dtype),
            "weight": (weight_shape, self.weight.dtype or self.dtype or dtype),
            "bias": (agreed(self, "bias", self.bias.shape, [c_out], formulas[2:]), self.bias.dtype or self.dtype or dtype),
        }

    @property
    def results(self) -> dict[str, tuple[Shape, str]]:
        _, data, (weight, dtype), bias = self.tensors.values()
        return {"grad_input": data, "grad_weight": (weight, self.grad_weight_dtype or dtype), "grad_bias": bias}
