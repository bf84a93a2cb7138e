"""The lesson in which a flag is taken away: what it tells is what runs give, and it works in a browser."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from tests.support.places import DOCS, ROOT

sys.path.append(str(ROOT / "tools"))

import flag_lesson

from tests.support.report.browser import chromium, emulate

PAGE = DOCS / "lessons" / "6_take_a_flag_away.html"
CLOSE = 0.02
"""How far a printed wrong number may be off: a host's BLAS sums in its own order."""


def blocks(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="blocks">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    told: dict[str, Any] = json.loads(found.group(1))
    return told


def sections(text: str) -> list[str]:
    return re.findall(r'<section class="kernel".*?</section>', text, re.DOTALL)


def test_it_stands_alone_and_is_linked() -> None:
    text = PAGE.read_text(encoding="utf-8")
    own = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"\b(src|href)\s*=", own) and "plotly" not in own.lower()
    assert len(text) < 800_000
    assert f"docs/lessons/{PAGE.name}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(sections(text)) == len(blocks(text)["blocks"]) == 13


@pytest.mark.slow
def test_it_tells_what_the_runs_give() -> None:
    """Times and races exactly; verdicts; wrong numbers as far as hosts agree."""
    runs = flag_lesson.variants()
    stored, fresh = PAGE.read_text(encoding="utf-8"), flag_lesson.page(runs)
    assert blocks(stored) == blocks(fresh), "run tools/flag_lesson.py, and read whether the text still fits"
    number = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
    for one, shown, found in zip(runs, sections(stored), sections(fresh), strict=True):
        correct = one.result.report.outputs["grad_input"]["correct"]
        assert ("Every number of grad_input is right" in shown) == correct, one.flag
        assert (one.flag == "") <= (correct and not one.checked)
        shown, found = (re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL) for text in (shown, found))
        assert number.sub("0", shown) == number.sub("0", found)
        for a, b in zip(number.findall(shown), number.findall(found), strict=True):
            assert float(a.replace(",", "")) == pytest.approx(float(b.replace(",", "")), rel=CLOSE)
    told = {one.flag: (one.checked, len(one.result.report.findings)) for one in runs}
    assert told["L0[0] full"][1] > 0 and told["L0[0] full"][0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("width", [1600, 400])
def test_a_student_takes_a_flag_away(width: int) -> None:
    """Chooses a flag, sees the wrong number, asks for the race, and sees it drawn."""
    with chromium(width, 1000) as browser:
        emulate(browser, width, 1000, mobile=width < 600)
        browser.implicitly_wait(5)
        browser.get(PAGE.as_uri())
        browser.find_element("css selector", 'body[data-ready="yes"]')

        def section() -> Any:
            return next(one for one in browser.find_elements("css selector", "section.kernel") if one.is_displayed())

        assert "Every number of grad_input is right" in section().text
        rows = browser.find_elements("css selector", "#kernels tr[data-kernel]")
        next(one for one in rows if one.text.startswith("L0C[0] full")).click()
        chosen = section()
        assert "numbers of grad_input are wrong" in chosen.text and '--disarm "grad_input.L0C[0] full"' in chosen.text
        group = chosen.find_element("css selector", ".findings details")
        group.find_element("css selector", "summary").click()
        group.find_element("css selector", "button[data-clash]").click()
        place = browser.find_element("css selector", '.blocks[data-race="yes"]')
        assert place.is_displayed() and "fixpipe" in place.find_element("css selector", ".tip").text
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")] == []
