"""Checking instead of running: a kernel of one's own, a call of an operator, or a run that was written to a folder.

report = ascend_sim.check_kernel(add, 48, x, y, ascend_sim.empty(x.shape, "float16"), chip="ascend910b3")
report.passed, report.findings, print(report.render())

Nothing is computed, so tensors need no values; what the checks find is in `ascend_sim.check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from ascend_sim.calls.cases import accept_case
from ascend_sim.check.run import CheckReport, check_tasks, check_timeline
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.kernel.function import KernelFunction
from ascend_sim.launching import flags_of, prepared
from ascend_sim.ops.case import Case
from ascend_sim.ops.execute import roles_of, tasks_without_values
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan
from ascend_sim.options.run_options import LaunchOptions, PlanOptions
from ascend_sim.report.timeline_file import load_recording
from ascend_sim.runtime import Device, Task
from ascend_sim.sequence import chip_of
from ascend_sim.settings import check_options, disarmed_warnings

__all__ = ["CheckReport", "check_call", "check_folder", "check_kernel", "flags_of_call", "tasks_of_call"]


def check_kernel(
    kernel: KernelFunction,
    blocks: int,
    /,
    *tensors: Any,
    chip: str | Path | ChipSpec = "ascend910b3",
    tools: str | Sequence[str] | None = None,
    disarm: str | Sequence[str] = (),
    **fields: Any,
) -> CheckReport:
    """Look for mistakes in a kernel and return the report: memory, races, initialisation, synchronisation (`tools`, default
    all).

    Arguments are those of `launch`; arrays hold values, `empty` tensors are to be filled, and those with `workspace=True` hold
    nothing at first. A fault inside the kernel that a launch would refuse is a finding. Raises SimError for arguments that do
    not fit kernel or chip.
    """
    check_options(LaunchOptions, {"chip": chip, "disarm": disarm})
    spec, flags = chip_of(chip), flags_of(disarm)
    made = prepared(kernel, blocks, tensors, fields, spec, Device(spec, with_values=False), "timing", flags)
    report = check_tasks(spec, [made.task], roles=made.roles, tools=tools, strict=True)
    races = [
        (one.space, frozenset(place.pipe for place in one.places)) for one in report.findings if len(one.places) > 1
    ]
    report.remarks.extend(kernel.remarks_on(races))
    report.remarks.extend(disarmed_warnings(flags, "timing"))
    return report


def check_call(
    case: Case, chip: ChipSpec, *, tools: str | Sequence[str] | None = None, **options: Unpack[PlanOptions]
) -> CheckReport:
    """Check the kernels that a case launches on `chip` and return the report.

    `tools` names the checks (None: all). `options` decide the launches; one left out has the case's value, but tilings and
    blocks are only those given. Raises AclnnError where the operator refuses the call.
    """
    plan, tasks = tasks_of_call(case, chip, **options)
    report = check_tasks(chip, tasks, roles=roles_of(plan), tools=tools)
    names = [f"{kernel}.{flag}" for kernel, flags in (options.get("disarm") or {}).items() for flag in flags]
    report.remarks.extend(disarmed_warnings(names, "timing"))
    return report


def flags_of_call(case: Case, chip: ChipSpec, **options: Unpack[PlanOptions]) -> dict[str, list[str]]:
    """Return {kernel: its flags} for the kernels that a case launches, by the names that `disarm` takes.

    These flags order the kernel's pipes and cores. `options` and errors are those of `check_call`.
    """
    _, tasks = tasks_of_call(case, chip, **options)
    return {
        task.name: sorted(
            {flag for block in range(task.block_dim) for one in task.build(block) for flag in one.flag_names()}
        )
        for task in tasks
    }


def tasks_of_call(case: Case, chip: ChipSpec, **options: Unpack[PlanOptions]) -> tuple[Plan, list[Task]]:
    """Return (plan, tasks) of a case on `chip`; tensors have addresses and no values.

    `options` and errors as in `check_call`.
    """
    plan = OPERATORS[case.operator].plan(accept_case(case, chip, **options), chip)
    return plan, tasks_without_values(plan, chip)[1]


def check_folder(folder: Path, *, tools: str | Sequence[str] | None = None) -> CheckReport:
    """Check the programs in timeline.npz of a folder from `run --out` or `kernel --out`; return the report.

    The file does not record which tensors held values, so reads of GM count as initialised; a remark says so. Raises SimError
    without the file.
    """
    path = folder / "timeline.npz"
    if not path.is_file():
        raise SimError(f"{folder}: no timeline.npz in it; `ascend-sim run --out` and `kernel --out` write one")
    recording, _ = load_recording(path)
    report = check_timeline(recording.chip, recording.tasks, recording.timeline, tools=tools)
    noted = any(run.program.notes is not None for run in recording.timeline.programs)
    report.remarks.append(
        f"a stored run {'' if noted else 'without --lines names no lines, and '}does not say which tensors held values: reads "
        "of GM are taken as initialised"
    )
    return report
