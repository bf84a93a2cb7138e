"""The stand-in for a closed weight gradient."""

from __future__ import annotations

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.grad_weight.procedures.stand_in import sound_grad_weight
from ascend_sim.ops.kernels.grad_weight.tasks import grad_weight_tasks
from tests.support.ops.tiling_problems import conv2d, on_910b


def test_stand_in_grad_weight_adds_less_often_than_once_per_image() -> None:
    inp = on_910b(conv2d(32, 256, 256, 13, 3, pad=1), itemsize=4, cores=24)
    tiling = sound_grad_weight(inp)
    tasks = [t for core in range(24) for t in grad_weight_tasks(tiling, inp, core)]
    corner = [t for t in tasks if t.m_start == 0 and t.n_start == 0]
    assert len(corner) <= 4
    assert tiling.cl0_buffers == 2


@pytest.mark.parametrize(("c_in", "c_out"), [(256, 256), (192, 384), (384, 256)])
def test_stand_in_grad_weight_keeps_the_cube_busier_than_mte1(c_in: int, c_out: int) -> None:
    """Products and L0 loads of a core by hand, as an HF32 cube and 256 and 128 bytes/cycle take them."""
    inp = on_910b(conv2d(32, c_in, c_out, 13, 3, pad=1), itemsize=4, cores=24)
    tiling = sound_grad_weight(inp, load_chip("ascend910b2"), "hf32")
    busiest = max([t for core in range(24) for t in grad_weight_tasks(tiling, inp, core)], key=lambda t: t.m_count * t.n_count)
    m_tiles, n_tiles = -(-busiest.m_count // tiling.base_m), -(-busiest.n_count // tiling.base_n)
    per_pixel = 4 * (busiest.m_count * n_tiles / 256 + busiest.n_count * m_tiles / 128)
    assert per_pixel < busiest.m_count * busiest.n_count / 2048
