"""Maps with zeros between their pixels."""

from __future__ import annotations

from itertools import product

import pytest

from ascend_sim.ops.kernels.vector.dilation import Spread


@pytest.mark.fast
def test_pixels_of_a_spread_map_are_those_whose_place_is_in_the_tile() -> None:
    """Also where the map begins before its target, and tiles that begin between two pixels."""
    spread = Spread(1, 1, 1, 1, 1, 1)
    for first, count, stride, start, size in product(range(6), (1, 4), (1, 2, 3), (-4, -1, 0, 2), (1, 5)):
        inside = [i for i in range(size) if first <= i * stride + start < first + count]
        assert list(spread.inside(first, count, stride, start, size)) == inside
