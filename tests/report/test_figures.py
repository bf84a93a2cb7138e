"""Figures of a run's page against its report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.report import figures
from tests.support.report.calls import call


@pytest.fixture(scope="module")
def result() -> Any:
    return call(size=56, block_dim=1)


def test_utilisation_is_the_mean_of_the_report(result: Any) -> None:
    task = next(i for i, one in enumerate(result.tasks) if one.name == "grad_weight")
    kernel = result.report.kernels[task]
    heat = figures.utilisation_figure(result.recording, task).data[0]
    shares = dict(zip(heat.y, np.mean(heat.z, axis=1), strict=True))
    assert shares["MTE1"] == pytest.approx(100 * kernel["pipes_us"]["mte1"] / kernel["core_us"], rel=0.1)


def test_ceilings_of_the_roofline_are_those_of_all_cores(result: Any) -> None:
    """A 910B3 has 20."""
    figure = figures.roofline_figure(result.recording, result.report.to_dict())
    chip, names = result.recording.chip, {trace.name for trace in figure.data}
    for buffer in ("L0A", "L0B"):
        rate = chip.path("L1", buffer).bytes_per_cycle * 20 * chip.clock.cube_mhz * 1e-6
        assert f"MTE1 into {buffer}: {rate:.1f} TB/s" in names


def test_hbm_bytes_are_at_least_the_tensors(result: Any) -> None:
    """A cold L2 fetches both operands once."""
    moved = sum(figures.hbm_bytes(result.recording, task) for task in range(len(result.tasks)))
    assert moved >= 2 * 2 * 32 * 56 * 56 * 2
