"""timeline.npz: a Timeline as plain columns, to be drawn or examined later without the kernels that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import SimError
from ascend_sim.kernel.program import COLUMNS
from ascend_sim.report.counts import bytes_of
from ascend_sim.report.files import atomic_write

VERSION = 1
_TIMES = ("start", "end", "retire", "stall", "cause", "l2_wait", "hbm_wait")
_GROUPS = ("rows", "programs", "tasks", "instructions")

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class TimelineFile:
    """What timeline.npz holds: columns by name; all times in cycles of `cube_mhz`.

    `rows`: start, end, retire, stall, cause (index into `engine.timeline.CAUSES`), l2_wait, hbm_wait, pipe (index into
    `isa.base.PIPES`), kind, instruction (index into `instructions`), dst, src0, src1, tile. `programs`: task, block,
    core_kind, sub_block, core, launch, begin, finish, queue_full, first_row, row_count. `tasks`: name, op_type,
    core_kind, block_dim, stream, launch, begin, finish. `instructions`: text, name, path, label, bytes.
    """

    chip: str
    cube_mhz: float
    rows: Columns
    programs: Columns
    tasks: Columns
    instructions: Columns

    def program(self, index: int) -> Columns:
        """The rows of one program, in issue order."""
        first, count = int(self.programs["first_row"][index]), int(self.programs["row_count"][index])
        return {name: column[first : first + count] for name, column in self.rows.items()}


def write_timeline(path: str | Path, timeline: Timeline, tasks: Sequence[Task], chip: ChipSpec) -> None:
    """Write a run; the same run gives the same bytes."""
    runs = timeline.programs
    tables = {id(run.program.table): run.program.table for run in runs}
    offsets, known = {}, 0
    for identity, table in tables.items():
        offsets[identity] = known
        known += len(table.instructions)
    instructions = [(table, i) for table in tables.values() for i in range(len(table.instructions))]
    objects = [table.instructions[i] for table, i in instructions]
    counts = [len(run.program) for run in runs]
    rows = {name: _joined([getattr(run, name) for run in runs], np.int64) for name in _TIMES}
    rows["cause"] = rows["cause"].astype(np.uint8)
    for name in ("pipe", "kind"):
        rows[name] = _joined([run.program.per_row(name) for run in runs], np.uint8)
    for place, name in enumerate(COLUMNS):
        rows[name] = _joined([run.program.rows[:, place] for run in runs], np.int64)
    rows["instruction"] += np.repeat([offsets[id(run.program.table)] for run in runs], counts).astype(np.int64)
    programs = _fields(runs, "task", "core", "launch", "begin", "finish", "queue_full")
    programs |= _fields([run.program for run in runs], "block", "core_kind", "sub_block")
    programs |= {"first_row": np.cumsum([0, *counts])[:-1], "row_count": counts}
    task_columns = _fields(tasks, "name", "op_type", "core_kind", "block_dim", "stream")
    task_columns |= _fields(timeline.tasks, "launch", "begin", "finish")
    texts = {
        "text": [str(one) for one in objects],
        "name": [one.name for one in objects],
        "path": [one.path() for one in objects],
        "label": [one.label() for one in objects],
        "bytes": [bytes_of(table, i) for table, i in instructions],
    }
    arrays: Columns = {"version": np.asarray(VERSION), "chip": np.asarray(chip.name)}
    arrays["cube_mhz"] = np.asarray(chip.clock.cube_mhz, np.float64)
    groups: tuple[Mapping[str, Any], ...] = (rows, programs, task_columns, texts)
    for group, columns in zip(_GROUPS, groups, strict=True):
        arrays |= {f"{group}.{name}": np.asarray(column) for name, column in columns.items()}
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_timeline(path: str | Path) -> TimelineFile:
    """Read what `write_timeline` wrote; SimError for a file that is missing or something else."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError) as error:
        raise SimError(f"{path}: no timeline file: {error}") from None
    if int(arrays.get("version", -1)) != VERSION or "rows.start" not in arrays:
        raise SimError(f"{path}: not a timeline of version {VERSION}")
    groups: dict[str, Columns] = {group: {} for group in _GROUPS}
    for key, column in arrays.items():
        group, _, name = key.partition(".")
        if name:
            groups[group][name] = column
    return TimelineFile(str(arrays["chip"]), float(arrays["cube_mhz"]), **groups)


def _fields(objects: Sequence[Any], *names: str) -> dict[str, Any]:
    return {name: [getattr(one, name) for one in objects] for name in names}


def _joined(parts: list[NDArray[np.int64]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0, np.int64)]).astype(dtype)
