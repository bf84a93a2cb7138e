"""Running a list of tasks on a device in one of the three modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, cast

from ascend_sim.engine.choice import chosen_engine
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine, OnProgram
from ascend_sim.engine.replay import Observer, replay
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.engine.watch import watched
from ascend_sim.frozen import mutable
from ascend_sim.isa.memory import ValueModel
from ascend_sim.options.description import check_choices, filled
from ascend_sim.options.run_options import TaskOptions

if TYPE_CHECKING:
    from ascend_sim.engine.functional import FunctionalEngine


@mutable
class Outcome:
    """Outcome of a run of tasks: its Timeline (None in functional mode) and its findings.

    `kept` is the engine of a functional run that kept its programs, to run them again on other values; else None.
    """

    timeline: Timeline | None
    findings: list[Finding] = field(default_factory=list)
    kept: FunctionalEngine | None = None


def run_tasks(
    device: Device,
    tasks: Sequence[Task],
    options: TaskOptions,
    *,
    model: ValueModel | None = None,
    on_program: OnProgram | None = None,
    keep: int = 0,
) -> Outcome:
    """Run tasks to idle in the mode of `options` and return the outcome; in mode "timing" tensors need no bytes.

    `model` decides how values are computed where there is a choice (None: the chip's default). `on_program` is called with
    every program when it was built, in block order within a task. `keep` is the most bytes of programs that a functional run
    keeps for other values (0: none); other modes ignore it. Raises SimError for an unknown mode or engine, DeadlockError when
    programs wait for each other, CycleLimitError beyond `max_cycles`.
    """
    how = filled(TaskOptions, options)
    check_choices(TaskOptions, how)
    mode, progress, engine = how["mode"], how["progress"], chosen_engine(how["engine"])
    if mode == "functional":
        from ascend_sim.engine.functional import FunctionalEngine

        functional = FunctionalEngine(device, progress, model, on_program, engine, keep)
        functional.run(tasks)
        return Outcome(None, functional.findings, functional if functional.kept_bytes else None)
    runner = Engine(device, progress=progress, max_cycles=how["max_cycles"], engine=engine)
    keep = mode == "full" or _kept(how["timeline"])
    timeline = runner.run(tasks, keep=keep, watch=True, on_program=on_program)
    findings = list(watched(timeline).findings)
    if mode == "full":
        observer = cast("Observer | None", how["observer"])
        findings += replay(device, tasks, timeline.programs, model, progress, observer, engine)
    return Outcome(timeline, findings)


def _kept(timeline: bool | int) -> bool | int:
    """Return the option `timeline` as a bool (0 and 1 too), or as an int: the most instructions of which a timeline is kept."""
    return bool(timeline) if timeline in (0, 1) else int(timeline)


def run_values(device: Device, tasks: Sequence[Task], timeline: Timeline | None, model: ValueModel | None) -> None:
    """Compute the values that tasks leave in their tensors: in the order of `timeline`, or block by block if it is None.

    The timeline must have kept its programs. Findings are dropped.
    """
    if timeline is None:
        from ascend_sim.engine.functional import FunctionalEngine

        FunctionalEngine(device, None, model).run(tasks)
    else:
        replay(device, tasks, timeline.programs, model)
