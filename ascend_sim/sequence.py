"""The common sequence of a run, for a call of an operator and for a user's kernel.

    result = run_job(job, options, Result)

Model, device, tasks, run, checks, outputs, verdicts, report, recording: `run_job` does them in this order. A `Job` says what
differs: how its tensors come to a device, what its outputs are and how they are judged. Options were checked before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.timeline import Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.errors import SimError
from ascend_sim.frozen import mutable
from ascend_sim.kernel.check import check_disarmed
from ascend_sim.kernel.program import Program
from ascend_sim.options.run_options import STEP, AnyRunOptions
from ascend_sim.report.counts import Counts
from ascend_sim.report.report import Outputs, Report, RunFacts
from ascend_sim.report.summary import summary_text
from ascend_sim.runtime import Allocation, Device, KernelMoves, Recording, Task, ValueModel, run_tasks, without_recording
from ascend_sim.settings import check_limit, disarmed_warnings

if TYPE_CHECKING:
    from ascend_sim.engine.functional import FunctionalEngine

Array = NDArray[Any]

_NOTHING_WARM = "launches 'warm' changes no time here: {}"
_MANY = "code stays for {} launches on a kind of core (launch.kept_launches), and this run has more"
_FREE = "the chip file has no cost of cold code for these kernels (launch.cold_us)"


@mutable(repr=False)
class RunResult:
    """A run's outputs by name (none in timing mode), its report, and the data that it was made from.

    `dtypes` names the format of every output. `findings` are hazards and reads of unwritten bytes, and with `check` the
    findings of the checks. `timeline` and `recording` hold every instruction's cycles; both are None in functional
    mode, and where no timeline was kept.
    """

    outputs: dict[str, Array]
    report: Report
    dtypes: dict[str, str]
    findings: list[Finding] = field(default_factory=list)
    timeline: Timeline | None = None
    recording: Recording | None = None
    tasks: list[Task] = field(default_factory=list)

    results: ClassVar[str | None] = None
    """Name of the file of outputs (`report.run_files.RESULTS`); None: made from the outputs' names."""

    def __repr__(self) -> str:
        report = self.report
        time = "no times" if report.total_us is None else f"{report.total_us:,.2f} us"
        shapes = ", ".join(f"{name} {list(array.shape)} {self.dtypes[name]}" for name, array in self.outputs.items())
        return f"<{self._title} on {report.chip}, mode {report.mode}, {time}: {shapes or 'no values'}>"

    def __str__(self) -> str:
        more = "more: " + ("report.to_dict()" if self.recording is None else 'write_html("page.html"), report.to_dict()')
        return summary_text(self.report.to_dict()["summary"], more)

    @property
    def _title(self) -> str:
        return type(self).__name__

    @property
    def passed(self) -> bool:
        """Return True if no finding is a mistake and no output is known to be wrong; outputs that nothing judged do not
        count.
        """
        return self.report.passed

    def to_dict(self) -> dict[str, Any]:
        """Return `report.to_dict()`: the figures, the statements of each kernel and the summary, plain data for JSON."""
        return self.report.to_dict()

    def write_html(self, path: str | Path, *, what_if: bool = True, name: str = "") -> None:
        """Write the run as one page; with `what_if` the programs also run with each rate of the chip doubled. `name` stands in
        the heading, in place of the case.

        Raises SimError in functional mode, which has no times, where no timeline was kept, without Plotly, and where the file
        cannot be written.
        """
        from ascend_sim.report.page import write_page
        from ascend_sim.report.skeleton import check_plotly
        from ascend_sim.report.what_if import what_if as run_again

        if self.recording is None:
            raise SimError(f"write_html: {without_recording(self.report.mode)}")
        check_plotly()
        outcomes = run_again(self.recording) if what_if else None
        write_page(path, self.recording, self.report.to_dict(), outcomes, name=name)

    def write(self, folder: str | Path, *, msprof: bool = False, trace_limit: int | None = None) -> list[Path]:
        """Write report.json, outputs (.npz) and, with times, trace.json.gz and timeline.npz to a folder; return their paths.

        The folder is made if needed; files of an older run in it are removed. `ascend-sim report FOLDER` draws its page.
        `msprof` adds the folders of the vendor's simulator; `trace_limit` is the most events in the trace (None:
        `run_files.TRACE_LIMIT`). Raises SimError for a file that cannot be written, and for `msprof` without times.
        """
        from ascend_sim.report.html import results_name
        from ascend_sim.report.run_files import TRACE_LIMIT, write_run

        arrays = {name: (array, self.dtypes[name]) for name, array in self.outputs.items()}
        results = self.results or f"{results_name(arrays)}s"
        limit = trace_limit or TRACE_LIMIT
        return write_run(Path(folder), self.report, self.recording, results, arrays, trace_limit=limit, msprof=msprof)

    def _repr_html_(self) -> str:
        """Return the report as HTML, for notebooks; then, if the run kept its timeline, paragraphs on the parts of its time."""
        if self.recording is None:
            return self.report._repr_html_()
        from html import escape  # notebooks alone need these

        from ascend_sim.engine.critical_path import critical_path
        from ascend_sim.report.words import words

        said = words(self.recording, self.report.to_dict(statements=False), critical_path(self.recording.timeline), None)
        return self.report._repr_html_() + "".join(f"<p>{escape(text)}</p>" for text in said)


