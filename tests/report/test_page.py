"""The HTML report: what stands in it, and what it does in a browser."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium, emulate
from calls import call

from ascend_sim.engine.critical_path import critical_path
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPES
from ascend_sim.report import figures
from ascend_sim.report.page import open_run, write_page
from ascend_sim.report.report import Report
from ascend_sim.report.timeline_figure import timeline_figure, windows
from ascend_sim.report.timeline_file import write_timeline
from ascend_sim.report.what_if import Outcome, what_if


@pytest.fixture(scope="module")
def result() -> Any:
    return call(size=56, block_dim=1)


@pytest.fixture(scope="module")
def outcomes(result: Any) -> list[Outcome]:
    return what_if(result.recording)


@pytest.fixture(scope="module")
def page(result: Any, outcomes: list[Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, result.recording, result.report.to_dict(), outcomes)
    return path


@pytest.fixture(scope="module")
def browser(page: Path) -> Iterator[Any]:
    with chromium() as driver:
        driver.get(page.as_uri())
        driver.implicitly_wait(5)
        driver.find_element("css selector", 'body[data-ready="yes"]')
        yield driver


def test_it_needs_nothing_from_outside(page: Path) -> None:
    """Nothing is loaded: no element has a source or a reference, apart from what stands in Plotly's own script."""
    text = page.read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"\b(src|href)\s*=", own)
    assert "@import" not in own and "url(" not in own
    assert len(text) < 8e6


def test_the_same_run_gives_the_same_bytes(page: Path, result: Any, outcomes: list[Outcome], tmp_path: Path) -> None:
    write_page(tmp_path / "again.html", result.recording, result.report.to_dict(), outcomes)
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_windows_lie_apart_and_in_order(result: Any) -> None:
    run = max(result.timeline.programs, key=lambda one: len(one.program))
    parts = windows(run, 50)
    assert list(parts) == ["start", "steady state", "end"]
    assert len(np.unique(np.concatenate(list(parts.values())))) == 150
    starts = [run.start[part] for part in parts.values()]
    assert starts[0].max() <= starts[1].min() and starts[1].max() <= starts[2].min()
    assert list(windows(run, len(run.program))) == ["whole block"]


def test_boxes_of_a_timeline_are_its_instructions(result: Any) -> None:
    """Every instruction of the windows once, from its start to its end, in us from the first launch."""
    path = critical_path(result.timeline)
    on_path = {step.program for step in path}
    run = max((result.timeline.programs[i] for i in on_path if i >= 0), key=lambda one: len(one.program))
    figure = timeline_figure(result.recording, run, path, 10_000)
    boxes = [trace for trace in figure.data if trace.type == "bar" and trace.name in PIPES]
    kinds = [one.instruction.name for one in run.program]
    work = [i for i, name in enumerate(kinds) if run.end[i] > run.start[i] and name != "wait_flag"]
    assert sum(len(trace.base) for trace in boxes) == len(work)
    mhz = result.recording.chip.clock.cube_mhz
    drawn = sorted((round(b, 3), round(x, 3)) for trace in boxes for b, x in zip(trace.base, trace.x, strict=True))
    wanted = sorted((round(run.start[i] / mhz, 3), round((run.end[i] - run.start[i]) / mhz, 3)) for i in work)
    assert np.allclose(drawn, wanted, atol=2e-3)
    assert any("on the critical path" in text for trace in boxes for text in trace.text)


def test_stalls_of_a_timeline_are_those_of_the_engine(result: Any) -> None:
    run = max(result.timeline.programs, key=lambda one: len(one.program))
    figure = timeline_figure(result.recording, run, [], 10_000)
    mhz = result.recording.chip.clock.cube_mhz
    for trace in figure.data:
        if trace.type == "bar" and trace.name == "stall: flag":
            drawn = sum(x for x in trace.x) * mhz
    assert drawn == pytest.approx(
        sum(run.stalls(pipe).get("flag", 0) for pipe in ("MTE1", "MTE2", "M", "FIX")), rel=1e-3
    )


