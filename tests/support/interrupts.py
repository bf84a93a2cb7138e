"""Signals that a process hears: for tests that ask it of a process that another one started."""

from __future__ import annotations

import signal


def held_back(_: int) -> list[str]:
    """The signals that this process was born deaf to."""
    return sorted(signal.Signals(number).name for number in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
