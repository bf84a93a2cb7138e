"""Measured kernels against simulated ones: rows of a profiler, each run alone in `timing` mode.

compared = compare(read_rows("my_rows.csv"))     # or shipped_rows()
compared[0].prediction.task_us, compared[0].row.duration_us
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ascend_sim.chip import load_chip
from ascend_sim.engine.engine import Engine, Progress
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.keywords import near_names
from ascend_sim.ops.case_entries import explain_error
from ascend_sim.ops.layer import Layer
from ascend_sim.report.report import Report, RunFacts
from ascend_sim.runtime import Device
from ascend_sim.studies.points import finish_all
from ascend_sim.studies.pools import Failed, Processes
from ascend_sim.studies.store import RESULTS, Store
from ascend_sim.studies.validate.calls import ConvCall, named_kernels
from ascend_sim.studies.validate.launch import PIPES, REPEATED, STEP, MeasuredKernel, MeasuredRow
from ascend_sim.studies.validate.launches import LAUNCHES, Timed
from ascend_sim.studies.validate.profile_order import leave_step
from ascend_sim.studies.validate.rows import of_chips, read_rows, shipped_rows

INTERRUPTED = "interrupted before it was run"
_TOO_LONG = "takes minutes; --long runs it"


@frozen
class Prediction:
    """Simulated times of a measured row in us, with the number of blocks; `skipped` is the reason why there are none.

    For a call `task_us` is the sum over its `kernels` (operator and time, in their order), which have no pipes, core time and
    blocks here. `low_us` and `high_us` are the 80 % interval of `task_us` (`report.certainty`; of a call the sums of its
    kernels'). A program that is `Timed` has `task_us` alone. NaN is a time that there is not.
    """

    task_us: float = math.nan
    core_us: float = math.nan
    pipes: Mapping[str, float] = field(default_factory=dict)
    skipped: str = ""
    blocks: int = 0
    kernels: tuple[tuple[str, float], ...] = ()
    low_us: float = math.nan
    high_us: float = math.nan


@frozen
class RowComparison:
    """A measured row and its prediction."""

    row: MeasuredRow
    prediction: Prediction

    def __repr__(self) -> str:
        of = f"{self.row.kernel.op_type} on {Path(self.row.kernel.chip).name}"
        if self.prediction.skipped:
            return f"<Comparison of {of}: {self.prediction.skipped}>"
        return f"<Comparison of {of}: measured {self.row.duration_us:.2f} us, predicted {self.prediction.task_us:.2f}>"

    @property
    def error(self) -> float:
        """Return (predicted - measured) / measured of the task time; NaN for a skipped row."""
        return self.prediction.task_us / self.row.duration_us - 1

    @property
    def kernel_errors(self) -> list[tuple[str, float]]:
        """Return (operator, relative error) of the kernels of a call whose times the row gives by themselves; [] for a skipped
        row.

        Several kernels of one operator are paired in order.
        """
        found: dict[str, list[float]] = {}
        for name, us in reversed(self.prediction.kernels):
            found.setdefault(name, []).append(us)
        named = [] if self.prediction.skipped else named_kernels(self.row.kernel)
        pairs = [(name, measured, found[name].pop()) for name, measured in named]
        return [(name, us / measured - 1) for name, measured, us in pairs if measured]


@near_names
def validate(
    rows: str | Path | None = None,
    *,
    chips: str | Sequence[str] = (),
    l2: str | None = None,
    facts: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    long: bool = False,
    out: str | Path | None = None,
) -> list[RowComparison]:
    """Simulate measured kernels and return every row with its prediction; without `rows` those that ship with the package.

    `rows` is a CSV file, a profiler's table or its folder, which needs one chip; with `chips` only their rows are taken. A row
    that cannot be read or simulated is skipped with its reason. `l2` and `facts` are explained at `read_rows`, the other
    arguments at `compare`. Raises as `read_rows` and `of_chips` do.
    """
    named = [chips] if isinstance(chips, str) else list(chips)
    given = None if not named else ",".join(named)
    measured = shipped_rows(l2 or "warm", facts) if rows is None else read_rows(rows, l2, given, facts, skip=True)
    measured = of_chips(measured, named) if named else measured
    return compare(measured, jobs=jobs, progress=progress, long=long, out=out)


def compare(
    rows: Iterable[MeasuredRow],
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    long: bool = True,
    out: str | Path | None = None,
) -> list[RowComparison]:
    """Return every row with its prediction, in order; equal kernels run once, `jobs` processes share the distinct ones.

    Without `long` rows that take minutes are skipped. `out` is a folder with a store: results in it are not run again. An
    interrupt (Ctrl-C) ends the runs, and rows without a result are skipped as `INTERRUPTED`; before the first result it is
    raised.
    """
    rows = [
        row if long or row.unlike or not LAUNCHES[row.kernel.op_type].is_long(row.kernel) else replace(row, unlike=_TOO_LONG)
        for row in rows
    ]
    kernels = list(dict.fromkeys(as_timed(row.kernel) for row in rows if not row.unlike))
    # Long ones first, so that none is left over at the end.
    ordered = sorted(kernels, key=lambda kernel: -math.prod(size for _, size in kernel.sizes))
    named = {_name(kernel): kernel for kernel in ordered}
    store = Store({"study": "validate"}, None if out is None else Path(out) / RESULTS, room="studies.validate")
    done = finish_all(store, named, _simulated, Processes(min(jobs, max(len(ordered), 1))), "rows", progress)
    found = {
        named[name]: Prediction(skipped=data.why)
        if isinstance(data, Failed)
        else Prediction(**{**data, "kernels": tuple((kernel, us) for kernel, us in data["kernels"])})
        for name, data in done.results.items()
    }
    rest = Prediction(skipped=INTERRUPTED)
    return [
        RowComparison(row, Prediction(skipped=row.unlike) if row.unlike else found.get(as_timed(row.kernel), rest))
        for row in rows
    ]


def as_timed(kernel: MeasuredKernel) -> MeasuredKernel:
    """Return one kernel that stands for all that take the same time as this one (`MeasuredLaunch.as_timed` of its operator)."""
    return LAUNCHES[kernel.op_type].as_timed(kernel)


def _name(kernel: MeasuredKernel) -> str:
    """Return the cache key of a prediction: a SHA-256 of the kernel and its chip's numbers."""
    try:
        chip = load_chip(kernel.chip).model_dump_json()
    except SimError:  # `simulate` reports it
        chip = kernel.chip
    return hashlib.sha256(f"{kernel!r} {chip}".encode()).hexdigest()


def _simulated(kernel: MeasuredKernel) -> dict[str, Any] | Failed:
    """Return the prediction of `simulate` as a dict for the store; Failed, which is not stored, where the kernel was
    skipped.
    """
    prediction = simulate(kernel)
    return Failed(prediction.skipped) if prediction.skipped else asdict(prediction)


def simulate(kernel: MeasuredKernel) -> Prediction:
    """Simulate one launch, of a call all its kernels, on a fresh device in timing mode and return its prediction; a refusal or
    any error becomes its `skipped`.

    L2 and code begin in the kernel's state, see L2_STATES, STEP, REPEATED and LAUNCH_STATES.
    """
    try:
        chip = load_chip(kernel.chip)
        launch = LAUNCHES[kernel.op_type]
        if isinstance(launch, Timed):
            return Prediction(launch.us(kernel, chip))
        device = Device(chip, with_values=False)
        tasks, inputs = launch.tasks(kernel, chip, device)
        for tensor in inputs if kernel.l2 == "warm" else ():
            device.warm(tensor)
        if kernel.l2 == STEP:
            leave_step(device, kernel, inputs, [one for one in tasks[0].tensors if one not in inputs])
        if kernel.l2 == REPEATED:
            Engine(device).run(tasks, keep=False)
        device.repeat(tasks if kernel.launches == "warm" else ())
        facts = RunFacts(chip)
        timeline = Engine(device).run(tasks, keep=False, on_program=facts.add)
        figures = Report.build(chip, timeline, tasks, facts, l2=kernel.l2).kernels
    except SimError as error:
        return Prediction(skipped=str(error))
    except ValidationError as error:
        return Prediction(skipped=explain_error(Layer, error))
    except Exception as error:  # a defect of ours must not lose the finished rows
        return Prediction(skipped=f"a defect of the simulator: {type(error).__name__}: {' '.join(str(error).split())}")
    low, high = (math.fsum(one["interval"][end] for one in figures) for end in ("low_us", "high_us"))
    if isinstance(launch, ConvCall):
        kernels = tuple((one["op_type"], one["task_us"]) for one in figures)
        return Prediction(math.fsum(us for _, us in kernels), kernels=kernels, low_us=low, high_us=high)
    (one,), (task,) = figures, tasks
    pipes = {pipe: one["pipes_us"][ours] for pipe, ours in PIPES.items()}
    return Prediction(one["task_us"], one["core_us"], pipes, blocks=task.block_dim, low_us=low, high_us=high)
