"""Convolution layers of real networks: `tests/data/network_layers.json` has the shapes, without batch, and the networks."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from tests.support.places import DATA


class NetworkLayer(NamedTuple):
    """A layer as its network has it; shapes without batch."""

    input: list[int]
    output: list[int]
    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    transposed: int
    output_padding: list[int]
    network: str

    @property
    def weight(self) -> list[int]:
        first, second = (self.input[0], self.output[0]) if self.transposed else (self.output[0], self.input[0])
        return [first, second // self.groups, *self.kernel]

    @property
    def macs(self) -> int:
        return math.prod(self.weight) * math.prod((self.input if self.transposed else self.output)[1:])

    @property
    def embeds_patches(self) -> bool:
        return self.kernel == self.stride and max(self.kernel) > 2

    def attributes(self) -> dict[str, Any]:
        names = ("stride", "padding", "dilation", "groups", "output_padding")
        return {name: getattr(self, name) for name in names} | {"transposed": bool(self.transposed)}

    def said(self, batch: int, dtype: str, trained: tuple[str, ...] = ("input", "weight")) -> dict[str, Any]:
        """The fields of a `Layer` of `ascend_sim.ops.layer`."""
        shapes = {"input": [batch, *self.input], "weight": self.weight}
        tensors = {name: {"shape": shape, "requires_grad": name in trained} for name, shape in shapes.items()}
        return {"name": "layer", "dtype": dtype, "bias": False, **tensors, **self.attributes()}


LAYERS = [NetworkLayer(*row) for row in json.loads((DATA / "network_layers.json").read_text())["layers"]]
