"""One sequence for calls of operators and launches of kernels: what an option does to one it does to the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim.chip import load_chip
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import SimError
from ascend_sim.kernel.function import Launch
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import AnyRunOptions
from ascend_sim.report.report import Outputs
from ascend_sim.runtime import Allocation, Device, Task, ValueModel
from ascend_sim.sequence import Job, RunResult, run_job
from tests.support.launched import move

pytestmark = pytest.mark.fast

Run = Callable[..., RunResult]


def call(**options: Any) -> RunResult:
    ones = np.ones((1, 16, 4, 4), np.float16), np.ones((1, 16, 4, 4), np.float16), np.ones((16, 16, 1, 1), np.float16)
    attributes = (None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, False, False))
    if "disarm" in options:
        options["disarm"] = {"grad_input": options["disarm"]}
    return ascend_sim.convolution_backward(*ones, *attributes, **options)


def kernel(**options: Any) -> RunResult:
    return ascend_sim.launch(move, 1, np.ones((2, 32), np.float16), ascend_sim.empty((2, 32), "float16"), **options)


BOTH = pytest.mark.parametrize("run", [call, kernel])


@BOTH
def test_what_a_run_leaves(run: Run, tmp_path: Path) -> None:
    """Both jobs leave equal parts, and the files of both are opened alike."""
    found = run(chip="ascend910b4")
    assert found.passed and found.report.chip == "ascend910b4" and found.report.mode == "full"
    assert next(iter(found.dtypes.values())) == "float16" and len(found.tasks) == len(found.report.kernels)
    assert set(found.outputs) <= set(found.dtypes)
    assert found.timeline is not None and found.recording is not None and found.recording.cached == []
    paths = found.write(tmp_path / "out", trace_limit=1)
    assert {"report.json", "timeline.npz", "trace.json.gz"} < {path.name for path in paths}
    assert dict(ascend_sim.open_run(tmp_path / "out").report) == json.loads(json.dumps(found.report.to_dict()))
    assert repr(found).startswith(f"<{type(found).__name__} ") and " on ascend910b4, mode full, " in repr(found)


@BOTH
@pytest.mark.parametrize(
    ("mode", "times", "values"), [("full", True, True), ("functional", False, True), ("timing", True, False)]
)
def test_modes(run: Run, mode: str, times: bool, values: bool) -> None:
    found = run(mode=mode)
    assert found.report.mode == mode
    assert (found.report.total_us is not None, bool(found.outputs)) == (times, values)
    assert (found.recording is not None) == (found.timeline is not None) == times


@BOTH
def test_a_warm_l2_holds_the_inputs_and_is_faster(run: Run) -> None:
    cold, warm = run(mode="timing"), run(mode="timing", l2="warm")
    assert cold.recording is not None and warm.recording is not None
    inputs = ["x"] if run is kernel else ["grad_output", "input", "weight"]
    assert cold.recording.cached == [] and not any(one.dirty for one in warm.recording.cached)
    starts = {tensor.name: tensor.base for task in warm.tasks for tensor in task.tensors}
    held = [one.base for one in warm.recording.cached]
    assert {starts[name] for name in inputs} >= {held[0]} and len(held) <= len(inputs)
    assert cold.report.total_us is not None and warm.report.total_us is not None
    assert warm.report.total_us < cold.report.total_us
    assert (cold.report.problem["l2"], warm.report.problem["l2"]) == ("cold", "warm")


@BOTH
def test_a_run_without_its_timeline(run: Run) -> None:
    found = run(mode="timing", timeline=False)
    assert found.timeline is None and found.recording is None and found.report.total_us == run(mode="timing").report.total_us


@BOTH
def test_how_values_come_about_stands_in_the_report(run: Run) -> None:
    problem = run(accumulate="chunk", overflow="saturate", mode="functional").report.problem
    assert (problem["accumulate"], problem["overflow"]) == ("chunk", "saturate")


@BOTH
def test_progress_is_told(run: Run) -> None:
    told: list[tuple[str, int, int]] = []
    run(progress=lambda *step: told.append(step))
    assert told and all(done <= total for _, done, total in told)


@BOTH
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "functional", "max_cycles": 9}, "max_cycles: 9 given; functional mode counts no cycles"),
        ({"max_cycles": 9}, "9"),
        ({"mode": "functional", "disarm": ["x"]}, "x given; functional mode runs one instruction after the other"),
        ({"disarm": ["no such flag"]}, "disarm: no flag 'no such flag' in "),
        ({"mode": "quick"}, "mode 'quick': allowed are full, functional, timing"),
        ({"l2": "hot"}, "l2 'hot': allowed are cold, warm, step"),
        ({"accumulate": "kahan"}, "accumulate 'kahan': allowed are blas, chunk, exact_group"),
        ({"overflow": "wrap"}, "overflow 'wrap': ascend910b3 (dav-2201) has inf_nan and saturate"),
        ({"engine": "quick"}, "engine 'quick': allowed are auto, simpy, compiled"),
        ({"chip": 3}, "chip 3 must be a chip's name, the path of a chip file or a ChipSpec"),
        ({"check": "yes"}, "check 'yes' must be True or False"),
        ({"timeline": -1}, "timeline -1 must be True, False or a number of instructions, 2 or more"),
        ({"progress": 1}, "progress 1 must be a function or None"),
        ({"observer": 1}, "observer 1 must be an object with the methods watch, started and retired, or None"),
    ],
)
def test_one_line_for_what_cannot_be(run: Run, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SimError) as refused:
        run(**options)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def flag_of(run: Run) -> str:
    """Some flag whose waits order pipes."""
    task = next(one for one in run(mode="timing").tasks if one.name in ("grad_input", "move"))
    return min(task.build(0)[0].flag_names())


@BOTH
def test_a_disarmed_flag_is_an_experiment(run: Run) -> None:
    flag = flag_of(run)
    found = run(mode="timing", disarm=[flag])
    assert any(text.startswith("an experiment, not the kernel: ") for text in found.report.warnings)
    assert [text.rpartition(".")[2] for text in found.report.problem["disarmed"]] == [flag]


@pytest.mark.parametrize(
    ("chip", "mask", "why"),
    [
        ("ascend910b2", (True, True, True), "code stays for 4 launches on a kind of core"),
        ("ascend910b2", (True, False, False), ""),
        ("ascend950pr_9579", (True, False, False), "the chip file has no cost of cold code for these kernels"),
    ],
)
def test_a_run_tells_that_warm_launches_change_no_time(chip: str, mask: tuple[bool, bool, bool], why: str) -> None:
    ones = np.ones((1, 16, 4, 4), np.float16), np.ones((1, 16, 4, 4), np.float16), np.ones((16, 16, 1, 1), np.float16)
    attributes = ((16,), (1, 1), (0, 0), (1, 1), False, (0, 0), 1, mask)
    cold, warm = (
        ascend_sim.convolution_backward(*ones, *attributes, mode="timing", chip=chip, launches=state).report
        for state in ("cold", "warm")
    )
    found = [text for text in warm.warnings if text.startswith("launches 'warm' changes no time here: ")]
    assert (warm.total_us == cold.total_us) is bool(found) is bool(why)
    assert all(why in text for text in found) and set(warm.warnings) - set(cold.warnings) == set(found)


def test_findings_of_the_checks_are_among_those_of_the_run() -> None:
    def waste(k: ascend_sim.Kernel, x: ascend_sim.Tensor, y: ascend_sim.Tensor) -> None:
        k.gm_to_ub(0, x)
        k.pipe_barrier("ALL")
        k.pipe_barrier("ALL")
        k.ub_to_gm(y, 0)

    wasteful = ascend_sim.kernel_function(core="AIV")(waste)
    given = np.ones(32, np.float16), ascend_sim.empty(32, "float16")
    plain, checked = (ascend_sim.launch(wasteful, 1, *given, check=check) for check in (False, True))
    assert plain.findings == [] and len(checked.findings) == len(checked.report.findings) > 0 and not checked.passed


class CopyJob(Job):
    """A job of a third kind: one kernel on one tensor, without a face."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.chip, self.disarm, self.values = load_chip("ascend910b3"), {}, values

    def place(self, device: Device, mode: str) -> tuple[list[Task], list[Allocation]]:
        shape = self.values.shape
        self.held = [device.allocate(self.values.nbytes, name) for name in ("x", "y")]
        if self.held[0].data is not None:
            self.held[0].data[:] = self.values.view(np.uint8).reshape(-1)
        tensors = [Tensor.at(slot, name, shape, "float16") for slot, name in enumerate(("x", "y"))]
        started = Launch.of(move, self.chip, 1, tensors, {})
        return [Task("move", "move", started.core, 1, self.held, started.programs)], self.held[:1]

    @property
    def roles(self) -> Mapping[str, str]:
        return {"x": "input", "y": "output"}

    @property
    def dtypes(self) -> dict[str, str]:
        return {"y": "float16"}

    def outputs(self) -> dict[str, Any]:
        assert self.held[1].data is not None
        return {"y": self.held[1].data.view(np.float16).reshape(self.values.shape)}

    def verdicts(
        self, outputs: Mapping[str, Any], model: ValueModel, timeline: Timeline | None
    ) -> Callable[[], Outputs] | None:
        right = bool((outputs["y"] == self.values).all())
        return lambda: {"y": {"correct": right}}

    def report_fields(self) -> dict[str, Any]:
        return {"problem": {"operator": "copy"}, "warnings": ("told by the job",)}


def test_a_job_of_another_kind_runs_too() -> None:
    values = np.arange(64, dtype=np.float16).reshape(2, 32)
    found = run_job(CopyJob(values), filled(AnyRunOptions, {"check": True}), RunResult)
    assert found.passed and (found.outputs["y"] == values).all()
    assert found.report.warnings == ("told by the job",) and found.report.problem["operator"] == "copy"
