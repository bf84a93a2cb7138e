"""timeline.npz: a run as plain columns, to be drawn, examined or run again later without the kernels that made it.

The file carries the version of its schema, a digest of all its columns and that of the report that was written with it: what
was changed since, or belongs to another run, is refused and not drawn.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ascend_sim import isa
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Cached
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun, TaskRun, Timeline
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.recorded import Recorded
from ascend_sim.isa.vector.base import Mask
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.program import COLUMNS, InstructionTable, Program
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.memory.gm import Allocation
from ascend_sim.npz_file import DAMAGED, Header, NpzError, one_line, read_headers
from ascend_sim.report.counts import bytes_of
from ascend_sim.report.files import atomic_write
from ascend_sim.report.lines import SourceLine, line_table, notes_of
from ascend_sim.report.report import plain
from ascend_sim.runtime.recording import Recording, not_built

VERSION = 6
"""Version of the columns; increased when one is removed or changes its meaning."""
_TIMES = ("start", "end", "retire", "stall", "cause", "l2_wait", "hbm_wait", "l2_hits", "l2_misses", "hbm_bytes")
_GROUPS = ("rows", "programs", "tasks", "instructions", "tensors", "lines")
_TASK_FIELDS = ("name", "op_type", "core_kind", "block_dim", "stream", "all_cores", "template")
_TASK_JSON = ("wait_events", "record_events", "info")
_CACHED = -1
_LEVEL = 2
"""Compression level of zlib (1 to 9): less than half of the time of its usual 6, for a file that is a quarter larger."""
_NUMBERS = {
    "rows": (*_TIMES, "pipe", "kind", *COLUMNS, "line"),
    "programs": (
        "task", "core", "launch", "begin", "finish", "queue_full", "block", "sub_block", "tiles", "first_row",
        "row_count", "table",
    ),
    "tasks": ("block_dim", "stream", "all_cores", "launch", "begin", "finish"),
    "instructions": ("bytes", "table"),
    "tensors": ("task", "base", "size"),
    "lines": ("number",),
}  # fmt: skip
_TEXTS = {
    "rows": (),
    "programs": ("core_kind", "flags"),
    "tasks": ("name", "op_type", "core_kind", "template", *_TASK_JSON),
    "instructions": ("text", "name", "path", "label", "key"),
    "tensors": ("name",),
    "lines": ("file", "text"),
}
_SINGLE = ("version", "chip", "chip_file", "cube_mhz", "report", "repeated", "digest")

Columns = dict[str, NDArray[Any]]


@frozen(eq=False)
class TimelineFile:
    """Contents of timeline.npz: columns by name; all times in cycles of `cube_mhz`. `chip_file` is the whole chip as JSON,
    `report` the digest of the report that was written with it ("" for none).

    `rows`: start, end, retire, stall, cause (index into `engine.timeline.CAUSES`), l2_wait, hbm_wait, l2_hits,
    l2_misses, hbm_bytes, pipe (index into `isa.base.PIPES`), kind, instruction (index into `instructions`), dst,
    src0, src1, tile, line (index into `lines`, -1 where lines were not noted). `programs`: task, block, core_kind,
    sub_block, core, launch, begin, finish, queue_full, tiles, flags (name -> source, destination, number as JSON), table
    (programs with equal numbers share their instructions),
    first_row, row_count. `tasks`: name, op_type, core_kind, block_dim, stream, all_cores, template, launch, begin, finish, and
    as JSON wait_events, record_events, info. `instructions`: text, name, path, label, bytes, table, key (class and
    parameters as JSON). `tensors`: task, name, base, size; those of a task in the order of its slots. Task -1 is what
    was in the L2 before, oldest first, named "clean" or "dirty". `lines`: file, number and text of the kernels' source.
    `repeated`: whether the same tasks ran just before.
    """

    chip: str
    cube_mhz: float
    rows: Columns
    programs: Columns
    tasks: Columns
    instructions: Columns
    tensors: Columns
    lines: Columns
    chip_file: str
    report: str
    repeated: bool

    def program(self, index: int) -> Columns:
        """Return the columns of `rows` of program number `index`, in issue order."""
        first, count = int(self.programs["first_row"][index]), int(self.programs["row_count"][index])
        return {name: column[first : first + count] for name, column in self.rows.items()}


def write_timeline(path: str | Path, recording: Recording, report: Mapping[str, Any] | None = None) -> None:
    """Write a run to timeline.npz, with the digest of its `report` ("" without); the same run gives the same bytes. Raises
    SimError as `atomic_write`.
    """
    timeline, tasks, chip = recording.timeline, recording.tasks, recording.chip
    runs = timeline.programs
    tables = {id(run.program.table): run.program.table for run in runs}
    offsets, numbers, known = {}, {}, 0
    for number, (identity, table) in enumerate(tables.items()):
        offsets[identity], numbers[identity] = known, number
        known += len(table.instructions)
    instructions = [(table, i) for table in tables.values() for i in range(len(table.instructions))]
    objects = [table.instructions[i] for table, i in instructions]
    counts = [len(run.program) for run in runs]
    length = sum(counts)
    rows = {name: _Joined(runs, length, attrgetter(name), np.uint8 if name == "cause" else np.int64) for name in _TIMES}
    for name in ("pipe", "kind"):
        rows[name] = _Joined(runs, length, lambda run, name=name: run.program.per_row(name), np.uint8)  # type: ignore[misc]
    for place, name in enumerate(COLUMNS):
        rows[name] = _Joined(runs, length, lambda run, place=place: run.program.rows[:, place])  # type: ignore[misc]
    rows["instruction"] = _Joined(runs, length, lambda run: run.program.rows[:, 0] + offsets[id(run.program.table)])
    lines, of_rows = line_table([run.program for run in runs])
    rows["line"] = _Joined(of_rows, length, np.asarray, np.int32)
    programs = _fields(runs, "task", "core", "launch", "begin", "finish", "queue_full")
    programs |= _fields([run.program for run in runs], "block", "core_kind", "sub_block", "tiles")
    programs |= {"first_row": np.cumsum([0, *counts])[:-1], "row_count": counts}
    programs["flags"] = [_json(dict(run.program.flags)) for run in runs]
    programs["table"] = [numbers[id(run.program.table)] for run in runs]
    task_columns = _fields(tasks, *_TASK_FIELDS)
    task_columns |= _fields(timeline.tasks, "launch", "begin", "finish")
    task_columns |= {name: [_json(getattr(task, name)) for task in tasks] for name in _TASK_JSON}
    texts = {
        "text": [str(one) for one in objects],
        "name": [one.name for one in objects],
        "path": [one.path() for one in objects],
        "label": [one.label() for one in objects],
        "bytes": [bytes_of(table, i) for table, i in instructions],
        "table": [numbers[id(table)] for table, _ in instructions],
        "key": [_json(_stored(table, key)) for table in tables.values() for key in table.index],
    }
    placed = [(_CACHED, "dirty" if dirty else "clean", base, size) for base, size, dirty in recording.cached]
    placed += [(index, one.name, one.base, one.size) for index, task in enumerate(tasks) for one in task.tensors]
    tensors = {name: [row[at] for row in placed] for at, name in enumerate(("task", "name", "base", "size"))}
    arrays: dict[str, NDArray[Any] | _Joined] = {"version": np.asarray(VERSION), "chip": np.asarray(chip.name)}
    arrays["chip_file"] = np.asarray(chip.to_json())
    arrays["repeated"] = np.asarray(int(recording.repeated))
    arrays["cube_mhz"] = np.asarray(chip.clock.cube_mhz, np.float64)
    groups: tuple[Mapping[str, Any], ...] = (
        rows, programs, task_columns, texts, tensors, _fields(lines, "file", "number", "text"),
    )  # fmt: skip
    for group, columns in zip(_GROUPS, groups, strict=True):
        for name, column in columns.items():
            arrays[f"{group}.{name}"] = column if isinstance(column, _Joined) else np.asarray(column)
    arrays["report"] = np.asarray("" if report is None else digest_of(report))
    arrays["digest"] = np.asarray(_digest(arrays))
    with atomic_write(path) as file, ZipFile(file, "w", ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                for part in _bytes_of(array):
                    entry.write(part)


def load_timeline(path: str | Path) -> TimelineFile:
    """Return the contents of a file that `write_timeline` wrote.

    Raises SimError for a missing, changed, damaged or foreign file, and for another version.
    """
    try:
        _check_headers(read_headers(Path(path)))
        with np.load(path, allow_pickle=False) as archive:
            version = archive["version"].item()
            if version != VERSION:
                raise NpzError(f"a timeline of version {version}; this ascend-sim reads version {VERSION}: run the case again")
            arrays = {name: archive[name] for name in archive.files}
    except NpzError as error:
        raise SimError(f"{path}: {error}") from None
    except (*DAMAGED, ValueError) as error:
        raise SimError(f"{path}: damaged ({one_line(error)})") from None
    if str(arrays.pop("digest")) != _digest(arrays):
        raise SimError(f"{path}: was changed after it was written; run the case again")
    groups: dict[str, Columns] = {group: {} for group in _GROUPS}
    for key, column in arrays.items():
        group, _, name = key.partition(".")
        if name:
            groups[group][name] = column
    chip, file, report = (str(arrays[name]) for name in ("chip", "chip_file", "report"))
    mhz, repeated = float(arrays["cube_mhz"]), bool(arrays["repeated"])
    return TimelineFile(chip, mhz, **groups, chip_file=file, report=report, repeated=repeated)


def _check_headers(headers: Mapping[str, Header]) -> None:
    """Raise NpzError unless the arrays are exactly the columns of a timeline, of the right kinds and equally long within a
    group.

    A file without a digest passes, as its version is refused next.
    """
    version = headers.get("version")
    if version is None or version.dtype is None or version.dtype.kind != "i" or version.shape or "rows.start" not in headers:
        raise NpzError("no timeline file")
    if "digest" not in headers:
        return  # of a version before it had one
    wanted = dict.fromkeys(_SINGLE, "")
    for group in _GROUPS:
        wanted |= {f"{group}.{name}": "iub" for name in _NUMBERS[group]}
        wanted |= {f"{group}.{name}": "U" for name in _TEXTS[group]}
    lengths: dict[str, int] = {}
    for name in sorted(wanted.keys() | headers.keys()):
        header, kinds = headers.get(name), wanted.get(name)
        if header is None or kinds is None:
            raise NpzError(f"not a timeline of version {VERSION}: {name} {'is missing' if header is None else 'is none of it'}")
        if header.dtype is None:
            raise NpzError(f"{name}: {header.fault}")
        if len(header.shape) != bool(kinds):
            raise NpzError(f"{name}: has shape {list(header.shape)}")
        if kinds:
            length = lengths.setdefault(name.partition(".")[0], header.shape[0])
            if header.shape[0] != length or (length and header.dtype.kind not in kinds):
                raise NpzError(f"{name}: is {header.dtype} of {header.shape[0]}, where the others of its group have {length}")


def digest_of(report: Mapping[str, Any]) -> str:
    """Return a SHA-256 of a report's JSON with sorted keys, equal for every format of the same report."""
    return hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()


