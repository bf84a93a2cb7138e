"""Published vector tile operations against the chip files."""

from __future__ import annotations

import pytest

from ascend_sim.studies.validate.instruction_points import PublishedPoint, compare_points, shipped_points
from ascend_sim.studies.validate.pages import group_points, points_text


def test_every_shipped_point_is_compared_or_says_why_not() -> None:
    compared = compare_points(shipped_points())
    assert {one.point.arch for one in compared} == {"dav-2201", "dav-3510"}
    for one in compared:
        assert one.skipped or (one.predicted > 0 and one.published > 0)


@pytest.mark.parametrize(
    ("point", "cycles"),
    [
        # 22.5 of head, and 64 repeats of 2 with both sources in the same banks
        (PublishedPoint("dav-2201", "TADD", "fp32", "fp32", 64, 64, 64, 160.0, 0, 0), 23 + 128),
        # no bank conflict with one source; a partly filled last repeat costs 16
        (PublishedPoint("dav-2201", "TMULS", "fp32", "fp32", 1, 100, 100, 41.0, 0, 0), 23 + 2 + 16),
        # rows of one vector take 1 + 5, and 34.5 + 20 around them
        (PublishedPoint("dav-3510", "TNEG", "fp32", "fp32", 4, 64, 128, 79.0, 0, 0), 35 + 4 * 6 + 20),
        # a line at 8 and at 64 repeats: the worse one
        (PublishedPoint("dav-2201", "TMAXS", "fp32", "fp32", 0, 0, 0, None, 30, 1.0), 23 + 8),
    ],
)
def test_what_is_predicted(point: PublishedPoint, cycles: int) -> None:
    (compared,) = compare_points([point])
    assert compared.predicted == cycles


def test_what_has_no_cost_is_counted_apart() -> None:
    points = [
        PublishedPoint("dav-2201", "TADD", "fp32", "fp32", 64, 64, 64, 151.0, 0, 0),
        PublishedPoint("dav-2201", "TADD", "fp32", "fp32", 64, 64, 64, 302.0, 0, 0),
        PublishedPoint("dav-2201", "TSORT32", "fp32", "fp32", 64, 64, 64, 151.0, 0, 0),
    ]
    (group,) = group_points(compare_points(points))
    assert (group.points, group.median, group.far, group.skipped) == (2, 0.75, 1, 1)
    assert points_text([group]) == [
        "vector tile operations of dav-2201: 2 points, median precision 0.750, 1 below 0.75; 1 without a cost here"
    ]


def test_the_median_of_the_shipped_points_is_published_as_it_is() -> None:
    for group in group_points(compare_points(shipped_points())):
        assert group.median >= 0.92, group
