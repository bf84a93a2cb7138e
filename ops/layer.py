"""A layer of a network: the arguments of one convolution under the names of case files, for its forward or backward pass."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from ascend_sim.ops.case_entries import CountedFromZero, FileEntry, FormatName
from ascend_sim.ops.convolution.case import ConvolutionFields

OVER_TIME = "conv_tbc"
"""The kind of layer whose tensors are [T, B, C]."""
Kind = Literal["conv", "conv_tbc"]


class Layer(ConvolutionFields, FileEntry):
    """One layer of a network; its shapes hold the batch, on the first axis of input, for conv_tbc on the second.

    Entries that are left out have the defaults of a case of its operator.
    """

    name: str = Field(description="Of its own in the network.")
    kind: Kind = Field(default="conv", description="conv_tbc: tensors [T, B, C], with `pad` in place of torch's attributes.")
    dtype: FormatName = Field(default=None, description="Of every tensor that names none.")
    pad: CountedFromZero = Field(default=0, description="Of conv_tbc: steps of zeros before and behind.")
    cube_math_type: Annotated[int, Field(strict=True)] = Field(
        default=0, description="What the cube computes in: 0 keep, 1 allow down, 2 fp16, 3 hf32."
    )
    output_mask: Annotated[tuple[StrictBool, ...], Field(min_length=3, max_length=3)] | None = Field(
        default=None,
        description="Which gradients the backward pass computes, of input, weight and bias. Left out: those with "
        "`requires_grad`.",
    )

    @property
    def given(self) -> dict[str, Any]:
        """Return the entries that the layer or the network's defaults give, by case fields, without name and kind; tensors are
        entry objects. Entries of None are left out, but a bias of none is {"bias": False}.
        """
        found = {name: getattr(self, name) for name in self.model_fields_set - {"name", "kind"}}
        return {name: value for name, value in found.items() if value is not None} | (
            {"bias": False} if self.bias is None else {}
        )

    @property
    def trains(self) -> bool:
        """Return True if a gradient is computed: False if `output_mask` is all False, or none has `requires_grad`."""
        if self.output_mask is not None and not any(self.output_mask):
            return False
        return any(entry is not None and entry.requires_grad for entry in (self.input, self.weight, self.bias))

    @property
    def batch_axis(self) -> int:
        """Return the axis of input on which the batch is: 1 for conv_tbc, else 0."""
        return 1 if self.kind == OVER_TIME else 0
