"""The report of a call: what each kernel did and how long it took, as plain values.

    report = Report.build(chip, timeline, tasks, verdicts=check_outputs)
    report.to_dict()            # the published schema; works out `outputs` the first time
    report.passed               # every output correct and nothing found

Deterministic: no wall clock, date, path or core number stands in it, lists are in block order and times have a fixed
number of decimals, so that two runs give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.occupancy import occupancy
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import CAUSES, ProgramRun, TaskRun, Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.isa.base import PIPE_INDEX, PIPES
from ascend_sim.kernel.program import Program
from ascend_sim.report.advice import statements
from ascend_sim.report.counts import cube_work_cycles, kernel_counts
from ascend_sim.report.html import report_html
from ascend_sim.report.roofline import PIPE_KEYS, Rooflines
from ascend_sim.report.waterfall import waterfall

Outputs = Mapping[str, Mapping[str, Any]]

VERSION = 1
"""Of what `to_dict` gives, in it under "version"; counted up when a key goes or means something else."""
_US_DECIMALS = 4
_SHARE_DECIMALS = 4
_TIME_FIELDS = (
    "task_us", "core_us", "core_us_max", "core_cycles_max", "start_us", "pipes_us", "bottleneck_pipe", "main_stall",
    "stalls", "held_us", "roofline",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """Outcome of one call on `chip`; times in us, None in `functional` mode.

    `verdicts` maps an output to its error figures and "correct", or is a function that works them out when somebody looks
    (at `outputs`). `findings` are {"kind", "task", "text"}; `problem` describes the call (see `report.text`).
    """

    chip: str
    mode: str
    status: int
    total_us: float | None
    workspace_bytes: int
    kernels: tuple[Mapping[str, Any], ...]
    problem: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Mapping[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    verdicts: Outputs | Callable[[], Outputs] = field(default_factory=dict, repr=False)
    plan: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def build(
        cls,
        chip: ChipSpec,
        run: Timeline | Sequence[tuple[int, Program]],
        tasks: Sequence[Task],
        *,
        mode: str | None = None,
        l2: str = "cold",
        findings: Sequence[Finding] = (),
        verdicts: Outputs | Callable[[], Outputs] | None = None,
        workspace_bytes: int = 0,
    ) -> Report:
        """From a Timeline, or from (task index, Program) pairs as `FunctionalEngine.programs` keeps them.

        `mode` is "full" or "functional" unless told; a run that began with a "cold" `l2` has a sharper HBM bound. What the
        run does not know (problem, plan, warnings) is empty: `dataclasses.replace` puts it in.
        """
        if isinstance(run, Timeline):
            origin = min((task.launch for task in run.tasks), default=0)
            kernels = _timed_kernels(chip, run, tasks, origin, cold=l2 == "cold")
            total = _us(chip, run.finish - origin) if tasks else 0.0
        else:
            of_task: dict[int, list[Program]] = {index: [] for index in range(len(tasks))}
            for index, program in run:
                of_task[index].append(program)
            kernels = [_kernel(chip, task, of_task[index]) for index, task in enumerate(tasks)]
            total = None
        return cls(
            chip=chip.name,
            mode=mode or ("functional" if total is None else "full"),
            status=0,
            total_us=total,
            workspace_bytes=workspace_bytes,
            kernels=tuple(kernels),
            findings=tuple({"kind": one.kind, "task": one.task, "text": one.text} for one in findings),
            verdicts=verdicts if verdicts is not None else {},
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole report as new dicts, lists, strings and numbers; what has no finite value is None."""
        return {
            "version": VERSION,
            "chip": self.chip,
            "mode": self.mode,
            "status": self.status,
            "problem": plain(self.problem),
            "total_us": self.total_us,
            "workspace_bytes": self.workspace_bytes,
            "plan": plain(self.plan),
            "kernels": plain(self.kernels),
            "outputs": (outputs := plain(self.outputs)),
            **({"gradients": outputs} if _are_gradients(outputs) else {}),
            "findings": plain(self.findings),
            "warnings": plain(self.warnings),
        }

    def __repr__(self) -> str:
        time = "no times" if self.total_us is None else f"{self.total_us:,.2f} us"
        return f"<Report of {self.problem.get('operator', 'run')} on {self.chip}, {len(self.kernels)} kernels, {time}>"

    def _repr_html_(self) -> str:
        """For notebooks: problem, kernels, outputs and findings as tables."""
        return report_html(self.to_dict())

    @property
    def passed(self) -> bool:
        """True when every output is correct and the run found nothing wrong."""
        return not self.findings and all(figures.get("correct", True) for figures in self.outputs.values())

    @cached_property
    def outputs(self) -> Outputs:
        """Error figures and "correct" by output; worked out the first time."""
        return self.verdicts() if callable(self.verdicts) else self.verdicts

    @property
    def gradients(self) -> Outputs:
        """The same, where the outputs are gradients."""
        return self.outputs


