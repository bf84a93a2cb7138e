"""Output folders like those of the vendor's `msprof op simulator`: one OPPROF_* for every kernel of a call.

    msprof/OPPROF_05_grad_input/
        OpBasicInfo.csv  PipeUtilization.csv  ArithmeticUtilization.csv  Memory.csv  MemoryL0.csv  MemoryUB.csv
        L2Cache.csv  ResourceConflictRatio.csv
        simulator/trace.json
        simulator/core0.cubecore0/core0.cubecore0_instr_exe.csv, core0.cubecore0_code_exe.csv, trace.json

Column names are the vendor's (configs/msprof.yaml), figures the model's; what it does not know is an empty cell
(docs/msprof.md). No date and no random letters stand in a name: the same run gives the same files.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.flags import flag_pairs
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun, Timeline
from ascend_sim.errors import SimError
from ascend_sim.isa.base import CROSS_SET, PIPES, SET
from ascend_sim.report.counts import bytes_of
from ascend_sim.report.files import as_csv, atomic_write, write_text
from ascend_sim.report.lines import line_table
from ascend_sim.report.msprof_figures import Value, WorkFigures, figures
from ascend_sim.report.trace import THREADS, core_name, cores_of
from ascend_sim.shipped import read_config

FOLDER = "msprof"
_TRIES = 100
_NAME = 120
"""Characters of a kernel's name in a path; file systems take 255 bytes for all of a part."""
MARKER = "README.txt"
_KERNEL = "OPPROF_"
"""Beginning of the name of a kernel's folder."""
_MARK = "Written by ascend-sim: simulated kernels in the layout of the vendor's operator profiler.\n"
_HEADS_OF = {"dav-1001": "dav-2002"}  # assumed: no list of its own is published
_BASIC = "OpBasicInfo"
_US_DECIMALS = 4
_TS_DECIMALS = 9


