"""synccheck: flags without partners, barriers that not all reach, deadlocks, counters that run over, and what nobody needs.

A flag or a barrier is redundant when without it every two accesses to the same bytes are still in order: that is tried, by
taking the steps of the walk again without its waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from ascend_sim.check.accesses import Questions, gather, sharing_pairs
from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.order import TaskOrder
from ascend_sim.check.regions import regions_in, stacks
from ascend_sim.check.subject import SPACES, Subject
from ascend_sim.check.sync_rows import SyncRows, Unpaired
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_WAIT, SET, WAIT
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag, PipeBarrier, SetFlag, WaitFlag, cross_name

_PARTS = (1 << 10, 1 << 12, 1 << 14, 1 << 16)
"""Rows of a program among which a witness is looked for before the whole task is walked again: most flags are needed soon."""


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
        name = _flag_name(subject, one.program, (instruction.source, instruction.destination, instruction.flag))
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


def _flag_name(subject: Subject, number: int, key: tuple[str, str, int]) -> str:
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
        backlog = [0] * len(synced.flags)
        seen: dict[tuple[int, object], list[tuple[int, int]]] = {}
        for row, kind, _, _, code in synced.items:
            if kind == SET:
                backlog[code] += 1
            elif kind == WAIT:
                line = None if synced.program.notes is None else synced.program.notes.line(row)
                seen.setdefault((code, line), []).append((backlog[code], row))
                backlog[code] -= 1
        for (code, _), turns in seen.items():
            depths = [depth for depth, _ in turns]
            key = (synced.program.core_kind, synced.names[code])
            if key in told or len(depths) < _TURNS or not _grows(depths):
                continue
            told.add(key)
            row = turns[-1][1]
            source, destination, _ = synced.names[code]
            name = _flag_name(subject, number, synced.names[code])
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


_TURNS = 3
"""Waits of a line from which a loop is seen."""


def _grows(depths: list[int]) -> bool:
    """Whether more is raised from turn to turn, by the same each time."""
    steps = {later - earlier for earlier, later in pairwise(depths)}
    return len(steps) == 1 and steps.pop() > 0


# -- what nobody needs -----------------------------------------------------------------------------------------------------

_Group = tuple[object, ...]


def find_redundant(subject: Subject, strict: bool) -> tuple[list[CheckFinding], list[str]]:
    """Waits and barriers without which the same accesses are in order; each is tried without those found before it.

    Returned are those to take out, and in words those that there is a reason to keep: flags of queues, and unless `strict` all
    that a kernel for every shape does not need for this one.
    """
    proof = _Proof(subject)
    found, kept = [], []
    for key, rows in _groups(subject).items():
        if proof.needed(rows):
            continue
        proof.leave_out(rows)
        number = min(rows)
        instruction = subject.programs[number][rows[number][0]].instruction
        count = sum(len(each) for each in rows.values())
        if key[0] == "queue":
            kept.append(
                f"{subject.task.name}: other flags imply the {count} waits for {key[2]!r} here; the queue keeps them, for with "
                f"another tiling its places are filled and emptied at other times"
            )
            continue
        if isinstance(instruction, PipeBarrier):
            kind, title = "redundant barrier", f"Redundant pipe_barrier({instruction.on!r}) detected"
        else:
            pair = "" if isinstance(instruction, WaitFlag) else "cross_core_"
            kind, title = "redundant flag", f"Redundant {pair}set_flag and {pair}wait_flag instructions detected"
        place = subject.place(number, rows[number][0])
        if not strict:
            kept.append(
                f"{subject.task.name}: {instruction.name} of PIPE_{place.pipe} at {place.where()[3:]} orders nothing "
                f"with these shapes; its line serves others too"
            )
            continue
        found.append(
            CheckFinding.of(
                "synccheck",
                kind,
                subject.task.name,
                title,
                details=_group_words(subject, key, number),
                places=(place,),
                count=count,
                level="WARNING",
                advice="without it the same accesses are in order: it only takes time",
            )
        )
    return found, kept


def _group_words(subject: Subject, key: _Group, number: int) -> tuple[str, ...]:
    if key[0] != "flag":
        return ()
    source, destination, identity = key[2:5]
    name = _flag_name(subject, number, (str(source), str(destination), int(identity)))  # type: ignore[call-overload]
    return (f"from PIPE_{source} to PIPE_{destination} in {subject.task.name}, {name}",)


def _groups(subject: Subject) -> dict[_Group, dict[int, list[int]]]:
    """What can be left out, as rows by program: the waits of a flag, a barrier that one line of the kernel writes."""
    groups: dict[_Group, dict[int, list[int]]] = {}
    for number, synced in enumerate(subject.synced):
        program = synced.program
        for row, kind, pipe, _, code in synced.items:
            key: _Group
            if kind == WAIT:
                queue = None if program.notes is None else program.notes.queues.get(synced.names[code])
                key = ("queue", program.core_kind, queue) if queue else ("flag", program.core_kind, *synced.names[code])
            elif kind == CROSS_WAIT:
                flag = synced.instructions[code]
                assert isinstance(flag, CrossCoreWaitFlag)
                if not flag.armed:
                    continue
                key = ("cross", program.core_kind, flag.flag, flag.mode)
            elif kind in (BARRIER, BARRIER_ALL) and isinstance(synced.instructions[code], PipeBarrier):
                line = None if program.notes is None else program.notes.line(row)
                key = ("barrier", program.core_kind, pipe, line)
            else:
                continue
            groups.setdefault(key, {}).setdefault(number, []).append(row)
    return dict(sorted(groups.items(), key=lambda entry: _TRIED.index(entry[0][0])))


_TRIED = ("barrier", "cross", "flag", "queue")
"""What is tried first: of two that can each stand for the other the one that holds up more is told."""


class _Proof:
    """Tries whether a task is as well ordered without some of its waits.

    Cores that know nothing of each other are looked at one by one, and of those with the same instructions on the same bytes
    of their buffers only one.
    """

    def __init__(self, subject: Subject) -> None:
        apart = len(subject.order.clocks.vectors) == 1 and not len(subject.questions["GM"])
        self._numbers = _different(subject) if apart else list(range(len(subject.programs)))
        chosen = [subject.programs[number] for number in self._numbers]
        self._subject = subject if len(chosen) == len(subject.programs) else replace(subject, programs=chosen)
        self._out: dict[int, frozenset[int]] = {}
        self._parts: dict[tuple[int, int], _Part] = {}

    def leave_out(self, rows: Mapping[int, list[int]]) -> None:
        """From now on these are not there."""
        self._out = self._with(rows)

    def needed(self, rows: Mapping[int, list[int]]) -> bool:
        """Whether without these waits two accesses are no longer in order."""
        out = self._with(rows)
        there = [place for place, number in enumerate(self._numbers) if number in rows]
        if not there:
            return False
        place = max(there, key=lambda one: len(rows[self._numbers[one]]))
        length, first = len(self._subject.programs[place]), rows[self._numbers[place]][0]
        parts = [most for most in _PARTS if first < most < length] + [length] * (len(self._numbers) > 1)
        if any(self._part(place, most).worse(out[place]) for most in parts):
            return True
        return self._worse(self._subject.order.without(out))

    def _with(self, rows: Mapping[int, list[int]]) -> dict[int, frozenset[int]]:
        both = dict(self._out)
        for place, number in enumerate(self._numbers):
            if number in rows:
                both[place] = both.get(place, frozenset()) | frozenset(rows[number])
        return both

    def _part(self, place: int, most: int) -> _Part:
        if (place, most) not in self._parts:
            self._parts[place, most] = _Part(self._subject, place, most)
        return self._parts[place, most]

    def _worse(self, order: TaskOrder) -> bool:
        """Whether more pairs are out of order than in the whole task, or more counters may run over."""
        before = self._subject
        return len(order.faults.overflows) > len(before.order.faults.overflows) or any(
            len(asked.unordered(order.clocks_in(space))[0]) > len(before.unordered[space][0])
            for space, asked in before.questions.items()
            if len(asked)
        )


def _different(subject: Subject) -> list[int]:
    """Programs of which no other has the same rows, but for the places in GM."""
    seen: dict[tuple[int, bytes], int] = {}
    for stack in (one for each in enumerate(subject.programs) for one in stacks([each])):
        rows = stack.rows[:, :4].copy()
        row, region = stack.accesses("GM")
        if len(row):
            rows[row, regions_in(stack.table.touches, "GM").column[region]] = 0
        seen.setdefault((id(stack.table), rows.tobytes()), stack.programs[0])
    return list(seen.values())


class _Part:
    """The first rows of one program; of all of them also what they share with other cores."""

    def __init__(self, subject: Subject, place: int, most: int) -> None:
        self._order = subject.order.part(place, most)
        program = subject.programs[place]
        synced = {place: SyncRows(program.with_rows(program.rows[:most]))}
        accesses = [gather(space, synced, (place,), subject.shapes, subject.task.tensors) for space in SPACES]
        self._questions = [Questions(a, *sharing_pairs(a, subject.shapes)) for a in accesses]
        if most == len(program):
            self._questions[-1] = subject.questions["GM"]
        self._base = self._unordered(frozenset())

    def worse(self, out: frozenset[int]) -> bool:
        """Whether more pairs are out of order without these rows, whatever other cores do."""
        return self._unordered(out) > self._base

    def _unordered(self, out: frozenset[int]) -> int:
        clocks_in = self._order.without(out)
        return sum(len(asked.unordered(clocks_in(asked.a.space))[0]) for asked in self._questions if len(asked))


__all__ = ["find_redundant", "find_sync_faults"]
