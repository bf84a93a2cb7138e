"""Running a list of tasks on a device in one of the three modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ascend_sim.engine.choice import chosen_engine
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine, OnProgram, Progress
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.replay import Observer, replay
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.engine.watch import watched
from ascend_sim.errors import SimError
from ascend_sim.isa.base import ValueModel

MODES = ("full", "functional", "timing")


@dataclass
class Outcome:
    """What a run leaves: its Timeline (None in functional mode), and what it found wrong."""

    timeline: Timeline | None
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How tasks are run. `mode` is one of `MODES`: "full": time and values; "functional": values only; "timing": time only.

    `model` says how values come about where there is a choice (None: the chip's). `observer` looks on in "full" mode.
    `engine` is "auto" (the same as None), "simpy" or "compiled": same results at another speed. A run in "timing" mode need not
    `keep` its timeline, or only as long as it has no more instructions than that. `on_program` hears of every program, in
    block order.
    """

    mode: str
    progress: Progress | None = None
    max_cycles: int | None = None
    model: ValueModel | None = None
    observer: Observer | None = None
    engine: str | None = None
    keep: bool | int = True
    on_program: OnProgram | None = None


def run_tasks(device: Device, tasks: Sequence[Task], how: RunOptions) -> Outcome:
    """Run to idle; with mode "timing" tensors need no bytes.

    Raises SimError for an unknown mode or engine, DeadlockError when programs wait for each other.
    """
    mode, progress, model = how.mode, how.progress, how.model
    if mode not in MODES:
        raise SimError(f"mode {mode!r}: allowed are {', '.join(MODES)}")
    engine = chosen_engine(how.engine)
    if mode == "functional":
        functional = FunctionalEngine(device, progress, model, how.on_program, engine)
        functional.run(tasks)
        return Outcome(None, functional.findings)
    runner = Engine(device, progress=progress, max_cycles=how.max_cycles, engine=engine)
    timeline = runner.run(tasks, keep=mode == "full" or how.keep, watch=True, on_program=how.on_program)
    findings = list(watched(timeline).findings)
    if mode == "full":
        findings += replay(device, tasks, timeline, timeline.programs, model, progress, how.observer, engine)
    return Outcome(timeline, findings)


def run_values(device: Device, tasks: Sequence[Task], timeline: Timeline | None, model: ValueModel | None) -> None:
    """The values that tasks leave on `device`: those of the programs of a `timeline`, in its order, or built anew."""
    if timeline is None:
        FunctionalEngine(device, None, model).run(tasks)
    else:
        replay(device, tasks, timeline, timeline.programs, model)
