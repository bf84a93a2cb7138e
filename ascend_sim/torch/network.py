"""Writing a model's convolutions as a network file, which `ascend-sim run-network` takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ascend_sim.errors import ConfigError, SimError
from ascend_sim.ops.case_entries import explain_error
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import Network, cases_of
from ascend_sim.report.files import atomic_write
from ascend_sim.torch.calls import CONV, MATMUL
from ascend_sim.torch.report import LayerRow
from ascend_sim.torch.summary import addresses

_ATTRIBUTES = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
"""Attribute with one value for each axis -> its usual value, which a file leaves out."""


def network_of(rows: Sequence[LayerRow], name: str, path: str | Path | None = None) -> Network:
    """Return the recorded layers as a Network, with the first layer's batch; with `path` also write it as a file. Raises
    SimError without a convolution and for a file that cannot be written, ConfigError for a layer that no case can express.

    A file has no strides: its tensors are contiguous. Matrix products are left out, since they are not operators.
    """
    convolutions = [row for row in rows if row.layer.kind != MATMUL]
    if not convolutions:
        raise SimError(f"{name}: no convolution was seen, so there is no network to write")
    dtype = Counter(row.layer.tensors[0][1].dtype for row in convolutions).most_common(1)[0][0]
    entries = list(_entries(convolutions, dtype))
    layers = tuple(_checked({"dtype": dtype, **entry}) for entry in entries)
    batch = (layers[0].input.shape or ())[layers[0].batch_axis]
    if path is not None:
        products = len(rows) - len(convolutions)
        text = f"# Matrix products are not convolutions: {products} of the model are not in it.\n" if products else ""
        text += yaml.safe_dump({"name": name, "batch": batch}, sort_keys=False)
        text += f"defaults: {{dtype: {dtype}}}\nlayers:\n"
        for entry in entries:
            line = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=10_000).strip()
            text += f"  - {line}\n"
        with atomic_write(path) as file:
            file.write(text.encode())
    return Network(name, layers, batch)


def _entries(rows: Sequence[LayerRow], dtype: str) -> Iterator[dict[str, Any]]:
    """Yield each layer as an entry of a network file; repeated names get "#2" and so on, usual values are left out."""
    for name, row in addresses(rows).items():
        layer, attributes = row.layer, dict(row.layer.attributes)
        found: dict[str, Any] = {"name": name}
        if layer.kind != CONV:
            found |= {"kind": layer.kind, "pad": attributes["pad"]}
        for (key, spec), asks in zip(layer.tensors, row.asks, strict=False):
            plain = asks and spec.dtype == dtype
            entry = {"shape": list(spec.shape)} | ({} if spec.dtype == dtype else {"dtype": spec.dtype})
            found[key] = list(spec.shape) if plain else entry | ({} if asks else {"requires_grad": False})
        if not row.bias:
            found["bias"] = False
        elif not row.asks[2]:
            found["bias"] = {"requires_grad": False}
        for key, usual in _ATTRIBUTES.items():
            values = list(attributes.get(key, ()))
            if any(value != usual for value in values):
                found[key] = values[0] if len(set(values)) == 1 else values
        if attributes.get("transposed"):
            found["transposed"] = True
        if attributes.get("groups", 1) != 1:
            found["groups"] = attributes["groups"]
        yield found


def _checked(entry: dict[str, Any]) -> Layer:
    """Return the layer of a network file's entry.

    Raises ConfigError for one that no case can express (its dtype, for example).
    """
    try:
        layer = Layer.model_validate(entry)
        cases_of(layer)
    except ValidationError as error:
        raise ConfigError(f"layer {entry['name']}: {explain_error(Layer, error)}") from error
    return layer
