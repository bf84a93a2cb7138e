"""`ascend-sim explain`: one number of a result, as text, page and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.cli.commands import run


def test_one_number_as_text_and_as_a_page(case: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = run("explain", case, "--weight", "3,4,1,1", "--html", page)
    assert ran.code == 0 and ran.err == ""
    first, second, *_ = ran.out.splitlines()
    value = re.search(r"the call returned +(\S+)", ran.out)
    exact = re.search(r"float64, numbers as the cube sees them +(\S+) +(.*)", ran.out)
    assert value and exact
    assert first == f"grad_weight[3, 4, 1, 1] = {value[1]}   float64 {exact[1]}: {exact[2]}"
    assert second.startswith("convolution_backward on ascend910b3")
    assert f"wrote {page}" in ran.out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_one_number_as_json(case: Path) -> None:
    ran = run("explain", case, "--element", "0,3,5,5", "--json")
    data = json.loads(ran.out)
    assert ran.code == 0 and data["element"] == "grad_input[0, 3, 5, 5]"
    assert float(data["steps"][-1]["value"]) == pytest.approx(data["value"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--element", "0,0,6,0"], "no element [0, 0, 6, 0]"),
        (["--element", "0,0,x,0"], "whole numbers with commas"),
        (["--weight", "0"], "4 numbers"),
        (["--weight", "0,0,0,0", "--element", "0,0,0,0"], "one at a time"),
        (["--html", "."], "that is a folder; give a file"),
        (["--html", "no/such/folder.html"], "there is no folder no/such"),
    ],
)
def test_a_number_that_cannot_be_followed(case: Path, arguments: list[str], message: str) -> None:
    ran = run("explain", case, *arguments)
    assert ran.code == 2 and ran.out == ""
    assert message in ran.err and ran.err.count("\n") == 1
