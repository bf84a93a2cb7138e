"""racecheck: accesses to the same bytes, one of them a write, that no flag, barrier or event orders.

By what happens before what, not by the cycles of a run: a race that this run's timing hides is found as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascend_sim.check.accesses import Accesses
from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.subject import Subject, pipe_of
from ascend_sim.check.sync_rows import WIDTH
from ascend_sim.isa.sync import cross_name

_MOST = 20_000
"""Pairs of a space that are looked at: one forgotten flag of a long loop makes many alike."""
_KINDS = {(True, False): "RAW", (False, True): "WAR", (True, True): "WAW"}


def find_races(subject: Subject) -> list[CheckFinding]:
    """One finding for each two lines of the kernel, space and kind of race."""
    return [finding for space in subject.accesses for finding in _in_space(subject, space)]


def racing_footprints(subject: Subject, space: str) -> set[int]:
    """Footprints that take part in a race."""
    first, second = subject.unordered[space]
    a = subject.accesses[space]
    return set(np.unique(a.footprint[np.concatenate((first, second))]).tolist()) if len(first) else set()


def _in_space(subject: Subject, space: str) -> Iterator[CheckFinding]:
    a = subject.accesses[space]
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for early, late in _roots(subject, space):
        key = (
            a.writes[a.footprint[early]], a.writes[a.footprint[late]],
            a.program[early] == a.program[late],
            *subject.line_key(int(a.program[early]), int(a.row[early])),
            *subject.line_key(int(a.program[late]), int(a.row[late])),
        )  # fmt: skip
        groups.setdefault(key, []).append((early, late))
    for pairs in groups.values():
        early, late = min(pairs, key=lambda pair: (a.program[pair[0]], a.row[pair[0]], a.row[pair[1]]))
        yield _race(subject, space, a, early, late, len(pairs))


def _roots(subject: Subject, space: str) -> list[tuple[int, int]]:
    """The pairs without those that are in order once the others are.

    If A comes before C and nothing orders C and B, then what orders C and B orders A and B as well. Of two instructions that
    meet in several ways the worst is told: a read of what is being written, then a write of what is being read.
    """
    a = subject.accesses[space]
    first, second = (side[:_MOST] for side in subject.unordered[space])
    if len(first):
        first, second = subject.questions[space].nearest(first, second, subject.order.clocks_in(space))
    pairs = [_in_order(a, one, other) for one, other in zip(first.tolist(), second.tolist(), strict=True)]
    written = a.writes[a.footprint]
    rank = {"RAW": 0, "WAR": 1, "WAW": 2}
    worst: dict[tuple[int, ...], tuple[int, tuple[int, int]]] = {}
    for early, late in pairs:
        rows = (int(a.program[early]), int(a.row[early]), int(a.program[late]), int(a.row[late]))
        told = (rank[_KINDS[bool(written[early]), bool(written[late])]], (early, late))
        worst[rows] = min(worst.get(rows, told), told)
    pairs = [pair for _, pair in worst.values()]
    by_late: dict[int, list[int]] = {}
    by_early: dict[int, list[int]] = {}
    for early, late in pairs:
        by_late.setdefault(_row(a, late), []).append(early)
        by_early.setdefault(_row(a, early), []).append(late)

    def before(one: int, other: int) -> bool:
        place = subject.order.clocks_in(space)
        owner = a.owner[a.footprint[one]]
        return bool(place.known(a.program[other], a.row[other], owner) > a.place[one])

    return [
        (early, late)
        for early, late in pairs
        if not any(before(early, other) for other in by_late[_row(a, late)])
        and not any(before(other, late) for other in by_early[_row(a, early)])
    ]


def _row(a: Accesses, access: int) -> int:
    return int(a.program[access]) << 32 | int(a.row[access])


def _in_order(a: Accesses, one: int, other: int) -> tuple[int, int]:
    """As the kernel is written; between cores turn by turn, and in one turn the write first, for somebody reads it."""

    def key(access: int) -> tuple[int, ...]:
        if a.program[one] == a.program[other]:
            return (int(a.row[access]),)
        footprint = a.footprint[access]
        turn = access - a.first[footprint]
        return (int(turn), int(not a.writes[footprint]), int(a.program[access]))

    return (one, other) if key(one) <= key(other) else (other, one)


def _race(subject: Subject, space: str, a: Accesses, early: int, late: int, count: int) -> CheckFinding:
    f, g = int(a.footprint[early]), int(a.footprint[late])
    kind = _KINDS[bool(a.writes[f]), bool(a.writes[g])]
    extents = subject.shapes.extents()
    low = max(int(a.start[f]), int(a.start[g]))
    high = min(int(a.start[f] + extents[a.form[f]]), int(a.start[g] + extents[a.form[g]]))
    shift = 0 if space == "GM" else int(a.program[early]) << 44
    places = tuple(
        subject.place(
            int(a.program[i]),
            int(a.row[i]),
            "write" if a.writes[a.footprint[i]] else "read",
            int(a.start[a.footprint[i]]) - shift,
        )
        for i in (early, late)
    )
    return CheckFinding.of(
        "racecheck",
        kind,
        subject.task.name,
        f"Potential {kind} hazard detected at {space} in {subject.task.name}:",
        details=(f"at {subject.spot(space, low - shift)}, bytes up to {high - shift:#x}",),
        places=places,
        space=space,
        size=high - low,
        count=count,
        advice=_advice(subject, int(a.owner[f]), int(a.owner[g])),
    )


def _advice(subject: Subject, first: int, second: int) -> str:
    """What would have ordered two pipes."""
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
