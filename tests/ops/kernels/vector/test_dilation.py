"""Maps with zeros between their pixels."""

from __future__ import annotations

from itertools import product

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.vector.dilation import Spread, dilation_work

pytestmark = pytest.mark.fast


def test_pixels_of_a_spread_map_are_those_whose_place_is_in_the_tile() -> None:
    """Also where the map begins before its target, and tiles that begin between two pixels."""
    spread = Spread(1, 1, 1, 1, 1, 1)
    for first, count, stride, start, size in product(range(6), (1, 4), (1, 2, 3), (-4, -1, 0, 2), (1, 5)):
        inside = [i for i in range(size) if first <= i * stride + start < first + count]
        assert list(spread.inside(first, count, stride, start, size)) == inside


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9000), (5, 9000), (700, 11), (3, 3072)])
def test_tiles_cover_every_plane_of_the_target_once(height: int, width: int) -> None:
    planes = 3
    work = dilation_work(load_chip("ascend910b3"), planes, Spread(1, 1, height, width, 1, 1), "float16")
    windows = [window for block in range(work.blocks) for window in work.pieces_of(block)]
    met = [(plane, y, x) for plane, rows, columns in windows for y in rows for x in columns]
    assert len(met) == planes * height * width
    assert set(met) == set(product(range(planes), range(height), range(width)))
