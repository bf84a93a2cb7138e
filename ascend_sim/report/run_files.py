"""The files of one run: its report, its results and, where it has times, what pictures are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.ops.tensor_files import save_tensors
from ascend_sim.report.files import write_json
from ascend_sim.report.msprof import check_msprof, remove_msprof, write_msprof
from ascend_sim.report.report import Report
from ascend_sim.report.timeline_file import write_timeline
from ascend_sim.report.trace import write_trace
from ascend_sim.runtime import Recording

TRACE_LIMIT = 500_000
"""Events in trace.json.gz at most, unless told otherwise; beyond, cores are left out."""
RESULTS = ("gradients", "outputs")
"""What the results of a run are called: the name of their file."""


def write_run(
    out: Path,
    report: Report,
    recording: Recording | None,
    results: str,
    arrays: Mapping[str, tuple[NDArray[Any], str]],
    *,
    trace_limit: int = TRACE_LIMIT,
    msprof: bool = False,
) -> list[Path]:
    """Write a run to folder `out`, which is made where there is none; returns the paths in order.

    `arrays` (with the names of their dtypes) go to `results`.npz, one of `RESULTS`; without them there is no such file.
    `recording` is None in functional mode. Files of an older run that this one does not replace are removed. Raises
    SimError where a file cannot be written, and for `msprof` without times.
    """
    if msprof:
        if recording is None:
            raise SimError("msprof: needs a mode with time (full or timing)")
        check_msprof(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimError(f"{out}: cannot make that folder: {error.strerror or error}") from None
    for name in ("trace.json.gz", "timeline.npz", "report.html", *(f"{results}.npz" for results in RESULTS)):
        (out / name).unlink(missing_ok=True)
    remove_msprof(out)
    written = [out / "report.json"]
    told = report.to_dict()
    write_json(written[0], told)
    if recording is not None:
        written += [out / "trace.json.gz", out / "timeline.npz"]
        write_trace(written[1], recording.timeline, list(recording.tasks), recording.chip, trace_limit)
        write_timeline(written[2], recording, told)
    if arrays:
        written.append(out / f"{results}.npz")
        save_tensors(written[-1], arrays)
    if msprof and recording is not None:
        written.append(write_msprof(out, recording.timeline, list(recording.tasks), recording.chip, trace_limit))
    return written
