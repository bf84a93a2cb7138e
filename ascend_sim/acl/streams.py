"""The vendor's calls for streams and events: creating, destroying, recording, waiting, synchronising and elapsed time."""

from __future__ import annotations

from dataclasses import field
from itertools import count
from typing import Any

from ascend_sim.acl.codes import Refused
from ascend_sim.acl.contexts import current_context, live_handle
from ascend_sim.acl.device import Context, Queued
from ascend_sim.acl.enums import aclrtEventRecordedStatus
from ascend_sim.acl.state import PROCESS, call, device
from ascend_sim.frozen import mutable
from ascend_sim.runtime.streams import StreamRun, StreamStep

__all__ = [
    "aclrtCreateEvent",
    "aclrtCreateStream",
    "aclrtDestroyEvent",
    "aclrtDestroyStream",
    "aclrtEventElapsedTime",
    "aclrtQueryEventStatus",
    "aclrtRecordEvent",
    "aclrtStreamWaitEvent",
    "aclrtSynchronizeEvent",
    "aclrtSynchronizeStream",
    "last_run",
]

_numbers = count()


@mutable(eq=False)
class Stream:
    """One stream of a context, with a number of its own in the process."""

    context: Context
    number: int = field(default_factory=lambda: next(_numbers))
    live: bool = True

    @property
    def alive(self) -> bool:
        """Return True until the stream or its context is destroyed, or its device is closed."""
        return self.live and self.context.alive


@mutable(eq=False)
class _Record:
    """One call of aclrtRecordEvent: `state` is queued, complete or dropped; `cycle` is its simulated time, None before and in
    functional mode.
    """

    name: str
    state: str = "queued"
    cycle: int | None = None

    def happen(self, cycle: int | None) -> None:
        self.state, self.cycle = "complete", cycle

    def drop(self) -> None:
        self.state = "dropped"


@mutable(eq=False)
class Event:
    """One event of a context; `record` is its last aclrtRecordEvent, None before the first."""

    context: Context
    live: bool = True
    record: _Record | None = None

    @property
    def alive(self) -> bool:
        """Return True until the event or its context is destroyed, or its device is closed."""
        return self.live and self.context.alive


def stream_of(stream: Any, gone: str = "handle gone", foreign: str = "foreign handle") -> Stream:
    """Return the stream of an argument; None means the current context's default stream, made at its first use.

    `gone` and `foreign` are the reasons for refusing a destroyed stream and an object that is not a stream.
    """
    if stream is None:
        context = current_context()
        if context.default_stream is None:
            context.default_stream = Stream(context)
        return context.default_stream
    return live_handle("stream", stream, Stream, foreign, gone)


def last_run() -> StreamRun | None:
    """Return tasks, Timeline and findings of the open device's last run of its queue; None without a device or a run (not a
    vendor's call).
    """
    return None if PROCESS.device is None else PROCESS.device.last_run


# -- streams ----------------------------------------------------------------------------------------------------------


@call(None)
def aclrtCreateStream() -> Stream:
    """Return ret and a new stream of the current context; refused in a thread without a live context."""
    return Stream(current_context())


@call()
def aclrtDestroyStream(stream: Any) -> None:
    """Run all queued work, destroy a stream and return ret, an error if its work failed. Refuses the default stream, and all
    but a live stream.
    """
    if stream is None:
        raise Refused("null pointer", "stream is a null pointer; the default stream cannot be destroyed")
    known = stream_of(stream)
    if known is known.context.default_stream:
        raise Refused("argument", "the default stream cannot be destroyed")
    device().run_to_idle()
    device().waited_for(known.number)
    known.live = False
    device().failure(known.number)


@call()
def aclrtSynchronizeStream(stream: Any) -> None:
    """Run the queued work of all streams, so that they overlap in simulated time; return ret, an error if this stream's work
    failed.

    Only this stream's work, and work that it waited for by events, counts as waited for by the host.
    """
    known = stream_of(stream)
    device().run_to_idle()
    device().waited_for(known.number)
    device().failure(known.number)


