"""A model's network file from shapes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from ascend_sim.studies.network.file import Network
from ascend_sim.torch.network import network_of
from ascend_sim.torch.simulation import simulate


def export_network(model: torch.nn.Module, *inputs: Any, path: str | Path | None = None, **options: Any) -> Network:
    """The convolutions of `model(*inputs, **options)` as a network, without running anything: shapes alone go through it.

    Writes a network file where `path` is given. Raises SimError for a model without convolutions, and what the model raises.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:

        def shape_of(tensor: torch.Tensor) -> torch.Tensor:
            return tensor if type(tensor).__name__ == "FakeTensor" else fake.from_tensor(tensor)

        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        fakes = {name: shape_of(tensor) for name, tensor in state.items()}
        given, named = tree_map_only(torch.Tensor, shape_of, (inputs, options))
        with torch.enable_grad(), simulate(model, matmul=False) as seen:
            torch.func.functional_call(model, fakes, given, named)
    return network_of(seen.rows, type(model).__name__, path)
