"""Blocks of the closed kernel."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Cuts, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.kernels.grad_weight.tbe.blocks import TbeBlock, block_part, out_tiles
from tests.support.ops.tiling_problems import conv2d

pytestmark = pytest.mark.fast

CHIP = "ascend910b2"


def test_blocks_cover_dw_and_its_sums_once() -> None:
    p = FilterProblem(conv2d(5, 80, 112, 14, 3, pad=1), 2, 24, 524288, 65536, 131072, load_chip(CHIP).load3d.limits)
    cuts = Cuts(batch=2, m=3, k=2, n=2)
    tile = Tile(m_l0=2, n_l0=5, m_al1=2, n_bl1=2)
    seen = np.zeros((5, p.k, 112, 80 * 9), int)
    for number in range(cuts.blocks):
        block = block_part(p, cuts, number)
        for out in out_tiles(block, tile, 9, 16, 112, 80):
            m, n, held = (range(one.start, one.start + one.length) for one in (out.m, out.n, out.m_held))
            assert m.start >= held.start and m.stop <= held.stop
            assert {column // 144 for column in n} <= set(range(out.blocks.start, out.blocks.start + out.blocks.length))
            seen[block.images.start : block.images.stop, block.k.start : block.k.stop, m.start : m.stop, n.start : n.stop] += 1
    assert (seen == 1).all()


def test_k_is_the_slowest_axis_of_the_blocks_and_n_the_fastest() -> None:
    p = FilterProblem(conv2d(4, 64, 64, 14, 3, pad=1), 2, 24, 524288, 65536, 131072, load_chip(CHIP).load3d.limits)
    blocks: list[TbeBlock] = [block_part(p, Cuts(batch=2, m=2, k=2, n=2), number) for number in range(16)]
    assert [b.in_channels.start for b in blocks[:2]] == [0, 32]
    assert [b.out_channels.start for b in blocks[:4:2]] == [0, 32]
    assert [b.images.start for b in blocks[:8:4]] == [0, 2]
    assert [b.k.start for b in blocks[::8]] == [0, 7]
    assert [block_part(p, Cuts(batch=2), number).empty for number in range(5)] == [False, False, True, True, True]
    shares = [len(block_part(p, Cuts(n=3), number).in_channels) for number in range(3)]
    assert shares == [32, 32, 0]  # two of four blocks of channels each, and nothing
