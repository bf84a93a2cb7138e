"""synccheck: flags and barriers without which the task is as well ordered.

One is redundant when without it every two accesses to the same bytes are still in order. `Questions.needs` yields what a pipe
has to know where. Then several flags are taken out together; where too little is known without them, one half of them is tried
and then the other. The beginning of one program of each kind is looked at first, for most flags are needed soon.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.findings import CheckFinding
from ascend_sim.check.order import TaskOrder
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync import flag_name
from ascend_sim.check.sync_rows import WIDTH, Ints
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_WAIT, WAIT
from ascend_sim.isa.sync import CrossCoreWaitFlag, PipeBarrier, WaitFlag
from ascend_sim.numerics.distinct import distinct

_PARTS = (1 << 10, 1 << 13, 1 << 16)
"""Rows of a program among which a witness is looked for before all programs are."""
_Group = tuple[object, ...]


def find_redundant(subject: Subject, strict: bool) -> tuple[list[CheckFinding], list[str]]:
    """Return (findings on redundant waits and barriers, remarks on redundant ones that are kept for a reason).

    Each group is tested with all groups that were found spare before it left out. Waits of queues are always kept; unless
    `strict`, all others are too, since another shape may need them.
    """
    found, kept, tried, items = [], [], groups(subject), subject.order.matches.items
    for key, spare in zip(tried, Proof(subject).spare(list(tried.values())), strict=True):
        if not spare:
            continue
        number, row, count = int(items.program[tried[key][0]]), int(items.row[tried[key][0]]), len(tried[key])
        instruction = subject.programs[number][row].instruction
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
        place = subject.place(number, row)
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
    """Return a line on the pipes of a flag's group and the flag's name in program `number`; () for groups of other kinds, those
    of cross-core flags too.
    """
    if key[0] != "flag":
        return ()
    source, destination, identity = key[2:5]
    name = flag_name(subject, number, (str(source), str(destination), int(identity)))  # type: ignore[call-overload]
    return (f"from PIPE_{source} to PIPE_{destination} in {subject.task.name}, {name}",)


def groups(subject: Subject) -> dict[_Group, Ints]:
    """Return {key: rows that can be left out together}: the waits of one flag or queue, or the barriers of one pipe and source
    line, over all programs of one kind of core.

    Rows are numbers among all that synchronise. Flags and barriers that belong to the library are left out, and those beside
    one of the library's, because the author of a kernel does not see what a call holds.
    """
    found: dict[_Group, list[Ints]] = {}
    for number, synced in enumerate(subject.synced):
        key = synced.code.astype(np.int64) * 3
        barriers = np.isin(synced.kind, (BARRIER, BARRIER_ALL))
        lines = subject.lines(number, synced.rows[barriers]) + 1
        key[barriers] = (key[barriers] + 1) * (int(lines.max(initial=0)) + 1) * 3 + lines * 3 + 1
        key[synced.kind == CROSS_WAIT] += 2
        items = np.flatnonzero(barriers | np.isin(synced.kind, (WAIT, CROSS_WAIT)))
        items = items[~np.isin(key[items], key[items[_beside_own(subject, number, synced.rows[items])]])]
        items = items[np.argsort(key[items], kind="stable")]
        alike = np.split(items, np.flatnonzero(np.diff(key[items])) + 1) if len(items) else []
        for mine in sorted(alike, key=lambda some: int(some[0])):
            told = _group(subject, number, int(synced.rows[mine[0]]), int(synced.code[mine[0]]), int(synced.kind[mine[0]]))
            if told:
                found.setdefault(told, []).append(mine + subject.order.matches.items.first[number])
    together = {key: np.concatenate(items) for key, items in found.items()}
    return dict(sorted(together.items(), key=lambda entry: _TRIED.index(str(entry[0][0]))))


def _beside_own(subject: Subject, number: int, rows: Ints) -> NDArray[np.bool_]:
    """Return for each of `rows` of program `number` True if it is no barrier of the library, but the one of `rows` before or
    behind it on its pipe is.
    """
    notes = subject.programs[number].notes
    pipe, beside = subject.synced[number].pipe[rows], np.zeros(len(rows), np.bool_)
    if notes is None or not notes.own_barriers:
        return beside
    own = np.isin(notes.numbers(rows), [notes.source.number(one) for one in notes.own_barriers])
    for one in distinct(pipe[own]).tolist():
        mine = np.flatnonzero(pipe == one)
        beside[mine[1:]] |= own[mine[:-1]]
        beside[mine[:-1]] |= own[mine[1:]]
    return beside & ~own


def _group(subject: Subject, number: int, row: int, code: int, kind: int) -> _Group:
    """Return the key of the group in which a wait or barrier can be left out; () for other rows, unit flags and a library's.

    The row is `row` of program `number`; `code` and `kind` are its entries in `SyncRows`.
    """
    synced, core = subject.synced[number], subject.programs[number].core_kind
    notes = synced.program.notes
    is_own = notes is not None and bool(notes.own_flags) and notes.line(row) in notes.own_flags
    if kind == WAIT:
        if synced.names[code][2] >= synced.program.table.chip.sync.flag_ids:
            return ()  # a unit flag: a mode of the product or drain, which also clears it
        queue = None if notes is None else notes.queues.get(synced.names[code])
        alone: _Group = () if is_own else ("flag", core, *synced.names[code])
        return ("queue", core, queue) if queue else alone
    one = synced.instructions[code]
    if isinstance(one, CrossCoreWaitFlag):
        return ("cross", core, one.flag, one.mode) if one.armed and not is_own else ()
    if not isinstance(one, PipeBarrier):
        return ()
    if notes is not None and notes.own_barriers and notes.line(row) in notes.own_barriers:
        return ()
    return ("barrier", core, int(synced.pipe[row]), int(subject.lines(number, np.asarray([row]))[0]))


_TRIED = ("barrier", "cross", "flag", "queue")
"""Order in which kinds of waits are tried: of two that can replace each other the slower one is reported."""


class Proof:
    """Test of whether a task that is in order stays so without some of its waits; it changes the subject's `needs`."""

    def __init__(self, subject: Subject) -> None:
        order, self._needs = subject.order, subject.needs
        self._keep_counters(order)
        kinds = {one.program.core_kind: number for number, one in reversed(list(enumerate(subject.synced)))}
        items, events = order.matches.items, order.events
        first = np.isin(items.program[events.item], list(kinds.values()))
        longest = max((len(subject.programs[number]) for number in kinds.values()), default=0)
        lengths = [most for most in _PARTS if most < longest] + [longest] * (len(kinds) < len(subject.programs))
        self._parts = [np.flatnonzero(first & (items.row[events.item] < most)) for most in lengths]

    def _keep_counters(self, order: TaskOrder) -> None:
        """Add to the needs that each flag stays within its maximum: a set then needs the wait that must pass before it.

        Flags that exceed their maximum in `order` already are left out.
        """
        items = order.matches.items
        for sets, waits, alike in order.counters():
            late = np.isin(alike, alike[~order.after(sets, waits)])
            own = (items.program[sets] == items.program[waits]) & (items.pipe[sets] == items.pipe[waits])
            sets, waits = sets[~late & ~own], waits[~late & ~own]
            owner = items.program[waits].astype(np.int64) * WIDTH + items.pipe[waits]
            self._needs[0].add(items.program[sets], order.events.before(sets), owner, items.place[waits] + 1)

    def spare(self, groups: Sequence[Ints]) -> list[bool]:
        """Return for each group of rows True if all stays in order without it and without the spare groups before it."""
        found = [False] * len(groups)
        self._look(groups, 0, len(groups), found)
        return found

    def _look(self, groups: Sequence[Ints], first: int, end: int, found: list[bool], needed: bool = False) -> None:
        """Set `found[i]` to True for each group from `first` to `end` - 1 that can be left out.

        The range is left out as a whole if possible, else halved. `needed`: one of its groups is known to be needed, so the
        whole is not tried.
        """
        if first == end:
            return
        if not needed and self._holds(groups[first:end]):
            found[first:end] = [True] * (end - first)
        elif end - first > 1:
            middle = (first + end) // 2
            self._look(groups, first, middle, found)
            self._look(groups, middle, end, found, needed=all(found[first:middle]))

    def _holds(self, groups: Sequence[Ints]) -> bool:
        """Return True if all stays in order when these groups are left out as well; they then stay left out in later tests."""
        out = np.zeros(len(self._needs[0].order.out), np.bool_)
        out[np.concatenate(groups)] = True
        for part in self._parts:
            if not all(needs.enough(needs.order.part(part, out), part) for needs in self._needs):
                return False
        orders = [needs.order.without(out) for needs in self._needs]
        if not all(needs.enough(order.clocks) for needs, order in zip(self._needs, orders, strict=True)):
            return False
        for needs, order in zip(self._needs, orders, strict=True):
            needs.order = order
        return True
