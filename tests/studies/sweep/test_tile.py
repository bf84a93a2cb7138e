"""Sweeps that search tilings at every point, and those that say what they left unchanged."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import ascend_sim as asim
from ascend_sim.chip import load_chip
from ascend_sim.errors import AclnnError
from ascend_sim.ops.case import load_case
from ascend_sim.studies.sweep import pages, point
from ascend_sim.studies.sweep.point import TRIED, SweepPoint, searched_tilings
from ascend_sim.studies.sweep.run import Sweep, sweep
from tests.support.studies.searched import case

L1 = 512 * 1024


def last_line(found: Sweep) -> str:
    screen = Console(file=StringIO(), width=200)
    pages.render(found, screen)
    return screen.file.getvalue().splitlines()[-1]  # type: ignore[attr-defined]


def us(loaded: Any, name: str, **settings: Any) -> float:
    report = asim.run_case(loaded, mode="timing", timeline=False, **settings).report
    return next(kernel["task_us"] for kernel in report.kernels if kernel["name"] == name)


def test_a_point_has_the_best_tiling_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a search of the case, and a run with its result."""
    monkeypatch.setattr(point, "TRIED", tried := 8)
    loaded = case(c_in=16, c_out=32, size=5)
    (row,) = sweep(loaded, {"batch": [2]}, tile=True).rows
    for outcome in asim.search_tilings(loaded, limit=tried, top=1):
        name = outcome.kernel.name
        best = {} if outcome.best["cycles"] >= outcome.call["cycles"] else {name: dict(outcome.best["fields"])}
        assert row[f"{name}_us"] == us(loaded, name, tiling=best)
        assert row[f"{name}_us"] <= us(loaded, name) and row[f"{name}_searched"] is bool(best)


def test_a_kernel_that_nothing_beats_is_left_as_it_is() -> None:
    """The older grad_weight kernel of this layer is faster than every tiling that a short search finds."""
    loaded = load_case("mobilenet_v2:block5_depthwise").model_copy(update={"chip": "ascend910b3"})
    assert "grad_weight" not in searched_tilings(loaded, load_chip("ascend910b3"))


def test_fields_that_are_varied_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point, "TRIED", 8)
    found = sweep(case(c_in=16, c_out=32, size=5), {"grad_input.baseM": [32]}, tile=True)
    for row in found.rows:
        assert f"baseM={row['grad_input.baseM']}," in row["grad_input_tiling"]


def test_a_forward_convolution_has_nothing_to_search() -> None:
    assert searched_tilings(load_case("forward_2d"), load_chip("ascend910b3")) == {}
    refused = case(c_in=32).model_copy(update={"cube_math_type": 9})
    with pytest.raises(AclnnError):
        searched_tilings(refused, load_chip("ascend910b3"))
    (row,) = sweep(refused, {"batch": [2]}, tile=True).rows
    assert row["status"] == 161002


@pytest.mark.fast
def test_a_point_with_a_search_is_another_one() -> None:
    loaded, chip = case(), load_chip("ascend910b3")
    assert SweepPoint(loaded, chip).name != SweepPoint(loaded, chip, tile=True).name


@pytest.mark.fast
def test_a_point_of_another_library_is_another_one() -> None:
    loaded, chip = case(), load_chip("ascend910b3")
    assert SweepPoint(loaded, chip).name != SweepPoint(loaded, chip, library="9.0.0").name


@pytest.mark.fast
def test_a_searched_point_depends_on_the_code_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = load_chip("ascend910b3")
    points = [SweepPoint(case(), chip, tile=tile) for tile in (False, True)]
    before = [one.name for one in points]
    monkeypatch.setattr(point, "code_digest", {"studies.tiles": "changed"}.__getitem__)
    assert [one.name == name for one, name in zip(points, before, strict=True)] == [True, False]


def test_a_sweep_over_buffers_says_what_became_of_the_tilings(tmp_path: Path) -> None:
    same = sweep("by_hand", {"chip.buffers.L1": [L1, 2 * L1]})
    assert same.unchanged and last_line(same) == "tilings unchanged: no kernel used the other size; try --tile"
    large = case(n=2, c_in=256, c_out=256, size=28)
    other = sweep(large, {"chip.buffers.L1": [L1 // 4, 2 * L1]})
    assert not other.unchanged and last_line(other).startswith("tilings: the call's own choice at each point; --tile")
    found = sweep("by_hand", {"chip.buffers.L1": [L1]}, tile=True)
    assert last_line(found) == f"tilings: the best that {TRIED} simulations of each cube kernel found at each point"
    assert found.to_dict()["tile"] is True and not last_line(sweep("by_hand", {"batch": [1, 2]})).startswith("tilings")


@pytest.mark.fast
def test_a_sweep_says_where_a_larger_buffer_is_slower() -> None:
    """The tiling of the smaller buffer fits the larger one too: only its search missed it."""

    def lines(*points: tuple[int, int, float, bool]) -> list[str]:
        rows = [
            {
                "chip.buffers.L1": l1,
                "batch": batch,
                "status": 0,
                "us": us,
                "grad_weight_us": us,
                "grad_weight_searched": searched,
            }
            for l1, batch, us, searched in points
        ]
        return pages.tilings_words(Sweep("x", ("chip.buffers.L1", "batch"), tuple(rows), 0, True, True))[1:]

    small = (L1, 1, 44.0, False)
    assert lines(small, (2 * L1, 1, 44.0, False)) == lines(small, (2 * L1, 2, 50.0, True)) == []
    (line,) = lines(small, (2 * L1, 1, 48.0, True), (4 * L1, 1, 47.0, True))
    assert line == (
        f"grad_weight: chip.buffers.L1 {2 * L1} is slower than {L1}, whose tiling (the call's own choice) fits too; "
        f"{TRIED} simulations did not reach it"
    )
    assert "whose tiling fits too" in lines((L1, 1, 44.0, True), (2 * L1, 1, 48.0, False))[0]


@pytest.mark.fast
def test_points_without_a_kernel_are_not_compared_by_it() -> None:
    """Where the output mask is varied, points with other buffers may both lack a kernel that others ran."""
    lacking = [{"chip.buffers.L1": l1, "mask": 1, "status": 0, "us": 9.0} for l1 in (L1, 2 * L1)]
    ran = [{**row, "mask": 2, "grad_weight_us": 5.0, "grad_weight_searched": True} for row in lacking]
    assert len(pages.tilings_words(Sweep("x", ("chip.buffers.L1", "mask"), (*lacking, *ran), 0, True, True))) == 1
