"""The order of a network's layers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ascend_sim.ops.network import load_network
from ascend_sim.studies.network.run import run_network
from ascend_sim.studies.network.summary import ranked
from tests.support.studies.small_network import THREE_LAYERS


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(THREE_LAYERS)
    return path


@pytest.mark.fast
def test_layers_are_ranked_by_the_time_of_all_their_copies(small: Path) -> None:
    run = run_network(load_network(small))
    rows = ranked(run)
    assert sum(row["all"] for row in rows) == pytest.approx(run.totals["total"])
    assert [row["all"] for row in rows] == sorted((row["all"] for row in rows), reverse=True)
    first = next(row for row in rows if row["layer"] == "first")
    assert first["copies"] == 2 and first["all"] == 2 * run.layers[0].times["total"]
    # 2 x 16 x 16 x 64 x 9 products for each gradient; 20 cores of 4,096 each cycle at 1,800 MHz; rounded up to cycles
    assert first["ideal"] == pytest.approx(2 * math.ceil(2 * 16 * 16 * 64 * 9 / (20 * 4096)) / 1800, abs=1e-4)
    assert first["beyond"] == pytest.approx(2 * (first["us"] - first["ideal"]))
