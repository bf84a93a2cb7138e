"""racecheck: accesses to the same bytes, one of them a write, that no flag, barrier or event orders.

By what happens before what, not by the cycles of a run: a race that this run's timing hides is found as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ascend_sim.check.accesses import APART, Accesses
from ascend_sim.check.cached_lines import stale_lines
from ascend_sim.check.clocks import Bits, Clocks
from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.questions import nearest
from ascend_sim.check.sharing import pairs_among
from ascend_sim.check.subject import Disorder, Subject, pipe_of
from ascend_sim.check.sync_rows import WIDTH, Ints
from ascend_sim.engine.task import Task
from ascend_sim.isa.sync import cross_name
from ascend_sim.kernel.program import ranges


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

    They are the earlier ones of its stream, those that recorded the events it waits for, and all before these. An event that
    only a later task in the list records does not count; of several records the first does.
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
                    int(a.owner[at] // WIDTH), int(a.row[a.first[at]]), "write" if a.writes[at] else "read", int(a.start[at])
                )
                for subject, a, at in zip((first, second), sides, (f[place], g[place] - split), strict=True)
            )
            yield CheckFinding.of(
                "racecheck",
                kind,
                second.task.name,
                f"Potential {kind} hazard detected at GM in {first.task.name} and {second.task.name}:",
                details=(f"at {first.spot('GM', int(low[place]))}", f"streams {first.task.stream} and {second.task.stream}"),
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


_KINDS = {(True, False): "RAW", (False, True): "WAR", (True, True): "WAW"}


def find_races(subject: Subject) -> list[CheckFinding]:
    """Return the races of a task as findings, one for each pair of source lines, space, kind, and same or other program; then
    those of its scalar accesses with the time that the data cache holds their lines (`stale_lines`).
    """
    found = [one for space, a in subject.accesses.items() for one in _race_findings(subject, a, subject.disorder[space])]
    cached = f"the data cache holds lines of {subject.chip.scalar.data_cache_line_bytes} bytes and writes them back whole: "
    cached += "clean_data_cache (DataCacheCleanAndInvalid) between the two accesses, beside the flag; or use another line"
    return found + [one for stale in stale_lines(subject) for one in _race_findings(subject, *stale, cached)]


def _race_findings(subject: Subject, a: Accesses, disorder: Disorder, advice: str = "") -> Iterator[CheckFinding]:
    """Yield findings on races, with `advice` if given; races between the same lines, of one kind, are one finding."""
    early, late = _roots(subject, a, disorder)
    if not len(early):
        return
    lines = subject.line_keys(np.concatenate((a.program(early), a.program(late))), a.row[np.concatenate((early, late))])
    keys = np.stack(
        (
            a.writes[a.footprint[early]], a.writes[a.footprint[late]], a.program(early) == a.program(late),
            lines[: len(early)], lines[len(early) :],
        )
    )  # fmt: skip
    order = np.lexsort((a.row[late], a.row[early], a.program(early)))
    _, first, which, counts = np.unique(keys, axis=1, return_index=True, return_inverse=True, return_counts=True)
    least = np.full(len(first), len(order))
    np.minimum.at(least, which.ravel()[order], np.arange(len(order)))
    for group in np.argsort(first).tolist():
        one = order[least[group]]
        yield _race(subject, a, int(early[one]), int(late[one]), int(counts[group]), advice)


def _roots(subject: Subject, a: Accesses, disorder: Disorder) -> tuple[Ints, Ints]:
    """Return the races of a space as arrays (early accesses, late accesses), without those that follow from another race.

    A race follows if putting the other one in order would put it in order too: if A is over before C starts, a race of C and B
    implies that of A and B. Of several races between two instructions only the worst is returned: a read of bytes being written
    first, then a write of bytes being read.
    """
    clocks, first, second = subject.order.clocks_in(a.space), disorder.first, disorder.second
    if not len(first):
        return first, second
    early, late = _in_order(a, *nearest(a, first, second, clocks))
    rows = np.stack((_row(a, early), _row(a, late)))
    written = a.writes[a.footprint]
    rank = np.where(written[early], np.where(written[late], 2, 0), 1)
    _, told, which = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    order = np.lexsort((late, early, rank, which.ravel()))
    worst = order[np.unique(which.ravel()[order], return_index=True)[1]][np.argsort(told)]
    early, late = early[worst], late[worst]
    implied = _implied(a, early, _row(a, late), clocks, after=True)
    implied |= _implied(a, late, _row(a, early), clocks, after=False)
    return early[~implied], late[~implied]


def _row(a: Accesses, access: Ints) -> Ints:
    """Return a number that identifies program and row of each access."""
    return a.program(access).astype(np.int64) << 32 | a.row[access]


def _implied(a: Accesses, access: Ints, row: Ints, clocks: Clocks, *, after: bool) -> Bits:
    """Return True for each access whose race with row `row[i]` follows from the race of another access with the same row.

    With `after` that access is one that starts when this one is over, else one that is over when this one starts.
    """
    owner, place = a.owner[a.footprint[access]], a.place[access]
    _, group = np.unique(np.stack((row, clocks.group[a.program(access)])), axis=1, return_inverse=True)
    group = group.ravel()  # nothing is known of other groups
    owners, which = np.unique(np.stack((group, owner)), axis=1, return_inverse=True)
    which = which.ravel()
    first, end = np.searchsorted(owners[0], group), np.searchsorted(owners[0], group, side="right")
    one, other = np.repeat(np.arange(len(access)), end - first), ranges(first, end - first)
    known = clocks.known(a.program(access[one]), a.begin[access[one]], owners[1][other])
    if after:
        most = np.zeros(owners.shape[1], np.int64)
        np.maximum.at(most, other, known)
        return most[which] > place
    least = np.full(owners.shape[1], np.iinfo(np.int64).max)
    np.minimum.at(least, which, place)
    return np.bincount(one[known > least[other]], minlength=len(access)) > 0


def _in_order(a: Accesses, one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Return the two accesses of each pair as (earlier, later) for a message: within a program by row.

    Between programs the access that comes earlier among those of its footprint is first; if they are equal, the write.
    """
    keys = []
    for access in (one, other):
        footprint = a.footprint[access]
        keys.append((access - a.first[footprint], ~a.writes[footprint], a.program(access), a.row[access]))
    own = keys[0][2] == keys[1][2]
    less, equal = np.zeros(len(one), np.bool_), np.ones(len(one), np.bool_)
    for left, right in zip(*keys, strict=True):
        less, equal = less | (equal & (left < right)), equal & (left == right)
    turned = np.where(own, keys[0][3] > keys[1][3], ~(less | equal))
    return np.where(turned, other, one), np.where(turned, one, other)


