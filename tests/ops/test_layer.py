"""Convolution layers of real networks: phase one takes every one that the documents allow, and values of some against torch.

`tests/data/network_layers.json` has the shapes, without batch, and which network each is of.
"""

from __future__ import annotations

import numpy as np
import pytest

import ascend_sim
from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.errors import AclnnError
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.operators import OPERATORS
from tests.support.ops.network_layers import LAYERS, NetworkLayer
from tests.support.sampling import part_of_cases

CHIPS = ("ascend910b3", "ascend910a", "ascend310p3", "ascend950pr_9589")
OTHERS = ("ascend910b", "ascend910b1", "ascend910b2", "ascend910b4", "ascend910_9381", "ascend950pr_9579")
FLAT = {"ascend910a": "910", "ascend910b": "910", "ascend310p3": "310P"}
"""Products that the documents give 1-D and 2-D convolutions alone (000, constraints)."""
BACKWARD = OPERATORS.of_pass("backward")


SAMPLE = [layer for i, layer in enumerate(LAYERS) if i % 80 == 0 or len(layer.kernel) != 2 or layer.embeds_patches]


def plan(
    layer: NetworkLayer, chip: str, batch: int, trained: tuple[str, ...] = ("input", "weight"), dtype: str = "float16"
) -> list[str]:
    """Operators of the plan; AclnnError where phase one refuses the call."""
    spec, said = load_chip(chip), layer.said(batch, dtype, trained)
    call = accept_case(BACKWARD.of_layer(Layer.model_validate(said)), spec, conformance="documented")
    return [step.op_type for step in BACKWARD.plan(call, spec).steps]


def check_plans(layers: list[NetworkLayer], chip: str, batch: int, dtype: str = "float16") -> None:
    for layer in layers:
        if chip in FLAT and len(layer.kernel) == 3:
            with pytest.raises(AclnnError, match=rf"161002: gradOutput has rank 5: .* on {FLAT[chip]} .* 1D and 2D only"):
                plan(layer, chip, batch, dtype=dtype)
        else:
            assert plan(layer, chip, batch, dtype=dtype), layer


@part_of_cases(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_layers_are_planned(chip: str) -> None:
    check_plans(SAMPLE, chip, 1)


@part_of_cases(2)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("chip", ["ascend910b2", "ascend950pr_9579"])
def test_layers_are_planned_in_other_dtypes(chip: str, dtype: str) -> None:
    check_plans(SAMPLE, chip, 2, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 16, 64])
@pytest.mark.parametrize("chip", (*CHIPS, *OTHERS))
def test_every_layer_is_planned(chip: str, batch: int) -> None:
    check_plans(LAYERS, chip, batch)


@part_of_cases(4)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("size", "kernel"), [(224, 16), (224, 32), (384, 32), (1024, 64)])
def test_a_patch_embedding_of_any_batch_is_planned(size: int, kernel: int, chip: str) -> None:
    out, sides = size // kernel, [kernel, kernel]
    for channels in (192, 768, 1280):
        layer = NetworkLayer(
            [3, size, size], [channels, out, out], sides, sides, [0, 0], [1, 1], 1, 0, [0, 0], "a ViT's patches"
        )
        for batch in (1, 32, 100):
            wanted = "Conv3DBackpropFilterV2" if chip.startswith("ascend950") else "Conv2DBackpropFilter"
            assert wanted in plan(layer, chip, batch, ("weight",))
            if chip in FLAT and kernel > 63:
                with pytest.raises(AclnnError, match=r"561103: .*stride h = 64 > 63; the library then gathers gradOutput"):
                    plan(layer, chip, batch)
            else:
                assert wanted in plan(layer, chip, batch)


def volume_patches(kernel: int) -> NetworkLayer:
    out, sides = [8, 224 // kernel, 224 // kernel], [2, kernel, kernel]
    return NetworkLayer([3, 16, 224, 224], [768, *out], sides, sides, [0] * 3, [1] * 3, 1, 0, [0] * 3, "patches of a video")


def test_patches_of_a_video() -> None:
    """The older 3-D operator reads rows by load3d or not at all."""
    assert "Conv3DBackpropFilter" in plan(volume_patches(16), "ascend910b3", 1)
    with pytest.raises(AclnnError, match=r"561103: .* refuses to cut rows or to gather by DMA .*cube_tiling_param"):
        plan(volume_patches(32), "ascend910b3", 1)


def test_what_is_left_unread_by_grad_input_of_a_large_stride_says_what_the_library_does() -> None:
    layer = NetworkLayer([3, 130, 130], [8, 2, 2], [65, 65], [65, 65], [0, 0], [1, 1], 1, 0, [0, 0], "")
    with pytest.raises(AclnnError, match=r"561103: .*stride h = 65 > 63; the library then gathers gradOutput"):
        plan(layer, "ascend310p3", 1)


def cheapest() -> dict[str, NetworkLayer]:
    """The layer with the fewest products of each kind that real networks have, where those are few."""
    found: dict[str, NetworkLayer] = {}
    for layer in sorted(LAYERS, key=lambda layer: layer.macs):
        depthwise = layer.groups == layer.input[0] > 1
        if depthwise:  # each group is a problem of its own: a few of them say as much
            fewer = [8, *layer.input[1:]], [8 * layer.output[0] // layer.groups, *layer.output[1:]]
            layer = layer._replace(input=fewer[0], output=fewer[1], groups=8)
        groups = "depthwise" if depthwise else "grouped" if layer.groups > 1 else "dense"
        kind = "transposed " if layer.transposed else ""
        kind += f"{groups} kernel {layer.kernel} stride {layer.stride} dilation {layer.dilation}"
        if layer.macs < 1_000_000:
            found.setdefault(kind, layer)
    return found


@part_of_cases(5)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", cheapest())
def test_values_of_the_cheapest_layers(kind: str, chip: str) -> None:
    layer = cheapest()[kind]
    if chip in FLAT and len(layer.kernel) == 3:
        pytest.skip("no 3-D convolutions there")
    check_values(layer, chip)


@part_of_cases(0, "64-32-ascend910b3", "112-16-ascend950")
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("size", "kernel"), [(112, 16), (64, 32)])
def test_values_of_a_patch_embedding(size: int, kernel: int, chip: str) -> None:
    """All pixels of an image, to fewer channels than the smallest ViT has."""
    out, sides = size // kernel, [kernel, kernel]
    check_values(NetworkLayer([3, size, size], [48, out, out], sides, sides, [0, 0], [1, 1], 1, 0, [0, 0], "patches"), chip)


def check_values(layer: NetworkLayer, chip: str) -> None:
    """Both gradients of two images of small whole numbers, whose sums fp32 holds, against torch in float64."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w, g = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ([2, *layer.input], layer.weight, [2, *layer.output]))
    wide = [torch.tensor(array.astype(np.float64), requires_grad=True) for array in (x, w)]
    attributes = layer.attributes()
    forward = torch.convolution(
        *wide, None, *(attributes[n] for n in ("stride", "padding", "dilation", "transposed", "output_padding")), layer.groups
    )
    forward.backward(torch.tensor(g.astype(np.float64)))
    result = ascend_sim.convolution_backward(
        g, x, w, None, layer.stride, layer.padding, layer.dilation, bool(layer.transposed), layer.output_padding,
        layer.groups, (True, True, False), chip=chip, mode="functional",
    )  # fmt: skip
    for name, tensor in zip(("grad_input", "grad_weight"), wide, strict=True):
        np.testing.assert_array_equal(result.outputs[name], tensor.grad.numpy().astype(np.float16), err_msg=name)
