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
from dataclasses import field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import CAUSES, TaskRun, Timeline
from ascend_sim.engine.totals import TaskTotals
from ascend_sim.engine.values import Finding
from ascend_sim.engine.watch import watched
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.program import Program
from ascend_sim.report.certainty import as_row, interval, together
from ascend_sim.report.counts import Counts
from ascend_sim.report.roofline import PIPE_KEYS, LeastWork, Rooflines
from ascend_sim.report.summary import summary_of, summary_text

if TYPE_CHECKING:
    from ascend_sim.options.commands import Commands
    from ascend_sim.report.advice import Statement

Outputs = Mapping[str, Mapping[str, Any]]

VERSION = 1
"""Version of the result of `to_dict`, its key "version"; increased when a key is removed or changes its meaning."""
NO_TIMELINE = "not kept: there is no waterfall, critical path, what-if, trace or page of this run"
"""Note in the report of a run that kept only totals."""
_US_DECIMALS = 4
_SHARE_DECIMALS = 4
_HELD = {"L2 share": "l2_wait", "HBM share": "hbm_wait", "bank conflict": "bank_conflicts"}
"""Cause by which instructions take longer -> the attribute of `PipeTotals` with its cycles."""
_TIME_FIELDS = (
    "task_us", "core_us", "core_us_max", "core_cycles_max", "start_us", "pipes_us", "bottleneck_pipe", "main_stall",
    "stalls", "held_us", "roofline", "interval",
)  # fmt: skip


