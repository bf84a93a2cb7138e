"""Tasks that cores share."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ops.kernels.cube.tasks import core_share


@given(st.integers(0, 200), st.integers(1, 30))
def test_core_share_is_even_and_in_order(total: int, cores: int) -> None:
    shares = [core_share(total, cores, core) for core in range(cores)]
    assert list(itertools.chain(*shares)) == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
