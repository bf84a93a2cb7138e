"""Calls in child processes, a block of them each: what crashes or hangs ends its child, is told, and the rest goes on."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from fuzzing.outcome import FuzzKind, FuzzOutcome, TooLong

PATIENCE = 30.0
"""How much longer than its CPU time a call may take on the clock: the machine may be busy with other work."""
FORK = multiprocessing.get_context("fork")
Report = Callable[[int, FuzzOutcome, float], None]


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """TooLong when more CPU time passes, or PATIENCE times as much on the clock (a call that waits for something)."""

    def alarm(*_: object) -> None:
        raise TooLong

    numbers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, seconds * PATIENCE)}
    before = {number: signal.signal(number, alarm) for number in numbers}
    for timer, limit in numbers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, _ in numbers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def one(kind: FuzzKind, seed: int, index: int) -> tuple[FuzzOutcome, float]:
    """One call in this process, and its CPU time."""
    begin = time.process_time()
    try:
        with limited(kind.SECONDS):
            outcome = kind.run(seed, index)
    except TooLong:
        outcome = _lost(kind, f"takes more than {kind.SECONDS:.0f} s")
    return outcome, time.process_time() - begin


def _lost(kind: FuzzKind, said: str) -> FuzzOutcome:
    return FuzzOutcome(("?",) * (len(kind.LABELS) - 1) + ("lost",), said)


@dataclass
class Child:
    """A process at work on a block: which call it has begun, and when."""

    process: BaseProcess
    connection: Connection
    stop: int
    index: int
    since: float


def run(kind: FuzzKind, seed: int, blocks: list[tuple[int, int]], jobs: int, report: Report) -> None:
    """Make the calls of all blocks, at most `jobs` at a time; `report` hears of each."""
    waiting, children = deque(blocks), list[Child]()
    try:
        while waiting or children:
            while waiting and len(children) < jobs:
                children.append(_begin(kind, seed, *waiting.popleft()))
            wait([child.connection for child in children], timeout=1)
            for child in list(children):
                rest = _listen(kind, child, report)
                if rest is None:
                    continue
                children.remove(child)
                if rest[0] < rest[1]:
                    waiting.appendleft(rest)
    finally:
        for child in children:
            child.process.kill()
            child.process.join()


def _begin(kind: FuzzKind, seed: int, start: int, stop: int) -> Child:
    mine, theirs = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_work, args=(kind, seed, start, stop, theirs), daemon=True)
    process.start()
    theirs.close()
    return Child(process, mine, stop, start, time.monotonic())


def _work(kind: FuzzKind, seed: int, start: int, stop: int, connection: Connection) -> None:
    """The child: its calls one after the other, each told when it ends. It goes when the parent has gone."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        for index in range(start, stop):
            if os.getppid() != parent:  # a pipe does not tell: children that were forked later hold its other end
                os._exit(1)
            most = int(time.process_time() + 2 * kind.SECONDS) + 1  # C code that runs on hears no alarm: the kernel ends it
            resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
            connection.send((index, *one(kind, seed, index)))
    except (BrokenPipeError, ConnectionResetError):
        os._exit(1)


def _listen(kind: FuzzKind, child: Child, report: Report) -> tuple[int, int] | None:
    """Pass on what a child has told. When it is through, or gone, or stuck: what is left of its block."""
    try:
        while child.connection.poll():
            index, outcome, seconds = child.connection.recv()
            report(index, outcome, seconds)
            child.index, child.since = index + 1, time.monotonic()
    except EOFError:
        child.process.join()
        if child.index < child.stop:  # it died in the middle of a call
            report(child.index, _lost(kind, f"the process ended with code {child.process.exitcode}"), 0.0)
        return child.index + 1, child.stop
    if time.monotonic() - child.since > kind.SECONDS * 2 * PATIENCE:  # it waits in C, where no alarm is heard
        child.process.kill()
        child.process.join()
        report(child.index, _lost(kind, "hangs and hears no signal"), 0.0)
        return child.index + 1, child.stop
    return None
