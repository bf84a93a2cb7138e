"""Fixtures of the tests beside this file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.studies.measured_rows import TWO_ROWS


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    """Return a table of two measured rows."""
    path = tmp_path / "rows.csv"
    path.write_text(TWO_ROWS)
    return path
