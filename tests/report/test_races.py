"""The findings of a run on its page: grouped, each where it is, and drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.engine.watch import watched
from ascend_sim.report.page import write_page
from ascend_sim.report.races import Findings
from tests.support.report.browser import chromium, emulate
from tests.support.report.calls import call

FLAGS = {"grad_input": ["L0[1] full"], "grad_weight": ["B1[0] full"]}


@pytest.fixture(scope="module")
def result() -> Any:
    return call(size=20, disarm=FLAGS)


def test_each_clash_is_where_the_engine_found_it(result: Any) -> None:
    """Rows, cycles and sides are those of the timeline, and the words agree."""
    found = Findings(result.recording, result.report.to_dict())
    hazards = [one for one in result.report.findings if one["kind"] == "hazard" and " more" not in one["text"]]
    assert len(found.clashes) == len(hazards) > 10
    runs = result.timeline.programs
    for one in found.clashes:
        early, late = (runs[one[side]["block"]] for side in ("early", "late"))
        assert late.start[one["late"]["row"]] == one["start"] <= one["retire"] == early.retire[one["early"]["row"]]
        assert late.task == early.task and one["early"]["row"] != one["late"]["row"]
        for side, run in (("early", early), ("late", late)):
            view = run.program[one[side]["row"]]
            pipe, name, verb = one[side]["words"].split()
            assert (pipe, name) == (view.pipe, view.instruction.name)
            assert f"{view}" in one["text"] and verb in one["text"]
        assert {one["early"]["words"].split()[-1], one["late"]["words"].split()[-1]} & {"writes"}
        assert re.search(rf"from cycle {one['start']}, .* until cycle {one['retire']}$", one["text"])


def test_groups_hold_all_findings(result: Any) -> None:
    findings = [
        {
            "kind": "uninitialised",
            "task": "grad_input",
            "text": f"block {n} AIC: {n} M mmad dst=L0C+0x{n} (m={n}) reads {n} bytes of L0A",
        }
        for n in range(30)
    ]
    report = {"findings": [*result.report.to_dict()["findings"], *findings]}
    part = Findings(result.recording, report).part()
    counts = [int(one) for one in re.findall(r'class="bad">(\d+) times', part)]
    single = len(re.findall(r'class="bad">(?!\d+ times)', part))
    assert sum(counts) + single == len(report["findings"])
    assert "30 times: uninitialised in grad_input: block ... AIC: ... M mmad reads ... bytes of L0A" in part
    assert "and 10 more" in part


def test_nothing_found_is_nothing_said(result: Any) -> None:
    assert Findings(result.recording, {"findings": []}).part() == ""


def test_clashes_do_not_tell_findings_apart(result: Any) -> None:
    """Engines and modes compare findings in words."""
    found = watched(result.timeline).findings
    assert found and all(one.clash is not None for one in found if " more" not in one.text)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1600, 400])
def test_the_race_is_drawn(result: Any, tmp_path: Path, width: int) -> None:
    """The reader opens a group, asks for a race, and sees both boxes in the block that came too early."""
    page = tmp_path / "race.html"
    write_page(page, result.recording, result.report.to_dict())
    with chromium(width, 1000) as browser:
        emulate(browser, width, 1000, mobile=width < 600)
        browser.implicitly_wait(5)
        browser.get(page.as_uri())
        browser.find_element("css selector", 'body[data-ready="yes"]')
        group = browser.find_element("css selector", ".findings details")
        group.find_element("css selector", "summary").click()
        button = group.find_element("css selector", "button[data-clash]")
        number = int(button.get_attribute("data-clash"))
        clash = Findings(result.recording, result.report.to_dict()).clashes[number]
        button.click()
        place = browser.find_element("css selector", '.blocks[data-race="yes"]')
        assert int(place.get_attribute("data-block")) == clash["late"]["block"]
        low, high = (float(one) for one in place.get_attribute("data-range").split())
        assert low < clash["start"] <= clash["retire"] < high
        assert clash["text"] in place.find_element("css selector", ".tip").text.replace("\n", " ")
        red = browser.execute_script(
            "const canvas = arguments[0].querySelector('canvas');"
            "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data; let count = 0;"
            "for (let i = 0; i < data.length; i += 4) { if (data[i] === 208 && !data[i + 1] && !data[i + 2]) { count++; } }"
            "return count",
            place,
        )
        assert red > 50
        assert [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")] == []
