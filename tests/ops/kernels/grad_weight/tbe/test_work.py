"""Outlines of blocks of the older weight-gradient kernel, against the steps themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.grad_weight.steps import Where
from ascend_sim.ops.kernels.grad_weight.tbe.blocks import HeldTile
from ascend_sim.ops.kernels.grad_weight.tbe.walks import TbePart
from ascend_sim.ops.kernels.grad_weight.tbe.work import BlockWork, TileWork

pytestmark = pytest.mark.fast

PARTS = TbePart((), False), TbePart((), True)
TILES = [HeldTile(0, plane, *[Span(0, 16)] * 5, 16) for plane in range(2)]
few = st.integers(0, 1)


@st.composite
def works(draw: st.DrawFn) -> BlockWork:
    images, row, m = draw(few), draw(few), draw(few)
    walk = tuple((PARTS[draw(few)], row + 2 * number + draw(few)) for number in range(draw(st.integers(0, 2))))
    begin = walk[0][1] if walk else 0
    depths = st.sampled_from([(), ((0, None),), ((0, 0), (1, 1))])
    tiles = [
        TileWork(TILES[draw(few)], draw(depths), Where(images, begin, m + draw(few), 0, draw(few)))
        for _ in range(draw(st.integers(1, 2)))
    ]
    return BlockWork(range(images, images + 1 + draw(few)), walk, tiles)


def steps(work: BlockWork) -> list[tuple[Any, tuple[int, ...]]]:
    """Return the steps, each with its distance from the first."""
    pieces = work.pieces()
    assert pieces[0][1] == work.place
    return [(what, tuple(a - b for a, b in zip(where, work.place, strict=True))) for what, where in pieces]


ONE_TILE = [TileWork(TILES[0], ((0, 0),), Where())]


@given(works(), works())
@example(*(BlockWork(range(images), ((PARTS[0], 0),), ONE_TILE) for images in (1, 2)))
def test_blocks_of_equal_outlines_have_equal_steps(one: BlockWork, other: BlockWork) -> None:
    event(f"equal: {one.outline() == other.outline()}")
    assert one.outline() != other.outline() or steps(one) == steps(other)


@given(works(), st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3))
def test_a_block_further_on_has_the_same_outline(one: BlockWork, batch: int, row: int, m: int, group: int) -> None:
    row = row if one.walk else 0
    images = range(one.images.start + batch, one.images.stop + batch)
    walk = tuple((part, at + row) for part, at in one.walk)
    by = (batch, row, m, 0, group)
    tiles = [two._replace(where=Where(*(a + b for a, b in zip(two.where, by, strict=True)))) for two in one.tiles]
    assert BlockWork(images, walk, tiles).outline() == one.outline()
