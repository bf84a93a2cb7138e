"""The HTML report: what stands in it, and what it does in a browser."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim.engine.timeline import at_work
from ascend_sim.errors import SimError
from ascend_sim.isa.base import CROSS_WAIT, PIPES, WAIT
from ascend_sim.report.page import open_run, write_page
from ascend_sim.report.report import Report
from ascend_sim.report.timeline_file import write_timeline
from ascend_sim.report.what_if import ChangedRun, what_if
from tests.support.cli.user_tasks import KERNEL
from tests.support.report.browser import chromium, cut_off, emulate, unnamed
from tests.support.report.calls import call


@pytest.fixture(scope="module")
def result() -> Any:
    return call(size=56, block_dim=1)


@pytest.fixture(scope="module")
def outcomes(result: Any) -> list[ChangedRun]:
    return what_if(result.recording)


@pytest.fixture(scope="module")
def page(result: Any, outcomes: list[ChangedRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    assert len(text) < 6e6


def test_an_interval_says_of_which_chips_and_kind_it_is(page: Path, result: Any) -> None:
    text, noted = page.read_text(encoding="utf-8"), set()
    for kernel in result.report.kernels:
        found = kernel["interval"]
        borrowed = f"as {found['borrowed']}, " if "borrowed" in found else ""
        noted.add(note := f"({borrowed}of {', '.join(found['chips'])}, wider)")
        assert f"{found['low_us']:,.1f} to {found['high_us']:,.1f} {note}" in text
    assert noted >= {"(of ascend910b2, wider)", "(as dav-2201 TransData, of ascend910b2, wider)"}


def test_the_same_run_gives_the_same_bytes(page: Path, result: Any, outcomes: list[ChangedRun], tmp_path: Path) -> None:
    write_page(tmp_path / "again.html", result.recording, result.report.to_dict(), outcomes)
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


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
        (lambda text: text.replace('"version": 1', '"version": 99'), "a report of version 99; this ascend-sim reads version 1"),
        (lambda text: text.replace('"version": 1,', ""), "written before reports had version numbers"),
        (lambda text: text.replace('"block_dim"', '"block_dims"', 1), "changed, or of another run"),
        (lambda text: text.replace('"task_us": ', '"task_us": 1', 1), "changed, or of another run"),
    ],
)
def test_a_report_that_was_changed_is_refused(result: Any, tmp_path: Path, change: Callable[[str], str], said: str) -> None:
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


def test_notebooks_show_the_answer_that_print_shows(result: Any) -> None:
    lines = str(result.report).splitlines()
    assert len(lines) > 3 and all(escape(line) in result._repr_html_() for line in lines)


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


def test_every_pipe_is_explained_on_the_page(browser: Any) -> None:
    words = browser.find_elements("css selector", "#page-words td:first-child")
    assert {word.get_property("textContent") for word in words} >= set(PIPES)


def test_another_kernel_can_be_chosen(browser: Any) -> None:
    rows = browser.find_elements("css selector", "#kernels tr[data-kernel]")
    row = next(one for one in rows if "grad_input" in one.text and "TransData" not in one.text)
    row.click()
    kernel = row.get_attribute("data-kernel")
    assert wait_for(browser, f"document.getElementById('kernel').value === '{kernel}'")
    sections = browser.find_elements("css selector", "section.kernel")
    assert [one.get_attribute("data-kernel") for one in sections if one.is_displayed()] == [kernel]
    place = wait_for(browser, f"document.querySelector('#timeline-{kernel}[data-ready=yes]')")
    assert place.is_displayed() and browser.find_element("id", f"occupancy-{kernel}").is_displayed()
    curves = f"document.getElementById('occupancy-{kernel}')"
    wait_for(browser, f"Boolean({curves}._fullLayout)")
    follows(browser, place, curves)


def blocks_in(place: Any) -> dict[str, list[int]]:
    """Core -> the blocks that can be chosen on it, by choosing each core."""
    from selenium.webdriver.support.ui import Select

    found = {}
    core = Select(place.find_element("css selector", "select.core"))
    for name in [option.text for option in core.options]:
        core.select_by_visible_text(name)
        choice = Select(place.find_element("css selector", "select.block"))
        found[name] = [int(option.get_attribute("value")) for option in choice.options]
    return found


def follows(browser: Any, place: Any, plot: str) -> None:
    """A figure of the same time shows the cycles that the timeline shows."""
    told = f"document.getElementById('{place.get_attribute('id')}')"
    mine = f"ascendTimelines.range({told}.dataset.task)"
    same = f"{plot}._fullLayout.xaxis.range.every((one, i) => Math.abs(one - {mine}[i]) < 1e-3)"
    assert wait_for(browser, same)


def shown(browser: Any) -> Any:
    """The timeline in sight, ready."""
    return wait_for(browser, "[...document.querySelectorAll('.blocks[data-ready=yes]')].find(one => one.offsetParent !== null)")


def boxes_in(run: Any, low: float, high: float) -> int:
    """Instructions of a block that reach into a range of cycles, waits apart."""
    idle = np.isin(run.program.per_row("kind"), (WAIT, CROSS_WAIT)) & ~at_work(run.program)
    return int(((run.end > run.start) & ~idle & (run.end > low) & (run.start <= high)).sum())


def test_any_core_and_block_can_be_chosen(browser: Any, result: Any) -> None:
    """Every block of the kernel is there, on the core that ran it, and all its instructions come."""
    place = shown(browser)
    task = int(place.get_attribute("data-task"))
    runs = {i: one for i, one in enumerate(result.timeline.programs) if one.task == task}
    there: dict[str, list[int]] = {}
    for index, one in runs.items():
        there.setdefault(f"{one.program.core_kind} {one.core}", []).append(index)
    assert blocks_in(place) == there
    for index in (min(runs), max(runs)):
        core = f"{runs[index].program.core_kind} {runs[index].core}"
        script = "const view = ascendTimelines.views[arguments[0]]; view.core.value = arguments[1]; view.listBlocks();"
        browser.execute_script(f"{script} view.choose(arguments[2])", str(task), core, index)
        wait_for(browser, f"document.querySelector('.blocks[data-block=\"{index}\"][data-ready=yes]')")
        place.find_element("css selector", 'button[data-show="whole"]').click()
        drawn, gathered = (int(place.get_attribute(f"data-{name}")) for name in ("drawn", "gathered"))
        assert drawn + gathered == boxes_in(runs[index], runs[index].begin, runs[index].finish)


def test_the_timeline_zooms_until_every_instruction_shows(browser: Any, result: Any) -> None:
    """By its buttons, its wheel and by dragging; what is in the window is drawn, and the curves below follow."""
    from selenium.webdriver.common.action_chains import ActionChains

    emulate(browser, 500, 900)
    rows = browser.find_elements("css selector", "#kernels tr[data-kernel]")
    longest = max(result.timeline.programs, key=lambda one: len(one.program))
    next(one for one in rows if one.get_attribute("data-kernel") == str(longest.task)).click()
    place = shown(browser)
    assert place.get_attribute("data-task") == str(longest.task)
    run = result.timeline.programs[int(place.get_attribute("data-block"))]

    def span() -> tuple[float, float]:
        low, high = place.get_attribute("data-range").split()
        return float(low), float(high)

    def press(name: str) -> None:
        place.find_element("css selector", f'button[data-show="{name}"]').click()

    press("whole")
    assert span() == (run.begin, run.finish) and int(place.get_attribute("data-gathered")) > 300
    order = np.sort(run.start)
    for name in ("end", "middle", "start"):
        press(name)
        low, high = span()
        inside = int(((order >= low - 1) & (order <= high + 1)).sum())
        assert 300 <= inside <= 400 and int(place.get_attribute("data-drawn")) == boxes_in(run, low, high)
        assert place.get_attribute("data-gathered") == "0"
    press("in")
    assert span()[1] - span()[0] == pytest.approx((high - low) / 2, abs=1)
    canvas = place.find_element("css selector", "canvas")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    before, width = span(), canvas.size["width"]
    ActionChains(browser).move_to_element_with_offset(canvas, -width // 4, 0).click_and_hold().move_by_offset(
        width // 4, 0
    ).release().perform()
    assert span()[1] - span()[0] < 0.3 * (before[1] - before[0])
    follows(browser, place, f"document.getElementById('occupancy-{longest.task}')")
    dragged = span()
    ActionChains(browser).scroll_from_origin(_origin(canvas), 0, 120).perform()
    assert span()[1] - span()[0] > 1.1 * (dragged[1] - dragged[0])
    ActionChains(browser).double_click(canvas).perform()
    assert span() == (run.begin, run.finish)
    emulate(browser, 1280, 900)
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []


def _origin(element: Any) -> Any:
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    return ScrollOrigin.from_element(element)


def test_hovering_tells_the_instruction(browser: Any, result: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    place = shown(browser)
    run = result.timeline.programs[int(place.get_attribute("data-block"))]
    row = next(i for i, one in enumerate(run.program) if one.instruction.name == "mmad")
    middle = int(run.start[row] + run.end[row]) // 2
    task = place.get_attribute("data-task")
    x, y = browser.execute_script(
        "const view = ascendTimelines.views[arguments[0]]; view.show([arguments[1] - 300, arguments[1] + 300]);"
        "const place = view.used.findIndex(([_, number]) => number === arguments[2]);"
        "view.canvas.scrollIntoView({block: 'center'});"
        "return [view.x(arguments[1]) - view.canvas.clientWidth / 2, 34 + 50 * place - view.canvas.clientHeight / 2]",
        task,
        middle,
        PIPES.index("M"),
    )
    canvas = place.find_element("css selector", "canvas")
    ActionChains(browser).move_to_element_with_offset(canvas, int(x), int(y)).perform()
    told = wait_for(browser, "[...document.querySelectorAll('.tip')].find(one => !one.hidden)?.innerText")
    assert f"mmad (row {row}, tile {run.program[row].tile})" in told
    view = run.program[row]
    for name, value in view.instruction.parameters().items():
        assert f"{name}={value}" in told
    assert f"src0 = L0A + {view.src0:#x}" in told
    assert f"cycles {run.start[row]:,} to {run.end[row]:,}" in told and f"retires {run.retire[row]:,}" in told


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
    assert shown(browser).find_element("css selector", "canvas").size["width"] <= 390


def test_charts_have_names_of_their_own(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = re.findall(r'<div class="figure" role="figure" aria-label="([^"]+)"', text)
    assert len(set(names)) == len(names) == text.count('class="figure"') > 8


@pytest.mark.parametrize("width", [1600, 400])
def test_nothing_is_cut_off_and_every_chart_has_a_name(browser: Any, width: int) -> None:
    """Only tables scroll sideways, and only on a phone."""
    emulate(browser, width, 900, mobile=width < 600)
    opened = "const all = [...document.querySelectorAll('details')], were = all.map(one => one.open);"
    were = browser.execute_script(f"{opened} all.forEach(one => {{ one.open = true; }}); return were")
    assert cut_off(browser, ".scroll" if width < 600 else "") == [] and unnamed(browser) == []
    back = "document.querySelectorAll('details').forEach((one, i) => { one.open = arguments[0][i]; })"
    browser.execute_script(back, were)
    emulate(browser, 1280, 900)


def test_the_heading_and_the_title_name_the_case(tmp_path: Path) -> None:
    run = ascend_sim.run_case("forward_2d", mode="timing")
    run.write_html(tmp_path / "case.html", what_if=False)
    run.write_html(tmp_path / "named.html", what_if=False, name="a <layer>")
    for name, said in (("case", "forward_2d"), ("named", "a &lt;layer&gt;")):
        text = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        title = f"{said}: convolution on ascend910b3"
        assert f"<title>{title}</title>" in text and f"<h1>{title}</h1>" in text


def test_the_advice_stands_on_the_page_once(tmp_path: Path) -> None:
    """Every statement of the summary, in its order, with its gain; three in sight; no second list with other numbers."""
    run = ascend_sim.run_case("resnet50_conv2_3x3", mode="timing")
    run.write_html(tmp_path / "page.html", what_if=False)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    said = run.report.to_dict()["summary"]["statements"]
    assert re.findall(r'<code class="command">(.*?)</code>', text) == [one["command"] for one in said] and len(said) > 3
    assert re.findall(r"<b>(-[\d.]+ us)</b>", text) == [f"{-one['gain_us']:.1f} us" for one in said]
    shown, folded = text.partition('<ol id="advice">')[2].split("</ol>")[:2]
    assert shown.count("<li>") == 3 and f"<summary>{len(said) - 3} more</summary>" in folded


def test_cards_come_first_then_advice_then_the_timeline_and_prose_is_folded(browser: Any) -> None:
    emulate(browser, 1280, 900)
    tops = browser.execute_script(
        "return [...document.querySelectorAll('.facts, .blocks canvas, [id^=waterfall], #kernels, #words')]"
        ".filter((one) => one.offsetParent)"
        ".map((one) => [one.id.split('-')[0] || one.className || one.tagName, one.getBoundingClientRect().top])"
    )
    assert [name for name, _ in sorted(tops, key=lambda one: one[1])] == [
        "facts",
        "facts",
        "CANVAS",
        "waterfall",
        "kernels",
        "words",
    ]
    folded = browser.execute_script("return [...document.querySelectorAll('#call, #words')].map((one) => one.open)")
    assert folded == [False, False]


def test_rows_that_take_a_click_take_the_keyboard(browser: Any) -> None:
    told = browser.execute_script("""
      const rows = [...document.querySelectorAll("#kernels tr[data-kernel]")];
      const row = rows.find((one) => !one.classList.contains("chosen") &&
        document.querySelector(`section.kernel[data-kernel="${one.dataset.kernel}"]`));
      row.focus();
      row.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      return [document.activeElement === row, row.classList.contains("chosen")];
    """)
    assert told == [True, True]


def test_a_command_has_a_button_that_copies_it(result: Any, tmp_path: Path) -> None:
    report = result.report.to_dict()
    advice = {"kernels": ["dX"], "what": "more", "gain_us": None, "kind": "simulated", "command": "ascend-sim run <x>"}
    report["summary"]["statements"] = [advice]
    write_page(tmp_path / "page.html", result.recording, report)
    with chromium() as driver:
        driver.get((tmp_path / "page.html").as_uri())
        button = driver.find_element("css selector", "code.command + button.copy")
        assert button.get_attribute("aria-label") == "copy ascend-sim run <x>"
        clipboard = "{ value: { writeText: (one) => { window.copied = one; } } }"
        driver.execute_script(f"Object.defineProperty(navigator, 'clipboard', {clipboard})")
        button.click()
        assert driver.execute_script("return window.copied") == "ascend-sim run <x>" and button.text == "copied"


def test_the_first_column_of_a_wide_table_stays_in_view(browser: Any) -> None:
    emulate(browser, 400, 900, mobile=True)
    lefts = browser.execute_script("""
      const box = document.getElementById("kernels").closest(".scroll"), cell = box.querySelector("td");
      const before = cell.getBoundingClientRect().left;
      box.scrollLeft = 200;
      return [box.scrollLeft, before, cell.getBoundingClientRect().left];
    """)
    emulate(browser, 1280, 900)
    assert lefts[0] == 200 and abs(lefts[1] - lefts[2]) < 1


def test_a_legend_of_many_lines_hides_no_bar_on_a_phone(tmp_path: Path) -> None:
    """A kernel alone has one bar on the critical path, and a step of each kind in its legend."""
    named: dict[str, Any] = {}
    exec(KERNEL, named)
    x, y = named["arguments"](None)
    ascend_sim.launch(named["double"], 1, x, y, chip="ascend910b3", timeline=True).write_html(tmp_path / "kernel.html")
    with chromium(400, 900) as browser:
        emulate(browser, 400, 900, mobile=True)
        browser.get((tmp_path / "kernel.html").as_uri())
        wait_for(browser, "document.querySelectorAll('#critical-path .main-svg').length > 0")
        below = "document.querySelector('#critical-path .legend').getBoundingClientRect().bottom"
        bars = "document.querySelector('#critical-path .bars').getBoundingClientRect().top"
        assert wait_for(browser, below) <= wait_for(browser, bars) + 1
        wait_for(browser, "document.documentElement.scrollWidth <= 400")
        assert [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")] == []
