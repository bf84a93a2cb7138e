"""The files of one run: its report, its results and, where it has times, what pictures are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.ops.tensor_files import save_tensors
from ascend_sim.report.files import make_folder, only_writer, remove_empty, staging, write_json
from ascend_sim.report.msprof import check_msprof, remove_msprof, replace_msprof, write_msprof
from ascend_sim.report.report import Report
from ascend_sim.report.timeline_file import write_timeline
from ascend_sim.report.trace import write_trace
from ascend_sim.runtime import Recording

TRACE_LIMIT = 500_000
"""Most events of trace.json.gz by default; beyond, cores are left out."""
RESULTS = ("gradients", "outputs")
"""Names of the results of a run: the name of their file."""
_FILES = ("report.json", "trace.json.gz", "timeline.npz", "report.html", *(f"{results}.npz" for results in RESULTS))


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
    """Write a run to folder `out`, created if it does not exist; return the paths of the written files in order.

    `arrays` {name: (array, dtype)} go to `results`.npz, one of `RESULTS`; without them there is no such file. `recording` is
    None in functional mode. Files of an older run that this one does not replace are removed at the end. If a file cannot be
    written, SimError is raised and the older run is unchanged; it is raised too for `msprof` without times or with
    a folder of that name that another program wrote.
    """
    if msprof:
        if recording is None:
            raise SimError("msprof: needs a mode with time (full or timing)")
        check_msprof(out)
    with ExitStack() as stack:
        stack.callback(remove_empty, make_folder(out))
        try:
            folder = stack.enter_context(staging(out))
        except OSError as error:
            raise SimError(f"{out}: cannot write in that folder: {error.strerror or error}") from None
        try:
            written, told = [folder / "report.json"], report.to_dict()
            write_json(written[0], told)
            if recording is not None:
                written += [folder / "trace.json.gz", folder / "timeline.npz"]
                write_trace(written[1], recording.timeline, list(recording.tasks), recording.chip, trace_limit)
                write_timeline(written[2], recording, told)
            if arrays:
                written.append(folder / f"{results}.npz")
                save_tensors(written[-1], arrays)
            if msprof and recording is not None:
                tasks = list(recording.tasks)
                written.append(write_msprof(folder, recording.timeline, tasks, recording.chip, trace_limit))
            with only_writer(out):  # of runs that end at once the files of one stay, not some of each
                for name in _FILES:
                    if folder / name not in written:
                        (out / name).unlink(missing_ok=True)
                remove_msprof(out)
                for path in written:
                    if path.is_dir():
                        replace_msprof(path, out / path.name)
                    else:
                        path.replace(out / path.name)
            return [out / path.name for path in written]
        except (SimError, OSError) as error:
            raise SimError(str(error).replace(str(folder), str(out))) from None
