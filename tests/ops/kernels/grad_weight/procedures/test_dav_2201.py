"""Weight gradients of dav-2201 against the vendor's unit tests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import covers_grad_weight, vendor_grad_weight
from tests.support.ops.tiling_problems import RESNET, on_910b

pytestmark = pytest.mark.fast


def test_resnet_deterministic_grad_weight() -> None:
    tiling = vendor_grad_weight(on_910b(RESNET, deterministic=True))
    assert (tiling.template, tiling.base_m, tiling.base_k, tiling.base_n) == (4, 64, 64, 144)
    assert (tiling.step_ka, tiling.step_kb, tiling.cl0_buffers) == (8, 8, 2)
    assert (tiling.stream_k_type, tiling.core_stream_k, tiling.block_dim) == (2, 5, 20)
    assert (tiling.single_core_n, tiling.single_core_k) == (144, 3136)


def test_resnet_grad_weight_is_left_to_the_closed_library() -> None:
    assert not covers_grad_weight(on_910b(RESNET))  # 64 rows of dW do not fill a base block


@pytest.mark.parametrize(
    ("images", "kind", "parts"),
    [
        (32, 2, 5),  # 5 parts of 7 images, the last of 4 (0.57 full), or of 12 rows, the last of 8 (0.67 full)
        (20, 1, 5),  # 5 full parts of images beat the same number of parts of rows
        (3, 2, 5),  # at most 3 parts of images
    ],
)
def test_stream_k_by_images_or_rows(images: int, kind: int, parts: int) -> None:
    tiling = vendor_grad_weight(on_910b(replace(RESNET, n=images), deterministic=True))
    assert (tiling.stream_k_type, tiling.core_stream_k, tiling.block_dim) == (kind, parts, 20)
