"""The page of `explain --html`: its data are the run's, it loads nothing, and a browser can step through it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.studies.explain.page import explain_data, explain_html
from ascend_sim.studies.explain.run import Explanation, explain
from ascend_sim.studies.explain.text import real_products
from tests.support.report.browser import chromium, cut_off, unnamed

TILING = {"grad_input": {"baseK": 48}}


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    """Three mmads, and few enough numbers to show them all."""
    return explain("by_hand", element=(0, 0, 1, 2), tiling=TILING, tiles=True)


@pytest.fixture(scope="module")
def split() -> Explanation:
    """A sum that several cores share, over maps too large to show numbers."""
    return explain("strided", weight=(3, 4, 1, 1), tiles=True)


def test_the_partial_sums_of_the_page_are_those_of_the_run(explanation: Explanation) -> None:
    (part,) = explanation.parts
    shown = explain_data(explanation)["parts"][0]["mmads"]["list"]
    assert [np.float32(m["partial"]) for m in shown] == [m.partial for m in part.mmads]
    assert [int(m["bits"], 16) for m in shown] == [int(m.partial.view(np.uint32)) for m in part.mmads]


def test_the_cells_that_light_up_are_those_of_the_formula(explanation: Explanation, split: Explanation) -> None:
    for explained in (explanation, split):
        data = explain_data(explained)
        cells: dict[str, set[tuple[int, ...]]] = {"left": set(), "right": set()}
        for part in data["parts"]:
            for mmad in part["mmads"]["list"]:
                for side, found in cells.items():
                    flat = mmad[side]["cells"]
                    found |= set(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
        terms = explained.formula
        for side, tensor, flat in (("left", terms.left_name, terms.left), ("right", terms.right_name, terms.right)):
            *_, height, width = np.unravel_index(flat, explained.operands[tensor].shape)
            expected = set(zip(height.tolist(), width.tolist(), strict=True))
            assert {cell[1:] for cell in cells[side]} == expected


def test_the_maps_show_numbers_not_codes() -> None:
    """A small hifloat8 problem: what stands in the cells are decoded values, of inputs and of the result."""
    entries = {"operator": "convolution_backward", "chip": "ascend950pr_9589", "conformance": "library"}
    entries |= {"input": {"shape": (1, 2, 3, 3), "dtype": "hifloat8"}, "weight": {"shape": (2, 2, 2, 2)}}
    entries |= {"output_mask": (True, False, False), "data": {"distribution": "ones"}}
    explained = explain(ConvolutionBackwardCase.model_validate(entries), element=(0, 0, 1, 1), tiles=True)
    maps = explain_data(explained)["maps"]
    assert explained.value == 8
    assert "8" in {text for plane in maps["out"]["planes"] for text in plane["values"]}
    assert {text for plane in maps["left"]["planes"] for text in plane["values"]} == {"1"}


def test_the_element_stands_in_its_tile(explanation: Explanation) -> None:
    mmads = explain_data(explanation)["parts"][0]["mmads"]
    (part,) = explanation.parts
    for mmad in part.mmads:
        assert mmad.tile is not None
        assert mmad.tile[mmad.m, mmad.n] == mmad.partial
    assert (mmads["tile"]["row"], mmads["tile"]["column"]) == (part.mmads[0].m, part.mmads[0].n)


def test_a_step_after_the_cube_has_the_pipes_around_it(split: Explanation) -> None:
    for step in explain_data(split)["steps"]:
        first, last = step["window"]
        assert first < step["time"][0] <= step["time"][1] < last
        starts = [box[1] for box in step["timeline"]["boxes"] if box[4]]
        assert starts == [step["time"][0]]


def test_a_page_loads_nothing(explanation: Explanation) -> None:
    page = explain_html(explanation)
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?!data:)", page)
    held = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert held and json.loads(held[1])["element"] == "grad_input[0, 0, 1, 2]"


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def opened(browser: Any, explanation: Explanation, folder: Path, width: int = 1200) -> Any:
    path = folder / "page.html"
    path.write_text(explain_html(explanation), encoding="utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    return browser


def text(browser: Any, identity: str) -> str:
    return str(browser.find_element("id", identity).text)


def count(browser: Any, selector: str) -> int:
    return len(browser.find_elements("css selector", selector))


def test_stepping_shows_every_partial_sum(browser: Any, explanation: Explanation, tmp_path: Path) -> None:
    opened(browser, explanation, tmp_path)
    (part,) = explanation.parts
    while "mmad 0" not in text(browser, "now"):
        assert "To L1" in text(browser, "now")
        browser.find_element("id", "next").click()
    for number, mmad in enumerate(part.mmads):
        assert f"mmad {number}" in text(browser, "now")
        assert f"{float(mmad.partial):.9g}" in text(browser, "now")
        assert count(browser, "#left rect.lit") == 6
        assert count(browser, "#left rect.summed") == 6 * number
        assert count(browser, "#timeline [data-box]") > len(part.mmads)
        browser.find_element("id", "next").click()
    browser.find_element("id", "back").click()
    assert "mmad 2" in text(browser, "now")
    assert browser.get_log("browser") == []


def test_the_numbers_of_a_map_fit_their_cells(browser: Any, explanation: Explanation, tmp_path: Path) -> None:
    opened(browser, explanation, tmp_path)
    widths = "return [...document.querySelectorAll('#left svg text, #right svg text')].map(one => one.getBBox().width)"
    found = browser.execute_script(widths)
    assert len(found) == 32 + 18 and max(found) < 40, "a cell is 40 wide"


def test_the_slider_goes_from_the_first_load_to_the_result(browser: Any, explanation: Explanation, tmp_path: Path) -> None:
    opened(browser, explanation, tmp_path)
    move = "const s = document.getElementById('slider'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))"
    browser.execute_script(move, 0)
    assert "To L1" in text(browser, "now")
    assert count(browser, "#left rect.loaded") > 0
    browser.execute_script(move, 999)
    assert f"{explanation.value:.9g}" in text(browser, "now")
    assert not browser.find_element("id", "next").is_enabled()
    assert f"{explanation.value:.3g}" in text(browser, "out")


def test_a_row_of_the_sums_a_key_and_a_part_can_be_chosen(browser: Any, split: Explanation, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    opened(browser, split, tmp_path)
    Select(browser.find_element("id", "part")).select_by_index(2)
    expected = split.parts[2].mmads[0].partial
    browser.find_element("css selector", "#sums tr.step").click()
    assert f"{float(expected):.9g}" in text(browser, "now")
    before = text(browser, "count")
    browser.find_element("tag name", "body").send_keys(Keys.ARROW_RIGHT)
    assert text(browser, "count") != before
    assert browser.get_log("browser") == []


def test_it_opens_at_the_first_step_of_the_first_part_with_numbers(browser: Any, tmp_path: Path) -> None:
    """With much padding the first parts of a sum multiply zeros alone."""
    case = ConvolutionBackwardCase.model_validate({
        "operator": "convolution_backward", "input": {"shape": [1, 3, 4, 4], "dtype": "float16"},
        "weight": {"shape": [2, 3, 3, 3]}, "padding": [17, 17],
    })  # fmt: skip
    found = explain(case, weight=(0, 0, 0, 0), tiling={"grad_weight": {"baseK": 16}}, tiles=True)
    counts = [[len(real_products(mmad)) for mmad in part.mmads] for part in found.parts]
    part = next(number for number, each in enumerate(counts) if any(each))
    assert part > 0
    opened(browser, found, tmp_path)
    assert browser.find_element("id", "part").get_property("selectedIndex") == part
    assert text(browser, "count").startswith("1 / ")


def test_a_caption_of_three_sentences_and_a_label_on_every_button(
    browser: Any, explanation: Explanation, tmp_path: Path
) -> None:
    opened(browser, explanation, tmp_path)
    caption = text(browser, "caption")
    assert len(re.findall(r"[A-Za-z0-9]\.(?: |$)", caption)) == 3
    assert explain_data(explanation)["element"] in caption and "3 mmads" in caption
    for control in browser.find_elements("css selector", "button, select, input"):
        assert not control.is_displayed() or control.accessible_name[0].isalpha()


def test_keys_go_a_step_and_to_the_ends(browser: Any, explanation: Explanation, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(browser, explanation, tmp_path)
    body, first = browser.find_element("tag name", "body"), text(browser, "count")
    last = first.split(" / ")[1]
    for key, step in ((Keys.ARROW_RIGHT, "2"), (Keys.END, last), (Keys.ARROW_LEFT, str(int(last) - 1)), (Keys.HOME, "1")):
        body.send_keys(key)
        assert text(browser, "count") == f"{step} / {last}"


@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_is_cut_off_at_any_step(
    browser: Any, explanation: Explanation, split: Explanation, tmp_path: Path, width: int
) -> None:
    for shown in (explanation, split):
        opened(browser, shown, tmp_path, width)
        browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        for step in range(browser.execute_script("return frames.length")):
            browser.execute_script("go(arguments[0])", step)
            assert cut_off(browser) == [] and unnamed(browser) == [], step
    assert browser.get_log("browser") == []


_PIPES = """
const box = document.querySelector("#timeline svg").getBoundingClientRect(), number = text => Number(text.replaceAll(",", ""));
const [first, last] = [...document.querySelectorAll("#timeline text")].slice(-2).map(one => number(one.textContent));
const line = document.getElementById("cursor").getBoundingClientRect().left - box.left;
return [frames[here].time, [first, last], line / box.width, document.getElementById("core").textContent,
  [...document.querySelectorAll("#timeline title")].map(one => one.textContent)];
"""


def test_the_pipes_are_those_of_the_step(browser: Any, split: Explanation, tmp_path: Path) -> None:
    """Loads long before the first mmad, and the kernels after the cube: the window holds the step, and its box."""
    opened(browser, split, tmp_path)
    cores = set()
    for step in range(browser.execute_script("return frames.length")):
        browser.execute_script("go(arguments[0])", step)
        (start, end), (first, last), line, core, boxes = browser.execute_script(_PIPES)
        assert first <= end <= last and 0 < line <= 1, step
        assert any(box.split(", cycles ")[1].startswith(f"{start:,} to ") for box in boxes) or start < first, step
        cores.add(core)
    assert len(cores) > 2 and any("AIV" in core for core in cores)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(browser: Any, split: Explanation, tmp_path: Path, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    opened(browser, split, tmp_path, width=390)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
