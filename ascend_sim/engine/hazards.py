"""Hazards: accesses in flight at the same time to the same bytes, at least one of them a write.

An access is in flight from its start to its retirement. On one pipe only a read or write of bytes that an earlier,
unretired instruction writes counts (reading before a later write is in order); Mmads that share an L0C tile are interlocked
and atomics to the same bytes are ordered by the L2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.engine.values import Finding
from ascend_sim.isa.base import PIPE_INDEX, PIPES
from ascend_sim.kernel.program import OPERAND_COLUMN
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.regions import Region, overlap

LIMIT = 200
"""Hazards reported per task; one forgotten flag can make hundreds of thousands."""


@dataclass
class _Accesses:
    """Accesses to one space, sorted by start."""

    run: NDArray[np.int64]
    row: NDArray[np.int64]
    pipe: NDArray[np.int64]
    region: NDArray[np.int64]
    address: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    start: NDArray[np.int64]
    retire: NDArray[np.int64]
    writes: NDArray[np.bool_]
    atomic: NDArray[np.bool_]


def find_hazards(tasks: Sequence[Task], runs: Sequence[ProgramRun]) -> list[Finding]:
    """All overlaps in the local buffers of each program and in GM between all programs (at most LIMIT are listed)."""
    findings: list[Finding] = []
    regions: list[Region] = []
    number: dict[Region, int] = {}
    shared: list[_Accesses] = []
    for index, run in enumerate(runs):
        for space, accesses in _collect(run, index, tasks, regions, number).items():
            if space == "GM":
                shared.append(accesses)
            else:
                _sweep(tasks, runs, accesses, regions, findings, space)
    if shared:
        names = _Accesses.__dataclass_fields__
        merged = _Accesses(*(np.concatenate([getattr(part, name) for part in shared]) for name in names))
        _sweep(tasks, runs, merged, regions, findings, "GM")
    return findings


def _collect(
    run: ProgramRun, index: int, tasks: Sequence[Task], regions: list[Region], number: dict[Region, int]
) -> dict[str, _Accesses]:
    program = run.program
    table, rows = program.table, program.rows
    pipe = program.per_row("pipe")
    bases = np.asarray([tensor.base for tensor in tasks[run.task].tensors] or [0], np.int64)
    parts: dict[str, list[tuple[NDArray[np.int64], int, Region, bool, bool, str]]] = {}
    by_argument = _rows_by_argument(rows[:, 0])
    for argument, selected in by_argument.items():
        instruction = table.instructions[argument]
        for writes, group in ((False, instruction.reads()), (True, instruction.writes())):
            for region in group:
                if region not in number:
                    number[region] = len(regions)
                    regions.append(region)
                entry = (selected, number[region], region, writes, instruction.atomic, region.operand)
                parts.setdefault(region.space, []).append(entry)
    result = {}
    for space, entries in parts.items():
        row = np.concatenate([entry[0] for entry in entries])
        lengths = [len(entry[0]) for entry in entries]
        numbers = np.repeat([entry[1] for entry in entries], lengths)
        address = np.concatenate([rows[entry[0], OPERAND_COLUMN[entry[5]]] for entry in entries])
        if space == "GM":
            address = bases[address >> SLOT_SHIFT] + (address & OFFSET_MASK)
        low = address + np.repeat([entry[2].offset for entry in entries], lengths)
        high = address + np.repeat([entry[2].extent for entry in entries], lengths)
        result[space] = _Accesses(
            np.full(len(row), index),
            row,
            pipe[row],
            numbers,
            address,
            low,
            high,
            run.start[row],
            run.retire[row],
            np.repeat([entry[3] for entry in entries], lengths),
            np.repeat([entry[4] for entry in entries], lengths),
        )
    return result


def _rows_by_argument(arguments: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    order = np.argsort(arguments, kind="stable")
    if not len(arguments):
        return {}
    values, first = np.unique(arguments[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True))


def _sweep(
    tasks: Sequence[Task],
    runs: Sequence[ProgramRun],
    a: _Accesses,
    regions: list[Region],
    findings: list[Finding],
    space: str,
) -> None:
    """Compare every access with those that start later while it is in flight, one distance in the sorted list at a time."""
    if not a.writes.any():
        return
    order = np.lexsort((a.row, a.run, a.start))
    s = _Accesses(*(getattr(a, name)[order] for name in _Accesses.__dataclass_fields__))
    horizon = np.maximum.accumulate(s.retire)
    lag = 1
    while lag < len(order) and (s.start[lag:] < horizon[:-lag]).any():
        e, l = slice(None, -lag), slice(lag, None)  # noqa: E741 - earlier and later
        both = (s.start[l] < s.retire[e]) & (s.low[l] < s.high[e]) & (s.low[e] < s.high[l])
        both &= s.writes[e] | s.writes[l]
        both &= ~(s.atomic[e] & s.atomic[l])
        same = (s.run[e] == s.run[l]) & (s.pipe[e] == s.pipe[l])
        both &= ~same | s.writes[e]
        both &= ~(same & (s.row[e] == s.row[l]))
        if space == "L0C":
            both &= ~(same & (s.pipe[e] == PIPE_INDEX["M"]))
        for place in np.flatnonzero(both).tolist():
            distance = int(s.address[place + lag] - s.address[place])
            if overlap(regions[s.region[place]], regions[s.region[place + lag]], distance):
                if len(findings) >= LIMIT:
                    return
                findings.append(_describe(tasks, runs, s, place, place + lag, space))
        lag += 1


def _describe(
    tasks: Sequence[Task], runs: Sequence[ProgramRun], s: _Accesses, first: int, second: int, space: str
) -> Finding:
    early, late = runs[s.run[first]], runs[s.run[second]]
    low, high = max(s.low[first], s.low[second]), min(s.high[first], s.high[second])
    verbs = ["writes" if s.writes[i] else "reads" for i in (first, second)]
    task = tasks[late.task]
    return Finding(
        "hazard",
        task.name,
        f"{late.program.where}: {PIPES[s.pipe[second]]} {late.program[int(s.row[second])]} {verbs[1]} {space} bytes "
        f"{low} to {high} from cycle {s.start[second]}, while {early.program.where} {PIPES[s.pipe[first]]} "
        f"{early.program[int(s.row[first])]} {verbs[0]} them until cycle {s.retire[first]}",
    )