def _are_gradients(outputs: Outputs) -> bool:
    """Whether a report names its outputs "gradients" too, as readers of a convolution's backward expect them."""
    return bool(outputs) and all(name.startswith("grad_") for name in outputs)


def plain(value: Any) -> Any:
    """A value as JSON knows it: numpy numbers and tuples become Python's, NaN and infinity None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _kernel(chip: ChipSpec, task: Task, programs: Sequence[Program]) -> dict[str, Any]:
    """What follows from the programs alone; every time is None."""
    info = task.info
    row = {
        "op_type": task.op_type,
        "name": task.name,
        "core_type": task.core_kind,
        "block_dim": task.block_dim,
        **dict.fromkeys(_TIME_FIELDS),
        "cube_work_cycles": cube_work_cycles(programs),
        "counts": kernel_counts(task, programs),
        "tiling": info.get("tiling", {}),
        "tiling_source": info.get("tiling_source"),
        "dtypes": info.get("dtypes", {}),
        "formats": info.get("formats", {}),
    }
    if info.get("macs") and info.get("compute_dtype"):
        per_cycle = chip.cube.macs_per_cycle(info["compute_dtype"]) * chip.cores.aic
        row["macs"], row["ideal_cycles"] = info["macs"], math.ceil(info["macs"] / per_cycle)
    return row


def timed_kernel(chip: ChipSpec, timeline: Timeline, tasks: Sequence[Task], index: int = 0) -> dict[str, Any]:
    """One kernel of a run as in `Report.kernels`, without what takes long to work out: roofline and buffers."""
    runs = timeline.of(index)
    row = _kernel(chip, tasks[index], [run.program for run in runs])
    return row | _times(chip, timeline.tasks[index], runs, min(task.launch for task in timeline.tasks))


def _timed_kernels(
    chip: ChipSpec,
    timeline: Timeline,
    tasks: Sequence[Task],
    origin: int,
    *,
    cold: bool,
) -> list[dict[str, Any]]:
    kernels = []
    rooflines = Rooflines(chip, cold=cold and len({task.stream for task in tasks}) == 1)
    for index, task in enumerate(tasks):
        runs = timeline.of(index)
        programs = [run.program for run in runs]
        row = _kernel(chip, task, programs) | _times(chip, timeline.tasks[index], runs, origin)
        bounds = rooflines.of(task, programs)
        row["roofline"] = {"bound_by": max(bounds, key=bounds.__getitem__) if bounds else None, "cycles": bounds}
        row["buffers"] = _buffers(chip, runs)
        if "ideal_cycles" in row and row["core_cycles_max"]:
            row["cube_efficiency"] = round(row["ideal_cycles"] / row["core_cycles_max"], _SHARE_DECIMALS)
            span = timeline.tasks[index]
            row["waterfall"] = dict(waterfall(chip, task, runs, span.finish - span.launch))
            row["statements"] = [vars(one) for one in statements(chip, row, task.info.get("stride", ()))]
        kernels.append(row)
    return kernels


def _buffers(chip: ChipSpec, runs: Sequence[ProgramRun]) -> dict[str, dict[str, Any]]:
    """How full the local buffers are: capacity, the most that any core held, and the mean over cores and time."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for run in runs:
        for name in chip.cores.kinds[run.program.core_kind].buffers:  # type: ignore[index]
            curve = occupancy(run, name)
            curves.setdefault(name, []).append((curve.peak, curve.mean(run.begin, run.finish)))
    return {
        name: {
            "capacity": chip.buffers[name],  # type: ignore[index]
            "peak_bytes": max(peak for peak, _ in found),
            "mean_bytes": round(sum(mean for _, mean in found) / len(found)),
        }
        for name, found in curves.items()
        if any(peak for peak, _ in found)
    }


