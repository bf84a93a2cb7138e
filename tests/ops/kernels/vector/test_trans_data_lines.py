"""Lines of a weight gradient that are turned together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ops.kernels.vector.trans_data_lines import GradientLines

pytestmark = pytest.mark.fast


UB = 192 * 1024


@pytest.mark.parametrize(
    ("shape", "cores", "dealt", "unit"),
    [
        # (axis, its units, blocks), (output channels, channel blocks, positions); a line has 1528 elements, 88 cells of C0.
        ((64, 64, 1, 9), 48, (0, 4, 4), (16, 4, 9)),
        ((128, 64, 1, 9), 48, (0, 8, 8), (16, 4, 9)),
        ((64, 96, 1, 9), 48, (0, 4, 4), (16, 5, 9)),  # 9 positions take 16 cells
        ((16, 960, 1, 9), 48, (1, 12, 12), (16, 5, 9)),
        ((64, 128, 3, 9), 48, (0, 4, 4), (16, 2, 27)),  # 4 units of channel blocks too: the first axis
        ((64, 64, 5, 25), 48, (0, 4, 4), (16, 1, 88)),  # 125 positions are two runs, and their blocks come one by one
        ((16, 16, 1, 1000), 48, (2, 12, 12), (16, 1, 88)),
        # Fewer than 432 elements of an output channel share a line: as many as its cells hold, 32 at most.
        ((64, 48, 1, 9), 48, (0, 4, 4), (16, 3, 9)),  # 432
        ((64, 47, 1, 9), 48, (0, 22, 22), (3, 3, 9)),
        ((64, 3, 1, 9), 48, (0, 8, 8), (9, 1, 9)),
        ((400, 16, 1, 1), 48, (0, 13, 13), (32, 1, 1)),
        ((400, 400, 1, 1), 48, (0, 25, 25), (16, 11, 1)),  # 25 blocks are more than one unit
        ((5, 400, 1, 1), 48, (1, 3, 3), (5, 11, 1)),
    ],
)
def test_what_is_dealt_out_of_a_gradient(
    shape: tuple[int, int, int, int], cores: int, dealt: tuple[int, int, int], unit: tuple[int, int, int]
) -> None:
    lines = GradientLines(*shape, cores, UB)
    axis, count, _ = lines.dealt
    assert (axis, count, lines.blocks) == dealt
    assert (lines.rows, lines.blocks_at_once, lines.run) == unit


def test_shared_lines_are_turned_together() -> None:
    """Up to 16 of a block that are full, and the last one alone."""
    found = [[(u.lines, u.rows) for u, _ in GradientLines(1000, 3, 1, 9, 4, UB).units(b)] for b in (0, 3)]
    assert found == [[(16, 9), (12, 9)], [(16, 9), (11, 9), (1, 1)]]


def test_runs_that_fill_their_rounds() -> None:
    """8 of them on 8 cores count double where the last is more than half a run; 9 units of output channels stand between."""
    dealt = [GradientLines(144, 16, 1, taps, 8, UB).dealt for taps in (8 * 88, 7 * 88 + 44, 7 * 88 + 45)]
    assert dealt == [(0, 9, 2), (0, 9, 2), (2, 8, 1)]


def test_a_line_of_a_gradient_is_an_odd_number_of_blocks() -> None:
    """Blocks have 32 bytes, so the 16 lines begin in other banks."""
    assert [GradientLines(16, 16, 1, 9, 8, kb * 1024).line for kb in (192, 193, 194, 256)] == [1528, 1528, 1544, 2040]


@given(st.integers(1, 900), st.integers(1, 600), st.integers(1, 3), st.integers(1, 300), st.sampled_from((8, 15, 40, 48)))
def test_every_gradient_is_in_one_unit_that_fits(c_out: int, c_in: int, k_d: int, taps: int, cores: int) -> None:
    lines = GradientLines(c_out, c_in, k_d, taps, cores, UB)
    assert 1 <= lines.blocks <= cores
    seen = np.zeros((c_out, c_in), np.int64)
    for block in range(lines.blocks):
        units = list(lines.units(block))
        assert units
        for unit, (first, c1) in units:
            seen[first : first + unit.lines * unit.rows, c1 * 16 : c1 * 16 + unit.channels] += unit.positions
            pitch = unit.positions if unit.positions == lines.positions else -(-unit.positions // 8) * 8
            assert unit.blocks * 16 * pitch * (unit.rows if lines.shared else 1) <= lines.line
            assert unit.lines <= 16 and unit.rows <= (32 if lines.shared else 1)
    assert (seen == k_d * taps).all()
