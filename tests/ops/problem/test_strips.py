"""Strips of a map: even, and what they read of their neighbours."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.strips import Strip, even_strip, reach


@given(st.integers(1, 90), st.integers(1, 70), st.integers(0, 200), st.integers(1, 200))
@example(5, 3, 3, 9)  # begins with the first pixel behind the strip's columns
def test_what_adjoins_are_the_pixels_that_exist(width: int, columns: int, pixel: int, count: int) -> None:
    strip = Strip(ConvProblem(*[1] * 12), 0, columns, 0)
    wanted = [p for p in range(pixel, pixel + count) if p % width < columns]
    found = list(strip.adjoining(width, pixel, count))
    assert [row * width + column + i for _, row, column, pixels in found for i in range(pixels)] == wanted
    for before, row, column, _ in found:
        assert pixel + before == row * width + column
    assert all(pixels > 0 for *_, pixels in found)


@given(st.integers(0, 50), st.integers(1, 30), st.integers(1, 4), st.integers(0, 9), st.integers(1, 9), st.integers(1, 60))
def test_reach_is_what_is_read(first: int, count: int, step: int, pad: int, extent: int, size: int) -> None:
    wanted = {x * step - pad + t for x in range(first, first + count) for t in range(extent)}
    found = reach(first, count, step, pad, extent, size)
    inside = set(range(found.first, found.first + found.count))
    assert {x for x in wanted if 0 <= x < size} <= inside
    assert not inside or (inside <= set(range(size)) and found.first - found.pad == first * step - pad)


@given(st.integers(17, 10**6), st.integers(16, 1024))
def test_strips_are_even(width: int, most: int) -> None:
    strip = even_strip(width, most, width)
    assert strip % 16 == 0 and strip < most + 16
    assert -(-width // strip) <= -(-width // most)


@given(st.integers(17, 10**6), st.integers(16, 1024), st.integers(0, 255))
def test_the_last_strip_has_few_columns_beyond_the_map(width: int, most: int, spare: int) -> None:
    """load3d takes them for padding, of which its field holds 255; the widest such strip is taken."""
    strip, widest = even_strip(width, most, spare), even_strip(width, most, width)
    beyond = [(-width) % wide for wide in range(strip, widest + 1, 16)]
    assert beyond[0] <= spare or strip == 16
    assert all(columns > spare for columns in beyond[1:])