def test_utilisation_is_the_mean_of_the_report(result: Any) -> None:
    task = next(i for i, one in enumerate(result.tasks) if one.name == "grad_weight")
    kernel = result.report.kernels[task]
    heat = figures.utilisation_figure(result.recording, task).data[0]
    shares = dict(zip(heat.y, np.mean(heat.z, axis=1), strict=True))
    assert shares["MTE1"] == pytest.approx(100 * kernel["pipes_us"]["mte1"] / kernel["core_us"], rel=0.1)


def test_hbm_bytes_are_at_least_the_tensors(result: Any) -> None:
    """A cold L2 fetches both operands once."""
    moved = sum(figures.hbm_bytes(result.recording, task) for task in range(len(result.tasks)))
    assert moved >= 2 * 2 * 32 * 56 * 56 * 2


def test_reports_of_other_runs_are_refused(result: Any, tmp_path: Path) -> None:
    report = result.report.to_dict()
    with pytest.raises(SimError, match="does not belong to the run"):
        write_page(tmp_path / "a.html", result.recording, {**report, "kernels": report["kernels"][1:]})
    with pytest.raises(SimError, match="no such folder"):
        open_run(tmp_path / "missing")
    (tmp_path / "report.json").write_text("[]")
    with pytest.raises(SimError, match=r"no timeline\.npz"):
        open_run(tmp_path)
    (tmp_path / "timeline.npz").write_text("")
    with pytest.raises(SimError, match=r"timeline\.npz: not an \.npz file"):
        open_run(tmp_path)
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "[]", "not a report"),
        (lambda text: "{", "not a report"),
        (lambda text: "[" * 100_000, "not a report"),
        (
            lambda text: text.replace('"version": 1', '"version": 99'),
            "a report of version 99; this ascend-sim reads version 1",
        ),
        (lambda text: text.replace('"version": 1,', ""), "written before reports had version numbers"),
        (lambda text: text.replace('"block_dim"', '"block_dims"', 1), "changed, or of another run"),
        (lambda text: text.replace('"task_us": ', '"task_us": 1', 1), "changed, or of another run"),
    ],
)
def test_a_report_that_was_changed_is_refused(
    result: Any, tmp_path: Path, change: Callable[[str], str], said: str
) -> None:
    report = result.report.to_dict()
    write_timeline(tmp_path / "timeline.npz", result.recording, report)
    text = json.dumps(report)
    (tmp_path / "report.json").write_text(json.dumps(json.loads(text), indent=7))  # set in another way: the same report
    assert open_run(tmp_path)[1] == json.loads(text)
    assert change(text) != text
    (tmp_path / "report.json").write_text(change(text))
    with pytest.raises(SimError) as caught:
        open_run(tmp_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_notebooks_show_the_report_without_markup_from_outside(result: Any) -> None:
    report = dataclasses.replace(result.report, warnings=("<script>alert(1)</script>",))
    assert isinstance(report, Report)
    text = report._repr_html_()
    assert "<script" not in text and "grad_weight" in text and f"{result.report.total_us:,.2f} us" in text
    assert "critical path" in result._repr_html_()


# -- in a browser ------------------------------------------------------------------------------------------------------


def wait_for(browser: Any, script: str) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 10).until(lambda one: one.execute_script(f"return {script}"))


