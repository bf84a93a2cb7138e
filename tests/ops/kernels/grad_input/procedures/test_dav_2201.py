"""Input gradients of dav-2201 against the vendor's unit tests."""

from __future__ import annotations

import pytest

from ascend_sim.ops.kernels.grad_input.capacity import grad_input_l1
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import task_count, vendor_grad_input
from tests.support.ops.tiling_problems import RESNET, on_910b

pytestmark = pytest.mark.fast


def test_resnet_grad_input() -> None:
    inp = on_910b(RESNET)
    tiling = vendor_grad_input(inp)
    assert (tiling.base_m, tiling.base_k, tiling.base_n) == (336, 48, 64)
    assert (tiling.step_ka, tiling.step_kb, tiling.al1_buffers, tiling.bl1_buffers) == (12, 12, 2, 1)
    assert (tiling.single_core_m, tiling.single_core_cin, tiling.tiling_key, tiling.block_dim) == (336, 64, 512, 20)
    assert tiling.weights_resident
    assert grad_input_l1(tiling, inp) == (2 * 57344, 73728)  # 8 rows * 56 * 64 channels; 64 * 576 weights; 2 bytes
    assert task_count(tiling, inp) == 320
