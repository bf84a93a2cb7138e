"""Layers of a model as a network's file has them, without a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ascend_sim import ConfigError, SimError  # noqa: E402
from ascend_sim.ops.network import load_network  # noqa: E402
from ascend_sim.torch import export_network  # noqa: E402
from tests.support.torch.models import tbc_model  # noqa: E402


def test_nothing_runs_and_nothing_changes() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    network = export_network(model, torch.randn(2, 3, 4, 4))
    assert [layer.name for layer in network.layers] == ["0"]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_layers_over_time_and_shared_ones(tmp_path: Path) -> None:
    model = tbc_model(16)
    network = export_network(model, torch.randn(5, 2, 16), path=tmp_path / "tbc.yaml")
    assert network.batch == 2 and [layer.kind for layer in network.layers] == ["conv_tbc"] * 3
    assert [layer.pad for layer in load_network(tmp_path / "tbc.yaml").layers] == [1, 1, 0]
    conv = torch.nn.Conv1d(4, 4, 1)
    shared = export_network(torch.nn.Sequential(conv, torch.nn.MaxPool1d(2), conv), torch.randn(1, 4, 8))
    assert [(layer.name, layer.input.shape) for layer in shared.layers] == [("0", (1, 4, 8)), ("0#2", (1, 4, 4))]


def test_what_is_no_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SimError, match="Linear: no convolution was seen"):
        export_network(torch.nn.Linear(2, 2), torch.randn(1, 2), path=tmp_path / "net.yaml")
    double: Any = torch.nn.Conv1d(2, 2, 1).double()
    with pytest.raises(ConfigError, match="dtype: 'float64' given; allowed: float32"):
        export_network(double, torch.randn(1, 2, 4, dtype=torch.float64), path=tmp_path / "net.yaml")
    assert not list(tmp_path.iterdir())


class Branches(torch.nn.Module):
    """Module whose work depends on its input's values."""

    def forward(self, data: Any) -> Any:
        return data[: int(data.sum().item())]


def test_what_has_no_shapes_is_said_in_one_line(tmp_path: Path) -> None:
    conv, data, path = torch.nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8), tmp_path / "net.yaml"
    traced = torch.jit.trace(conv, data)
    lazy = torch.nn.Sequential(torch.nn.LazyConv2d(4, 3))
    for model, given, where, message in (
        ("m", data, path, "model is 'm'; allowed is a torch.nn.Module"),
        (torch.nn.Conv2d, data, path, "model is the class Conv2d"),
        (traced, data, path, "model is a TopLevelTracedModule"),
        (lazy, data, path, "Sequential: 0.weight, 0.bias have no shape yet"),
        (conv, data, tmp_path / "none" / "net.yaml", "its folder does not exist"),
        (Branches(), data, tmp_path, "that is a folder"),  # before the model is traced
        (conv, data, 3, "path is 3; allowed is the path of a file"),
        (conv, torch.randn(1, 5, 8, 8), path, "Conv2d does not run on these inputs: RuntimeError: Given groups=1"),
        (conv, data.double(), path, "Input type"),
        (conv, data.numpy(), path, "TypeError: conv2d"),
        (Branches(), data, path, "Branches: its results depend on values"),
    ):
        with pytest.raises(SimError) as refused:
            export_network(model, given, path=where)  # type: ignore[arg-type]
        assert message in str(refused.value) and "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir()) and not torch.nn.modules.module._global_forward_hooks
    lazy(data)
    assert export_network(lazy, data).layers[0].weight.shape == (4, 3, 3, 3)


def test_a_compiled_model_has_the_names_of_what_was_compiled() -> None:
    compiled = torch.compile(torch.nn.Conv2d(3, 4, 3), backend="aot_eager")
    network = export_network(compiled, torch.randn(1, 3, 8, 8))
    assert (network.name, [layer.name for layer in network.layers]) == ("Conv2d", ["Conv2d"])
