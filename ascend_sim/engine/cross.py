"""Cross-core flags of one task: who raises them, who waits, and when.

Mode 0 joins all cores of one kind (every AIC, or every AIV, of the task); mode 1 the AIVs of one block; mode 2 the AIC of a
block with its AIVs: the AIC raises for both AIVs, and both AIVs together raise for the AIC.
"""

from __future__ import annotations

from collections import defaultdict

import simpy

from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag
from ascend_sim.kernel.program import Program

_Core = tuple[int, str, int]
_Group = tuple[int, int, str, int]


class CrossFlags:
    """Counters of one task. `members` are its cores as (block, kind, sub-block); `latency` cycles from set to wake."""

    def __init__(self, members: list[_Core], latency: int, maximum: int) -> None:
        self._members = members
        self._latency = latency
        self._maximum = maximum
        self._raised: dict[_Group, dict[_Core, list[int]]] = {}
        self._released: dict[_Group, list[int]] = defaultdict(list)
        self._taken: dict[tuple[_Group, _Core], list[int]] = defaultdict(list)
        self._sleepers: dict[_Group, list[simpy.Event]] = defaultdict(list)

    @staticmethod
    def _core(program: Program) -> _Core:
        return (program.block, program.core_kind, program.sub_block)

    def _group(self, flag: int, mode: int, block: int, kind: str) -> _Group:
        """The counter that cores of `kind` raise."""
        return (flag, mode, kind, -1 if mode == 0 else block)

    def _setters(self, group: _Group) -> list[_Core]:
        _, _, kind, block = group
        return [core for core in self._members if core[1] == kind and block in (-1, core[0])]

    def set(self, program: Program, flag: CrossCoreSetFlag, time: int) -> None:
        """One core raises its part at cycle `time`; the counter goes up when every part is there."""
        group = self._group(flag.flag, flag.mode, program.block, program.core_kind)
        parts = self._raised.get(group)
        if parts is None:
            parts = self._raised[group] = {core: [] for core in self._setters(group)}
        parts[self._core(program)].append(time)
        released = self._released[group]
        while all(len(times) > len(released) for times in parts.values()):
            released.append(max(times[len(released)] for times in parts.values()) + self._latency)
            for event in self._sleepers.pop(group, []):
                event.succeed()

    def _awaited(self, program: Program, flag: CrossCoreWaitFlag) -> _Group:
        kind = program.core_kind
        if flag.mode == 2:
            kind = "AIV" if kind == "AIC" else "AIC"
        return self._group(flag.flag, flag.mode, program.block, kind)

    def take(self, program: Program, flag: CrossCoreWaitFlag, time: int) -> int | None:
        """The cycle at which a wait that this core begins at `time` is over, or None while nobody knows."""
        group = self._awaited(program, flag)
        taken, released = self._taken[group, self._core(program)], self._released[group]
        if len(taken) >= len(released):
            return None
        taken.append(max(time, released[len(taken)]))
        return taken[-1]

    def pass_by(self, program: Program, flag: CrossCoreWaitFlag, time: int) -> None:
        """A disarmed wait: it takes the counter down at `time`, raised or not."""
        self._taken[self._awaited(program, flag), self._core(program)].append(time)

    def sleep(self, env: simpy.Environment, program: Program, flag: CrossCoreWaitFlag) -> simpy.Event:
        """An event for the next time that the counter goes up."""
        event = env.event()
        self._sleepers[self._awaited(program, flag)].append(event)
        return event

    def fault(self) -> str | None:
        """After the task, in words: a counter that was raised beyond its maximum, or that a core never took down."""
        for group, released in sorted(self._released.items()):  # of several faults always the same one
            flag, mode, kind, block = group
            waiter = ("AIV" if kind == "AIC" else "AIC") if mode == 2 else kind
            for core in self._members:
                if core[1] != waiter or block not in (-1, core[0]):
                    continue
                taken = self._taken.get((group, core), [])
                name = f"block {core[0]} {core[1]}{core[2]}: cross-core flag {flag} (mode {mode})"
                for k in range(self._maximum, len(released)):
                    before = k - self._maximum
                    if before >= len(taken) or taken[before] > released[k] - self._latency:
                        most = self._maximum
                        return (
                            f"{name} is raised more than {most} times without a wait (chip file, sync.cross_flag_max)"
                        )
                if len(taken) < len(released):
                    return f"{name} is still raised {len(released) - len(taken)} times at the end of the task"
        return None

    def expected(self, program: Program, flag: CrossCoreWaitFlag) -> list[_Core]:
        """Who has not yet raised its part of what this core waits for (for a deadlock report)."""
        group = self._awaited(program, flag)
        parts = self._raised.get(group, {})
        done = len(self._released[group])
        return [core for core in self._setters(group) if len(parts.get(core, [])) <= done]
