"""Loads of an input gradient."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.grad_input.loads import spread_boxes


@given(st.integers(1, 40), st.integers(0, 9), st.integers(1, 30), st.integers(1, 60), st.integers(1, 200))
def test_pieces_of_a_spread_map_adjoin_and_cover_it(blocks: int, first: int, rows: int, columns: int, room: int) -> None:
    pixel = 0
    for piece in spread_boxes(Span(0, blocks), Span(first, rows), columns, room):
        assert piece.size <= room * 32
        assert ((piece.block * rows) + piece.row - first) * columns + piece.column == pixel
        # What adjoins in L1: parts of one row, or whole rows of one block, or whole blocks.
        assert piece.columns == columns or piece.rows == piece.blocks == 1
        assert piece.rows == rows or piece.blocks == 1
        pixel += piece.size // 32
    assert pixel == blocks * rows * columns
