"""trace.json.gz: every instruction of every core as Chrome trace events, for Perfetto and chrome://tracing.

One process per core, one thread per pipe under the names of the vendor's simulator; threads bear the pipe numbers of
its per-core files (msopprof simulator: SCALAR 10, VECTOR 30, CUBE 40, MTE1 50, MTE2 60, MTE3 70, FIXP 80).
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.flags import cross_pairs, flag_pairs
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun, Timeline
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, DISARMED, PIPES, SET, WAIT
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.report.counts import bytes_of
from ascend_sim.report.files import atomic_write

THREADS = {
    "S": ("SCALAR", 10), "MTE1": ("MTE1", 50), "M": ("CUBE", 40), "FIX": ("FIXP", 80),
    "MTE2": ("MTE2", 60), "V": ("VECTOR", 30), "MTE3": ("MTE3", 70),
}  # fmt: skip
"""Pipe -> name and number of its thread."""

_DECIMALS = 9
_GAP = 10.0**-_DECIMALS
"""Taken off every duration: sums of floats round, and boxes do not overlap in them either."""
_SAFE = 1e-4
"""Added to every time in us, so that it is the same nanosecond whether it is rounded or cut off."""

_CATEGORY = {
    SET: "set", WAIT: "wait", DISARMED: "disarmed", BARRIER: "barrier", BARRIER_ALL: "barrier", CROSS_SET: "set",
    CROSS_WAIT: "wait",
}  # fmt: skip
_OPERANDS = ("dst", "src0", "src1")
_LEVEL = 5
"""Compression level of gzip: higher ones take longer than they save."""
_CHUNK = 50_000
"""Rows whose events are in memory at a time."""

_Arrows = dict[int, list[int]]
"""Numbers of the arrows that begin or end in a row."""


@frozen
class _TraceProcess:
    """One process of the trace: a core with its pipes and its programs (`runs`) in the order of time."""

    name: str
    pipes: tuple[str, ...]
    runs: Sequence[ProgramRun]

    @property
    def events(self) -> int:
        """Return the number of events that it takes in the file; arrows have two ends, and so have blocks."""
        waits = (np.isin(run.program.per_row("kind"), (WAIT, CROSS_WAIT)) for run in self.runs)
        return sum(len(some) + 2 * int(np.count_nonzero(some)) + 2 for some in waits)


def write_trace(
    path: str | Path, timeline: Timeline, tasks: Sequence[Task], chip: ChipSpec, limit: int = 500_000
) -> tuple[int, int]:
    """Write the trace, compressed by gzip; return (number of cores in it, number of cores that ran something).

    Beyond `limit` events (metadata apart) whole cores are left out, the highest first; the lowest is always shown. Raises
    SimError as `atomic_write`.
    """
    cores = _processes(timeline, chip)
    shown: dict[int, _TraceProcess] = {}
    events = 0
    for process, core in cores.items():
        events += core.events
        if shown and events > limit:
            break
        shown[process] = core
    header = {
        "profilingType": "op",
        "displayTimeUnit": "ns",
        "otherData": {
            "chip": chip.name,
            "clock_mhz": chip.clock.cube_mhz,
            "cores": f"{len(shown)} of {len(cores)} cores are shown"
            + (f"; the others are left out, the limit is {limit} events" if len(shown) < len(cores) else ""),
        },
    }
    with atomic_write(path) as whole, gzip.GzipFile("", "wb", _LEVEL, whole, mtime=0) as file:
        file.write(json.dumps(header)[:-1].encode() + b', "traceEvents": [\n')
        _Writer(file, chip, tasks, shown).write()
        file.write(b"\n]}\n")
    return len(shown), len(cores)


def cores_of(runs: Iterable[ProgramRun], chip: ChipSpec) -> dict[tuple[int, int], list[ProgramRun]]:
    """Return {(AIC or AI Core, its AIV or -1): programs in the order of time} of the cores that ran something, lowest first."""
    per_core = max(chip.cores.aiv_per_aic, 1)
    found: dict[tuple[int, int], list[ProgramRun]] = {}
    for run in sorted(runs, key=lambda run: run.begin):
        place = divmod(run.core, per_core) if run.program.core_kind == "AIV" else (run.core, -1)
        found.setdefault(place, []).append(run)
    return dict(sorted(found.items()))


def core_name(place: tuple[int, int], runs: Sequence[ProgramRun]) -> str:
    """Return the name of the core that ran these programs, such as "core3.cubecore", "core3.veccore1" or "core3.aicore"."""
    unit = {"AIC": "cubecore", "AIV": f"veccore{place[1]}"}.get(runs[0].program.core_kind, "aicore")
    return f"core{place[0]}.{unit}"


def _processes(timeline: Timeline, chip: ChipSpec) -> dict[int, _TraceProcess]:
    """Return {process number: core} of the cores that ran something."""
    found, together = {}, max(chip.cores.aiv_per_aic, 1) + 1
    for place, runs in cores_of(timeline.programs, chip).items():
        pipes = chip.cores.kinds[runs[0].program.core_kind].pipes  # type: ignore[index]
        found[place[0] * together + place[1] + 1] = _TraceProcess(core_name(place, runs), pipes, runs)
    return found


class _Writer:
    """Writer of the events of the shown cores to the file, block by block and pipe by pipe."""

    def __init__(self, file: gzip.GzipFile, chip: ChipSpec, tasks: Sequence[Task], cores: dict[int, _TraceProcess]) -> None:
        self._file = file
        self._chip = chip
        self._tasks = tasks
        self._cores = cores
        self._first = True
        self._numbers = itertools.count()
        self._begins: dict[int, int] = {}
        self._boxes: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self._heads: dict[tuple[int, int], str] = {}
        self._tables: list[InstructionTable] = []  # an id is only unique while its object lives

    def write(self) -> None:
        for core in self._cores.values():
            self._place(core)
        shown = [run for core in self._cores.values() for run in core.runs]
        self._cross = self._arrows_between(shown)
        for process, core in self._cores.items():
            self._emit(json.dumps(event) for event in _metadata(process, core))
            for run in core.runs:
                self._emit(json.dumps(event) for event in self._block(process, run))
                self._program(process, run)

    def _place(self, core: _TraceProcess) -> None:
        """Compute begin and end of every box of a core's runs in nanoseconds and keep them, for `_rows` and
        the arrows to use.
        """
        free = [0] * len(PIPES)
        per_cycle = 1e3 / self._chip.clock.cube_mhz
        for run in core.runs:
            begins, ends = (np.zeros(len(run.program), np.int64) for _ in range(2))
            pipes = run.program.per_row("pipe")
            for number in np.unique(pipes).tolist():
                rows = np.flatnonzero(pipes == number)
                starts, stops = (column[rows] * per_cycle for column in (run.start, run.end))
                begins[rows], ends[rows] = _whole(starts.tolist(), stops.tolist(), free[number])
                last = rows[-1]
                free[number] = max(int(ends[last]), int(begins[last]) + 1)
            self._boxes[id(run)] = begins, ends

    def _emit(self, events: Iterator[str] | list[str]) -> None:
        text = ",\n".join(events)
        if text:
            self._file.write((text if self._first else ",\n" + text).encode())
            self._first = False

    def _us(self, cycles: NDArray[np.int64] | int) -> Any:
        return np.round(np.asarray(cycles) / self._chip.clock.cube_mhz, _DECIMALS).tolist()

    def _block(self, process: int, run: ProgramRun) -> list[dict[str, Any]]:
        """Return the two events of a block's asynchronous slice, from its dispatch to its end, beside the threads."""
        task = self._tasks[run.task]
        same = {
            "name": f"{task.name} block {run.program.block}", "cat": "block", "id": next(self._numbers), "pid": process,
            "tid": THREADS["S"][1],
        }  # fmt: skip
        cycles = run.finish - run.launch
        args = {"op_type": task.op_type, "task": run.task, "block": run.program.block, "cycles": cycles}
        begin = {**same, "ph": "b", "ts": self._us(run.launch), "args": args}
        return [begin, {**same, "ph": "e", "ts": self._us(run.finish)}]

    def _program(self, process: int, run: ProgramRun) -> None:
        self._tables.append(run.program.table)
        arrows = self._arrows_inside(run)
        for row, more in self._cross.get(id(run), {}).items():
            arrows.setdefault(row, []).extend(more)
        pipes = run.program.per_row("pipe")
        for number in np.unique(pipes).tolist():
            place = f'"pid":{process},"tid":{THREADS[PIPES[number]][1]}'
            rows = np.flatnonzero(pipes == number)
            for part in np.split(rows, range(_CHUNK, len(rows), _CHUNK)):
                self._emit(self._rows(run, part, place, arrows))

    def _arrows_inside(self, run: ProgramRun) -> _Arrows:
        """Return {row: numbers of the arrows that begin or end in its box} for flags inside the core.

        A wait for a unit flag can end before its set, because the Mmad that raises the flag releases it early. Its arrow then
        begins at the row of that pipe that had begun last; without one there is no arrow.
        """
        arrows: _Arrows = {}
        pipe = run.program.per_row("pipe")
        of_pipe = [np.flatnonzero(pipe == number) for number in range(len(PIPES))]
        for wait_row, set_row in flag_pairs(run).items():
            begin = set_row
            if run.start[set_row] >= run.end[wait_row]:
                rows = of_pipe[pipe[set_row]]
                begun = int(np.searchsorted(run.start[rows], run.end[wait_row]))
                if not begun:
                    continue
                begin = int(rows[begun - 1])
            number = next(self._numbers)
            arrows.setdefault(begin, []).append(number)
            arrows.setdefault(wait_row, []).append(number)
            self._begins[number] = int(self._boxes[id(run)][0][begin])
        return arrows

    def _arrows_between(self, runs: Sequence[ProgramRun]) -> dict[int, _Arrows]:
        """Return {id of a run: {row: numbers of arrows}} for cross-core flags: to each wait an arrow from the set that was
        raised last.
        """
        arrows: dict[int, _Arrows] = {}
        for wait, raised in cross_pairs(runs).items():
            number = next(self._numbers)
            for index, row in (raised, wait):
                arrows.setdefault(id(runs[index]), {}).setdefault(row, []).append(number)
            self._begins[number] = int(self._boxes[id(runs[raised[0]])][0][raised[1]])
        return arrows

    def _rows(self, run: ProgramRun, rows: NDArray[np.int64], place: str, arrows: _Arrows) -> Iterator[str]:
        """Yield the events of some rows of one pipe: a box for each, then the arrows that begin or end in it."""
        program = run.program
        names = [tensor.name for tensor in self._tasks[run.task].tensors]
        templates = {number: self._template(program.table, number) for number in np.unique(program.rows[rows, 0]).tolist()}
        begins, ends = (column[rows] for column in self._boxes[id(run)])
        cycles = run.end[rows] - run.start[rows]
        columns = (begins, ends, rows, program.per_row("kind")[rows], run.start[rows], cycles, *program.rows[rows].T)
        for begin, end, row, kind, start, length, argument, *addresses, tile in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            ts, duration = _moment(begin), round(max((end - begin) / 1000 - _GAP, 0.0), _DECIMALS)
            head, operands = templates[argument]
            where = "".join(_address(operand, addresses, names) for operand in operands)
            yield (
                f'{{"ph":"X",{place},"ts":{ts},"dur":{duration},{head}{where},"start":{start},"cycles":{length},'
                f'"block":{program.block},"tile":{tile},"row":{row}}}}}'
            )
            for number in arrows.get(row, ()):
                if kind in (WAIT, CROSS_WAIT):
                    side = f'"ph":"f","bp":"e","ts":{_moment(_inside(begin, end, self._begins[number]))}'
                else:
                    side = f'"ph":"s","ts":{ts}'
                yield f'{{{side},"id":{number},"name":"flag","cat":"flag",{place}}}'

    def _template(self, table: InstructionTable, argument: int) -> tuple[str, list[tuple[str, int, str]]]:
        """Return (common text of all events of an instruction, its address operands as (name, place in the row, space))."""
        instruction = table.instructions[argument]
        key = (id(table), argument)
        if key not in self._heads:
            fields = ", ".join(f"{name}={value}" for name, value in instruction.parameters().items())
            text = json.dumps(f"{instruction.name}({fields})")
            category = _CATEGORY.get(table.kinds[argument], "work")
            size = bytes_of(table, argument)
            moved = f',"bytes":{size}' if size else ""
            self._heads[key] = f'"name":"{instruction.name}","cat":"{category}","args":{{"instruction":{text}{moved}'
        spaces = {region.operand: region.space for region in (*instruction.reads(), *instruction.writes())}
        return self._heads[key], [(name, place, spaces[name]) for place, name in enumerate(_OPERANDS) if name in spaces]


