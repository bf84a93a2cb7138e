"""The timeline of a run's page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.engine.critical_path import critical_path
from ascend_sim.isa.base import PIPES
from ascend_sim.report.timeline_figure import timeline_figure, windows
from tests.support.report.calls import call


@pytest.fixture(scope="module")
def result() -> Any:
    return call(size=56, block_dim=1)


def test_windows_lie_apart_and_in_order(result: Any) -> None:
    run = max(result.timeline.programs, key=lambda one: len(one.program))
    parts = windows(run, 50)
    assert list(parts) == ["start", "steady state", "end"]
    assert len(np.unique(np.concatenate(list(parts.values())))) == 150
    starts = [run.start[part] for part in parts.values()]
    assert starts[0].max() <= starts[1].min() and starts[1].max() <= starts[2].min()
    assert list(windows(run, len(run.program))) == ["whole block"]


def test_boxes_of_a_timeline_are_its_instructions(result: Any) -> None:
    """Every instruction of the windows once, from its start to its end, in us from the first launch."""
    path = critical_path(result.timeline)
    on_path = {step.program for step in path}
    run = max((result.timeline.programs[i] for i in on_path if i >= 0), key=lambda one: len(one.program))
    figure = timeline_figure(result.recording, run, path, 10_000)
    boxes = [trace for trace in figure.data if trace.type == "bar" and trace.name in PIPES]
    kinds = [one.instruction.name for one in run.program]
    work = [i for i, name in enumerate(kinds) if run.end[i] > run.start[i] and name != "wait_flag"]
    assert sum(len(trace.base) for trace in boxes) == len(work)
    mhz = result.recording.chip.clock.cube_mhz
    drawn = sorted((round(b, 3), round(x, 3)) for trace in boxes for b, x in zip(trace.base, trace.x, strict=True))
    wanted = sorted((round(run.start[i] / mhz, 3), round((run.end[i] - run.start[i]) / mhz, 3)) for i in work)
    assert np.allclose(drawn, wanted, atol=2e-3)
    assert any("on the critical path" in text for trace in boxes for text in trace.text)


def test_stalls_of_a_timeline_are_those_of_the_engine(result: Any) -> None:
    run = max(result.timeline.programs, key=lambda one: len(one.program))
    figure = timeline_figure(result.recording, run, [], 10_000)
    mhz = result.recording.chip.clock.cube_mhz
    for trace in figure.data:
        if trace.type == "bar" and trace.name == "stall: flag":
            drawn = sum(x for x in trace.x) * mhz
    assert drawn == pytest.approx(sum(run.stalls(pipe).get("flag", 0) for pipe in ("MTE1", "MTE2", "M", "FIX")), rel=1e-3)
