"""The data cache of the scalar unit: whole lines, which only a clean writes back."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.memory.data_cache import DataCache
from ascend_sim.memory.gm import gm_operand

pytestmark = pytest.mark.fast
LINE = 64


def ones(count: int) -> np.ndarray:
    return np.ones(count, np.uint8)


def test_a_store_is_seen_when_its_line_is_written_back() -> None:
    gm = [np.zeros(200, np.uint8), np.zeros(200, np.uint8)]
    cache = DataCache(gm, LINE)
    cache.write(gm_operand(1, 70), ones(4))
    assert not gm[1].any() and cache.read(gm_operand(1, 70), 4).all()
    cache.clean(gm_operand(1, 64))
    assert gm[1][70:74].all() and gm[1].sum() == 4 and not gm[0].any()


def test_a_line_that_is_held_hides_what_others_write_and_loses_it() -> None:
    gm = [np.zeros(128, np.uint8)]
    cache = DataCache(gm, LINE)
    cache.write(gm_operand(0, 0), ones(1))
    gm[0][8] = 5
    assert cache.read(gm_operand(0, 8), 1)[0] == 0
    cache.clean()
    assert gm[0][0] == 1 and gm[0][8] == 0


def test_a_line_that_was_only_read_is_dropped_and_not_written_back() -> None:
    gm = [np.zeros(128, np.uint8)]
    cache = DataCache(gm, LINE)
    cache.read(gm_operand(0, 64), 4)
    gm[0][64] = 5
    cache.clean(gm_operand(0, 100))
    assert gm[0][64] == 5 and cache.read(gm_operand(0, 64), 1)[0] == 5


def test_a_clean_of_one_line_leaves_the_others() -> None:
    gm = [np.zeros(150, np.uint8)]
    cache = DataCache(gm, LINE)
    for offset in (0, 64, 149):
        cache.write(gm_operand(0, offset), ones(1))
    cache.clean(gm_operand(0, 130))
    assert np.flatnonzero(gm[0]).tolist() == [149]
    cache.clean()
    assert np.flatnonzero(gm[0]).tolist() == [0, 64, 149]
