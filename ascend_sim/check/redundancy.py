"""synccheck: flags and barriers that nobody needs.

One is redundant when without it every two accesses to the same bytes are still in order. That is tried, in what it changes: the
programs that wait for it are walked again without its waits. If they then tell other programs as much as before of all that is
asked about, nothing else changes; if not, all programs are walked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.accesses import Ints, Questions, gather, sharing_pairs
from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.order import Learned, PartOrder, TaskOrder
from ascend_sim.check.regions import regions_in, stacks
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync import flag_name
from ascend_sim.check.sync_rows import WIDTH, SyncRows
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_WAIT, PIPES, WAIT
from ascend_sim.isa.sync import CrossCoreWaitFlag, PipeBarrier, WaitFlag

_PARTS = (1 << 10, 1 << 12, 1 << 14, 1 << 16)
"""Rows of a program among which a witness is looked for before all of them are walked again: most flags are needed soon."""
_Rows = Mapping[int, list[int]]
"""Rows by program."""
_Group = tuple[object, ...]


def find_redundant(subject: Subject, strict: bool) -> tuple[list[CheckFinding], list[str]]:
    """Waits and barriers without which the same accesses are in order; each is tried without those found before it.

    Returned are those to take out, and in words those that there is a reason to keep: flags of queues, and unless `strict` all
    that a kernel for every shape does not need for this one.
    """
    proof = Proof(subject)
    found, kept = [], []
    for key, rows in groups(subject).items():
        if proof.needed(rows):
            continue
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
    name = flag_name(subject, number, (str(source), str(destination), int(identity)))  # type: ignore[call-overload]
    return (f"from PIPE_{source} to PIPE_{destination} in {subject.task.name}, {name}",)


def groups(subject: Subject) -> dict[_Group, dict[int, list[int]]]:
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


class Proof:
    """Tries whether a task is as well ordered without some of its waits.

    Of cores that know nothing of each other only one of those is looked at that have the same instructions on the same bytes of
    their buffers.
    """

    def __init__(self, subject: Subject) -> None:
        apart = len(subject.order.clocks.vectors) == 1 and not len(subject.questions["GM"])
        self._numbers = frozenset(_different(subject) if apart else range(len(subject.programs)))
        self._subject = subject
        self._out: dict[int, frozenset[int]] = {}
        self._order = subject.order
        self._firsts: dict[tuple[int, int], _First] = {}
        self._about: dict[frozenset[int], dict[str, tuple[Questions, int]]] = {}

    def needed(self, rows: _Rows) -> bool:
        """Whether without these waits too two accesses are no longer in order; if not, they are not there from now on."""
        out = {
            number: self._out.get(number, frozenset()) | frozenset(waits)
            for number, waits in rows.items()
            if number in self._numbers
        }
        if not out:
            return False
        longest = max(out, key=lambda number: len(rows[number]))
        length, first = len(self._subject.programs[longest]), rows[longest][0]
        if any(self._first(longest, most).worse(out[longest]) for most in _PARTS if first < most < length):
            return True
        if len(out) > 1 and self._worse(self._order.part({longest: out[longest]})):
            return True
        part = self._order.part(out)
        if self._worse(part):
            return True
        if part.tiles.cross.parts and self._asked.told_less(self._order, part):
            order = self._subject.order.without(self._out | out)
            if len(order.faults.overflows) > len(self._order.faults.overflows) or _unordered(
                self._questions(self._numbers), order
            ):
                return True
            self._order = order
        self._out |= out
        return False

    def _first(self, number: int, most: int) -> _First:
        if (number, most) not in self._firsts:
            self._firsts[number, most] = _First(self._subject, number, most)
        return self._firsts[number, most]

    def _worse(self, part: PartOrder) -> bool:
        """Whether accesses of the programs that were walked again are out of order, or counters of theirs may run over."""
        walks = part.tiles.walks
        extra = sum(len(walk.extra) for walk in walks.values())
        return extra > sum(len(self._order.walks[number].extra) for number in walks) or _unordered(
            self._questions(frozenset(walks)), part
        )

    def _questions(self, programs: frozenset[int]) -> dict[str, tuple[Questions, int]]:
        """What is asked about accesses of some programs, and of how many it is not so in the whole task."""
        if programs not in self._about:
            known, order = self._subject.unordered, self._subject.order
            asked = {space: one.about(programs) for space, one in self._subject.questions.items() if len(one)}
            self._about[programs] = {
                space: (one, len(one.unordered(order.clocks_in(space))[0]) if len(known[space][0]) else 0)
                for space, one in asked.items()
                if len(one)
            }
        return self._about[programs]

    @cached_property
    def _asked(self) -> _AskedPlaces:
        return _AskedPlaces(self._subject)


def _unordered(questions: Mapping[str, tuple[Questions, int]], order: TaskOrder | PartOrder) -> bool:
    """Whether more pairs are out of order than are known to be."""
    return any(len(asked.unordered(order.clocks_in(space))[0]) > known for space, (asked, known) in questions.items())


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


class _First:
    """The first rows of one program, by themselves."""

    def __init__(self, subject: Subject, number: int, most: int) -> None:
        self._order, self._number, self._most = subject.order, number, most
        program = subject.programs[number]
        synced = {number: SyncRows(program.with_rows(program.rows[:most]))}
        accesses = gather(stacks([(number, synced[number].program)]), synced, subject.shapes, subject.task.tensors)
        asked = {space: Questions(a, *sharing_pairs(a, subject.shapes)) for space, a in accesses.items()}
        whole = subject.order
        self._questions = {
            space: (one, len(one.unordered(whole.clocks_in(space))[0])) for space, one in asked.items() if len(one)
        }

    def worse(self, out: frozenset[int]) -> bool:
        """Whether more pairs are out of order without these rows, whatever other cores do."""
        return _unordered(self._questions, self._order.part({self._number: out}, self._most))


class _AskedPlaces:
    """The places in pipes that anybody asks about: what counts as many of them is as good as more."""

    def __init__(self, subject: Subject) -> None:
        owners, places = [], []
        for one in subject.questions.values():
            footprints = np.unique(np.concatenate((one.f, one.g)))
            mine = np.isin(one.a.footprint, footprints)
            owners.append(one.a.owner[one.a.footprint[mine]])
            places.append(one.a.place[mine])
        waits = [*_counted(subject.order), *_counted_between(subject.order)]
        owners.append(np.asarray([owner for owner, _ in waits], np.int64))
        places.append(np.asarray([place for _, place in waits], np.int64))
        owner, place = np.concatenate(owners), np.concatenate(places)
        self._base = int(place.max(initial=0)) + 2
        self._keys = np.unique(owner * self._base + place)
        self._owners = np.arange(len(subject.programs) * WIDTH) * self._base

    def told_less(self, before: TaskOrder, part: PartOrder) -> bool:
        """Whether the programs that were walked again tell others less than they did."""
        pairs: list[tuple[TaskOrder, Learned]] = [(before, part.tiles)]
        if part.rest is not part.tiles:
            pairs.append((before.beside_tiles, part.rest))
        return any(self._less(order, learned) for order, learned in pairs)

    def _less(self, order: TaskOrder, learned: Learned) -> bool:
        vectors = order.cross.others.vectors
        for group, parts in learned.cross.parts.items():
            for number, told in parts.items():
                for (_, _, was, knew), (_, _, now, knows) in zip(order.cross.parts[group][number], told, strict=True):
                    if was == now and knew == knows:
                        continue
                    first, second = (_with_own(vectors[v], number, own) for v, own in ((knew, was), (knows, now)))
                    if not np.array_equal(self._counts(first), self._counts(second)):
                        return True
        return False

    def _counts(self, vector: NDArray[np.int32]) -> Ints:
        """How many of the places asked about a vector covers."""
        return np.searchsorted(self._keys, self._owners + np.minimum(vector, self._base - 1), side="left")


def _with_own(vector: NDArray[np.int32], number: int, own: Sequence[int]) -> NDArray[np.int32]:
    both = vector.copy()
    here = both[number * WIDTH : (number + 1) * WIDTH]
    np.maximum(here, np.asarray(own, np.int32), out=here)
    return both


def _counted(order: TaskOrder) -> list[tuple[int, int]]:
    """Waits that hold back a set whose counter could run over: pipe (of a program) and place."""
    return [
        (walk.index * WIDTH + PIPES.index(walk.synced.names[code][1]), place)
        for walk in order.walks
        for code, raised in enumerate(walk.raised)
        if len(raised) > walk.maximum
        for place in walk.taken[code]
    ]


def _counted_between(order: TaskOrder) -> list[tuple[int, int]]:
    """The same of flags between cores."""
    cross = order.cross
    return [
        (waiter * WIDTH + pipe, place)
        for (group, waiter), taken in cross.taken.items()
        if max(map(len, cross.parts.get(group, {}).values()), default=0) > cross.maximum
        for _, pipe, place in taken
    ]


__all__ = ["Proof", "find_redundant", "groups"]
