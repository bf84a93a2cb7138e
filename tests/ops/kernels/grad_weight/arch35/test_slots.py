"""Slots of tiles that cores share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ascend_sim.ops.kernels.grad_weight.arch35 import slots
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.layouts.layout import FilterTile

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("tile", "buffers", "extension", "cut"),
    [
        ((128, 144), 2, 1, [(0, 64, 0, 144), (64, 64, 0, 144)]),
        ((128, 144), 1, 1, [(0, 32, 0, 144), (32, 32, 0, 144), (64, 32, 0, 144), (96, 32, 0, 144)]),
        ((80, 144), 2, 1, [(0, 48, 0, 144), (48, 32, 0, 144)]),
        ((63, 288), 1, 1, [(0, 16, 0, 288), (16, 16, 0, 288), (32, 16, 0, 288), (48, 15, 0, 288)]),
        ((48, 288), 2, 1, [(0, 48, 0, 144), (0, 48, 144, 144)]),
        ((16, 432), 2, 1, [(0, 16, 0, 288), (0, 16, 288, 144)]),
        ((16, 144), 1, 1, [(0, 16, 0, 144)]),
        ((80, 144), 2, 16, [(0, 80, 0, 144)]),
    ],
)
def test_a_shared_tile_is_cut_in_halves(
    tile: tuple[int, int], buffers: int, extension: int, cut: list[tuple[int, ...]]
) -> None:
    """A tile of 3x3 kernels is cut by the vendor's rule: the filters where their sixteens are even, else channels, else the
    more.
    """
    inp, tiling = (
        SimpleNamespace(taps=9, group_extension=extension),
        GradWeightTiling(*tile[:1], 16, tile[1], cl0_buffers=buffers),
    )
    found = slots.pieces(FilterTile(0, 0, 0, tile[0], 0, tile[1]), tiling, inp)  # type: ignore[arg-type]
    assert [(one.row, one.rows, one.column, one.columns) for one, _ in found] == cut
    assert [piece.offset for piece in found] == [sum(4 * m * n for _, m, _, n in cut[:i]) for i in range(len(cut))]
