"""Rows of gradOutput against a brute force over every tap of every pixel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ops.kernels.grad_input.tiles import contributing_planes
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.window import RowWindow, dilated_height, listed_rows, needed_rows
from tests.support.ops.tiling_problems import conv2d, problems
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast


def rows_by_definition(problem: ConvProblem, m_start: int, m_count: int) -> list[int]:
    """Dilated rows of the tile by the forward formula: tap t of output row o meets input row y = o*s - pad + t*d."""
    rows = set()
    for pixel in range(m_start, m_start + m_count):
        y = pixel // problem.w_in
        rows |= {y + problem.pad_up - t * problem.dilation_h for t in range(problem.k_h)}
    return sorted(rows)


@given(problems(largest=12), st.data())
@sampled(75, 300)
def test_window_holds_exactly_the_span_of_the_rows(problem: ConvProblem, data: st.DataObject) -> None:
    pixels = problem.h_in * problem.w_in
    start = data.draw(st.integers(0, pixels - 1))
    count = data.draw(st.integers(1, pixels - start))
    touched = rows_by_definition(problem, start, count)
    span = range(touched[0], touched[-1] + 1)
    inside = [r for r in span if 0 <= r < dilated_height(problem)]
    window = needed_rows(problem, start, count)
    assert window.rows == len(inside)
    assert window.pad_top == sum(r < 0 for r in span)
    assert window.pad_bottom == sum(r >= dilated_height(problem) for r in span)
    if inside:
        assert window.first_row == inside[0]


@given(problems(largest=6), st.data())
@sampled(75, 300)
def test_planes_that_reach_a_depth_are_those_of_the_convolution(problem: ConvProblem, data: st.DataObject) -> None:
    """Tap t of output plane o meets input plane o*s - pad + t*d."""
    depth = data.draw(st.integers(0, problem.d_in - 1))
    meeting = {
        (tap, out)
        for tap in range(problem.k_d)
        for out in range(problem.d_out)
        if out * problem.stride_d - problem.pad_front + tap * problem.dilation_d == depth
    }
    assert set(contributing_planes(problem, depth)) == meeting


def test_resnet_first_and_inner_tile() -> None:
    problem = conv2d(32, 64, 64, 56, 3, pad=1)
    assert needed_rows(problem, 0, 336) == RowWindow(0, 7, 1, 0)
    assert needed_rows(problem, 336, 336) == RowWindow(5, 8, 0, 0)
    assert needed_rows(problem, 3024, 112) == RowWindow(53, 3, 0, 1)


def test_pad_beyond_the_kernel_crops() -> None:
    problem = conv2d(1, 16, 16, 8, 1, pad=2)  # dx row 0 reads row 2 of gradOutput: its first two rows saw only padding
    assert needed_rows(problem, 0, 8) == RowWindow(2, 1, 0, 0)


def test_a_gradient_grows_by_the_zeros_between_its_rows() -> None:
    """8 rows at stride 2: seven rows of zeros between them, none behind the last."""
    problem = conv2d(1, 16, 16, 15, 3, stride=2, pad=1)
    assert (problem.h_out, dilated_height(problem)) == (8, 15)


@given(problems(), st.data())
def test_the_open_kernel_loads_what_a_tile_needs_and_nothing_beside_the_map(problem: ConvProblem, data: st.DataObject) -> None:
    p, pixels = problem, problem.h_in * problem.w_in
    base = data.draw(st.integers(1, pixels))
    row, tile = data.draw(st.integers(0, p.h_in - 1)), data.draw(st.integers(0, 3))
    start = row * p.w_in + tile * base
    if start >= pixels:
        return
    needed, listed = needed_rows(p, start, min(base, pixels - start)), listed_rows(p, start, base)
    if needed.rows:
        assert (listed.first_row, listed.pad_top) == (needed.first_row, needed.pad_top)
        assert needed.rows <= listed.rows <= dilated_height(p) - listed.first_row


def test_two_rows_more_where_tiles_are_no_whole_rows() -> None:
    """28 x 28 pixels under 3 x 3, tiles of 176: 8 rows of dx, 10 of gradOutput, of which one is padding (rows of ops-nn)."""
    p = conv2d(1, 16, 16, 28, 3, pad=1)
    assert listed_rows(p, 0, 176) == RowWindow(0, 9, 1, 0)
    assert listed_rows(p, 0, 168) == RowWindow(0, 7, 1, 0)
