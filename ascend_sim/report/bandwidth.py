"""Bytes per second over the time of a kernel: between cores and GM, at the L2, and over HBM."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.lines import footprint
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.isa.base import TRANSFER
from ascend_sim.kernel.touches import OPERAND_COLUMN
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.report.counts import bytes_of
from ascend_sim.runtime import Recording

LEVELS = ("GM to cores", "cores to GM", "L2", "HBM")
"""Useful bytes that the kernel reads and writes; those of the L2's lines that it touches; those that HBM moves for it."""
_SLICES = 600


def moved(recording: Recording, task: int) -> dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Return {level: (begin, end, bytes)} for each level of LEVELS, with an array element for each transfer of the kernel
    number `task` that moves bytes there.

    Begin and end are in cycles; a level without transfers has empty arrays.
    """
    line = recording.chip.memory.l2_line_bytes
    parts: dict[str, list[tuple[NDArray[Any], ...]]] = {level: [] for level in LEVELS}
    for run in recording.timeline.of(task):
        table = run.program.table
        access = [one.direction if one is not None else "" for one in table.accesses]
        size = np.array([bytes_of(table, place) for place in range(len(access))], np.int64)
        rows = np.flatnonzero(run.program.per_row("kind") == TRANSFER)
        argument = run.program.rows[rows, 0]
        reads = np.array([one == "read" for one in access], np.bool_)[argument]
        begin, end = run.start[rows], run.end[rows]
        useful = size[argument]
        touched = _lines(recording, run, rows) * line
        for level, count in zip(
            LEVELS, (np.where(reads, useful, 0), np.where(reads, 0, useful), touched, run.hbm_bytes[rows]), strict=True
        ):
            kept = count > 0
            parts[level].append((begin[kept], end[kept], count[kept]))
    return {
        level: tuple(np.concatenate([one[place] for one in found]) if found else np.zeros(0, np.int64) for place in range(3))  # type: ignore[misc]
        for level, found in parts.items()
    }


def _lines(recording: Recording, run: ProgramRun, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the lines of the L2 that each of the transfers `rows` touches, those that bypass the cache too."""
    table, line = run.program.table, recording.chip.memory.l2_line_bytes
    bases = np.array([tensor.base for tensor in recording.tasks[run.task].tensors], np.int64)
    columns = np.array([OPERAND_COLUMN[one.region.operand] if one is not None else 0 for one in table.accesses], np.int64)
    argument = run.program.rows[rows, 0]
    operand = run.program.rows[rows, columns[argument]]
    phase = (bases[operand >> SLOT_SHIFT] + (operand & OFFSET_MASK)) % line
    kinds, which = np.unique(argument * line + phase, return_inverse=True)
    found = [(table.accesses[kind // line], kind % line) for kind in kinds.tolist()]
    counts = [len(footprint(access.region, offset, line).lines) if access is not None else 0 for access, offset in found]
    return np.array(counts, np.int64)[which]


def rate(begin: NDArray[Any], end: NDArray[Any], count: NDArray[Any], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean bytes per cycle in each slice between `edges`; every transfer moves its bytes evenly from its begin to
    its end, in one cycle at least.
    """
    length = np.maximum(end - begin, 1)
    slope = count / length
    times = np.concatenate([begin, begin + length])
    order = np.argsort(times, kind="stable")
    times, steps = times[order], np.concatenate([slope, -slope])[order]
    running = np.cumsum(steps)
    total = np.concatenate([[0.0], np.cumsum(running[:-1] * np.diff(times))]) if len(times) else np.zeros(0)
    if not len(times):
        return np.zeros(len(edges) - 1)
    until = np.interp(edges, times, total, left=0.0, right=total[-1])
    return np.diff(until) / np.diff(edges)


def slices(recording: Recording, task: int) -> NDArray[np.float64]:
    """Return the edges, in cycles, of 600 equal slices of the time of the kernel number `task` from launch to end, or of fewer,
    of one cycle each, for a shorter time.
    """
    span = recording.timeline.tasks[task]
    number = int(np.clip(span.finish - span.launch, 1, _SLICES))
    return np.linspace(span.launch, max(span.finish, span.launch + 1), number + 1)
