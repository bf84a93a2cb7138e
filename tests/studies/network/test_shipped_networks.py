"""The networks that ship against what their authors and torchvision publish."""

from __future__ import annotations

import math

import pytest

from ascend_sim.ops.network import cases_of, load_network

pytestmark = pytest.mark.fast

PUBLISHED = {
    # torchvision's parameters and GMAC of the whole model; parameters and multiply-accumulates that are no convolution's:
    # BatchNorm and the final layer
    "resnet18": (11_689_512, 1.81, 9_600 + 513_000, 512_000),
    "vgg16": (138_357_544, 15.47, 123_642_856, 123_633_664),
    "mobilenet_v2": (3_504_872, 0.30, 34_112 + 1_281_000, 1_280_000),
    "resnet50": (25_557_032, 4.09, 53_120 + 2_049_000, 2_048_000),
    "r3d_18": (33_371_472, 40.70, 9_600 + 205_200, 204_800),
}
LAYERS = {
    "convnext_tiny": 22, "mobilenet_v2": 52, "r3d_18": 20, "resnet18": 20, "resnet50": 53, "unet": 23, "vgg16": 13,
    "vit_b_16": 1, "wav2vec2": 7,
}  # fmt: skip


def parameters(name: str) -> int:
    layers = load_network(name).layers
    weights = sum(math.prod(layer.weight.shape or ()) for layer in layers)
    return weights + sum(cases_of(layer)["backward"].tensors["grad_output"][0][1] for layer in layers if layer.bias is not None)


@pytest.mark.parametrize("name", list(LAYERS))
def test_a_network_has_its_layers(name: str) -> None:
    assert len(load_network(name).layers) == LAYERS[name]


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_parameters_and_products(name: str) -> None:
    whole, giga, others, other_macs = PUBLISHED[name]
    assert parameters(name) == whole - others
    network = load_network(name)
    macs = sum(
        math.prod(layer.weight.shape or ()) * math.prod(cases_of(layer)["backward"].tensors["grad_output"][0][2:])
        for layer in network.layers
    )
    assert (macs + other_macs) / 1e9 == pytest.approx(giga, abs=0.006)


def test_convnext_has_torchvisions_parameters() -> None:
    """28,589,128 but for what is no convolution: LayerNorm, layer scale, the two Linear of a block, the head."""
    blocks = sum(n * (2 * c + c + 4 * c * c + 4 * c + 4 * c * c + c) for c, n in ((96, 3), (192, 3), (384, 9), (768, 3)))
    norms = 2 * (96 + 96 + 192 + 384 + 768)
    assert parameters("convnext_tiny") == 28_589_128 - blocks - norms - 769 * 1000


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "unet"])
def test_only_the_first_layer_wants_no_gradient_of_its_input(name: str) -> None:
    first, *rest = load_network(name).layers
    assert not first.input.requires_grad and all(layer.input.requires_grad for layer in rest)
    assert (first.bias is not None) == (name in ("vgg16", "convnext_tiny", "vit_b_16"))
