"""Costs of a task's launch."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from tests.support.engine.machine import CHIP, changed, quiet, scalar_task

pytestmark = pytest.mark.usefixtures("each_engine")


QUIET = quiet(CHIP)


def run(tasks: list[Task], chip: Any = QUIET, **options: Any) -> Timeline:
    return Engine(Device(chip, with_values=False), **options).run(tasks)


def test_a_launch_costs_its_overhead_and_a_core_its_start() -> None:
    chip = changed(
        CHIP,
        launch={
            "task_overhead_us": {"AIC": 2.0, "AIV": 1.0},
            "core_start_us": {"AIC": 0.5, "AIV": 0.25},
            "overhead_per_block_us": {},
            "block_us": {},
        },
    )
    for kind, launch, start in (("AIC", 3600, 900), ("AIV", 1800, 450)):
        timeline = run([scalar_task(chip, kind, [100], "a"), scalar_task(chip, kind, [100], "b")], chip)
        assert timeline.tasks[0].begin == launch
        assert timeline.programs[0].begin == launch + start
        assert timeline.tasks[0].finish == launch + start + 100 + CHIP.scalar.issue_cycles[kind]
        assert timeline.tasks[1].launch == timeline.tasks[0].finish
        assert timeline.tasks[1].begin == timeline.tasks[0].finish + launch


def test_overhead_grows_with_the_blocks_and_a_template_adds_its_prologue() -> None:
    launch = {"overhead_per_block_us": {"AIV": 10 / 1800}, "prologue_us": {"Test": 20 / 1800, "Test_rows": 30 / 1800}}
    chip = changed(QUIET, launch=launch)
    plain, rows = scalar_task(chip, "AIV", [100] * 3, "plain"), scalar_task(chip, "AIV", [100], "rows")
    rows.template = "Test_rows"
    timeline = run([plain, rows], chip)
    assert [task.begin - task.launch for task in timeline.tasks] == [30, 10]
    assert [r.begin - timeline.tasks[r.task].begin for r in timeline.programs] == [20, 20, 20, 30]


def test_hidden_overhead_only_behind_the_task_before() -> None:
    launch = {"task_overhead_us": {"AIC": 2.0, "AIV": 2.0}, "hidden_us": 1.5}
    chip = changed(QUIET, launch=launch)
    timeline = run([scalar_task(chip, "AIV", [100], name) for name in "abc"], chip)
    launches = [task.begin - task.launch for task in timeline.tasks]
    assert launches == [3600, 900, 900]
    late = scalar_task(chip, "AIV", [100], "late", wait_events=("x",))
    other = scalar_task(chip, "AIV", [9000], "other", stream=1, record_events=("x",))
    timeline = run([scalar_task(chip, "AIV", [100], "first"), late, other], chip)
    assert timeline.tasks[1].launch > timeline.tasks[0].finish
    assert timeline.tasks[1].begin - timeline.tasks[1].launch == 3600
