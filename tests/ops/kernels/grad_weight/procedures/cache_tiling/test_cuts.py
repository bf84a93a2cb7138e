"""Cuts of an axis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import cut_counts, largest_divisor, share_of

pytestmark = pytest.mark.fast


@given(st.integers(1, 3000), st.integers(0, 4000), st.booleans())
def test_the_largest_divisor_is_that_of_trying_all(number: int, limit: int, even: bool) -> None:
    tried = [d for d in range(1, limit + 1) if number % d == 0 and (d % 2 == 0 or not even)]
    assert largest_divisor(number, limit, even) == (number if limit >= number else max(tried, default=0))


def test_cuts_by_hand() -> None:
    assert cut_counts(13, 24) == (1, 2, 3, 4, 6, 8, 12, 13)  # below 16: its own divisors and the cores'
    assert cut_counts(36, 20) == (1, 2, 3, 4, 5, 6, 9, 10, 12, 18, 20)
    assert cut_counts(17, 20) == (1, 2, 4, 5, 8, 10, 16)  # 17 is cut as 32
    assert share_of(21, 2, 24) == 12  # the even half, 11, is a prime, of which no tile could be made
    assert share_of(36, 4, 24) == 9
