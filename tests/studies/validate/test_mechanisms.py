"""Errors before and after each mechanism (tools/accuracy_mechanisms.yaml): their rows exist, the page is as the file says."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

from tests.support.places import DOCS, TOOLS
from tools.accuracy_parts.fitted_on import selected

pytestmark = pytest.mark.fast


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that makes the table."""
    monkeypatch.syspath_prepend(TOOLS)
    return import_module("accuracy_parts.mechanisms")


def test_the_page_has_the_table(table: Any) -> None:
    assert table.mechanisms() in (DOCS / "accuracy-tables.md").read_text(encoding="utf-8")


def test_a_mechanism_has_figures_and_commits_or_the_reason_why_not(table: Any) -> None:
    for one in table.load_mechanisms():
        assert bool(one.kinds) == (len(one.at) in (1, 2)) == (not one.unmeasured), one.what
        assert all(re.fullmatch("[0-9a-f]{8}", commit) for commit in one.at), one.what
        assert all(count > 0 and min(before, after) >= 0 for *_, count, before, after in [*one.kinds, *one.sealed]), one.what


def test_what_was_fitted_names_open_rows(table: Any) -> None:
    """`selected` raises for rows that do not exist or that are sealed."""
    named = [text for one in table.load_mechanisms() for text in one.rows]
    assert len(named) > 10
    assert all(selected(text) for text in named)


def test_before_stands_before_after_and_sealed_rows_in_their_column(table: Any) -> None:
    lines = [line.strip("| ").split(" | ") for line in table.mechanisms().splitlines() if line.startswith("|")]
    (launches,) = [number for number, cells in enumerate(lines) if cells[0] == "launches remember code"]
    assert lines[launches][3:] == ["ascend910b2", "conv2d", "28.3 -> 10.9 (10)", "-"]
    assert ["ascend910b2", "MatMul", "-", "20.4 -> 20.4 (8)"] in [cells[-4:] for cells in lines[launches:]]
    assert sum("not measured" in cell for cells in lines for cell in cells) == 1
