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
            "cold_us": {},
            "cold_per_block_us": {},
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


FETCHES: dict[str, Any] = {
    "cold_us": {"AIV": 10 / 1800, "AIC": 1 / 1800},
    "cold_per_block_us": {"AIV": 2 / 1800},
    "kept_launches": 2,
}


def fetched(timeline: Timeline) -> list[int]:
    """The cycles by which the first block of each task begins later."""
    first = {run.task: run.begin for run in reversed(timeline.programs)}
    return [first[index] - task.begin for index, task in enumerate(timeline.tasks)]


def named(op_type: str, kind: str = "AIV", blocks: int = 3, **info: Any) -> Task:
    """A task of an operator; `info` tells its code from that of others."""
    task = scalar_task(QUIET, kind, [100] * blocks, op_type)
    task.op_type, task.info = op_type, dict(info)
    return task


def test_code_is_fetched_unless_it_is_among_the_last_launches_on_such_cores() -> None:
    """All blocks that run at once fetch the same lines: 10 cycles and 2 a block. Launches on other cores do not count."""
    chip = changed(QUIET, launch=FETCHES)
    tasks = [named(name) for name in "AABCA"] + [named("M", "AIC"), named("M", "AIC"), named("A")]
    assert fetched(run(tasks, chip)) == [16, 0, 16, 16, 16, 1, 0, 0]


def test_other_dtypes_formats_and_templates_are_other_code() -> None:
    chip = changed(QUIET, launch=FETCHES)
    rows = named("A")
    rows.template = "A_rows"
    tasks = [named("A"), rows, named("A", dtypes={"x": "float16"}), named("A", formats={"x": "ND"}), named("A")]
    assert fetched(run(tasks[:3], chip)) == [16, 16, 16]
    assert fetched(run([*tasks[2:4], tasks[2]], chip)) == [16, 16, 0]


def test_no_more_blocks_fetch_than_run_at_once() -> None:
    chip = changed(QUIET, launch=FETCHES)
    cores = chip.cores.aiv
    assert fetched(run([named("A", blocks=cores + 5)], chip)) == [10 + 2 * cores]


def test_code_beyond_the_cache_is_fetched_at_every_launch() -> None:
    chip = changed(QUIET, launch=FETCHES | {"uncached_per_block_us": {"A": 5 / 1800}})
    assert fetched(run([named("A"), named("A")], chip)) == [10 + 3 * 2 + 3 * 5, 15]


def test_a_device_remembers_launches_of_runs_before() -> None:
    chip = changed(QUIET, launch=FETCHES)
    device = Device(chip, with_values=False)
    assert [fetched(Engine(device).run([named("A")])) for _ in range(2)] == [[16], [0]]
    again = Device(chip, with_values=False)
    again.repeat([named("A"), named("B")])
    assert fetched(Engine(again).run([named("A"), named("B"), named("C")])) == [0, 0, 16]
