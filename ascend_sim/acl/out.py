"""ASCEND_SIM_OUT: report, trace and timeline of all kernels that a device ran, in the files of `ascend-sim run --out`.

Copies, memsets and events are not kernels and have no row. Their waits are moved to the kernels of the same stream, so that
`ascend-sim report` runs the kernels again in the same order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path

from ascend_sim.check.findings import CheckReport
from ascend_sim.check.run import check_programs, check_timeline
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.timeline import TaskRun, Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.errors import SimError
from ascend_sim.frozen import mutable
from ascend_sim.kernel.program import Program
from ascend_sim.report.report import Report, RunFacts
from ascend_sim.report.run_files import write_run
from ascend_sim.runtime import Recording, Task
from ascend_sim.runtime.recording import not_built
from ascend_sim.runtime.streams import StreamRun, StreamStep


@mutable
class DeviceRecorder:
    """Record of the kernels, timeline, programs, findings and warnings of a device's runs, without the tensors' bytes.

    `write` puts them into `folder` (None: nowhere). Raises SimError if the folder cannot be made.
    """

    folder: Path | None
    chip: ChipSpec
    mode: str
    warnings: list[str] = field(default_factory=list)
    _tasks: list[Task] = field(default_factory=list)
    _timeline: Timeline = field(default_factory=Timeline)
    _programs: list[tuple[int, Program]] = field(default_factory=list)
    _findings: list[Finding] = field(default_factory=list)
    _idle: tuple[str, ...] = ()
    _runs: int = 0

    def __post_init__(self) -> None:
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SimError(f"ASCEND_SIM_OUT: cannot make the folder {self.folder}: {error.strerror or error}") from None

    @property
    def launched(self) -> int:
        """Return the number of kernels that ran so far."""
        return len(self._tasks)

    def add(self, run: StreamRun) -> None:
        """Append the kernels, programs, findings and spans of one run of the queue; a run without kernels adds nothing."""
        first = len(self._tasks)
        kept = [index for index, task in enumerate(run.tasks) if not isinstance(task, StreamStep)]
        if not kept:
            return
        place = {index: first + number for number, index in enumerate(kept)}
        self._tasks += self._in_order(run.tasks)
        self._findings += run.findings
        self._programs += [(place[index], program) for index, program in run.programs]
        if run.timeline is not None:
            spans = run.timeline.tasks
            self._timeline.tasks += [
                TaskRun(self._tasks[place[i]], spans[i].launch, spans[i].begin, spans[i].finish) for i in kept
            ]
            self._timeline.programs += [replace(one, task=place[one.task]) for one in run.timeline.programs]

    def _in_order(self, tasks: Sequence[Task]) -> list[Task]:
        """Return copies of a run's kernels, without the copies and memsets between them.

        The events that these record or wait for are moved to the kernels before and behind them on the same stream. A run
        begins when the one before has ended: the first kernel of each stream waits for the previous run's last kernels.
        """
        kernels: list[Task] = []
        last: dict[int, Task] = {}
        waits: dict[int, list[str]] = defaultdict(list)
        # a recorded event -> what it stands for: kernels, or what its stream waits for
        means: dict[str, list[str]] = {}
        for task in tasks:
            stream = task.stream
            if not isinstance(task, StreamStep):
                before = () if stream in last else self._idle
                tensors = [replace(tensor, memory=None) for tensor in task.tensors]
                events = (*task.wait_events, *before, *waits.pop(stream, ()))
                last[stream] = replace(task, tensors=tensors, build=not_built, wait_events=events)
                kernels.append(last[stream])
                continue
            for name in task.record_events:
                means[name] = list(waits[stream])
                if stream in last:
                    last[stream].record_events = (*last[stream].record_events, name)
                    means[name].append(name)
            for name in task.wait_events:
                waits[stream] += means.get(name, ())
        self._runs += 1
        for stream, task in last.items():
            task.record_events = (*task.record_events, f"idle {self._runs}, stream {stream}")
        self._idle = tuple(f"idle {self._runs}, stream {stream}" for stream in last)
        return kernels

    def check(self, tools: Sequence[str]) -> CheckReport:
        """Run the named check tools on all recorded kernels and return the report; kernels still queued are not in it.

        Mode "full" checks the timeline, so races between streams too; "functional" checks each kernel's programs alone.
        """
        if self.mode == "full":
            return check_timeline(self.chip, self._tasks, self._timeline, tools=tools)
        programs: list[list[Program]] = [[] for _ in self._tasks]
        for index, program in self._programs:
            programs[index].append(program)
        return check_programs(self.chip, self._tasks, programs, tools=tools)

    def write(self) -> None:
        """Write the run's files to `folder`; does nothing if no kernel ran or `folder` is None. Functional runs have no
        timeline and no recording.

        Raises SimError if a file cannot be written.
        """
        if not self._tasks or self.folder is None:
            return
        timed = self.mode == "full"
        self._timeline.watched = None  # it has grown since the last time
        facts = None
        if not timed:
            facts = RunFacts(self.chip, bounds=False)
            for index, program in self._programs:
                facts.add(index, self._tasks[index], program)
        timeline = self._timeline if timed else None
        built = Report.build(self.chip, timeline, self._tasks, facts, findings=self._findings)
        problem = {"operator": "all kernels of a process", "synchronised": self._runs}
        report = replace(built, problem=problem, warnings=tuple(self.warnings))
        recording = Recording(self.chip, self._timeline, self._tasks) if timed else None
        write_run(self.folder, report, recording, "outputs", {})
