"""Quotients, cuts and their sums."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ops.problem.sizes import cut, floor_sum


@given(st.integers(1, 5000), st.integers(1, 40), st.integers(1, 16))
def test_cuts_are_few_and_aligned(total: int, units: int, unit: int) -> None:
    largest = units * unit
    pieces = cut(total, largest, unit)
    assert [i for start, count in pieces for i in range(start, start + count)] == list(range(total))
    assert max(count for _, count in pieces) <= largest
    assert all(start % unit == 0 for start, _ in pieces)
    assert len(pieces) <= -(-total // largest)
    counts = [count for _, count in pieces]
    assert len(set(counts[:-1])) <= 1 and 0 <= counts[0] - counts[-1] < unit * len(counts)


@given(st.integers(0, 40), st.integers(0, 60), st.integers(1, 60), st.integers(0, 90))
def test_a_sum_of_quotients(count: int, number: int, divisor: int, offset: int) -> None:
    assert floor_sum(count, number, divisor, offset) == sum((i * number + offset) // divisor for i in range(count))
