"""Costs by line of the kernel's source."""

from __future__ import annotations

import pytest

from ascend_sim.engine.critical_path import SCALAR_TIME, critical_path
from ascend_sim.isa.base import PIPES
from ascend_sim.report.blocks import costs
from ascend_sim.report.lines import note_lines
from tests.support.report.calls import call

pytestmark = pytest.mark.fast


def test_costs_add_up() -> None:
    """To the rows of the kernel, to the cycles that its pipes are occupied for, and to its part of the critical path."""
    result = call(channels=16, size=12)
    path = critical_path(result.timeline)
    note_lines(result.recording)
    for task in range(len(result.tasks)):
        found = costs(result.recording, task, path)
        runs = result.timeline.of(task)
        assert sum(one.count for one in found) == sum(len(run.program) for run in runs)
        for pipe in PIPES[1:]:
            busy = sum(run.busy()[pipe] for run in runs)
            barriers = sum(one.cycles for one in found if one.pipe == pipe and one.instruction.startswith("pipe_barrier"))
            assert sum(one.cycles for one in found if one.pipe == pipe) == busy + barriers
        on_path = sum(one.cycles for one in path if one.task == task and one.what in (*PIPES, SCALAR_TIME))
        assert sum(one.critical for one in found) == on_path
        assert [one.cycles for one in found] == sorted((one.cycles for one in found), reverse=True)
        for one in found:
            view = result.timeline.programs[one.index].program[one.row]
            assert one.instruction.startswith(view.instruction.name) and one.line is not None
            assert one.line.file.startswith("ops/")
