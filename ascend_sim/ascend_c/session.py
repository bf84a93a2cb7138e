"""A program while it is recorded: its words as they arrive, and the values for which its scalar code asks."""

from __future__ import annotations

import socket
from collections.abc import Callable

from ascend_sim.ascend_c.stream import WordReader, WordStream
from ascend_sim.errors import SimError

_ONCE = 1 << 20
"""Most bytes that are read at a time."""


class Session:
    """One program while it is recorded: another process writes words to `ours`, a socket; they are collected in `recording`.

    `lost` is called if that process ended before it wrote a byte, and raises if the process that started it ended too.
    """

    def __init__(self, ours: socket.socket, lost: Callable[[], None]) -> None:
        self._socket, self._lost = ours, lost
        self._reader = WordReader()

    @property
    def recording(self) -> WordStream:
        """Return the recording as far as it was read."""
        return self._reader.recording

    def goes_on(self) -> bool:
        """Read words until scalar code asks for the value of the last row, and return True; return False at the program's end,
        where the socket is closed.

        Raises SimError for bytes that are not a recording, and if the process ended before the program.
        """
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
        """Send the value that scalar code asked for, as the bits of an unsigned number."""
        self._reader.go_on()
        try:
            self._socket.sendall(value.to_bytes(8, "little"))
        except OSError:
            self._reader.broken()

    def finish(self) -> WordStream:
        """Read to the end of the program and return the recording. Raises SimError if scalar code reads memory, and as
        `goes_on`.
        """
        if self.goes_on():
            self.close()
            raise SimError("scalar code reads memory, whose contents are unknown without a launch")
        return self.recording

    def close(self) -> None:
        """Close the socket, which ends the child process of the program."""
        self._socket.close()