def test_it_loads_without_errors(browser: Any) -> None:
    assert [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")] == []
    for identity in ("words", "what-if", "critical-path", "kernels", "roofline", "kernel", "one-kernel"):
        assert browser.find_element("id", identity).is_displayed(), identity
    wait_for(browser, "document.querySelectorAll('#critical-path .main-svg').length > 0")
    visible = [one for one in browser.find_elements("css selector", ".figure") if one.is_displayed()]
    assert len(visible) >= 8
    assert all(one.find_elements("css selector", ".main-svg") for one in visible), "every figure in sight is drawn"


def test_another_kernel_can_be_chosen(browser: Any) -> None:
    rows = browser.find_elements("css selector", "#kernels tr[data-kernel]")
    row = next(one for one in rows if "grad_input" in one.text and "TransData" not in one.text)
    row.click()
    kernel = row.get_attribute("data-kernel")
    assert wait_for(browser, f"document.getElementById('kernel').value === '{kernel}'")
    sections = browser.find_elements("css selector", "section.kernel")
    assert [one.get_attribute("data-kernel") for one in sections if one.is_displayed()] == [kernel]
    wait_for(browser, f"document.querySelectorAll('#timeline-{kernel} .main-svg').length > 0")
    assert browser.find_element("id", f"occupancy-{kernel}").is_displayed()
    timeline, curves = (f"document.getElementById('{one}-{kernel}')._fullLayout" for one in ("timeline", "occupancy"))
    assert wait_for(browser, f"String({timeline}.xaxis.range) === String({curves}.xaxis.range)"), "from the start"


def test_the_timeline_zooms(browser: Any) -> None:
    """By its buttons, by dragging, and back by a double click."""
    from selenium.webdriver.common.action_chains import ActionChains

    section = next(one for one in browser.find_elements("css selector", "section.kernel") if one.is_displayed())
    plot = section.find_element("css selector", '.figure[data-zoom="yes"]')
    identity = plot.get_attribute("id")
    span = f"(document.getElementById('{identity}')._fullLayout.xaxis.range)"
    for name in ("end", "whole block", "start"):
        section.find_element("css selector", f'button[data-window="{name}"]').click()
        wanted = wait_for(browser, f"document.getElementById('{identity}').layout.meta.windows['{name}']")
        assert browser.execute_script(f"return {span}") == pytest.approx(wanted)
    area = plot.find_element("css selector", ".nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    width = area.size["width"]
    ActionChains(browser).move_to_element_with_offset(area, -width // 4, 0).click_and_hold().move_by_offset(
        width // 4, 0
    ).release().perform()
    low, high = wait_for(browser, f"{span}.map(Number)")
    assert high - low < 0.5 * (wanted[1] - wanted[0])
    curves = identity.replace("timeline", "occupancy")
    followed = wait_for(browser, f"document.getElementById('{curves}')._fullLayout.xaxis.range.map(Number)")
    assert followed == pytest.approx([low, high])
    assert browser.find_elements("css selector", f"#{identity} .bars path")
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []


def test_hovering_tells_the_instruction(browser: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    section = next(one for one in browser.find_elements("css selector", "section.kernel") if one.is_displayed())
    section.find_element("css selector", 'button[data-window="start"]').click()
    plot = section.find_element("css selector", '.figure[data-zoom="yes"]')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    widest = browser.execute_script(
        "const found = [...arguments[0].querySelectorAll('.bars path')].map(path => [path, path.getBoundingClientRect()]);"
        "const whole = arguments[0].getBoundingClientRect();"  # bars outside the window are drawn too, and cut off
        "const seen = box => box.left > whole.left && box.right < whole.right && box.height > 20 && box.width < 300;"
        "const boxes = found.filter(([_, box]) => seen(box));"
        "return boxes.reduce((a, b) => b[1].width > a[1].width ? b : a)[0]",
        plot,
    )
    ActionChains(browser).move_to_element_with_offset(widest, 3, 9).perform()
    told = wait_for(browser, "document.querySelector('.hovertext')?.textContent")
    assert "cycles" in told and "retires" in told and "row" in told


def test_it_follows_the_dark_mode(browser: Any) -> None:
    def colors() -> tuple[str, str]:
        body = "getComputedStyle(document.body).backgroundColor"
        font = "document.getElementById('critical-path')._fullLayout.font.color"
        return browser.execute_script(f"return [{body}, {font}]")

    emulate(browser, 1280, 900, dark=True)
    wait_for(browser, "document.getElementById('critical-path')._fullLayout.font.color === '#e4e8ec'")
    dark = colors()
    emulate(browser, 1280, 900)
    wait_for(browser, "document.getElementById('critical-path')._fullLayout.font.color === '#1f2328'")
    assert dark != colors() and dark[0] == "rgb(20, 24, 29)"


def test_it_fits_a_phone(browser: Any) -> None:
    emulate(browser, 390, 844, mobile=True)
    wait_for(browser, "document.documentElement.scrollWidth <= 390")
    wait_for(browser, "document.querySelector('#critical-path .main-svg').getBoundingClientRect().width <= 390")
