"""The waterfall of a cube kernel: from the cycles that its products need at least to the cycles that it took.

    for part in waterfall(chip, task, runs, elapsed):
        part.name, part.cycles          # ("ideal", 45159), ("zeros", 139161), ...

Levels, each in cycles of one core; a part is the difference of two neighbours, so the parts add up to `elapsed` exactly:

1. the useful products, at the cube's rate on all cores of the chip ("ideal");
2. without those of them that lie in padding and are never made ("left out", below zero), with those that the kernel's
   method adds ("zeros": those that a stride inserts, or that lie beyond a border);
3. the products that its Mmads name ("padded channels": channels filled up to blocks, groups that were merged);
4. the work of its Mmads in whole fractals ("tile edges");
5. shared by the cores that have a block ("idle cores");
6. the work of the core that took longest ("uneven cores"; "less work", below zero, where the others have more);
7. that core's cube with the heads of its Mmads ("heads");
8. and its time without a product: before the first Mmad of each block ("start"), after the last ("drain"), and between
   them by what the cube waited for, followed through the pipes that waited themselves ("wait ...", "issue");
9. the task from its launch to its end ("launch").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.isa.base import BARRIER, CROSS_WAIT, PIPE_INDEX, WAIT
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.sync import WaitFlag
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.report.counts import Counts

Intervals = NDArray[np.int64]
"""[n, 2]: begin and end in cycles, in order, none over another."""

CUBE = "M"
_OTHER_WAITS = {BARRIER: "barrier", CROSS_WAIT: "cross-core"}
WORDS = {
    "ideal": "useful products on all cores",
    "left out": "saved: padding that is not multiplied",
    "zeros": "zeros that are multiplied",
    "padded channels": "channels filled up to blocks",
    "tile edges": "tiles filled up to fractals",
    "idle cores": "cores without a block",
    "uneven cores": "the slowest core has more work",
    "less work": "saved: the slowest core has less work",
    "heads": "heads of the Mmads",
    "start": "before the first Mmad",
    "wait MTE2": "waits for loads (GM to L1)",
    "wait MTE1": "waits for L1 to L0",
    "wait FIX": "waits for the Fixpipe",
    "wait V": "waits for the vector unit",
    "wait MTE3": "waits for stores (UB)",
    "wait S": "waits for the scalar unit",
    "wait flags": "flags on their way",
    "wait barrier": "barriers",
    "wait cross-core": "flags between cores",
    "issue": "instructions not issued yet",
    "drain": "after the last Mmad",
    "launch": "launch, and blocks that wait for a core",
}
"""Every part that there may be, in the order of the waterfall, and what it is."""


class WaterfallPart(NamedTuple):
    """One part of a waterfall: a name of WORDS and its `cycles`, below zero for a saving."""

    name: str
    cycles: int


def waterfall(chip: ChipSpec, task: Task, runs: Sequence[ProgramRun], elapsed: int) -> list[WaterfallPart]:
    """Return the parts of a cube kernel's waterfall that are not zero, in order, adding up to `elapsed`; [] if no program has
    an Mmad.

    `runs` are its programs, `elapsed` the cycles of the task. From "uneven cores" on the parts are those of the core that took
    longest.
    """
    cube = [run for run in runs if run.program.counts()[_mmads(run.program.table)].any()]
    if not cube:
        return []
    cores: dict[int, list[ProgramRun]] = {}
    for run in cube:
        cores.setdefault(run.core, []).append(run)
    of_core = {core: sum(run.finish - run.launch for run in own) for core, own in cores.items()}
    longest = max(cores, key=of_core.__getitem__)
    rate = chip.cube.macs_per_cycle(task.info["compute_dtype"]) * chip.cores.aic
    counts = Counts(task, (run.program for run in cube))
    work = sum(counts.cube_work_cycles())
    named = 0
    for table, index, count in counts.instructions():
        one = table.instructions[index]
        named += count * one.m * one.k * one.n if isinstance(one, Mmad) else 0
    macs, needed = task.info["macs"], task.info.get("needed_macs", task.info["macs"])
    levels = {
        "ideal": -(-macs // rate),
        "left out": -(-min(macs, needed) // rate),
        "zeros": -(-needed // rate),
        "padded channels": -(-named // rate),
        "tile edges": -(-work // chip.cores.aic),
        "idle cores": -(-work // len(cores)),
        "uneven cores": sum(Counts(task, (run.program for run in cores[longest])).cube_work_cycles()),
    }
    parts: dict[str, int] = {}
    before = 0
    for name, level in levels.items():
        parts[name], before = level - before, level
    if parts["uneven cores"] < 0:
        parts["less work"] = parts.pop("uneven cores")
    busy = 0
    for run in cores[longest]:
        for name, cycles in _block(run).items():
            if name == "busy":
                busy += cycles
            else:
                parts[name] = parts.get(name, 0) + cycles
    parts["heads"] = busy - before
    parts["launch"] = elapsed - of_core[longest]
    return [WaterfallPart(name, parts[name]) for name in WORDS if parts.get(name)]


def _mmads(table: InstructionTable) -> NDArray[np.bool_]:
    return np.array([isinstance(one, Mmad) for one in table.instructions], np.bool_)


def _block(run: ProgramRun) -> dict[str, int]:
    """Return {part: cycles} of one block that has an Mmad, from its dispatch to its end: "busy" (cycles of Mmads), "start",
    "drain", "issue", and "wait X" for each other key X of `_Waits.behind`; they add up.
    """
    pipe, kind = run.program.per_row("pipe"), run.program.per_row("kind")
    mmads = np.flatnonzero(_mmads(run.program.table)[run.program.rows[:, 0]] & (pipe == PIPE_INDEX[CUBE]))
    first, last = int(run.start[mmads].min()), int(run.end[mmads].max())
    busy = int((run.end[mmads] - run.start[mmads]).sum())
    found = {"start": first - run.launch, "busy": busy, "drain": run.finish - last}
    waits = _Waits(run, pipe, kind)
    window = np.array([[first, last]], np.int64)
    for cause, cycles in waits.behind(window, CUBE).items():
        if cause != CUBE:
            found[f"wait {cause}"] = cycles
    waited = sum(cycles for name, cycles in found.items() if name.startswith("wait "))
    found["issue"] = last - first - busy - waited
    return found


class _Waits:
    """Intervals in which each pipe of a block waited, by the pipe whose flag it waited for, "barrier" or "cross-core"."""

    def __init__(self, run: ProgramRun, pipe: NDArray[np.int64], kind: NDArray[np.int64]) -> None:
        self._of: dict[str, dict[str, Intervals]] = {}
        sources = [_source(instruction) for instruction in run.program.table.instructions]
        waits = np.isin(kind, (WAIT, *_OTHER_WAITS)) & (run.end > run.start)
        for name, index in PIPE_INDEX.items():
            rows = np.flatnonzero((pipe == index) & waits)
            by_source: dict[str, list[int]] = {}
            for row, argument in zip(rows.tolist(), run.program.rows[rows, 0].tolist(), strict=True):
                by_source.setdefault(sources[argument], []).append(row)
            self._of[name] = {
                source: np.stack((run.start[found], run.end[found]), axis=1) for source, found in by_source.items()
            }

    def behind(self, times: Intervals, pipe: str, through: tuple[str, ...] = ()) -> dict[str, int]:
        """Return {pipe, "barrier", "cross-core" or "flags": cycles}: the cycles of `times` by what `pipe` waited for, by `pipe`
        itself where it did not wait.

        If the awaited pipe waited itself, the wait is followed to the last pipe of the chain. `through` are the pipes of the
        chain so far: one that returns to them is the latency of flags, "flags".
        """
        through = (*through, pipe)
        found: dict[str, int] = {}
        left = _length(times)
        for source, waits in self._of[pipe].items():
            part = overlap(times, waits)
            cycles = _length(part)
            if not cycles:
                continue
            left -= cycles
            if source in through:
                behind = {"flags": cycles}
            else:
                behind = self.behind(part, source, through) if source in self._of else {source: cycles}
            for name, count in behind.items():
                found[name] = found.get(name, 0) + count
        if left:
            found[pipe] = found.get(pipe, 0) + left
        return found


def _source(instruction: object) -> str:
    """Return the pipe whose flag an instruction waits for; "barrier" or "cross-core" for these, "" if it does not wait."""
    if isinstance(instruction, WaitFlag):
        return instruction.source
    return _OTHER_WAITS.get(getattr(instruction, "kind", -1), "")


def overlap(first: Intervals, second: Intervals) -> Intervals:
    """Return the pieces of the intervals `first` that lie in intervals of `second`, in order of time."""
    low = np.searchsorted(second[:, 1], first[:, 0], side="right")
    high = np.searchsorted(second[:, 0], first[:, 1], side="left")
    counts = np.maximum(high - low, 0)
    owner = np.repeat(np.arange(len(first)), counts)
    other = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts) + low[owner]
    begin = np.maximum(first[owner, 0], second[other, 0])
    end = np.minimum(first[owner, 1], second[other, 1])
    return np.stack((begin, end), axis=1)


def _length(times: Intervals) -> int:
    return int((times[:, 1] - times[:, 0]).sum())
