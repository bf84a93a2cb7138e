"""synccheck: flags without partners or set while they are set, barriers that not all reach, deadlocks, counters that run over.

Flags and barriers that order nothing are found by `redundancy`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import Unpaired
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag, SetFlag, WaitFlag, cross_name


def find_sync_faults(subject: Subject) -> list[CheckFinding]:
    """Return findings on a task's flags and barriers: without a partner, raised beyond the maximum, or in a deadlock."""
    return [*_unpaired(subject), *_overflows(subject), *_deadlocks(subject)]


# -- partners --------------------------------------------------------------------------------------------------------------


def _unpaired(subject: Subject) -> Iterator[CheckFinding]:
    faults = subject.order.faults
    for unpaired, what in ((faults.sets, "set"), (faults.waits, "wait")):
        groups: dict[tuple[object, ...], list[Unpaired]] = {}
        for one in unpaired:
            view = subject.programs[one.program][one.row].instruction
            key = (view, *subject.line_key(one.program, one.row)[:1], (one.missing, one.unwaited) if what == "set" else None)
            groups.setdefault(key, []).append(one)
        for found in groups.values():
            yield _partner(subject, what, found)


def _partner(subject: Subject, what: str, found: list[Unpaired]) -> CheckFinding:
    """Return a finding on sets without a wait, or waits without a set (`what`: "set" or "wait"); it shows the first.

    A set is a warning, a wait an error. A flag between cores of mode 0 or 1 that only some cores of its mode reach is the
    error "barrier not reached" for both.
    """
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
            details=(f"from PIPE_{instruction.source} to PIPE_{instruction.destination} in {subject.task.name}, {name}",),
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
    if instruction.mode in (0, 1) and missing and missing != "any core":
        kind, title = (
            "barrier not reached",
            f"{cross_name(instruction.flag)} of mode {instruction.mode} is not reached by all cores",
        )
    unmet = "not waited for by" if one.unwaited else "not set by"
    return CheckFinding.of(
        "synccheck",
        kind,
        subject.task.name,
        title,
        details=(
            f"{cross_name(instruction.flag)}, mode {instruction.mode}, in {subject.task.name}; {unmet} {missing or 'any core'}",
        ),
        places=(place,),
        count=count,
        level="WARNING" if what == "set" and kind.startswith("unpaired") else "ERROR",
    )


def flag_name(subject: Subject, number: int, key: tuple[str, str, int]) -> str:
    """Return "flag 'NAME'" if program number `number` names the flag `key` (source, destination, id), else "flag ID"."""
    names = [name for name, flag in subject.programs[number].flags.items() if tuple(flag) == key]
    return f"flag {names[0]!r}" if names else f"flag {key[2]}"


def _overflows(subject: Subject) -> Iterator[CheckFinding]:
    told = set()
    for one in subject.order.faults.overflows:
        instruction = subject.programs[one.program][one.row].instruction
        if instruction in told:
            continue
        told.add(instruction)
        held = "nothing holds the set back until the wait has happened"
        if isinstance(instruction, SetFlag):
            kind, title = "double set", "Flag may be set while it is set: the second set is lost and a wait never ends"
            advice = f"a flag holds {one.count} (chip {subject.chip.name}, sync.flag_max); {held}"
        else:
            kind, title = ("flag overflow", f"Flag counter may overflow: raised more than {one.count} times before a wait")
            advice = f"it counts to {one.count} (chip {subject.chip.name}, sync.cross_flag_max); {held}"
        yield CheckFinding.of(
            "synccheck", kind, subject.task.name, title, places=(subject.place(one.program, one.row),), advice=advice
        )


def _deadlocks(subject: Subject) -> Iterator[CheckFinding]:
    """Yield one finding if pipes wait for each other for ever, with up to six of them and what they wait for."""
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
