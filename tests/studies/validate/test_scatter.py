"""The picture of predicted over measured times."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.studies.validate.rows import read_rows
from ascend_sim.studies.validate.run import compare
from ascend_sim.studies.validate.scatter import plot


def test_plot(rows_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "scatter.png"
    plot(compare(read_rows(rows_file)), picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
