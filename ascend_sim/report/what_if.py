"""Runs under a changed chip: the recorded programs again on the same chip with one rate doubled or cost halved.

for outcome in what_if(recording):
    outcome.words, outcome.saved                 # "twice the MTE1 rate", 0.21 of the run's time
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.headroom import LAUNCH_TABLES
from ascend_sim.engine.engine import Progress
from ascend_sim.engine.timeline import TaskRun
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.runtime import Recording
from ascend_sim.runtime.workers import spread


@frozen
class Change:
    """One change of a chip to try: `key` names it, `words` describe it.

    It doubles the numbers of the chip whose whole dotted path matches the regular expression `rates`, and halves those that
    match `costs` (whole numbers rounded down); "" matches none.
    """

    key: str
    words: str
    rates: str = ""
    costs: str = ""

    def apply(self, chip: ChipSpec) -> ChipSpec:
        """Return a copy of the chip: numbers whose names match `rates` are doubled, those whose names match `costs` halved
        (whole numbers rounded down).
        """
        numbers = chip.numbers()
        faster = {place: 2 * value for place, value in numbers.items() if re.fullmatch(self.rates, place)}
        cheaper = {place: value for place, value in numbers.items() if re.fullmatch(self.costs, place)}
        halves = {place: value // 2 if isinstance(value, int) else value / 2 for place, value in cheaper.items()}
        return chip.with_numbers(faster | halves)


@frozen
class ChangedRun:
    """Result of a run repeated with one change: `elapsed` cycles in whole, `tasks` cycles of each task from its launch to
    its end.

    `saved` and `saved_by_task` are shares of the times without the change; negative where it got slower.
    """

    key: str
    words: str
    elapsed: int
    tasks: tuple[int, ...]
    saved: float
    saved_by_task: tuple[float, ...]


def _listed(cycles: Iterable[int]) -> str:
    """Return the distinct numbers as text in the order given, such as "10 and 2" for two kinds of core."""
    return " and ".join(map(str, dict.fromkeys(cycles)))


def changes(chip: ChipSpec) -> list[Change]:
    """Return the changes to try on a chip: each rate doubled, each cost of launches and core starts halved, and those of flags
    and issue halved and rounded down to whole cycles.

    Rates of pipes that the chip lacks are left out.
    """
    issue, flag = chip.scalar.issue_cycles, chip.sync.flag_latency
    fewer = f"{_listed(cycles // 2 for cycles in issue.values())} cycles in place of {_listed(issue.values())}"

    def port(pipe: str, *more: str) -> str:
        paths = (re.escape(f"paths.{name}.bytes_per_cycle") for name, path in chip.paths.items() if path.pipe == pipe)
        return "|".join((*paths, *more))

    load3d = r"load3d\.(row_bytes|rates\..+\.(stride_w\..+|other|transpose_32bit))"
    fixpipe = r"fixpipe\.(elements_per_cycle\..+|channel_split_bytes_per_cycle)"
    found = [
        Change("cube", "twice the cube rate", r"cube\.rates\..+\.k_per_cycle"),
        Change("MTE1", "twice the MTE1 rate", port("MTE1", load3d)),
        Change("MTE2", "twice the MTE2 port", port("MTE2")),
        Change("MTE3", "twice the MTE3 port", port("MTE3")),
        Change("FIX", "twice the Fixpipe rate", port("FIX", fixpipe)),
        Change("V", "twice the vector rate", port("V"), r"vector\.ops\..+\.cycles_per_repeat\..+"),
        Change("L2", "twice the L2 bandwidth", r"memory\.l2_(read|write)_bytes_per_cycle_per_aic"),
        Change("HBM", "twice the HBM bandwidth", r"memory\.hbm_gb_per_s"),
        Change("issue", f"scalar instructions in {fewer}", costs=r"scalar\.issue_cycles\..+"),
        Change("flag", f"flags in {flag // 2} cycles in place of {flag}", costs=r"sync\.flag_latency"),
        Change("launch", "half the overhead of launches and core starts", costs=rf"launch\.({'|'.join(LAUNCH_TABLES)})\..+"),
    ]
    missing = {"MTE1", "MTE2", "MTE3", "FIX", "V"} - set(chip.pipes)
    return [change for change in found if change.key not in missing]


_WORTH_SAYING = 0.05
"""Share of a kernel below which a part needs no faster chip; changes that save less are not listed."""
_MOST_ROWS = 300_000
"""Instructions of a run that is run again unasked."""
_RATES = {
    "ideal": ("cube",), "zeros": ("cube",), "padded channels": ("cube",), "tile edges": ("cube",), "uneven cores": ("cube",),
    "start": ("launch",), "launch": ("launch",), "wait MTE1": ("MTE1",), "wait MTE2": ("L2", "HBM"), "wait FIX": ("FIX",),
    "wait V": ("V",), "wait MTE3": ("MTE3",), "wait S": ("issue",), "issue": ("issue",), "wait flags": ("flag",),
}  # fmt: skip
"""The changes that may make a part of a waterfall smaller."""


def faster_chip(recording: Recording, kernels: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return {index of a kernel: a sentence on what a faster chip would save}, for `kernels` of a report with a waterfall.

    It runs the programs again under each change that may shorten a part of 5 % or more. Kernels of which nothing saves 5 % are
    left out; {} for a run of over 300,000 instructions.
    """
    if sum(len(run.program) for run in recording.timeline.programs) > _MOST_ROWS:
        return {}
    wanted = {}
    for index, kernel in enumerate(kernels):
        parts = kernel.get("waterfall", {})
        large = [name for name, cycles in parts.items() if cycles >= _WORTH_SAYING * sum(parts.values())]
        wanted[index] = {key for name in large for key in _RATES.get(name, ())}
    on_chip = {change.key for change in changes(recording.chip)}
    outcomes = what_if(recording, only=on_chip & set().union(*wanted.values()))
    found = {}
    for index, keys in wanted.items():
        saved = sorted(((one.saved_by_task[index], one.words) for one in outcomes if one.key in keys), reverse=True)
        told = [f"{words} {-100 * share:+.0f} %" for share, words in saved if share >= _WORTH_SAYING]
        if told:
            found[index] = f"On a faster chip, with the same programs: {', '.join(told)}"
    return found


