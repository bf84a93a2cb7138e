"""Endings of a command from outside: Ctrl-C, SIGTERM, SIGHUP and the limit of memory, each in one line."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

from ascend_sim.errors import MemoryLimitError, SimError
from ascend_sim.host import beyond, held_memory, memory_limit

_EVERY_SECONDS = 0.2
_WORDS = {signal.SIGINT: "interrupted (Ctrl-C)", signal.SIGTERM: "stopped by SIGTERM"}
if hasattr(signal, "SIGHUP"):
    _WORDS[signal.SIGHUP] = "stopped: its terminal is gone"


_IMPORTS = "<frozen importlib._bootstrap>"
"""File name of the frames in which Python imports a module."""
_AGAIN_SECONDS, _LONGEST_IMPORT = 0.01, 2.0
"""A signal that comes during an import is looked at again, for so much CPU time: a module of the user's may never end."""
_LONGEST_SLEEP = 8.0
"""Seconds on the clock after which an import that waits, such as one that sleeps, is interrupted too."""

_last = signal.SIGINT
_told = False
_ENDING_SECONDS = 5.0
"""Time after which a command that is beyond its limit of memory should have ended."""
_too_much: list[str] = []
_raised: BaseException | None = None
_waits_until: tuple[float, float] | None = None
"""CPU time and clock at which a signal does not wait for an import any more."""


def listen() -> None:
    """Install signal handlers and a thread that watches the memory limit; both raise in the main thread, where this must be
    called.

    An ignored signal stays ignored (nohup).
    """
    for number in _WORDS:
        if signal.getsignal(number) != signal.SIG_IGN:  # that is how nohup starts a command
            signal.signal(number, _stop)
    sys.unraisablehook = _raise_again
    threading.Thread(target=_watch_memory, daemon=True).start()


def tell() -> int:
    """Print one line on stderr with the signal that came last (Ctrl-C if none); return the exit code, 128 plus the signal's
    number.
    """
    global _told
    _told = True
    print(f"ascend-sim: {_WORDS[_last]}", file=sys.stderr)
    return 128 + int(_last)


def raised() -> BaseException | None:
    """Return the exception that the last signal raised, of which a library may have made another; None before any signal."""
    return _raised


def end_of_start(code: object) -> object:
    """Return the exit code of the command; that of `tell`, whose line it prints, if a signal came before the command began.

    Such a signal left code 130 and no line.
    """
    return tell() if code == 128 + int(signal.SIGINT) and not _told else code


def _stop(number: int, frame: FrameType | None) -> None:
    """Handle a signal: raise KeyboardInterrupt, or MemoryLimitError if the memory watch sent it.

    During an import wait and try again, until it ends, or `_LONGEST_IMPORT` (CPU time) or `_LONGEST_SLEEP` (on the clock) is
    over.
    """
    global _last, _raised, _waits_until
    if hasattr(signal, "setitimer") and _is_import(frame):
        spent, now = time.process_time(), time.monotonic()
        _waits_until = _waits_until or (spent + _LONGEST_IMPORT, now + _LONGEST_SLEEP)
        if spent < _waits_until[0] and now < _waits_until[1]:
            signal.signal(signal.SIGALRM, lambda _, later: _stop(number, later))
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
            return
    if _too_much:
        _raised = MemoryLimitError(_too_much.pop())
    else:
        _last, _raised = signal.Signals(number), KeyboardInterrupt()
    raise _raised


def _raise_again(dropped: sys.UnraisableHookArgs) -> None:
    """Raise the exception of the last signal again, a little later, when Python dropped it, as it does in a finalizer."""
    if _raised is None or dropped.exc_value is not _raised or not hasattr(signal, "setitimer"):
        return sys.__unraisablehook__(dropped)
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise the exception of the last signal."""
    assert _raised is not None
    raise _raised


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTS:
        frame = frame.f_back
    return frame is not None


def _watch_memory() -> None:
    while True:
        time.sleep(_EVERY_SECONDS)
        try:
            limit = memory_limit()
        except SimError:  # who uses it says so
            return
        if limit is not None and held_memory() > limit:
            _too_much[:] = [beyond(limit)]
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_ENDING_SECONDS)  # if it goes on then, a library has caught what the signal raised
