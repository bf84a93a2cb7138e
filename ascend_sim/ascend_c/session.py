"""A program that is being recorded: its words as they come, and the values that its scalar code asks for."""

from __future__ import annotations

import socket
from collections.abc import Callable

from ascend_sim.ascend_c.stream import WordReader, WordStream
from ascend_sim.errors import SimError

_ONCE = 1 << 20
"""Bytes that are read at a time."""


class Session:
    """The words of one program so far (`recording`), which another process writes to `socket`.

    `lost` is called for a process that ended without a word, and raises.
    """

    def __init__(self, ours: socket.socket, lost: Callable[[], None]) -> None:
        self._socket, self._lost = ours, lost
        self._reader = WordReader()

    @property
    def recording(self) -> WordStream:
        """Return the recording so far."""
        return self._reader.recording

    def goes_on(self) -> bool:
        """Read on until scalar code asks for a value, which is that of the last row; False at the end of the program."""
        while not self._reader.asks() and not self._reader.ended:
            try:
                data = self._socket.recv(_ONCE)
            except OSError:
                data = b""
            if not data:
                if not self._reader.size:
                    self._lost()
                self._reader.broken()
            self._reader.feed(data)
        if self._reader.ended:
            self._reader.check_end()
            self.close()
        return not self._reader.ended

    def answer(self, value: int) -> None:
        """Hand out the value that was asked for, as the bits of an unsigned number."""
        self._reader.go_on()
        try:
            self._socket.sendall(value.to_bytes(8, "little"))
        except OSError:
            self._reader.broken()

    def finish(self) -> WordStream:
        """Return the words of a program whose scalar code reads no memory; SimError where it does."""
        if self.goes_on():
            self.close()
            raise SimError("scalar code reads memory, and nobody here knows what it holds")
        return self.recording

    def close(self) -> None:
        """End the program, wherever it is."""
        self._socket.close()