def _race(subject: Subject, a: Accesses, early: int, late: int, count: int, advice: str) -> CheckFinding:
    space, f, g = a.space, int(a.footprint[early]), int(a.footprint[late])
    kind = _KINDS[bool(a.writes[f]), bool(a.writes[g])]
    extents = subject.shapes.extents
    low = max(int(a.start[f]), int(a.start[g]))
    high = min(int(a.start[f] + extents[a.form[f]]), int(a.start[g] + extents[a.form[g]]))
    shift = 0 if space == "GM" else int(a.program(early)) << APART
    name = subject.name_at(space, low - shift, int(a.program(early)))
    spot = subject.spot(space, low - shift) + (f", {name}" if name and space != "GM" else "")
    places = tuple(
        subject.place(
            int(a.program(i)),
            int(a.row[i]),
            "write" if a.writes[a.footprint[i]] else "read",
            int(a.start[a.footprint[i]]) - shift,
        )
        for i in (early, late)
    )
    fetches = {subject.place(int(a.program(i)), int(a.begin[i])).short(): None for i in (early, late) if a.begin[i] != a.row[i]}
    return CheckFinding.of(
        "racecheck",
        kind,
        subject.task.name,
        f"Potential {kind} hazard detected at {space} in {subject.task.name}:",
        details=(
            f"at {spot}, bytes up to {high - shift:#x}",
            *(f"the data cache has held the line since {fetch}" for fetch in fetches),
        ),
        places=places,
        space=space,
        size=high - low,
        count=count,
        advice=advice or _advice(subject, int(a.owner[f]), int(a.owner[g])),
        tensor=name,
    )


def _advice(subject: Subject, first: int, second: int) -> str:
    """Return in words what would order the pipes of owners `first` and `second`: barrier, flag, cross-core flag, or that
    nothing does.
    """
    one, other = subject.programs[first // WIDTH], subject.programs[second // WIDTH]
    source, destination = pipe_of(first), pipe_of(second)
    if one is other and source == destination:
        return f"pipe_barrier({source!r}) between them would order them"
    if one is other:
        return f"a flag {source} -> {destination} (set_flag behind the first, wait_flag before the second) would order them"
    mode = (2 if one.core_kind != other.core_kind else 1) if one.block == other.block else 0
    if (mode == 0 and one.core_kind != other.core_kind) or not subject.chip.sync.cross_flag_ids:
        return "nothing orders these cores inside one launch: write in different places, or in two launches"
    return (
        f"a {cross_name(0).rpartition(' ')[0]} flag of mode {mode} ({one.core_kind} {source} sets it, {other.core_kind} "
        f"{destination} waits for it) would order them"
    )