def _digest(arrays: Mapping[str, NDArray[Any] | _Joined]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
        for part in _parts_of(array):
            digest.update(part.tobytes())
    return digest.hexdigest()


def _bytes_of(array: NDArray[Any] | _Joined) -> Iterator[bytes]:
    """Yield the bytes of an .npy file with the array, as `np.save` writes them, part by part."""
    head = io.BytesIO()
    described = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    npy.write_array_header_1_0(head, described)
    yield head.getvalue()
    for part in _parts_of(array):
        yield part.tobytes()


def _parts_of(array: NDArray[Any] | _Joined) -> Iterator[NDArray[Any]]:
    return iter((array,)) if isinstance(array, np.ndarray) else array.parts()


def load_recording(path: str | Path) -> tuple[Recording, str]:
    """Return (run, ready to be drawn or run again; digest of its report) from a file that `write_timeline` wrote.

    Raises SimError as `load_timeline`, and for contents of another ascend-sim.
    """
    file = load_timeline(path)
    try:
        return _recording(file), file.report
    except (KeyError, IndexError, TypeError, ValueError, SimError) as error:  # pydantic's and json's are ValueErrors
        raise SimError(f"{path}: a timeline of another ascend-sim ({type(error).__name__}: {one_line(error)})") from None


def _recording(file: TimelineFile) -> Recording:
    chip = ChipSpec.from_json(file.chip_file)
    classes = _instructions()
    kinds = dict(zip(file.programs["table"].tolist(), file.programs["core_kind"].tolist(), strict=True))
    last = int(file.instructions["table"].max(initial=-1))
    tables = [InstructionTable(chip, kinds.get(number, "")) for number in range(last + 1)]
    offsets = np.searchsorted(file.instructions["table"], np.arange(len(tables))).tolist()
    for number, text in zip(file.instructions["table"].tolist(), file.instructions["key"].tolist(), strict=True):
        name, *parameters = json.loads(text)
        tables[number].add((classes[name], *map(_parameter, parameters)))
    tensors: dict[int, list[Allocation]] = {}
    places = (file.tensors[name].tolist() for name in ("task", "base", "size", "name"))
    for task, base, size, name in zip(*places, strict=True):
        tensors.setdefault(task, []).append(Allocation(base, size, name, None))
    timeline = Timeline()
    tasks = []
    lines = [SourceLine(**line) for line in _rows_of(file.lines)]
    for index, row in enumerate(_rows_of(file.tasks)):
        task = Task(
            tensors=tensors.get(index, []),
            build=not_built,
            **{name: row[name] for name in _TASK_FIELDS},
            **{name: json.loads(row[name]) for name in _TASK_JSON},
        )
        tasks.append(task)
        timeline.tasks.append(TaskRun(task, row["launch"], row["begin"], row["finish"]))
    for index, row in enumerate(_rows_of(file.programs)):
        columns = file.program(index)
        table = row["table"]
        rows = np.stack([columns[name] for name in COLUMNS], axis=1)
        rows[:, 0] -= offsets[table]
        flags = {name: tuple(flag) for name, flag in json.loads(row["flags"]).items()}
        program = Program(
            row["block"],
            row["core_kind"],
            row["sub_block"],
            tables[table],
            Sheet.of(rows),
            row["tiles"],
            flags,  # type: ignore[arg-type]
            notes_of(lines, columns["line"]),
        )
        times: dict[str, Any] = {name: columns[name].astype(np.int64) for name in _TIMES}
        span = {name: row[name] for name in ("task", "core", "begin", "finish", "queue_full", "launch")}
        timeline.programs.append(ProgramRun(program=program, columns=times, **span))
    cached = [Cached(one.base, one.size, one.name == "dirty") for one in tensors.get(_CACHED, ())]
    return Recording(chip, timeline, tasks, cached, file.repeated)


def _stored(table: InstructionTable, key: Key) -> list[Any]:
    """Return [class name, *parameters] of an instruction for the file; a user's own becomes ["Recorded", its text]."""
    if _is_ours(key[0]):
        return [key[0].__name__, *(asdict(one) if isinstance(one, Mask | Quantisation) else one for one in key[1:])]
    return [Recorded.__name__, Recorded.of(table.instructions[table.index[key]], table.chip).text]


def _parameter(value: Any) -> Any:
    """Return an instruction's parameter from JSON: a list as a tuple, a dict as the Mask or Quantisation with these fields."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    return next(kind(**value) for kind in (Mask, Quantisation) if {one.name for one in fields(kind)} == value.keys())


def _instructions() -> dict[str, type[Instruction]]:
    """Return {name: class} of all instruction classes of `ascend_sim.isa`, after importing all of its modules."""
    for module in pkgutil.walk_packages(isa.__path__, f"{isa.__name__}."):
        importlib.import_module(module.name)
    return {one.__name__: one for one in _subclasses(Instruction) if _is_ours(one)}


def _is_ours(kind: type[Instruction]) -> bool:
    return kind.__module__.startswith(f"{isa.__name__}.")


def _subclasses(base: type[Instruction]) -> Iterator[type[Instruction]]:
    for one in base.__subclasses__():
        yield one
        yield from _subclasses(one)


def _rows_of(columns: Columns) -> Iterator[dict[str, Any]]:
    """Return an iterator over the rows of `columns`, each a dict of plain values."""
    lists = [column.tolist() for column in columns.values()]
    return (dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True))


def _json(value: Any) -> str:
    return json.dumps(plain(value))


def _fields(objects: Sequence[Any], *names: str) -> dict[str, Any]:
    return {name: [getattr(one, name) for one in objects] for name in names}


class _Joined:
    """One column over all programs of a run, computed program by program while it is written, never held as a whole."""

    def __init__(
        self, owners: Sequence[Any], length: int, column_of: Callable[[Any], NDArray[Any]], dtype: Any = np.int64
    ) -> None:
        self._owners, self._column_of = owners, column_of
        self.dtype, self.shape = np.dtype(dtype), (length,)

    def parts(self) -> Iterator[NDArray[Any]]:
        """Return an iterator over the column's part of each program."""
        return (self._column_of(one).astype(self.dtype) for one in self._owners)
