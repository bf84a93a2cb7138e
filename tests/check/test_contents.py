"""Units that are marked, against a set of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.check.accesses import Accesses, Shapes
from ascend_sim.check.contents import _mark, _Units
from ascend_sim.check.subject import Subject
from ascend_sim.chip import load_chip
from ascend_sim.memory.regions import Region, row_starts

SIZE = 1024


def bytes_of(region: Region, start: int) -> set[int]:
    return {start + at + byte for at in row_starts(region).tolist() for byte in range(region.row_bytes)}


def random_region(rng: np.random.Generator, unit: int) -> tuple[Region, int]:
    rows, planes = (int(rng.integers(1, 4)) for _ in range(2))
    region = Region("dst", "GM", unit * int(rng.integers(1, 4)), 4 * unit, rows, 16 * unit, planes).simplified()
    return region, unit * int(rng.integers((SIZE - region.extent) // unit + 1))


@pytest.mark.fast
@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_missing_is_what_nobody_marked(unit: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    units, marked = _Units(SIZE // unit, unit), set[int]()
    for _ in range(30):
        region, start = random_region(rng, unit)
        wanted = bytes_of(region, start)
        assert units.missing(region, start) == len(wanted - marked)
        units.mark(region, start)
        marked |= wanted
        assert units.missing(region, start) == 0
    assert np.flatnonzero(units.all).tolist() == sorted({byte // unit for byte in marked})


@pytest.mark.fast
def test_all_of_a_tensor_may_be_marked_from_the_start() -> None:
    assert _Units(8, marked=True).all.all() and not _Units(8).all.any() and len(_Units(0, marked=True).all) == 0


@pytest.mark.fast
def test_a_run_of_more_than_is_written_at_a_time_is_marked() -> None:
    units = _Units(1 << 17)
    units.mark(Region("dst", "GM", (1 << 17) - 2), 1)
    assert np.flatnonzero(~units.all).tolist() == [0, (1 << 17) - 1]


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(10))
def test_footprints_that_are_marked_together_are_marked_one_by_one(seed: int) -> None:
    rng, shapes, base = np.random.default_rng(seed), Shapes(load_chip("ascend910b3")), 1 << 20
    regions = [random_region(rng, 4) for _ in range(20)]
    form = np.asarray([shapes.number(region) for region, _ in regions], np.int32)
    start = base + np.asarray([start for _, start in regions])
    none = np.zeros(20, np.int32)
    a = Accesses("GM", none, none, none, none, form, start, none > 0, none, np.arange(21))
    subject = Subject(None, None, [], shapes)  # type: ignore[arg-type]
    together, single = _Units(SIZE // 4, 4), _Units(SIZE // 4, 4)
    _mark(together, subject, a, np.arange(20), base)
    for region, at in regions:
        single.mark(region, at)
    assert together.all.tolist() == single.all.tolist()
