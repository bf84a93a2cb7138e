"""Checking instead of running: a kernel of one's own, or a run that was written to a folder (calls: `calls.checks`).

report = ascend_sim.check_kernel(add, 48, x, y, ascend_sim.empty(x.shape, "float16"), chip="ascend910b3")
report.passed, report.findings, print(report.render())

Tensors need no values: those that have some show if outputs depend on unwritten bytes. What the checks find is in
`ascend_sim.check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import isfile
from pathlib import Path
from typing import Any

from ascend_sim.check.findings import CheckReport, sort_findings
from ascend_sim.check.run import check_tasks, check_timeline
from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.errors import SimError
from ascend_sim.kernel.function import KernelFunction
from ascend_sim.launching import NO_OUTPUT_DEPENDS, flags_of, outputs_depend, prepared
from ascend_sim.options.run_options import LaunchOptions
from ascend_sim.runtime import Device
from ascend_sim.settings import check_options, disarmed_warnings


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
    nothing at first. `disarm` names flags whose waits are ignored. A fault inside the kernel that a launch would refuse is a
    finding. Reads of unwritten bytes of buffers are warnings if `outputs_depend` is False. Raises SimError for arguments that
    do not fit kernel or chip, and for unknown tools.
    """
    check_options(LaunchOptions, {"chip": chip, "disarm": disarm})
    spec, flags = chip_of(chip), flags_of(disarm)
    made = prepared(kernel, blocks, tensors, fields, spec, Device(spec, with_values=False), "timing", flags)
    report = check_tasks(
        spec, [made.task], roles=made.roles, tools=tools, strict=True, disarm={made.task.name: flags} if flags else None
    )
    reads = any(one.of_unwritten for one in report.findings)
    alone = reads and all(one.of_unwritten or one.level != "ERROR" for one in report.findings)
    if alone and not outputs_depend(kernel, blocks, tensors, fields, spec, flags):
        settled = [one.harmless(NO_OUTPUT_DEPENDS) if one.of_unwritten else one for one in report.findings]
        report.findings = sort_findings(settled)
    report.scalar_code = kernel.scalar_code(made.started.shared)
    races = [(one.space, frozenset(place.pipe for place in one.places)) for one in report.findings if len(one.places) > 1]
    report.remarks.extend(kernel.remarks_on(races))
    report.remarks.extend(disarmed_warnings(flags, "timing"))
    return report


def check_folder(folder: Path, *, tools: str | Sequence[str] | None = None) -> CheckReport:
    """Check the programs in timeline.npz of a folder from `run --out` or `kernel --out`; return the report.

    The file does not record which tensors held values, so reads of GM count as initialised; a remark says so. Raises SimError
    without the file, for a damaged one or one of another ascend-sim, and for unknown tools.
    """
    from ascend_sim.report.timeline_file import load_recording

    path = folder / "timeline.npz"
    if not isfile(path):
        raise SimError(f"{folder}: no timeline.npz in it; `ascend-sim run --out` and `kernel --out` write one")
    recording, _ = load_recording(path)
    report = check_timeline(recording.chip, recording.tasks, recording.timeline, tools=tools)
    noted = any(run.program.notes is not None for run in recording.timeline.programs)
    report.remarks.append(
        f"a stored run {'' if noted else 'without --lines names no lines, and '}does not say which tensors held values: reads "
        "of GM are taken as initialised"
    )
    return report