class Job(ABC):
    """Interface of a run: the steps that differ between a call of an operator and a launch of a kernel."""

    chip: ChipSpec
    disarm: Mapping[str, Sequence[str]]
    """{kernel: names of the flags whose waits are ignored}."""
    before: Sequence[KernelMoves] | None = None
    """The kernels of a training step before this run; None outside of a step."""
    held: Mapping[str, Allocation] = {}
    """Allocations of the tensors by name, once they are placed."""
    strict = False
    """True if checks also count buffers that a kernel takes and does not use."""
    programs: list[Program] | None = None
    """List to which the programs of a run with values are appended; None: they are not kept."""
    keep = 0
    """Bytes of built programs that a functional run may keep for other values."""
    kept: FunctionalEngine | None = None
    """Engine of a functional run that kept its programs; None otherwise."""

    @abstractmethod
    def place(self, device: Device, mode: str) -> tuple[list[Task], list[Allocation]]:
        """Put the tensors on a fresh device; return (tasks, allocations of the inputs, which a warm L2 holds)."""

    @property
    @abstractmethod
    def roles(self) -> Mapping[str, str]:
        """Return {tensor: its role in the memory check}: "input", "output", "workspace", ... (`check.contents`)."""

    @property
    def disarmed(self) -> list[str]:
        """Return the disarmed flags as the report names them: "KERNEL.FLAG"."""
        return [f"{kernel}.{flag}" for kernel, flags in self.disarm.items() for flag in flags]

    def counted(self, counts: Counts) -> dict[str, Any]:
        """Return facts of a task that follow from its instruction counts, to be merged into its `info`; {} by default."""
        return {}

    @property
    @abstractmethod
    def dtypes(self) -> dict[str, str]:
        """Return {output: its format}; known once the tensors are placed."""

    def settled(self, findings: list[Finding], timeline: Timeline | None, model: ValueModel) -> tuple[list[Finding], list[str]]:
        """Return (the findings of a run with values at their levels, warnings on some); by default they stay as they are.

        `timeline` is that of the run; None in functional mode.
        """
        return findings, []

    @abstractmethod
    def outputs(self) -> dict[str, Array]:
        """Return the outputs by name after a run with values."""

    @abstractmethod
    def verdicts(
        self, outputs: Mapping[str, Array], model: ValueModel, timeline: Timeline | None
    ) -> Callable[[], Outputs] | None:
        """Return a function that judges the outputs and returns {output: its entry of the report}; None if none is judged.

        Raises SimError for a reference that does not fit the outputs.
        """

    @abstractmethod
    def report_fields(self) -> dict[str, Any]:
        """Return the report's fields that only the job knows: at least "problem" and "warnings"."""