# -- events -----------------------------------------------------------------------------------------------------------


@call(None)
def aclrtCreateEvent() -> Event:
    """Return ret and a new event of the current context, not recorded yet; refused in a thread without a live context."""
    return Event(current_context())


@call()
def aclrtDestroyEvent(event: Any) -> None:
    """Destroy an event and return ret; queued waits for its record stay in effect. Refuses all but a live event."""
    live_handle("event", event, Event).live = False


@call()
def aclrtRecordEvent(event: Any, stream: Any) -> None:
    """Queue a record of the event on a stream and return ret; it completes when all work queued there before has ended.

    It replaces the event's last record. Refuses all but a live event, and a stream that was destroyed or is none.
    """
    known, where = live_handle("event", event, Event), stream_of(stream)
    record = _Record(f"event {next(_numbers)}")
    step = StreamStep.of(record.name, "EventRecord", where.number, action=record.happen)
    step.record_events = (record.name,)
    device().queue.append(Queued(step, "aclrtRecordEvent", dropped=record.drop))
    known.record = record


@call()
def aclrtStreamWaitEvent(stream: Any, event: Any) -> None:
    """Make work queued later on the stream start after the event's last record, and return ret; a record that ran already, or
    that was dropped because work before it failed, delays nothing.

    Refuses all but a live event that was recorded, and a stream that was destroyed or is none.
    """
    where, record = stream_of(stream), _recorded(event)
    step = StreamStep.of(f"wait for {record.name}", "EventWait", where.number)
    if record.state == "queued":
        step.wait_events = (record.name,)
    device().queue.append(Queued(step, "aclrtStreamWaitEvent"))


@call()
def aclrtSynchronizeEvent(event: Any) -> None:
    """Run all queued work if the event's last record is still queued, and return ret. Work before the record counts as waited
    for.

    Refuses all but a live event that was recorded; then, after the run, one before whose record work failed.
    """
    record = _recorded(event)
    if record.state == "queued":
        device().run_to_idle()
    device().waited_for(event=record.name)
    _refuse_dropped(record)


@call(aclrtEventRecordedStatus.ACL_EVENT_RECORDED_STATUS_NOT_READY)
def aclrtQueryEventStatus(event: Any) -> aclrtEventRecordedStatus:
    """Return ret and the status of an event's last record: complete once a synchronising call has run it, else not ready. Work
    before a complete record counts as waited for.

    The call itself runs nothing: host time does not pass on the device. Refuses all but a live event that was recorded, and one
    before whose record work failed.
    """
    record = _recorded(event)
    _refuse_dropped(record)
    ready = record.state == "complete"
    if ready:
        device().waited_for(event=record.name)
    return aclrtEventRecordedStatus(int(ready))


@call(None)
def aclrtEventElapsedTime(startEvent: Any, endEvent: Any) -> float:
    """Return ret and the simulated milliseconds from `startEvent` to `endEvent`, below 0 if that was earlier.

    Refuses all but live events whose last records are complete, and all of them in functional mode, which has no time.
    """
    records = [_recorded(event, name) for name, event in (("startEvent", startEvent), ("endEvent", endEvent))]
    for name, record in zip(("startEvent", "endEvent"), records, strict=True):
        _refuse_dropped(record)
        if record.state != "complete":
            raise Refused("event not recorded", f"{name} is not complete; synchronise its stream first")
    start, end = (record.cycle for record in records)
    if start is None or end is None:
        raise Refused("no time", "functional mode has no simulated time; call ascend_sim.use(mode='full') first")
    return device().chip.us(end - start) / 1e3


def _recorded(event: Any, name: str = "event") -> _Record:
    record = live_handle(name, event, Event).record
    if record is None:
        raise Refused("event not recorded", f"the {name} was never recorded; call aclrtRecordEvent first")
    return record


def _refuse_dropped(record: _Record) -> None:
    if record.state == "dropped":
        raise Refused("work failed", f"{record.name} was queued after work that could not run")