@frozen(eq=False, repr=False)
class Report:
    """Result of one call on `chip` in figures; times in us, None in `functional` mode.

    `has_timeline` is False for a run with times that kept no timeline. `verdicts` maps an output to its error figures and
    "correct", or is a function that computes them at the first use of `outputs`. `findings` are {"kind", "task", "text"};
    `problem` describes the call (see `report.text`). `scalar_code` is {kind of core: {"loop_turns", "calls"}} of a kernel's
    C++. `commands` go on from the call (None if nothing can), `advise` makes the statements of a kernel (`report.advice`).
    """

    chip: str
    mode: str
    status: int
    total_us: float | None
    workspace_bytes: int
    kernels: tuple[Mapping[str, Any], ...]
    problem: Mapping[str, Any] = field(default_factory=dict)
    scalar_code: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    findings: tuple[Mapping[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    verdicts: Outputs | Callable[[], Outputs] = field(default_factory=dict, repr=False)
    plan: tuple[Mapping[str, Any], ...] = ()
    has_timeline: bool = True
    commands: Commands | None = None
    advise: Callable[..., Sequence[Statement]] | None = field(default=None, repr=False)

    @classmethod
    def build(
        cls,
        chip: ChipSpec,
        timeline: Timeline | None,
        tasks: Sequence[Task],
        facts: RunFacts | None = None,
        *,
        l2: str = "cold",
        findings: Sequence[Finding] = (),
        verdicts: Outputs | Callable[[], Outputs] | None = None,
    ) -> Report:
        """Return a report from a Timeline (None: functional mode) and the `facts` of its programs.

        A run that kept its programs needs no `facts`. A run of one stream with a "cold" `l2` at its start has a sharper HBM
        bound. The mode is "full", or "functional" without a Timeline; `dataclasses.replace` sets it, and the fields that the
        run does not know (problem, plan, workspace, warnings).
        """
        if facts is None:
            facts = RunFacts(chip)
            for run in timeline.programs if timeline is not None else ():
                facts.add(run.task, tasks[run.task], run.program)
        if timeline is None:
            total = None
            kernels = [_kernel(chip, task, facts.of(index, task).counts) for index, task in enumerate(tasks)]
        else:
            origin = min((task.launch for task in timeline.tasks), default=0)
            total = _us(chip, timeline.finish - origin) if tasks else 0.0
            kernels = _timed_kernels(chip, timeline, tasks, facts, origin, cold=l2 == "cold")
        return cls(
            chip=chip.name,
            mode="functional" if total is None else "full",
            status=0,
            total_us=total,
            workspace_bytes=0,
            kernels=tuple(kernels),
            findings=tuple({"kind": one.kind, "task": one.task, "text": one.text} for one in findings),
            verdicts=verdicts if verdicts is not None else {},
            has_timeline=timeline is None or timeline.kept,
            advise=partial(_advise, chip),
        )

    def to_dict(self, *, statements: bool = True) -> dict[str, Any]:
        """Return the report as new dicts, lists, strings and numbers; infinities and NaN are None. It computes `outputs`.

        "timeline" stands there only if the run kept none, and "gradients" repeats "outputs" if all are gradients. Each kernel
        with a waterfall has "statements" and the report a "summary"; without `statements` they are left out. Statements need
        further simulations, which the first call makes: they may take longer than a run without values.
        """
        kernels = self.kernels
        if statements:
            said = zip(kernels, self.statements, strict=True)
            kernels = tuple({**kernel, "statements": told} if "waterfall" in kernel else kernel for kernel, told in said)
        data = {
            "version": VERSION,
            "chip": self.chip,
            "mode": self.mode,
            "status": self.status,
            "problem": plain(self.problem),
            **({"scalar_code": plain(self.scalar_code)} if self.scalar_code else {}),
            "total_us": self.total_us,
            "interval": None if self.total_us is None else together(self.kernels),
            "workspace_bytes": self.workspace_bytes,
            "plan": plain(self.plan),
            "kernels": plain(kernels),
            "outputs": (outputs := plain(self.outputs)),
            **({"gradients": outputs} if outputs and all(name.startswith("grad_") for name in outputs) else {}),
            "findings": plain(self.findings),
            "warnings": plain(self.warnings),
            **({} if self.has_timeline else {"timeline": NO_TIMELINE}),
        }
        if not statements:
            return data
        return {**data, "summary": summary_of(data, self.commands.name if self.commands is not None else "")}

    def __str__(self) -> str:
        return summary_text(self.to_dict()["summary"])

    def __repr__(self) -> str:
        time = "no times" if self.total_us is None else f"{self.total_us:,.2f} us"
        return f"<Report of {self.problem.get('operator', 'run')} on {self.chip}, {len(self.kernels)} kernels, {time}>"

    def _repr_html_(self) -> str:
        """Return the summary, then tables of problem, kernels, outputs and findings, as HTML for notebooks; it simulates as
        `to_dict`.
        """
        from ascend_sim.report.html import report_html  # pages alone need it

        return report_html(self.to_dict(), str(self))

    @property
    def passed(self) -> bool:
        """Return True if the run has no finding and no output is wrong; an output without a verdict counts as right. It
        computes `outputs`.
        """
        return not self.findings and all(figures.get("correct", True) for figures in self.outputs.values())

    @cached_property
    def outputs(self) -> Outputs:
        """Return {output: error figures and "correct"}; computed at the first call and kept."""
        return self.verdicts() if callable(self.verdicts) else self.verdicts

    @cached_property
    def statements(self) -> tuple[Sequence[Mapping[str, Any]], ...]:
        """Return for each kernel the statements on its waterfall (`report.advice`) as dicts; [] for a kernel without one, and
        without `advise`.

        Computed once, by trials.
        """
        if self.advise is None:
            return tuple([] for _ in self.kernels)
        return tuple(
            [vars(one) for one in self.advise(kernel, self.problem, self.commands)] if "waterfall" in kernel else []
            for kernel in self.kernels
        )

    @property
    def gradients(self) -> Outputs:
        """Return `outputs`, under the name that fits outputs which are gradients."""
        return self.outputs


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: numpy's become Python's, tuples lists, NaN and infinity None, keys and objects of
    other types text.
    """
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


class RunFacts:
    """Collector of the facts that a report needs of the programs of a run, added as they are built; no rows are kept. `add`
    is an `OnProgram`.

    Without `bounds`, for a report without times, programs are only counted.
    """

    def __init__(self, chip: ChipSpec, *, bounds: bool = True) -> None:
        self._chip, self._bounds = chip, bounds
        self._works: dict[int, LeastWork] = {}

    def add(self, index: int, task: Task, program: Program) -> None:
        """Add one more program of the task with that index; the programs of a task come in block order."""
        work = self.of(index, task)
        if self._bounds:
            work.add(program)
        else:
            work.counts.add(program)

    def of(self, index: int, task: Task) -> LeastWork:
        """Return the `LeastWork` of the task number `index`, with its counts; an empty one, which is kept, if no program of it
        was added.
        """
        if index not in self._works:
            self._works[index] = LeastWork(self._chip, task)
        return self._works[index]


def _kernel(chip: ChipSpec, task: Task, counts: Counts) -> dict[str, Any]:
    """Return a kernel's row of the report from its programs alone; every time is None."""
    info = task.info
    row = {
        "op_type": task.op_type,
        "name": task.name,
        "core_type": task.core_kind,
        "block_dim": task.block_dim,
        **dict.fromkeys(_TIME_FIELDS),
        "cube_work_cycles": counts.cube_work_cycles(),
        "counts": counts.as_dict(),
        "tiling": info.get("tiling", {}),
        "tiling_source": info.get("tiling_source"),
        "dtypes": info.get("dtypes", {}),
        "formats": info.get("formats", {}),
    }
    # Entries that only some kernels have: the ladder of the tiling; the library's version and the surrogates of parts that are
    # not built; the load of the input to L0.
    row |= {name: info[name] for name in ("ladder", "library", "surrogates", "input_load") if name in info}
    ideal = ideal_cycles(chip, task)
    if ideal is not None:
        row["macs"], row["ideal_cycles"] = info["macs"], ideal
    return row


def ideal_cycles(chip: ChipSpec, task: Task) -> int | None:
    """Return the cycles in which all cube cores at their peak do a task's products, rounded up; None without products."""
    macs, dtype = task.info.get("macs"), task.info.get("compute_dtype")
    if not macs or not dtype:
        return None
    return math.ceil(macs / (chip.cube.macs_per_cycle(dtype) * chip.cores.aic))


def timed_kernel(chip: ChipSpec, timeline: Timeline, task: Task, counts: Counts) -> dict[str, Any]:
    """Return the row of the only kernel of a run as in `Report.kernels`, without the parts that take long: interval, roofline,
    buffers, cube efficiency and waterfall.
    """
    (span,), (totals,) = timeline.tasks, watched(timeline).of_task
    return _kernel(chip, task, counts) | _times(chip, span, totals, span.launch)


def interval_of(chip: ChipSpec, task: Task, us: float) -> dict[str, Any]:
    """Return the uncertainty interval of a task that takes `us`, as the dict that `as_row` returns."""
    grouped, library = task.info.get("groups", 1) > 1, task.info.get("library", "")
    cube = "macs" in task.info or task.core_kind in ("AIC", "MIX")
    return as_row(interval(chip, task.op_type, us, cube=cube, grouped=grouped, library=library))


def _advise(*given: Any) -> Sequence[Statement]:
    from ascend_sim.report.advice import statements  # a kernel with a waterfall alone needs it

    return statements(*given)


def _timed_kernels(
    chip: ChipSpec, timeline: Timeline, tasks: Sequence[Task], facts: RunFacts, origin: int, *, cold: bool
) -> list[dict[str, Any]]:
    kernels = []
    rooflines = Rooflines(chip, cold=cold and len({task.stream for task in tasks}) == 1)
    for index, (task, totals) in enumerate(zip(tasks, watched(timeline).of_task, strict=True)):
        work, span = facts.of(index, task), timeline.tasks[index]
        row = _kernel(chip, task, work.counts) | _times(chip, span, totals, origin)
        row["interval"] = interval_of(chip, task, row["task_us"])
        bounds = rooflines.of(work)
        row["roofline"] = {"bound_by": max(bounds, key=bounds.__getitem__) if bounds else None, "cycles": bounds}
        row["buffers"] = {
            name: {"capacity": chip.buffers[name], "peak_bytes": found.peak, "mean_bytes": found.mean}  # type: ignore[index]
            for name, found in totals.buffers.items()
            if found.peak
        }
        if "ideal_cycles" in row and row["core_cycles_max"]:
            row["cube_efficiency"] = round(row["ideal_cycles"] / row["core_cycles_max"], _SHARE_DECIMALS)
            if timeline.kept:
                from ascend_sim.report.waterfall import waterfall  # products alone have one

                row["waterfall"] = dict(waterfall(chip, task, timeline.of(index), span.finish - span.launch))
        kernels.append(row)
    return kernels


def _times(chip: ChipSpec, span: TaskRun, totals: TaskTotals, origin: int) -> dict[str, Any]:
    """Return the fields `_TIME_FIELDS` of a kernel's row but roofline and interval; times are us, "core_cycles_max" is cycles.

    "start_us" counts from the cycle `origin`.
    A core's time is the sum over its blocks, each from its dispatch to its end; "core_us" and pipes are means over cores.
    """
    core_cycles = totals.core_cycles
    longest = max(core_cycles.values(), default=0)
    pipes = {name: _PipeTime.of(name, totals) for name in PIPES}
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


@frozen
class _PipeTime:
    """One pipe of a kernel, in cycles summed over the `cores` that have it.

    Busy and stalls add up to `span`, first instruction to last retirement of each block. `held` is the part of busy in
    which other transfers, or bank conflicts, slowed down the pipe's instructions.
    """

    name: str
    cores: int
    works: bool
    span: int
    busy: int
    stalls: dict[str, int]
    held: dict[str, int]

    @classmethod
    def of(cls, name: str, totals: TaskTotals) -> _PipeTime:
        parts = [pipe for (_, own), pipe in totals.pipes.items() if own == name]
        stalls = {cause: sum(pipe.stalls[cause] for pipe in parts) for cause in CAUSES}
        held = {cause: sum(getattr(pipe, name) for pipe in parts) for cause, name in _HELD.items()}
        works = name == "S" or any(pipe.rows for pipe in parts)
        span, busy = (sum(getattr(pipe, field) for pipe in parts) for field in ("span", "busy"))
        happened = [{cause: count for cause, count in found.items() if count} for found in (stalls, held)]
        return cls(name, sum(len(pipe.cores) for pipe in parts), works, span, busy, *happened)

    @property
    def mean_busy(self) -> float:
        return self.busy / self.cores if self.cores else 0.0

    def mean_us(self, chip: ChipSpec, cycles: Mapping[str, int]) -> dict[str, float]:
        """Return {cause: mean us over the pipe's cores} from `cycles` {cause: cycles of all cores}."""
        return {cause: _us(chip, value / self.cores) for cause, value in cycles.items()}

    def main_stall(self) -> dict[str, Any] | None:
        """Return {"cause", "share"} of the cause that cost the pipe most time, standing still or held back; None if none did.

        The share is of the pipe's span over all cores, rounded to four decimals.
        """
        lost = {cause: self.stalls.get(cause, 0) + self.held.get(cause, 0) for cause in dict.fromkeys((*CAUSES, *_HELD))}
        cause = max(lost, key=lost.__getitem__)
        return {"cause": cause, "share": round(lost[cause] / self.span, _SHARE_DECIMALS)} if lost[cause] else None


def _us(chip: ChipSpec, cycles: float) -> float:
    return round(chip.us(cycles), _US_DECIMALS)
