"""Cycles that the search expects of a tile."""

from __future__ import annotations

from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import CycleModel, cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.problem.conv_problem import ConvProblem
from tests.support.ops.tiling_problems import BUFFERS, LOAD3D, RESNET

COSTS = cycle_costs("dav-2201")


def on_910b(problem: ConvProblem, itemsize: int = 2, cores: int = 24, hf32: bool = False, deep: bool = False) -> FilterProblem:
    return FilterProblem(problem, itemsize, cores, BUFFERS["L1"], BUFFERS["L0A"], BUFFERS["L0C"], LOAD3D, hf32, deep)


def test_the_costs_of_the_resnet_tile_by_hand() -> None:
    p = on_910b(RESNET, cores=20)
    model, tile = CycleModel(p, COSTS), Tile(m_l0=4, k_l0=2, n_l0=18, k_al1=20, k_bl1=20)
    assert model.mmad(tile) == 4 * 2 * 18 + 20
    assert model.to_l0a(tile) == 20 + 4 + 16
    assert model.to_l0b(tile) == 42 + 144  # 36 fractals of 512 bytes at 128 B/cycle: no change of rows within 16 pixels
    assert model.to_l1_a(tile) == 300 + 426  # 4 * 20 fractals at 96 B/cycle
    assert model.to_l1_b(tile) == 300 + 384  # 9 rows, 2 blocks, 56 pixels = 3 packets of 512 bytes and one of 256
    assert model.way_out(tile) == 72 * 4 + 72 * 8
