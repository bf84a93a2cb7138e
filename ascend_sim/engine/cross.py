"""Cross-core flags of one task: which cores raise them, which wait for them, and the cycles.

Mode 0 joins all cores of one kind (every AIC, or every AIV, of the task); mode 1 the AIVs of one block; mode 2 the AIC of a
block with its AIVs: the AIC raises for both AIVs, and both AIVs together raise for the AIC. Mode 4 joins the AIC of a block
with one of its AIVs.
"""

from __future__ import annotations

from collections import defaultdict

import simpy

from ascend_sim.isa.sync import CrossCore, CrossCoreSetFlag, CrossCoreWaitFlag, CrossCounter, cross_counter, cross_members
from ascend_sim.kernel.program import Program


class CrossFlags:
    """Counters of the cross-core flags of one task.

    `members` are its cores as (block, kind, sub-block), `latency` the cycles from set to wake, `maximum` the most sets that a
    counter holds before a wait (`fault`).
    """

    def __init__(self, members: list[CrossCore], latency: int, maximum: int) -> None:
        self._members = members
        self._latency = latency
        self._maximum = maximum
        self._raised: dict[CrossCounter, dict[CrossCore, list[int]]] = {}
        self._released: dict[CrossCounter, list[int]] = defaultdict(list)
        self._taken: dict[tuple[CrossCounter, CrossCore], list[int]] = defaultdict(list)
        self._sleepers: dict[CrossCounter, list[simpy.Event]] = defaultdict(list)

    @staticmethod
    def _core(program: Program) -> CrossCore:
        return (program.block, program.core_kind, program.sub_block)

    def _of(self, group: CrossCounter, waiters: bool = False) -> list[CrossCore]:
        """Return the cores that raise a counter together or, with `waiters`, those that wait for it."""
        return [self._members[index] for index in cross_members(group, self._members, waiters)]

    def set(self, program: Program, flag: CrossCoreSetFlag, time: int) -> None:
        """Note that a core raises its part of a counter at cycle `time`.

        When every member has raised its part, the counter goes up, `latency` cycles after the last part, and sleepers are
        woken.
        """
        group = cross_counter(flag, self._core(program))
        parts = self._raised.get(group)
        if parts is None:
            parts = self._raised[group] = {core: [] for core in self._of(group)}
        parts[self._core(program)].append(time)
        released = self._released[group]
        while all(len(times) > len(released) for times in parts.values()):
            released.append(max(times[len(released)] for times in parts.values()) + self._latency)
            for event in self._sleepers.pop(group, []):
                event.succeed()

    def take(self, program: Program, flag: CrossCoreWaitFlag, time: int) -> int | None:
        """Take the counter down for one wait of a core that begins at `time`; return the cycle at which the wait is over.

        Returns None, and takes nothing, while the counter has not gone up for it.
        """
        group = cross_counter(flag, self._core(program))
        taken, released = self._taken[group, self._core(program)], self._released[group]
        if len(taken) >= len(released):
            return None
        taken.append(max(time, released[len(taken)]))
        return taken[-1]

    def pass_by(self, program: Program, flag: CrossCoreWaitFlag, time: int) -> None:
        """Count a disarmed wait: it takes the counter down at `time`, whether or not it was raised."""
        self._taken[cross_counter(flag, self._core(program)), self._core(program)].append(time)

    def sleep(self, env: simpy.Environment, program: Program, flag: CrossCoreWaitFlag) -> simpy.Event:
        """Return a SimPy event that fires when the counter that `flag` waits for goes up next."""
        event = env.event()
        self._sleepers[cross_counter(flag, self._core(program))].append(event)
        return event

    def fault(self) -> str | None:
        """Return a message on the first counter raised beyond its maximum or still raised after the task; None if none is."""
        for group, released in sorted(self._released.items()):  # of several faults always the same one
            flag, mode, _, _ = group
            for core in self._of(group, waiters=True):
                taken = self._taken.get((group, core), [])
                name = f"block {core[0]} {core[1]}{core[2]}: cross-core flag {flag} (mode {mode})"
                for k in range(self._maximum, len(released)):
                    before = k - self._maximum
                    if before >= len(taken) or taken[before] > released[k] - self._latency:
                        most = self._maximum
                        return f"{name} is raised more than {most} times without a wait (chip file, sync.cross_flag_max)"
                if len(taken) < len(released):
                    left = len(released) - len(taken)
                    return f"{name} is still raised at the end of the task; sets without a wait: {left}"
        return None

    def expected(self, program: Program, flag: CrossCoreWaitFlag) -> list[CrossCore]:
        """Return the cores that have not raised their part of the counter that this core waits for (for deadlock messages)."""
        group = cross_counter(flag, self._core(program))
        parts = self._raised.get(group, {})
        done = len(self._released[group])
        return [core for core in self._of(group) if len(parts.get(core, [])) <= done]
