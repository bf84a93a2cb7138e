"""Sums of a group of products, where their order or one lost digit decides how they are rounded."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ascend_sim.numerics.accumulate import add_chunks, add_exact_groups

pytestmark = pytest.mark.fast

ZERO = np.zeros((1, 1), np.float32)


def row(*values: float) -> np.ndarray:
    return np.float32([values])


def test_chunks_add_products_in_order_of_k() -> None:
    ones = row(1, 1, 1, 1)
    assert add_chunks(ZERO, ones, row(2.0**30, 1, -(2.0**30), 1), 4) == 1
    assert add_chunks(ZERO, ones, row(1, 2.0**30, -(2.0**30), 1), 4) == 1
    assert add_chunks(ZERO, ones, row(1, 2.0**30, 1, -(2.0**30)), 4) == 0


def test_what_a_float64_loses_beside_the_sum_so_far_decides_a_tie() -> None:
    """Half a step of float32 at 2^30, and 2^-24 more or less: below the last digit of a float64 there."""
    total, left = np.float32([[2.0**30]]), row(8, 2.0**-12)
    assert add_exact_groups(total, left, row(8, 2.0**-12), 2, 11) == 2.0**30 + 2.0**7
    assert add_exact_groups(total, left, row(8, -(2.0**-12)), 2, 11) == 2.0**30


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("even", [0, 1])
def test_sums_around_a_tie_go_where_they_lie(even: int, sign: int) -> None:
    """Places of float64 on both sides of a tie of float32, and less than half a place beside each: exact, then to even."""
    total = np.float32([[sign * (2.0**30 + 128 * even)]])  # steps of 128; those of float64 are 2^-22
    for places in range(-4, 5):
        for beside in (-1, 0, 1):
            left = row(8, places * 2.0**-11, beside * 2.0**-12)
            right = sign * row(8, 2.0**-11, 2.0**-12)
            exact = sign * (2**30 + 128 * even + 64 + Fraction(places, 2**22) + Fraction(beside, 2**24))
            assert add_exact_groups(total, left, right, 3, 11) == 128 * round(exact / 128)


def test_both_words_of_a_float32_count() -> None:
    """A tie below 2, and 2^-62 less: what two products of 24 digits each leave of one another, 2^16 below the third."""
    last, small = 1 + 2.0**-23, 2.0**-8
    left = row(1 + 2.0**-12, small * last, small)
    right = row(1 - 2.0**-12, -small * last, small * (1 + 2.0**-22))
    assert add_exact_groups(row(1), left, right, 3, 24) == 2 - 2.0**-23
    assert add_exact_groups(row(1), left, row(1 - 2.0**-12, 0, 0), 3, 24) == 2


def test_products_that_no_float64_holds_together_are_added_one_by_one() -> None:
    """2^16, half a step of float32 there, and two small ones that leave 2^-40: 57 digits; a plain row beside them."""
    small = 2.0**-10
    left = np.float32([[256, 2.0**-4, (1 + small) * small, -small], [1, 1, 1, 1]])
    right = row(256, 2.0**-4, (1 + small) * small, (1 + 2 * small) * small)
    sums = add_exact_groups(np.zeros((2, 1), np.float32), left, right, 4, 11)
    assert sums[0, 0] == 2.0**16 + 2.0**-7
    assert sums[1, 0] == np.float32(right.astype(np.float64).sum())
