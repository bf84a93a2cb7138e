"""A recorded run is run again."""

from __future__ import annotations

import dataclasses

import pytest

from ascend_sim.engine.device import Cached
from ascend_sim.report.timeline_file import load_recording, write_timeline
from ascend_sim.runtime import Recording
from tests.support.report.small_kernels import CHIP, run_three

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def run():
    return run_three()


def columns(timeline):
    spans = [(one.launch, one.begin, one.finish) for one in timeline.tasks]
    return spans, [
        [one.task, one.core, one.launch, *(getattr(one, name).tolist() for name in ("start", "end", "retire", "hbm_bytes"))]
        for one in timeline.programs
    ]


def test_a_recording_comes_back_and_runs_again(run, tmp_path):
    """The programs of the file, on the chip of the file, give the timeline of the file."""
    tasks, timeline = run
    wide = tasks[0].tensors[0]
    cached = [Cached(wide.base, wide.size // 2, True), Cached(wide.base + wide.size // 2, wide.size - wide.size // 2, False)]
    write_timeline(tmp_path / "a.npz", Recording(CHIP, timeline, tasks, cached))
    loaded, report = load_recording(tmp_path / "a.npz")
    assert report == ""
    assert loaded.chip == CHIP
    assert loaded.cached == cached
    for before, after in zip(timeline.programs, loaded.timeline.programs, strict=True):
        assert [str(view) for view in before.program] == [str(view) for view in after.program]
        assert dict(before.program.flags) == dict(after.program.flags)
        assert before.busy() == after.busy()
    again = dataclasses.replace(loaded, cached=()).rerun(loaded.chip)
    assert columns(again) == columns(loaded.timeline) == columns(timeline)
    assert loaded.rerun(loaded.chip).finish < timeline.finish  # what is in the L2 need not come from HBM
    write_timeline(tmp_path / "b.npz", loaded)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
