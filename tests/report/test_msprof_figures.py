"""Figures of a core as the vendor's profiler writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ascend_sim.engine.timeline import Timeline
from ascend_sim.isa.base import BARRIER, WAIT
from ascend_sim.report.msprof import write_msprof
from ascend_sim.report.msprof_figures import WorkFigures, figures
from ascend_sim.report.report import Report
from tests.support.report.small_kernels import CHIP, run_three


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Timeline, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("three")
    tasks, timeline = run_three()
    write_msprof(out, timeline, tasks, CHIP)
    return out / "msprof", timeline, Report.build(CHIP, timeline, tasks).to_dict()["kernels"]


def test_figures_of_a_core_by_hand(three: tuple[Path, Timeline, list[dict[str, Any]]]) -> None:
    """Two blocks together: time is a mean over them, shares are of all their cycles, a GB is 1024^3 bytes."""
    runs = three[1].of(1)[:2]
    told = figures(WorkFigures.of(runs[0]) + WorkFigures.of(runs[1]), CHIP, "aic")
    cycles, waited, read = 0, 0, 0
    for run in runs:
        cycles += run.finish - run.launch
        for row, view in enumerate(run.program):
            if view.pipe == "MTE1" and view.instruction.kind in (WAIT, BARRIER):
                waited += int(run.end[row] - run.start[row])
            if view.instruction.path() == "GM->L1":
                read += view.instruction.reads()[0].total
    assert told["aic_total_cycles"] == round(cycles / 2)
    assert told["aic_time(us)"] == pytest.approx(CHIP.us(cycles / 2), abs=1e-4)
    assert 0 < waited < cycles and told["aic_mte1_wait_ratio"] == pytest.approx(waited / cycles, abs=1e-6)
    seconds = CHIP.us(cycles) * 1e-6
    assert told["aic_main_mem_read_bw(GB/s)"] == pytest.approx(read / 1024**3 / seconds, rel=1e-5)
    port = CHIP.path("GM", "L1").bytes_per_cycle * cycles
    assert told["GM_to_L1_bw_usage_rate(%)"] == pytest.approx(100 * read / port, abs=1e-3)
