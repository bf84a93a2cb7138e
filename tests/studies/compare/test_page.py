"""The page of a comparison: what stands in it, and in a browser its timelines on one zoom."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ascend_sim import run_case
from ascend_sim.isa.base import PIPES
from ascend_sim.studies.compare.facts import RunComparison
from ascend_sim.studies.compare.page import write_page
from ascend_sim.studies.compare.run import compare_runs
from tests.support.report.browser import chromium, cut_off, emulate, unnamed
from tests.support.report.calls import call


@pytest.fixture(scope="module")
def comparison() -> RunComparison:
    return compare_runs(call(size=12, block_dim=2), call(size=12, block_dim=1))


@pytest.fixture(scope="module")
def page(comparison: RunComparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "compare.html"
    write_page(path, comparison)
    return path


@pytest.fixture(scope="module")
def browser(page: Path) -> Iterator[Any]:
    with chromium() as driver:
        driver.get(page.as_uri())
        driver.implicitly_wait(5)
        driver.find_element("css selector", 'body[data-ready="yes"]')
        yield driver


def figures_of(page: Path) -> list[Any]:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def places_of(page: Path) -> dict[str, int]:
    text = page.read_text(encoding="utf-8")
    return {name: int(place) for name, place in re.findall(r'id="([\w-]+)" data-figure="(\d+)"', text)}


def wait_for(browser: Any, script: str) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 10).until(lambda one: one.execute_script(f"return {script}"))


def views_of(browser: Any, comparison: RunComparison, name: str) -> tuple[int, list[str]]:
    """Show a kernel of both runs and return (its index, the script of each timeline's view)."""
    index = next(i for i, kernel in enumerate(comparison.kernels) if kernel.name == name)
    row = next(one for one in browser.find_elements("css selector", "tr[data-kernel]") if name in one.text.split())
    row.click()
    assert wait_for(browser, f"document.getElementById('kernel').value === '{index}'")
    for letter in "AB":
        wait_for(browser, f"document.querySelector('#timeline-{index}-{letter}[data-ready=yes]')")
    return index, [f"ascendTimelines.views['timeline-{index}-{letter}']" for letter in "AB"]


def test_a_timeline_counts_from_the_launch_of_its_kernel(browser: Any, comparison: RunComparison) -> None:
    """All begin at 0 on one scale, and hold the instructions and stalls of a block of their own run."""
    index, views = views_of(browser, comparison, "grad_weight")
    kernel = comparison.kernels[index]
    longest = max(kernel.fact("kernel", "us").values)
    for view, one, task in zip(views, comparison.runs, kernel.rows, strict=True):
        timeline, mhz = one.recording.timeline, one.recording.chip.clock.cube_mhz
        block = int(browser.execute_script(f"return {view}.place.dataset.block"))
        run, launch = timeline.programs[block], timeline.tasks[task].launch
        assert run.task == task and browser.execute_script(f"return {view}.times") == pytest.approx([0, longest])
        script = f"const one = {view}; return [...one.one.start].map((cycles) => one.us(cycles))"
        assert browser.execute_script(script) == pytest.approx(((run.start - launch) / mhz).tolist())
        script = f"return {view}.one.pipes.flatMap((pipe) => pipe.stalls).map(([from, to, cause]) => [to - from, cause])"
        flags = sum(cycles for cycles, cause in browser.execute_script(script) if cause == "flag")
        assert flags == sum(run.stalls(pipe).get("flag", 0) for pipe in PIPES[1:]) > 0


def test_timelines_side_by_side_begin_with_the_launch(page: Path, comparison: RunComparison) -> None:
    text = page.read_text(encoding="utf-8")
    for index, kernel in enumerate(comparison.kernels):
        for number, (letter, one, row) in enumerate(zip("AB", comparison.runs, kernel.rows, strict=True)):
            assert row is not None
            launch = one.recording.timeline.tasks[row].launch
            assert f'id="timeline-{index}-{letter}" data-run="{number}" data-origin="{launch}"' in text


def test_a_waterfall_is_drawn_for_each_run(page: Path, comparison: RunComparison) -> None:
    figures, places = figures_of(page), places_of(page)
    index = next(i for i, kernel in enumerate(comparison.kernels) if kernel.name == "grad_input")
    for number, letter in enumerate("AB"):
        (bar,) = figures[places[f"waterfall-{index}-{letter}"]]["data"]
        parts = [fact for fact in comparison.kernels[index].groups["waterfall"] if fact.values[number]]
        assert [cells[0] for cells in bar["customdata"][:-1]] == [f"{fact.values[number]:,}" for fact in parts]


def test_rows_that_differ_are_marked(page: Path, comparison: RunComparison) -> None:
    text = page.read_text(encoding="utf-8")
    for kernel in comparison.kernels:
        assert bool(re.search(rf'<tr class="differs"[^>]*><td>\*\xa0{kernel.name}</td>', text)) == kernel.differs


def test_equal_rows_have_no_columns_of_differences(page: Path) -> None:
    tables = re.findall(r"(<details class=\"equal\">.*?)?<thead><tr>(.*?)</tr>", page.read_text(encoding="utf-8"), re.DOTALL)
    assert {bool(folded) for folded, _ in tables} == {True, False}
    assert all(("relative" in head) != bool(folded) for folded, head in tables)


@pytest.mark.parametrize("width", [1600, 400])
def test_nothing_is_cut_off_and_every_chart_has_a_name(browser: Any, width: int) -> None:
    emulate(browser, width, 900, mobile=width < 600)
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert cut_off(browser, ".scroll" if width < 600 else "") == [] and unnamed(browser) == []
    emulate(browser, 1280, 900)


def test_zooming_one_timeline_zooms_the_other(browser: Any, comparison: RunComparison) -> None:
    _, (first, second) = views_of(browser, comparison, "grad_input")
    for one, other, span in ((first, second, "[1, 2]"), (second, first, "[3, 3.5]")):
        browser.execute_script(f"{one}.show({span}.map((us) => {one}.cyclesAt(us)))")
        assert wait_for(browser, f"{other}.times.every((us, i) => Math.abs(us - {span}[i]) < 1e-6)")
    assert browser.find_elements("css selector", ".modebar-btn") == [], "nothing leaves the page"
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []


def test_the_first_kernel_is_one_that_differs_where_no_time_does(tmp_path: Path) -> None:
    """A second buffer changes no time of so small a call: only the tiling of grad_input differs."""
    found = compare_runs(run_case("by_hand"), run_case("by_hand", tiling={"grad_input": {"bl1Pbuffer": 1}}))
    differ = [kernel.name for kernel in found.kernels if kernel.differs]
    write_page(tmp_path / "page.html", found)
    first = re.search(r'<option value="\d+">([^<]*)</option>', (tmp_path / "page.html").read_text(encoding="utf-8"))
    assert first is not None and differ == ["grad_input"] == [first[1]]
    assert found.kernels[0].name != "grad_input" and {kernel.spread for kernel in found.kernels} == {0}


def test_a_long_name_stays_in_its_card(tmp_path: Path) -> None:
    write_page(tmp_path / "long.html", compare_runs("by_hand", "document_example_2d"))
    with chromium(400, 900) as browser:
        emulate(browser, 400, 900, mobile=True)
        browser.get((tmp_path / "long.html").as_uri())
        assert cut_off(browser, ".scroll") == []
