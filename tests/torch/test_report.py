"""The table of a simulated model."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

torch = pytest.importorskip("torch")

from tests.support.torch.steps import step  # noqa: E402


def test_a_narrow_terminal_gets_whole_columns(tiny: Any) -> None:
    """No cell is cut: columns are left out by name, the times last."""
    sim, _, _ = step(tiny, torch.randn(1, 3, 8, 8))
    whole = str(sim.report).splitlines()
    for width in (80, 120):
        text = StringIO()
        sim.report.render(Console(file=text, width=width))
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        assert "…" not in text.getvalue() and max(map(len, lines)) <= width
        kept = [head for head, _ in sim.report.columns() if f" {head} " in f" {lines[1]} "]
        note = " ".join(lines[2 + len(sim.report.lines()) :])
        left_out = note.removeprefix(f"not shown in {width} columns: ").split(", ")
        assert {*kept, *left_out} == {head for head, _ in sim.report.columns()} and "total" in kept
    assert "tiling" in whole[1] and not any(line.startswith("not shown") for line in whole)
