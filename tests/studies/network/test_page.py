"""The page of a network: its layers ranked, and in a browser what a reader clicks, on a wide and on a narrow screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.ops.network import load_network
from ascend_sim.report.network_page import NetworkPage, PageLayer
from ascend_sim.studies.network.page import write_page
from ascend_sim.studies.network.run import NetworkRun, run_network
from ascend_sim.studies.network.summary import ranked
from ascend_sim.studies.network.tuning import Tuned
from tests.support.report.browser import chromium, cut_off, emulate, unnamed
from tests.support.sampling import part_of_cases
from tests.support.studies.small_network import THREE_LAYERS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> NetworkRun:
    path = tmp_path_factory.mktemp("network") / "small.yaml"
    path.write_text(THREE_LAYERS)
    return run_network(load_network(path))


@pytest.fixture(scope="module")
def page(run: NetworkRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("plotly")
    path = tmp_path_factory.mktemp("page") / "network.html"
    write_page(path, run, Tuned(run, run, {}, 4, 0))
    return path


@pytest.fixture(scope="module")
def browser(page: Path) -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def opened(browser: Any, page: Path, width: int) -> None:
    emulate(browser, width, 900, mobile=width < 600)
    browser.get(page.as_uri())
    browser.implicitly_wait(5)
    browser.find_element("css selector", 'body[data-ready="yes"]')
    browser.find_element("css selector", "#layers .legendtoggle")


def said(head: Any) -> str:
    return str(head.get_property("textContent"))


def column(browser: Any, name: str) -> list[str]:
    """The cells of the ranking under a name."""
    heads = browser.find_elements("css selector", "#ranking th")
    place = [said(head) for head in heads].index(name)
    return browser.execute_script(
        f"return [...document.querySelectorAll('#ranking tbody tr')].map((row) => row.cells[{place}].textContent)"
    )


@part_of_cases(2)
@pytest.mark.parametrize("width", [1600, 400])
def test_it_is_read_and_sorted_without_errors(browser: Any, page: Path, run: NetworkRun, width: int) -> None:
    opened(browser, page, width)
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert cut_off(browser, ".scroll" if width < 600 else "") == [] and unnamed(browser) == []
    longest = [row["layer"] for row in ranked(run)]
    assert column(browser, "layer") == longest
    for name, order in (("us", "descending"), ("us", "ascending"), ("layer", "ascending")):
        head = next(one for one in browser.find_elements("css selector", "#ranking th") if said(one) == name)
        browser.execute_script("arguments[0].scrollIntoView({ inline: 'center', block: 'center' })", head)
        head.click()
        assert head.get_attribute("aria-sort") == order
        shown = [cell if name == "layer" else float(cell.replace(",", "")) for cell in column(browser, name)]
        assert shown == sorted(shown, reverse=order == "descending") and len(set(shown)) == 2
    toggle = browser.find_elements("css selector", "#layers .legendtoggle")[0]
    browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", toggle)
    toggle.click()
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 10).until(
        lambda one: one.execute_script(
            "return document.getElementById('layers').data.some((part) => part.visible === 'legendonly')"
        )
    )
    assert [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")] == []


def test_layers_that_are_numbers_stand_under_their_names(browser: Any, tmp_path: Path) -> None:
    """Names of torch.nn.Sequential are numbers: with "1 0" and "2 2" Plotly would draw an axis from 10 to 22."""
    pytest.importorskip("plotly")
    names = ("0", "2", "4")
    layers = [PageLayer(name, "sizes", "float16", "1+1", {"output": 2.0, "total": 2.0}, ()) for name in names]
    NetworkPage("numbers", {"output": "output", "total": "total"}, layers, 3).write(tmp_path / "numbers.html")
    browser.get((tmp_path / "numbers.html").as_uri())
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#layers .ytick text")
    drawn = browser.find_elements("css selector", "#layers .ytick text")
    assert sorted(map(said, drawn)) == ["1 0", "2 2", "3 4"]


def test_a_command_breaks_between_its_words_and_makes_no_tall_row(browser: Any, page: Path) -> None:
    opened(browser, page, 400)
    rows = browser.find_elements("css selector", "#ranking tbody tr")
    assert rows and max(row.size["height"] for row in rows) < 130
    for command in browser.find_elements("css selector", "code.command"):
        words = command.find_elements("css selector", "span")
        assert [word.get_property("textContent") for word in words] == said(command).split(" ")
        assert all(len(browser.execute_script("return arguments[0].getClientRects()", word)) == 1 for word in words)
        lines = "const r = document.createRange(); r.selectNodeContents(arguments[0]); return r.getClientRects().length"
        assert {browser.execute_script(lines, word) for word in words if len(said(word)) < 30} == {1}


def test_a_long_note_is_folded_behind_its_first_part() -> None:
    short, long = "7 us; as measured", f"9 us, 80 % interval; {'kinds of <kernels>; ' * 12}"
    text = NetworkPage("notes", {}, [PageLayer("a", "sizes", "float16", "1+1", {}, ())], 1, notes=(short, long)).html()
    assert "<p>7 us; as measured</p>" in text
    assert "<details><summary>9 us, 80 % interval</summary><p>kinds of &lt;kernels&gt;; kinds" in text