def what_if(
    recording: Recording, *, jobs: int = 1, progress: Progress | None = None, only: Collection[str] | None = None
) -> list[ChangedRun]:
    """Run the recorded programs again under every change of `changes` and return the results in their order; `jobs` processes
    share them.

    `only` are the keys of the changes to try (None: all). Raises SimError for a key that is none of the chip's changes. Kernels
    are not built again: tilings and programs stay.
    """
    timeline, chip = recording.timeline, recording.chip
    known = changes(chip)
    if unknown := sorted(set(only or ()) - {change.key for change in known}):
        raise SimError(f"what_if: no change {', '.join(unknown)}; {chip.name} has {', '.join(one.key for one in known)}")
    before = _spans(timeline.tasks)
    found = [change for change in known if only is None or change.key in only]
    again = recording if jobs == 1 else recording.without_kernels()
    work = [(again, change.apply(chip)) for change in found]
    outcomes = []
    for change, (elapsed, tasks) in zip(found, spread(_times, work, jobs=jobs, name="what if", progress=progress), strict=True):
        saved = tuple(_share(old, new) for old, new in zip(before[1], tasks, strict=True))
        outcomes.append(ChangedRun(change.key, change.words, elapsed, tasks, _share(before[0], elapsed), saved))
    return outcomes


def _times(work: tuple[Recording, ChipSpec]) -> tuple[int, tuple[int, ...]]:
    recording, chip = work
    return _spans(recording.rerun(chip).tasks)


def _spans(tasks: Sequence[TaskRun]) -> tuple[int, tuple[int, ...]]:
    """Return (cycles of the whole run, cycles of every task from its launch to its end); 0 without tasks."""
    begin, end = min((one.launch for one in tasks), default=0), max((one.finish for one in tasks), default=0)
    return end - begin, tuple(one.finish - one.launch for one in tasks)


def _share(before: int, after: int) -> float:
    return (before - after) / before if before else 0.0
