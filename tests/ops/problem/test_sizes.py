"""Quotients, cuts and their sums."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ops.problem.sizes import cut, divisors, floor_sum, is_prime

pytestmark = pytest.mark.fast

PRIMES = (4099, 65_537, 999_983, 1_000_003, 2_147_483_647, 4_294_967_291)  # the first above what is tried, and large ones


@given(st.integers(1, 3000), st.integers(0, 4000))
def test_divisors_are_those_of_trying_all(number: int, limit: int) -> None:
    assert divisors(number, limit) == [d for d in range(1, min(number, limit) + 1) if number % d == 0]


def test_primes_are_those_that_nothing_divides() -> None:
    assert [n for n in range(-1, 5000) if is_prime(n)] == [n for n in range(2, 5000) if all(n % d for d in range(2, n))]


@given(st.lists(st.sampled_from((2, 3, 17, *PRIMES)), max_size=5), st.integers(0, 1 << 70))
def test_a_product_has_the_divisors_of_its_factors(factors: list[int], limit: int) -> None:
    found = {1}
    for factor in factors:
        found |= {divisor * factor for divisor in found}
    assert divisors(prod(factors), limit) == sorted(d for d in found if d <= limit)
    assert is_prime(prod(factors)) == (len(factors) == 1)


@pytest.mark.parametrize("number", (2047, 3_215_031_751, 3_474_749_660_383, 341_550_071_728_321, 3_825_123_056_546_413_051))
def test_numbers_that_pass_for_primes_by_few_witnesses(number: int) -> None:
    """The smallest composites that pass for 2, for 2 to 7, 2 to 13, 2 to 17 and 2 to 23 (OEIS A014233)."""
    assert not is_prime(number)
    found = divisors(number, number)
    assert len(found) > 2
    assert all(low * high == number for low, high in zip(found, reversed(found), strict=True))


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
