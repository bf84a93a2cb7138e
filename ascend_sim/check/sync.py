"""synccheck: flags without partners, barriers that not all reach, deadlocks, counters that run over, and what nobody needs.

A flag or a barrier is redundant when without it every two accesses to the same bytes are still in order: that is tried, by
taking the steps of the walk again without its waits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import Ints, SyncRows, Unpaired
from ascend_sim.isa.base import SET, WAIT
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag, SetFlag, WaitFlag, cross_name


def find_sync_faults(subject: Subject) -> list[CheckFinding]:
    """Flags and barriers of a task that are wrong in themselves."""
    return [*_unpaired(subject), *_overflows(subject), *_deadlocks(subject), *_uneven(subject)]


# -- partners --------------------------------------------------------------------------------------------------------------


def _unpaired(subject: Subject) -> Iterator[CheckFinding]:
    faults = subject.order.faults
    for unpaired, what in ((faults.sets, "set"), (faults.waits, "wait")):
        groups: dict[tuple[object, ...], list[Unpaired]] = {}
        for one in unpaired:
            view = subject.programs[one.program][one.row].instruction
            key = (view, *subject.line_key(one.program, one.row)[:1], one.missing if what == "set" else None)
            groups.setdefault(key, []).append(one)
        for found in groups.values():
            yield _partner(subject, what, found)


def _partner(subject: Subject, what: str, found: list[Unpaired]) -> CheckFinding:
    one = found[0]
    program = subject.programs[one.program]
    instruction = program[one.row].instruction
    place = subject.place(one.program, one.row)
    count = sum(each.count for each in found)
    if isinstance(instruction, SetFlag | WaitFlag):
        name = flag_name(subject, one.program, (instruction.source, instruction.destination, instruction.flag))
        return CheckFinding.of(
            "synccheck",
            f"unpaired {what}_flag",
            subject.task.name,
            f"Unpaired {what}_flag instructions detected",
            details=(
                f"from PIPE_{instruction.source} to PIPE_{instruction.destination} in {subject.task.name}, {name}",
            ),
            places=(place,),
            count=count,
            level="WARNING" if what == "set" else "ERROR",
            advice="it is still raised when the block ends: the next kernel on the core would meet it"
            if what == "set"
            else "nothing sets it as often as it is waited for: the pipe would stand for ever",
        )
    assert isinstance(instruction, CrossCoreSetFlag | CrossCoreWaitFlag)
    missing = ", ".join(one.missing[:4]) + (f" and {len(one.missing) - 4} more" if len(one.missing) > 4 else "")
    kind, title = f"unpaired cross_core_{what}_flag", f"Unpaired cross_core_{what}_flag instructions detected"
    if instruction.mode != 2 and missing and missing != "nobody":
        kind, title = (
            "barrier not reached",
            f"{cross_name(instruction.flag)} of mode {instruction.mode} is not reached by all cores",
        )
    told = "not waited for by" if what == "set" and kind.startswith("unpaired") else "not set by"
    return CheckFinding.of(
        "synccheck",
        kind,
        subject.task.name,
        title,
        details=(
            f"{cross_name(instruction.flag)}, mode {instruction.mode}, in {subject.task.name}; {told} {missing or 'nobody'}",
        ),
        places=(place,),
        count=count,
        level="WARNING" if what == "set" and kind.startswith("unpaired") else "ERROR",
    )


def flag_name(subject: Subject, number: int, key: tuple[str, str, int]) -> str:
    """A flag of a program as its kernel calls it."""
    names = [name for name, flag in subject.programs[number].flags.items() if tuple(flag) == key]
    return f"flag {names[0]!r}" if names else f"flag {key[2]}"


def _overflows(subject: Subject) -> Iterator[CheckFinding]:
    told = set()
    for one in subject.order.faults.overflows:
        instruction = subject.programs[one.program][one.row].instruction
        if instruction in told:
            continue
        told.add(instruction)
        cross = isinstance(instruction, CrossCoreSetFlag)
        limit = "sync.cross_flag_max" if cross else "sync.flag_max"
        yield CheckFinding.of(
            "synccheck",
            "flag overflow",
            subject.task.name,
            f"Flag counter may overflow: raised more than {one.count} times before a wait takes it down",
            places=(subject.place(one.program, one.row),),
            advice=f"it counts to {one.count} (chip {subject.chip.name}, {limit}); nothing holds "
            "the set back until the wait has happened",
        )


def _deadlocks(subject: Subject) -> Iterator[CheckFinding]:
    stuck = subject.order.faults.stuck
    if not stuck:
        return
    places = tuple(subject.place(program, row) for program, row in stuck[:6])
    lines = []
    for program, row in stuck[:6]:
        view = subject.programs[program][row]
        one = view.instruction
        what = (
            f"flag {one.flag} from PIPE_{one.source}" if isinstance(one, WaitFlag) else f"{cross_name(one.flag)}"  # type: ignore[attr-defined]
        )
        lines.append(f"{subject.programs[program].where}: PIPE_{view.pipe} waits for {what}")
    yield CheckFinding.of(
        "synccheck",
        "deadlock",
        subject.task.name,
        f"Deadlock: {len(stuck)} pipes wait for each other",
        details=tuple(lines),
        places=places,
        count=1,
    )


def _uneven(subject: Subject) -> Iterator[CheckFinding]:
    """Flags of which every turn of a loop leaves one raised, so that its waits meet ever older sets."""
    told: set[tuple[object, ...]] = set()
    for number, synced in enumerate(subject.synced):
        for depths, code, row in _depths(subject, number, synced):
            key = (synced.program.core_kind, synced.names[code])
            if key in told or not _grows(depths):
                continue
            told.add(key)
            source, destination, _ = synced.names[code]
            name = flag_name(subject, number, synced.names[code])
            yield CheckFinding.of(
                "synccheck",
                "uneven flag",
                subject.task.name,
                f"Flag crosses a loop unevenly: raised {depths[0]} times at its first wait, {depths[-1]} times at its last",
                details=(f"from PIPE_{source} to PIPE_{destination} in {subject.task.name}, {name}",),
                places=(subject.place(number, row),),
                level="WARNING",
                advice="the wait is over before the set of its own turn: it orders nothing of that turn",
            )


def _depths(subject: Subject, number: int, synced: SyncRows) -> Iterator[tuple[Ints, int, int]]:
    """For each flag and line that waits for it, in order: how often the flag is raised at each wait; the flag, the last row."""
    waits = synced.kind == WAIT
    flags = np.flatnonzero(waits | (synced.kind == SET))
    order = flags[np.argsort(synced.code[flags], kind="stable")]
    code, wait = synced.code[order], waits[order]
    raised = np.cumsum(np.where(wait, -1, 1)) + wait  # as a wait finds it
    first = np.searchsorted(code, code)
    raised -= np.concatenate(([0], np.cumsum(np.where(wait, -1, 1))))[first]
    order, code, raised = order[wait], code[wait], raised[wait]
    lines = subject.lines(number, synced.rows[order]) + 1
    keys = code.astype(np.int64) * (int(lines.max(initial=0)) + 1) + lines
    by_key = np.argsort(keys, kind="stable")
    groups = np.split(by_key, np.flatnonzero(np.diff(keys[by_key])) + 1) if len(keys) else []
    for mine in sorted(groups, key=lambda group: int(order[group[0]])):
        yield raised[mine], int(code[mine[0]]), int(synced.rows[order[mine[-1]]])


_TURNS = 3
"""Turns from which a loop is seen."""


def _grows(depths: Ints) -> bool:
    """Whether more is raised from turn to turn, by the same each time; a turn may come by the line more than once.

    Then the steps repeat after the waits of a turn, and if they do after so many, the shortest such turn says as much.
    """
    steps = np.diff(depths)
    if not steps.any():
        return False
    waits = _period(steps.tolist())
    return waits * _TURNS <= len(depths) and int(steps[:waits].sum()) > 0


def _period(steps: list[int]) -> int:
    """After how many steps all repeat (Knuth, Morris and Pratt: the longest beginning that is an end of what came so far)."""
    ends = [0] * len(steps)
    length = 0
    for place in range(1, len(steps)):
        while length and steps[place] != steps[length]:
            length = ends[length - 1]
        length += steps[place] == steps[length]
        ends[place] = length
    return len(steps) - length


__all__ = ["find_sync_faults"]