def write_msprof(
    out: str | Path, timeline: Timeline, tasks: Sequence[Task], chip: ChipSpec, trace_limit: int = 500_000
) -> Path:
    """Write the folder `out`/msprof in place of an earlier one, with a folder for each kernel; return its path.

    Beyond `trace_limit` instructions of a kernel, cores are left out of its traces (the highest first, never the lowest), never
    out of tables. Raises SimError if writing fails, or if `out`/msprof exists without the README.txt of this module, or holds
    anything but that and folders OPPROF_... of kernels.
    """
    folder = Path(out) / FOLDER
    check_msprof(out)
    temporary = folder.with_name(f".{FOLDER}.{secrets.token_hex(4)}.tmp")  # another run may write here at this moment
    try:
        heads = read_config("msprof.yaml")
        width = len(str(max(len(tasks) - 1, 0)))
        for number, task in enumerate(tasks):
            name = re.sub(r"[^\w.-]", "_", task.name, flags=re.ASCII)[:_NAME]
            kernel = temporary / f"{_KERNEL}{number:0{width}d}_{name}"
            kernel.mkdir(parents=True)
            _write_kernel(kernel, timeline, number, task, chip, heads, trace_limit)
        temporary.mkdir(exist_ok=True)
        (temporary / MARKER).write_text(_MARK, encoding="utf-8")
        replace_msprof(temporary, folder)
    except OSError as error:
        raise SimError(f"cannot write {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def replace_msprof(temporary: Path, folder: Path) -> None:
    """Move the finished folder `temporary` to `folder` in place of one that this module wrote earlier.

    If several runs end together, the last one's stays, complete. Raises OSError if `folder` has files of other origin.
    """
    for left in range(_TRIES, -1, -1):
        _remove(folder)
        try:
            temporary.rename(folder)
            return
        except OSError:
            if not left:  # it belongs to another program
                raise


def check_msprof(out: str | Path) -> None:
    """Raise SimError if `out`/msprof exists and was not written by this module, or another file was put into it; called before
    a long run.
    """
    folder = Path(out) / FOLDER
    if (folder.exists() or folder.is_symlink()) and not _is_ours(folder):
        raise SimError(f"--msprof: {folder} exists and was not written by ascend-sim; give another --out, or move it")
    foreign = _foreign(folder)
    if foreign:
        raise SimError(f"--msprof: {folder} has {foreign[0]}, which ascend-sim did not write; give another --out, or move it")


def remove_msprof(out: str | Path) -> None:
    """Remove the folder `out`/msprof if an earlier run wrote all of it; another stays."""
    _remove(Path(out) / FOLDER)


def _foreign(folder: Path) -> list[str]:
    """Return the names in a folder of this module that no run gives, in order; [] for a folder that does not exist."""
    try:
        names = sorted(one.name for one in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):  # another run may have taken it away since it was looked at
        names = []
    return [name for name in names if name != MARKER and not name.startswith(_KERNEL)]


def _remove(folder: Path) -> None:
    """Remove `folder` if this module wrote it and it has nothing else."""
    if _is_ours(folder) and not _foreign(folder):
        # Out of the way at once: nobody sees half of it, and another run may take it away at this moment.
        aside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
        with suppress(FileNotFoundError):
            folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        return (folder / MARKER).read_text(encoding="utf-8", errors="replace") == _MARK
    except OSError:
        return False


def _write_kernel(
    folder: Path, timeline: Timeline, number: int, task: Task, chip: ChipSpec, heads: Mapping[str, Any], limit: int
) -> None:
    runs = timeline.of(number)
    span = timeline.tasks[number]
    arch = chip.identity.arch
    tables = heads["tables"][_HEADS_OF.get(arch, arch)]
    rows = list(_block_rows(runs, chip, per_block="block_id" in tables["PipeUtilization"]))
    for name, columns in tables.items():
        basic = name == _BASIC
        _write_csv(folder / f"{name}.csv", columns, [_basic(task, span.finish - span.launch, chip)] if basic else rows)
    simulator = folder / "simulator"
    simulator.mkdir()
    shown: dict[str, Sequence[ProgramRun]] = {}
    events = 0
    for core, own in cores_of(runs, chip).items():
        name = f"{core_name(core, own)}{'' if core[1] >= 0 else 0}"
        place = simulator / name
        place.mkdir()
        _write_csv(place / f"{name}_instr_exe.csv", heads["instr_exe"], _instruction_rows(own, chip))
        _write_csv(place / f"{name}_code_exe.csv", heads["code_exe"], _code_rows(own, chip))
        events += sum(len(run.program) for run in own)
        if not shown or events <= limit:
            shown[name] = own
            _write_trace(place / "trace.json", {name: own}, span.launch, chip, heads["colours"], whole=False)
    _write_trace(simulator / "trace.json", shown, span.launch, chip, heads["colours"], whole=True)


# -- tables of blocks --------------------------------------------------------------------------------------------------


def _block_rows(runs: Sequence[ProgramRun], chip: ChipSpec, per_block: bool) -> Iterator[dict[str, Value]]:
    """Yield a row of figures for every program of a kernel, with its block; without `per_block` one row for the whole kernel,
    under "aic", or none if nothing ran.
    """
    if not per_block:
        if runs:
            yield figures(sum(map(WorkFigures.of, runs), WorkFigures()), chip, "aic")
        return
    for run in runs:
        program = run.program
        vector = program.core_kind == "AIV"
        name = f"vector{program.sub_block}" if vector else "cube0"
        place: dict[str, Value] = {"block_id": program.block, "sub_block_id": name}
        yield place | figures(WorkFigures.of(run), chip, "aiv" if vector else "aic")


def _basic(task: Task, cycles: int, chip: ChipSpec) -> dict[str, Value]:
    kinds = {"AIC": "cube", "AIV": "vector", "MIX": "mix"}
    name = task.name if task.name.startswith(task.op_type) else f"{task.op_type}_{task.name}"
    mixed = task.core_kind == "MIX"
    return {
        "Op Name": name,
        "Op Type": kinds.get(task.core_kind, task.core_kind),
        "Task Duration(us)": round(chip.us(cycles), _US_DECIMALS),
        "Block Dim": task.block_dim,
        "Mix Block Dim": task.block_dim * (len(task.cores(chip, 0)) - 1) if mixed else "N/A",
        "Current Freq": round(chip.clock.cube_mhz),
        "Rated Freq": round(chip.clock.cube_mhz),
    }


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Value]]) -> None:
    write_text(path, as_csv([columns, *([row.get(name) for name in columns] for row in rows)]))


# -- tables of instructions --------------------------------------------------------------------------------------------


def _instruction_rows(runs: Sequence[ProgramRun], chip: ChipSpec) -> list[dict[str, Value]]:
    """Return a row for every distinct instruction that a core executed (calls, cycles, parameters), in the table's order."""
    table = runs[0].program.table
    size = len(table.instructions)
    arguments = np.concatenate([run.program.rows[:, 0] for run in runs])
    length = np.concatenate([run.end - run.start for run in runs])
    calls = np.bincount(arguments, minlength=size).tolist()
    cycles = np.bincount(arguments, weights=length, minlength=size).astype(np.int64).tolist()
    return [
        {
            "instr": table.instructions[index].name.upper(),
            "addr": hex(index),
            "pipe": THREADS[PIPES[table.pipes[index]]][0],
            "call_count": calls[index],
            "cycles": cycles[index],
            "running_time(us)": round(chip.us(cycles[index]), _US_DECIMALS),
            "detail": _fields(table.instructions[index]),
        }
        for index in range(size)
        if calls[index]
    ]


