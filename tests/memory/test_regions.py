"""Strided regions against sets of bytes."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from ascend_sim.memory.regions import Region, overlap, row_starts
from tests.support.sampling import sampled


def touched(region: Region, address: int = 0) -> set[int]:
    return {
        address + region.offset + p * region.plane_stride + r * region.row_stride + byte
        for p in range(region.planes)
        for r in range(region.rows)
        for byte in range(region.row_bytes)
    }


any_region = st.builds(
    Region,
    st.just("src0"),
    st.just("L1"),
    st.integers(1, 12),
    st.integers(0, 30),
    st.integers(1, 5),
    st.integers(0, 80),
    st.integers(1, 4),
    st.integers(0, 20),
)
tight_region = st.builds(  # rows or planes that adjoin, so that merging happens
    lambda size, rows, planes, offset: Region("src0", "L1", size, size, rows, size * rows, planes, offset),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 10),
)
regions = st.one_of(any_region, tight_region)


@sampled(300, 1500)
@given(regions, regions, st.integers(-150, 150))
def test_overlap(first: Region, second: Region, distance: int) -> None:
    assert overlap(first, second, distance) == bool(touched(first) & touched(second, distance))


@sampled(75, 300)
@given(regions, regions, st.integers(-150, 150))
def test_overlap_is_mutual(first: Region, second: Region, distance: int) -> None:
    assert overlap(first, second, distance) == overlap(second, first, -distance)


@sampled(125, 500)
@given(regions)
def test_merged_rows_are_the_same_bytes(region: Region) -> None:
    merged = region.simplified()
    assert touched(merged) == touched(region)
    assert merged.rows * merged.planes <= region.rows * region.planes
    assert (merged.operand, merged.space) == (region.operand, region.space)


@sampled(75, 300)
@given(regions)
def test_extent_total_and_starts(region: Region) -> None:
    assert region.extent == max(touched(region)) + 1
    starts = row_starts(region).tolist()
    assert len(starts) == region.rows * region.planes
    assert region.total == len(starts) * region.row_bytes
    assert {start + byte for start in starts for byte in range(region.row_bytes)} == touched(region)


@given(st.integers(1, 50), st.integers(2, 6))
def test_dense_rows_become_one(size: int, rows: int) -> None:
    assert Region("dst", "UB", size, size, rows, size * rows, 3).simplified().row_bytes == size * rows * 3


def test_a_hull_would_be_wrong() -> None:
    """Two regions that lie between each other's rows share nothing."""
    even, odd = Region("dst", "UB", 32, 64, 8), Region("dst", "UB", 32, 64, 8)
    assert not overlap(even, odd, 32)
    assert overlap(even, odd, 64)
    assert overlap(even, odd, 31)


@given(regions)
def test_an_empty_region_touches_nothing(region: Region) -> None:
    assume(region.rows)
    none = Region("dst", "L1", 4, 4, 0)
    assert none.extent == 0
    assert not overlap(none, region, 0)