def _times(chip: ChipSpec, span: TaskRun, runs: Sequence[ProgramRun], origin: int) -> dict[str, Any]:
    """Times of one kernel. A core's time runs from the dispatch of a block to its end, summed over its blocks."""
    core_cycles: dict[tuple[str, int], int] = {}
    for run in runs:
        key = (run.program.core_kind, run.core)
        core_cycles[key] = core_cycles.get(key, 0) + run.finish - run.launch
    longest = max(core_cycles.values(), default=0)
    busy = [run.busy() for run in runs]
    pipes = {name: _PipeTime.of(chip, name, runs, busy) for name in PIPES}
    main = max((pipe for pipe in pipes.values() if pipe.cores), key=lambda pipe: pipe.mean_busy, default=None)
    working = [pipe for pipe in pipes.values() if pipe.works]
    return {
        "task_us": _us(chip, span.finish - span.launch),
        "core_us": _us(chip, sum(core_cycles.values()) / max(len(core_cycles), 1)),
        "core_us_max": _us(chip, longest),
        "core_cycles_max": longest,
        "start_us": _us(chip, span.launch - origin),
        "pipes_us": {key: _us(chip, pipes[name].mean_busy) for name, key in PIPE_KEYS.items()},
        "bottleneck_pipe": PIPE_KEYS[main.name] if main else None,
        "main_stall": main.main_stall() if main else None,
        "stalls": {PIPE_KEYS[pipe.name]: pipe.mean_us(chip, pipe.stalls) for pipe in working},
        "held_us": {PIPE_KEYS[pipe.name]: pipe.mean_us(chip, pipe.held) for pipe in working if pipe.held},
    }


@dataclass(frozen=True)
class _PipeTime:
    """One pipe of a kernel, in cycles summed over the `cores` that have it.

    Busy and stalls add up to `span`, first instruction to last retirement of each block. `held` is the part of busy in
    which other transfers slowed down those of this pipe.
    """

    name: str
    cores: int
    works: bool
    span: int
    busy: int
    stalls: dict[str, int]
    held: dict[str, int]

    @classmethod
    def of(cls, chip: ChipSpec, name: str, runs: Sequence[ProgramRun], busy: Sequence[Mapping[str, int]]) -> _PipeTime:
        stalls, held = dict.fromkeys(CAUSES, 0), {"L2 share": 0, "HBM share": 0}
        cores: set[tuple[str, int]] = set()
        works = name == "S"
        span = cycles = 0
        for run, busy_cycles in zip(runs, busy, strict=True):
            kind = run.program.core_kind
            if name not in chip.cores.kinds[kind].pipes:  # type: ignore[index]
                continue
            cores.add((kind, run.core))
            span += run.finish - run.begin
            cycles += busy_cycles[name]
            rows = run.program.per_row("pipe") == PIPE_INDEX[name]
            works = works or bool(rows.any())
            for cause, stall in run.stalls(name).items():
                stalls[cause] += stall
            held["L2 share"] += int(run.l2_wait[rows].sum())
            held["HBM share"] += int(run.hbm_wait[rows].sum())
        happened = [{cause: count for cause, count in found.items() if count} for found in (stalls, held)]
        return cls(name, len(cores), works, span, cycles, *happened)

    @property
    def mean_busy(self) -> float:
        return self.busy / self.cores if self.cores else 0.0

    def mean_us(self, chip: ChipSpec, cycles: Mapping[str, int]) -> dict[str, float]:
        """Mean us over the cores, by cause."""
        return {cause: _us(chip, value / self.cores) for cause, value in cycles.items()}

    def main_stall(self) -> dict[str, Any] | None:
        """What cost the pipe most time: standing still, or being held back; `share` is of the pipe's span."""
        lost = {cause: self.stalls.get(cause, 0) + self.held.get(cause, 0) for cause in CAUSES}
        cause = max(lost, key=lost.__getitem__)
        return {"cause": cause, "share": round(lost[cause] / self.span, _SHARE_DECIMALS)} if lost[cause] else None


def _us(chip: ChipSpec, cycles: float) -> float:
    return round(chip.us(cycles), _US_DECIMALS)
