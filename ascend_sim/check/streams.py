"""racecheck between streams: tasks that no stream and no event puts in order, and that touch the same bytes of GM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ascend_sim.check.accesses import Accesses
from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.sharing import pairs_among
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import WIDTH
from ascend_sim.engine.task import Task


def find_stream_races(subjects: Sequence[Subject]) -> list[CheckFinding]:
    """Return races in GM between tasks that neither streams nor events order, a finding for each pair of tasks, tensor and
    kind of race.

    [] if all tasks are on one stream.
    """
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
    """Return for every task the set of indices of tasks that are over when it starts.

    They are the earlier ones of its stream, those that its events wait for, and all before these.
    """
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


def _between(first: Subject, second: Subject) -> Iterator[CheckFinding]:
    """Yield findings on races in GM between two tasks that may run at once, one for each tensor and kind of race."""
    sides = (first.accesses["GM"], second.accesses["GM"])
    both = _merged(*sides, len(first.programs))
    split = len(sides[0].start)
    told = set()
    for f, g in pairs_among(both, first.shapes, np.arange(len(both.start))):
        f, g = np.minimum(f, g), np.maximum(f, g)
        across = (f < split) & (g >= split)
        f, g = f[across], g[across]
        low = np.maximum(both.start[f], both.start[g])
        kinds = (first.slots(low) * 2 + both.writes[f]) * 2 + both.writes[g]
        _, one = np.unique(kinds, return_index=True)
        for place in np.sort(one).tolist():
            writes = bool(both.writes[f[place]]), bool(both.writes[g[place]])
            kind = "WAW" if all(writes) else "RAW" if writes[0] else "WAR"
            tensor, _ = first.tensor_at(int(low[place]))
            key = (kind, None if tensor is None else tensor.name)
            if key in told:
                continue
            told.add(key)
            places = tuple(
                subject.place(
                    int(a.owner[at] // WIDTH),
                    int(a.row[a.first[at]]),
                    "write" if a.writes[at] else "read",
                    int(a.start[at]),
                )
                for subject, a, at in zip((first, second), sides, (f[place], g[place] - split), strict=True)
            )
            yield CheckFinding.of(
                "racecheck",
                kind,
                second.task.name,
                f"Potential {kind} hazard detected at GM in {first.task.name} and {second.task.name}:",
                details=(
                    f"at {first.spot('GM', int(low[place]))}",
                    f"streams {first.task.stream} and {second.task.stream}",
                ),
                places=places,
                space="GM",
                advice="an event recorded behind the first task and waited for before the second would order them",
            )


def _merged(first: Accesses, second: Accesses, programs: int) -> Accesses:
    """Return the accesses of two tasks as one: `second` follows `first`, its program numbers raised by `programs`."""
    shifted = (
        second.row, second.place, second.footprint + len(first.start), second.owner + programs * WIDTH, second.form,
        second.start, second.writes, second.atomic,
    )  # fmt: skip
    own: list[Any] = [
        first.row, first.place, first.footprint, first.owner, first.form, first.start, first.writes, first.atomic
    ]  # fmt: skip
    joined: list[Any] = [np.concatenate(pair) for pair in zip(own, shifted, strict=True)]
    joined.append(np.concatenate((first.first[:-1], second.first + len(first.row))))
    return Accesses("GM", *joined)
