"""racecheck between streams: tasks that no stream and no event puts in order, and that touch the same bytes of GM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ascend_sim.check.accesses import Accesses, sharing_pairs
from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import WIDTH
from ascend_sim.engine.task import Task


def find_stream_races(subjects: Sequence[Subject]) -> list[CheckFinding]:
    """One finding for each pair of tasks, tensor and kind of race."""
    if len({subject.task.stream for subject in subjects}) < 2:
        return []
    before = tasks_before([subject.task for subject in subjects])
    return [
        finding
        for later in range(len(subjects))
        for earlier in range(later)
        if earlier not in before[later] and later not in before[earlier]
        for finding in _between(subjects[earlier], subjects[later])
    ]


def tasks_before(tasks: Sequence[Task]) -> list[set[int]]:
    """For every task those that have ended when it starts: earlier ones of its stream, and what its events stand behind."""
    before: list[set[int]] = []
    last: dict[int, int] = {}
    recorded: dict[str, int] = {}
    for task in tasks:
        for name in task.record_events:
            recorded.setdefault(name, len(before))
        before.append(set())
        ends = [last[task.stream]] if task.stream in last else []
        ends += [recorded[name] for name in task.wait_events if name in recorded]
        for end in ends:
            before[-1] |= {end, *before[end]}
        last[task.stream] = len(before) - 1
    return before


@dataclass
class _Side:
    subject: Subject
    accesses: Accesses


def _between(first: Subject, second: Subject) -> Iterator[CheckFinding]:
    sides = (_Side(first, first.accesses["GM"]), _Side(second, second.accesses["GM"]))
    both = _merged(sides[0].accesses, sides[1].accesses, len(first.programs))
    split = len(sides[0].accesses.start)
    f, g = sharing_pairs(both, first.shapes)
    f, g = np.minimum(f, g), np.maximum(f, g)
    across = (f < split) & (g >= split)
    told = set()
    for one, other in zip(f[across].tolist(), g[across].tolist(), strict=True):
        writes = bool(both.writes[one]), bool(both.writes[other])
        kind = "WAW" if all(writes) else "RAW" if writes[0] else "WAR"
        low = max(int(both.start[one]), int(both.start[other]))
        tensor, _ = first.tensor_at(low)
        key = (kind, None if tensor is None else tensor.name)
        if key in told:
            continue
        told.add(key)
        places = tuple(
            side.subject.place(
                int(side.accesses.owner[at] // WIDTH),
                int(side.accesses.row[side.accesses.first[at]]),
                "write" if side.accesses.writes[at] else "read",
                int(side.accesses.start[at]),
            )
            for side, at in zip(sides, (one, other - split), strict=True)
        )
        yield CheckFinding.of(
            "racecheck",
            kind,
            second.task.name,
            f"Potential {kind} hazard detected at GM in {first.task.name} and {second.task.name}:",
            details=(f"at {first.spot('GM', low)}", f"streams {first.task.stream} and {second.task.stream}"),
            places=places,
            space="GM",
            advice="an event recorded behind the first task and waited for before the second would order them",
        )


def _merged(first: Accesses, second: Accesses, programs: int) -> Accesses:
    """The footprints of both, those of the second behind; its programs count on."""
    shifted = (
        second.program + programs, second.row, second.place, second.footprint + len(first.start),
        second.owner + programs * WIDTH, second.form, second.start, second.writes, second.atomic,
    )  # fmt: skip
    own = (
        first.program, first.row, first.place, first.footprint, first.owner, first.form, first.start, first.writes,
        first.atomic,
    )  # fmt: skip
    joined = [np.concatenate(pair) for pair in zip(own, shifted, strict=True)]
    joined.append(np.concatenate((first.first[:-1], second.first + len(first.row))))
    return Accesses("GM", *joined)