Made = TypeVar("Made", bound=RunResult)


def run_job(job: Job, options: AnyRunOptions, make: type[Made]) -> Made:
    """Run a job with complete options and return its result, an object of class `make`; `job.programs`, `job.kept` and the
    tasks' `info` are filled on the way.

    Raises SimError for options that do not fit the mode or the job, such as flags that no kernel has.
    """
    chip, mode = job.chip, options["mode"]
    model = ValueModel.of(chip, options["accumulate"], options["overflow"])
    experiment = disarmed_warnings(job.disarmed, mode)
    check_limit(options["max_cycles"], mode)
    device = Device(chip, with_values=mode != "timing")
    tasks, inputs = job.place(device, mode)
    if options["l2"] == STEP:
        if job.before is None:
            raise SimError(
                "l2 'step' is what the earlier kernels of a training step leave; it needs a network (run-network NETWORK "
                "--l2 step) or a layer of one (run NETWORK:LAYER --l2 step), a profile (validate --rows PROFILE) or a model "
                "(ascend_sim.torch.simulate)"
            )
        device.replay(job.before, job.held)
    for allocation in inputs if options["l2"] == "warm" else ():
        device.warm(allocation)
    cached, repeated, fetches = device.cached(), options["launches"] == "warm", device.priced_fetches(tasks)
    device.repeat(tasks if repeated else ())
    unchanged = repeated and mode != "functional" and device.priced_fetches(tasks) == fetches
    why = _MANY.format(chip.launch.kept_launches) if fetches else _FREE
    facts = RunFacts(chip, bounds=mode != "functional")

    def on_program(index: int, task: Task, program: Program) -> None:
        facts.add(index, task, program)
        if job.programs is not None and mode != "timing":
            job.programs.append(program)

    outcome = run_tasks(device, tasks, options, model=model, on_program=on_program, keep=job.keep)
    job.kept = outcome.kept
    counts = {task.name: facts.of(index, task).counts for index, task in enumerate(tasks)}
    if job.disarm:
        check_disarmed(job.disarm, {kernel: count.flag_names() for kernel, count in counts.items()})
    for index, task in enumerate(tasks):
        task.info |= job.counted(facts.of(index, task).counts)
    findings, unused = [*outcome.findings], []
    if options["check"]:
        from ascend_sim.check.run import check_tasks

        checked = check_tasks(chip, tasks, roles=job.roles, strict=job.strict)
        findings += checked.findings
        unused = [one.text for one in checked.unused]
    mistakes = findings
    if mode != "timing":
        findings, more = job.settled(findings, outcome.timeline, model)
        mistakes = [one for one in findings if not one.of_unwritten or one.level == "ERROR"]
        unused += more
    outputs = job.outputs() if mode != "timing" else {}
    timeline = outcome.timeline if outcome.timeline is not None and outcome.timeline.kept else None
    verdicts = job.verdicts(outputs, model, timeline) if mode != "timing" else None
    built = Report.build(chip, outcome.timeline, tasks, facts, l2=options["l2"], findings=mistakes, verdicts=verdicts)
    told = job.report_fields()
    problem = told["problem"] | {"accumulate": model.accumulate, "overflow": model.overflow}
    if job.disarmed:
        problem["disarmed"] = job.disarmed
    warnings = (*told["warnings"], *experiment, *([_NOTHING_WARM.format(why)] if unchanged else ()), *unused)
    report = replace(built, **{**told, "mode": mode, "problem": problem, "warnings": warnings})
    recording = None if timeline is None else Recording(chip, timeline, tasks, cached, repeated)
    return make(outputs, report, job.dtypes, findings, timeline, recording, tasks)
