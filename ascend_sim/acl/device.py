"""An open device: its memory, its queue of work, running that queue to idle, and the contexts on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from ascend_sim.acl.codes import Refused
from ascend_sim.acl.memory import ByteRange, DeviceMemory
from ascend_sim.acl.out import DeviceRecorder
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen, mutable
from ascend_sim.report.columns import counted
from ascend_sim.runtime import Device, Task
from ascend_sim.runtime.streams import StreamRun, overlapping, run_streams


@frozen
class MemoryUse:
    """One range of device memory that a call or queued work touches; `writes` is True if it writes there."""

    range: ByteRange
    writes: bool


@mutable(eq=False)
class Queued:
    """One task in the queue: `label` is the call's name, `uses` its memory. `dropped` is called if the task cannot run."""

    task: Task
    label: str
    uses: Sequence[MemoryUse] = ()
    dropped: Callable[[], None] | None = None


class AclDevice:
    """The open device. Work waits in `queue`, in the order of the calls, until something synchronises.

    `recorder`, if any, keeps the runs and the warnings.
    """

    def __init__(self, chip: ChipSpec, mode: str, recorder: DeviceRecorder | None = None) -> None:
        self.simulated = Device(chip)
        self.chip = chip
        self.mode = mode
        self.memory = DeviceMemory(self.simulated)
        self.queue: list[Queued] = []
        self.last_run: StreamRun | None = None
        self.recorder = recorder
        self.open = True
        self._failures: dict[int, str] = {}
        self._unseen: list[Queued] = []
        """Work that has run although the host never waited for it."""

    def run_to_idle(self) -> None:
        """Run everything that is queued, all streams together in simulated time. Warns of races between streams and of the
        kernels' findings.

        A task that cannot run is dropped, and all are if the run itself fails; `failure` reports it for their streams. Queued
        work counts as not waited for: `warn_if_busy` warns of it until `waited_for` is called.
        """
        queue, self.queue = self.queue, []
        self._unseen += queue
        ready: list[Queued] = []
        lost_events: set[str] = set()
        for entry in queue:
            problem = self._problem(entry, lost_events)
            if problem is None:
                ready.append(entry)
                continue
            self._failures.setdefault(entry.task.stream, f"{entry.label}: {problem}")
            lost_events.update(entry.task.record_events)
            if entry.dropped is not None:
                entry.dropped()
        if not ready:
            return
        try:
            self.last_run = run_streams(self.simulated, [entry.task for entry in ready], self.mode)
        except SimError as error:
            for entry in ready:
                self._failures.setdefault(entry.task.stream, f"{entry.label}: {error}")
                if entry.dropped is not None:
                    entry.dropped()
            return
        if self.recorder is not None:
            self.recorder.add(self.last_run)
        self._tell(ready, self.last_run)

    def _problem(self, entry: Queued, lost_events: set[str]) -> str | None:
        """Return the reason why a task cannot run, or None.

        Reasons: its stream has failed, it waits for one of `lost_events` (whose records could not run), or memory that it uses
        was freed.
        """
        if entry.task.stream in self._failures:
            return self._failures[entry.task.stream]
        if lost_events.intersection(entry.task.wait_events):
            return "it waits for an event of a stream that failed"
        gone = next((use.range for use in entry.uses if not use.range.block.live), None)
        return None if gone is None else f"it uses {gone}, which were freed before it ran"

    def _tell(self, ready: Sequence[Queued], run: StreamRun) -> None:
        """Warn of each pair of calls whose tasks overlap in time on two streams, share bytes and write, and of the kernels'
        first finding.
        """
        if run.timeline is not None:
            told: set[tuple[str, str]] = set()
            for first, second in overlapping(run.timeline):
                a, b = ready[first], ready[second]
                place = _clash(a.uses, b.uses)
                if place is not None and (a.label, b.label) not in told:
                    told.add((a.label, b.label))
                    self.warn(
                        f"race: {a.label} and {b.label} run at the same time on two streams, and one of them writes {place}"
                    )
        if run.findings:
            found = run.findings[0]
            self.warn(f"{counted(len(run.findings), 'finding')}, first: {found.kind} in {found.task}: {found.text}")

    def failure(self, stream: int | None = None) -> None:
        """Raise Refused for work of a stream that could not run, and forget it, so that it is raised once. None: for the first
        failure of any stream, and all are forgotten.
        """
        key = next(iter(self._failures), None) if stream is None else stream
        if key is None or key not in self._failures:
            return
        message = self._failures.pop(key)
        if stream is None:
            self._failures.clear()
        raise Refused("work failed", message)

    def waited_for(self, stream: int | None = None, event: str | None = None) -> None:
        """Note that the host has waited for a stream, for a record of an event (by the record's name), or for all work (both
        None). It runs nothing.

        Work that these depend on, by stream order or by events, counts as waited for too.
        """
        if stream is None and event is None:
            self._unseen.clear()
            return
        streams, events, left = {stream}, {event}, []
        for entry in reversed(self._unseen):
            if entry.task.stream not in streams and events.isdisjoint(entry.task.record_events):
                left.append(entry)
                continue
            streams.add(entry.task.stream)  # what it queued before this entry has run too
            events.update(entry.task.wait_events)
        self._unseen = left[::-1]

    def warn_if_busy(self, what: str, touched: ByteRange, writes: bool) -> None:
        """Warn of the first work, run or queued, that the host has not waited for and that uses bytes of `touched`, if one of
        both writes.

        `what` names the call.
        """
        for entry in (*self._unseen, *self.queue):
            place = _clash([MemoryUse(touched, writes)], entry.uses)
            if place is not None:
                self.warn(f"{what} touches {place} without a wait for {entry.label}; synchronise its stream first")
                return

    def warn(self, text: str, stacklevel: int = 6) -> None:
        """Issue a RuntimeWarning at the user's line, `stacklevel` frames up, and keep one of each text for the report."""
        if self.recorder is not None and text not in self.recorder.warnings:
            self.recorder.warnings.append(text)
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)


@mutable(eq=False)
class Context:
    """One context of a device: its own system parameters, its default stream (the null stream; None before its first use), and
    whether it is the implicit default one.
    """

    owner: AclDevice
    implicit: bool = False
    live: bool = True
    options: dict[int, int] = field(default_factory=dict)
    default_stream: Any = None

    @property
    def alive(self) -> bool:
        """Return True until the context is destroyed or its device is closed."""
        return self.live and self.owner.open


def _clash(first: Sequence[MemoryUse], second: Sequence[MemoryUse]) -> ByteRange | None:
    return next((a.range for a in first for b in second if (a.writes or b.writes) and a.range.meets(b.range)), None)
