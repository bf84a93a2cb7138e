"""Operands that are widened before they are multiplied."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.numerics.widen import to_float32

pytestmark = pytest.mark.fast


def test_infinities_of_float16_stay_what_they_are() -> None:
    values = np.float16([np.inf, -np.inf, np.nan, 65504, -(2.0**-24)])
    np.testing.assert_array_equal(to_float32(values), values.astype(np.float32))
    np.testing.assert_array_equal(to_float32(values[3:]), values[3:].astype(np.float32))
