"""The lessons run from top to bottom, their solutions hold, and what they show is what they print."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import DOCS, ROOT
from tests.support.sampling import part_of_cases

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("matplotlib")
pytest.importorskip("ipykernel")

LESSONS = sorted((DOCS / "lessons").glob("*.ipynb"))
SECONDS = 300
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
CLOSE = 0.25
"""How far a printed number may have moved: a host's BLAS sums in its own order, and the model of time learns."""


def name(path: Path) -> str:
    return path.stem


def run(path: Path) -> tuple[Any, Any]:
    """A lesson as it is stored, and as it comes out when it is run now; an error of a cell is raised."""
    stored = nbformat.read(path, as_version=4)
    now = nbformat.from_dict(json.loads(json.dumps(stored)))
    nbclient.NotebookClient(now, timeout=SECONDS, kernel_name="python3").execute(cwd=str(path.parent))
    return stored, now


def printed(notebook: Any) -> list[str]:
    """Return the output of every cell, or its value; pictures apart."""
    texts = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            streams = [output.text for output in cell.outputs if output.output_type == "stream"]
            values = [output.data.get("text/plain", "") for output in cell.outputs if "data" in output]
            texts.append("".join([*streams, *(value for value in values if not value.startswith("<Figure"))]))
    return texts


def same(shown: str, found: str) -> bool:
    """Equal words, and numbers that are close; a small whole number (a share, a count) may be off by two."""
    if NUMBER.sub("0", shown).split() != NUMBER.sub("0", found).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(found), strict=True)
    return all(
        math.isclose(float(a.replace(",", "")), float(b.replace(",", "")), rel_tol=CLOSE, abs_tol=2 * (a + b).isdigit())
        for a, b in pairs
    )


@part_of_cases(0, "2_pipes")
@pytest.mark.parametrize("path", LESSONS, ids=name)
def test_a_lesson_runs_and_prints_what_it_shows(path: Path) -> None:
    stored, now = run(path)
    for shown, found in zip(printed(stored), printed(now), strict=True):
        assert same(shown, found), "run tools/lessons.py, and read whether the text still fits"


@pytest.mark.parametrize("path", LESSONS, ids=name)
def test_a_lesson_has_figures_exercises_and_checked_solutions(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    exercises = re.findall(r"^\d\. ", text.partition("## Exercises")[2].partition("### Solutions")[0], re.MULTILINE)
    solutions = [cell.source for cell in notebook.cells if "solution" in cell.metadata.get("tags", [])]
    assert len(exercises) == len(solutions) >= 3
    assert all("assert" in solution for solution in solutions)
    figures = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(figures) >= 2
    assert path.stat().st_size < 500_000


@pytest.mark.parametrize("path", LESSONS, ids=name)
def test_a_lesson_uses_the_public_api(path: Path) -> None:
    cells = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    assert set(re.findall(r"(?:from|import) (ascend_sim[\w.]*)", cells)) <= {"ascend_sim", "ascend_sim.numerics"}


def test_the_readme_links_every_lesson() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(LESSONS) == 5
    assert all(f"docs/lessons/{path.name}" in text for path in LESSONS)