def _metadata(process: int, core: _TraceProcess) -> Iterator[dict[str, Any]]:
    yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": core.name}}
    yield {"name": "process_sort_index", "ph": "M", "pid": process, "args": {"sort_index": process}}
    for order, (pipe, (name, thread)) in enumerate(THREADS.items()):
        if pipe in core.pipes:
            yield {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            yield {"name": "thread_sort_index", "ph": "M", "pid": process, "tid": thread, "args": {"sort_index": order}}


def _address(operand: tuple[str, int, str], addresses: list[int], names: list[str]) -> str:
    name, place, space = operand
    value = addresses[place]
    if space == "GM":
        return f',"{name}":{json.dumps(f"GM {names[value >> SLOT_SHIFT]}+{value & OFFSET_MASK:#x}")}'
    return f',"{name}":"{space}+{value:#x}"'


def _moment(nanoseconds: int) -> float:
    """Return a time in us as the trace writes it, rounded so that it never falls into the nanosecond before."""
    return round(nanoseconds / 1000 + _SAFE, _DECIMALS)


def _inside(begin: int, end: int, raised: int) -> int:
    """Return the nanosecond at which an arrow ends in a wait's box: its begin, or one after the set (`raised`) if that is
    later, but two before the end of the box at the latest.
    """
    return min(max(raised + 1, begin), max(end - 2, begin))  # a time that is cut off is shorter by one


def _whole(starts: list[float], ends: list[float], free: int) -> tuple[list[int], list[int]]:
    """Return (begins, ends) of a thread's boxes in whole nanoseconds, from `free` on, without overlap.

    Viewers have no smaller unit and drop boxes that overlap. No two begin together, because their order would be uncertain:
    after a box that is shorter than a nanosecond, the next begins one later.
    """
    begins, stops = [], []
    for start, end in zip(starts, ends, strict=True):
        begin = max(round(start), free)
        stop = max(round(end), begin)
        begins.append(begin)
        stops.append(stop)
        free = max(stop, begin + 1)
    return begins, stops