def _fields(instruction: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in instruction.parameters().items())


def _code_rows(runs: Sequence[ProgramRun], chip: ChipSpec) -> list[dict[str, Value]]:
    """Return a row with calls and cycles for each source line of a core's instructions; where no line was noted, for each
    instruction name.
    """
    instructions = runs[0].program.table.instructions
    lines, columns = line_table([run.program for run in runs])
    names = [*(line.place for line in lines), *(instruction.name for instruction in instructions)]
    calls, cycles = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    for run, column in zip(runs, columns, strict=True):
        code = np.where(column >= 0, column, len(lines) + run.program.rows[:, 0])
        np.add.at(calls, code, 1)
        np.add.at(cycles, code, run.end - run.start)
    often, length = Counter[str](), Counter[str]()
    for name, times, took in zip(names, calls.tolist(), cycles.tolist(), strict=True):
        often[name] += times
        length[name] += took
    return [
        {"code": code, "call_count": n, "cycles": length[code], "running_time(us)": round(chip.us(length[code]), _US_DECIMALS)}
        for code, n in often.items()
        if n
    ]


# -- traces ------------------------------------------------------------------------------------------------------------


def _write_trace(
    path: Path,
    cores: Mapping[str, Sequence[ProgramRun]],
    origin: int,
    chip: ChipSpec,
    colours: Mapping[str, str],
    *,
    whole: bool,
) -> None:
    """Write Chrome trace events of `cores`, with times in us since the cycle `origin`.

    With `whole` processes are cores and threads pipes, else processes are pipes. Raises SimError as `atomic_write`.
    """
    numbers, before = count(), ""
    with atomic_write(path) as file:
        file.write(b'{"profilingType": "op", "displayTimeUnit": "ns", "traceEvents": [\n')
        for name, runs in cores.items():
            for run in runs:
                for event in _events(name, run, origin, chip, colours, numbers, whole):
                    file.write((before + json.dumps(event)).encode())
                    before = ",\n"
        file.write(b"\n]}\n")


def _events(
    name: str, run: ProgramRun, origin: int, chip: ChipSpec, colours: Mapping[str, str], numbers: Iterator[int], whole: bool
) -> Iterator[dict[str, Any]]:
    program, table = run.program, run.program.table
    arrows: dict[int, int] = {}  # number of the arrow that begins or ends at a row; a disarmed wait has none
    for wait_row, set_row in flag_pairs(run).items():
        arrows[set_row] = arrows[wait_row] = next(numbers)
    shared: dict[int, dict[str, Any]] = {}
    for row, (argument, start, end) in enumerate(
        zip(program.rows[:, 0].tolist(), (run.start - origin).tolist(), (run.end - origin).tolist(), strict=True)
    ):
        if argument not in shared:
            shared[argument] = _shared(table, argument, name, colours, whole)
        kind = table.kinds[argument]
        if kind in (SET, CROSS_SET):  # the vendor draws a set one cycle long, at its end
            start = end - 1
        ts, duration = _us(chip, start), _us(chip, end - start)
        yield {**shared[argument], "ts": ts, "dur": duration}
        if row in arrows:
            place = {key: shared[argument][key] for key in ("pid", "tid")}
            side = {"ph": "s", "ts": ts} if kind == SET else {"ph": "t", "ts": _us(chip, end)}
            yield {"name": "flag", "cat": "flag", "id": arrows[row], **side, **place}


def _shared(table: Any, argument: int, core: str, colours: Mapping[str, str], whole: bool) -> dict[str, Any]:
    """Return the fields that all events of instruction `argument` have in common: name, colour, process, thread, arguments.

    `whole` as in `_write_trace`.
    """
    instruction = table.instructions[argument]
    pipe, number = THREADS[PIPES[table.pipes[argument]]]
    name = instruction.name.upper()
    size = bytes_of(table, argument) if instruction.path() else 0
    return {
        "name": name,
        "cname": colours.get(name, colours[pipe]),
        "ph": "X",
        "pid": core if whole else number,
        "tid": pipe if whole else number,
        "args": {"pc_addr": hex(argument), "code": instruction.name, "detail": _fields(instruction), "process_bytes": size},
    }


def _us(chip: ChipSpec, cycles: int) -> float:
    return round(chip.us(cycles), _TS_DECIMALS)
