"""Network files from models: without running anything, and taken by run-network."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.ops.convolution.case import attributes_of  # noqa: E402
from ascend_sim.ops.network import load_network  # noqa: E402
from ascend_sim.studies.network.run import run_network  # noqa: E402
from ascend_sim.torch import export_network, simulate  # noqa: E402
from tests.support.sampling import part_of_cases  # noqa: E402
from tests.support.torch.models import MODELS, small_cnn  # noqa: E402


@part_of_cases(2)
@pytest.mark.parametrize("name", ["resnet50", "vit_b_16", "unet", "wav2vec2", "r3d_18"])
def test_a_model_is_the_network_that_ships(name: str, tmp_path: Path) -> None:
    """Shapes, biases, and which tensors want a gradient, of models written out from the same papers."""
    shipped = load_network(name)
    with torch.device("meta"):
        make, shape = MODELS[name][:2]
        model, data = make(), torch.empty(shipped.batch, *shape[1:])
    export_network(model, data, path=tmp_path / "net.yaml")
    ours = load_network(tmp_path / "net.yaml")
    assert ours.batch == shipped.batch
    for own, other in zip(ours.layers, shipped.layers, strict=True):
        assert (own.input.shape, own.weight.shape) == (other.input.shape, other.weight.shape)
        assert attributes_of(own) == attributes_of(other)
        assert (own.bias is None) == (other.bias is None)
        assert own.input.requires_grad == other.input.requires_grad == (own is not ours.layers[0])


@pytest.mark.parametrize("frozen", [False, True])
def test_a_network_takes_the_time_of_the_models_backward(tmp_path: Path, frozen: bool) -> None:
    """The times are those of the gradients alone, exported before or written after."""
    model, data = small_cnn(), torch.randn(2, 3, 12, 12)
    if frozen:
        model[2].weight.requires_grad_(False)
        model[4].bias.requires_grad_(False)
    with simulate(forward=False) as sim:
        model(data).sum().backward()
    sim.to_network(tmp_path / "after.yaml")
    export_network(model, data, path=tmp_path / "before.yaml")
    convolutions = [row for row in sim.report.rows if row.layer.kind == "conv"]
    for name in ("before", "after"):
        run = run_network(load_network(tmp_path / f"{name}.yaml"))
        assert [layer.name for layer in run.network.layers] == ["0", "2", "4"]
        assert [layer.times["total"] for layer in run.layers] == [sim.report.us(row)["total"] for row in convolutions]
