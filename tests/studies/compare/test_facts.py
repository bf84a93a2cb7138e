"""Facts of two runs: when they differ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.studies.compare.facts import Fact

pytestmark = pytest.mark.fast


VALUES = st.none() | st.integers(-(10**12), 10**12) | st.floats(-1e6, 1e6) | st.sampled_from(["cube", "mte2"])


@given(st.lists(VALUES, min_size=2, max_size=5))
def test_a_fact_differs_when_two_known_values_do(values: list[Any]) -> None:
    fact = Fact("x", tuple(values))
    known = [value for value in values if value is not None]
    assert fact.differs == any(a != b for a in known for b in known)
    for value, more in zip(values, fact.differences, strict=True):
        if None in (value, values[0]) or isinstance(value, str) or isinstance(values[0], str):
            assert more is None
        else:
            assert more == pytest.approx(value - values[0], rel=1e-9, abs=1e-9)
