"""Text of what is drawn on a console."""

from __future__ import annotations

import pytest
from rich.console import Console

from ascend_sim.report.printed import printed

pytestmark = pytest.mark.fast


def _draw(console: Console) -> None:
    console.print("[bold]one two[/bold] three  ")


def test_columns_limit_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert printed(_draw) == "one two three" and printed(_draw, 8) == "one two\nthree"
    monkeypatch.setenv("COLUMNS", "8")
    assert printed(_draw) == "one two\nthree"
