"""Errors that lean to one side, and what counts as one error."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.numerics.direction import Direction

pytestmark = pytest.mark.fast


def test_errors_are_counted_by_magnitude() -> None:
    result, rounded = [-2.0, 2.0, 1.0, -1.0, 3.0, np.inf, 1.0, np.nan], [-1.0, 1.0, 2.0, -1.0, 2.0, 1.0, np.inf, np.nan]
    assert Direction.of(result, rounded, np.arange(8.0)) == Direction(away=3, towards_zero=1)


def test_elements_of_equal_sums_are_one_error() -> None:
    """A float64 sum in another order differs in its last digits, and is the same sum."""
    sums = np.array([1.5, 1.5 + 1e-15, 2.5, 2.5, 3.5, 4.5])
    rounded = sums.astype(np.float32)
    result = rounded + np.float32([1, 1, -1, -1, 1, 0])
    assert Direction.of(result, rounded, sums) == Direction(away=2, towards_zero=1)


def test_more_errors_of_one_kind_than_chance_lean() -> None:
    assert not Direction(42, 0).leans and Direction(43, 0).leans and Direction(0, 43).leans
    assert not Direction(1000, 1200).leans
    sums = np.arange(1.0, 101.0)
    assert Direction.of(sums + 1, sums, sums).leans
    assert not Direction.of(sums + 1, sums, np.ones(100)).leans
