"""Decoder of a recorder's output: frames of distinct words, of source lines and of rows, and how the program ended."""

from __future__ import annotations

import hashlib
from dataclasses import field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ascend_c.source import refused_in_judge
from ascend_sim.ascend_c.words import is_word
from ascend_sim.errors import SimError
from ascend_sim.frozen import mutable
from ascend_sim.kernel.inspection import Line

_SHAPE, _LINE, _ROWS, _END, _ASK = range(1, 6)
FINE, REFUSED, CRASHED, TOO_LONG = range(4)
ROW = 5
"""Numbers in a row: its shape, its line and three addresses."""
_HEAD = 5
"""Numbers in front of the texts of the last frame: how the program ended, its detail, its line, turns and calls."""
_MOST_BYTES = 1 << 20
"""Most bytes of a frame."""


@mutable
class WordStream:
    """The recorded words of one program.

    `how` says how it ended: FINE, REFUSED (`text` has the reason), CRASHED or TOO_LONG; `detail` is the signal of a crash or,
    of TOO_LONG, 0 if it was too many seconds and not too many calls. `last` is the line of the last call before that.
    """

    shapes: list[tuple[int, ...]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    pieces: list[NDArray[np.int64]] = field(default_factory=list)
    """Arrays of rows, in order."""
    how: int = FINE
    detail: int = 0
    last: Line | None = None
    text: str = ""
    turns: int = 0
    calls: int = 0
    """Turns of loops and calls of functions in the kernel's own C++."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return all rows read so far; `pieces` becomes one array, so numbers of pieces from before are lost."""
        if len(self.pieces) != 1:
            self.pieces[:] = [np.concatenate([np.empty((0, ROW), np.int64), *self.pieces])]
        return self.pieces[0]

    def digest(self) -> bytes:
        """Return a digest of shapes and rows, equal for equal programs; names of files do not count."""
        return hashlib.sha256(repr(self.shapes).encode() + self.rows.tobytes()).digest()


class WordReader:
    """Decoder of a program's frames as they arrive; it refuses malformed ones, because user code runs in the writing
    process.
    """

    def __init__(self) -> None:
        self.recording = WordStream()
        self.size = 0
        """Bytes received so far."""
        self.ended = False
        self._asks = False
        self._data = bytearray()
        self._parts: list[NDArray[np.int64]] = []

    def feed(self, data: bytes) -> None:
        """Append received bytes, and decode the frames that are complete. Raises SimError for bytes that are not a frame."""
        self.size += len(data)
        self._data += data
        at = 0
        while at + 16 <= len(self._data) and not self.ended:
            kind, size = (int.from_bytes(self._data[at + n : at + n + 8], "little", signed=True) for n in (0, 8))
            if size < 0 or size % 8 or size > _MOST_BYTES or not _SHAPE <= kind <= _ASK:
                self.broken()
            if at + 16 + size > len(self._data):
                break
            self._frame(kind, np.frombuffer(bytes(self._data[at + 16 : at + 16 + size]), np.int64))
            at += 16 + size
        del self._data[:at]

    def asks(self) -> bool:
        """Return True while scalar code waits for a value."""
        return self._asks

    def go_on(self) -> None:
        """Note that scalar code got the value that it asked for."""
        self._asks = False

    def check_end(self) -> None:
        """Raise SimError unless the program has ended and no bytes follow."""
        if not self.ended or self._data:
            self.broken()

    def broken(self) -> NoReturn:
        """Raise SimError: the bytes received are not a recording."""
        raise SimError(f"the recorder of the kernel wrote {self.size} bytes that are not a recording; another process ended it")

    def _frame(self, kind: int, body: NDArray[np.int64]) -> None:
        """Add one frame to the recording: a shape, a source line, rows, a question for a value, or the end. Malformed frames
        are refused.
        """
        recording = self.recording
        if kind == _SHAPE and is_word(body):
            recording.shapes.append(tuple(body.tolist()))
        elif kind == _LINE and len(body):
            file = _texts(body[1:])[0]
            recording.lines.append(("" if refused_in_judge(file) else file, int(body[0])))  # a kernel may name any file
        elif kind == _ROWS and len(body) % ROW == 0:
            self._parts.append(body.reshape(-1, ROW))
        elif kind in (_ASK, _END):
            self._gather()
            if kind == _ASK:
                self._asks = True
            elif len(body) < _HEAD or body[3:_HEAD].min() < 0:
                self.broken()
            else:
                self.ended = True
                recording.how, recording.detail, line, recording.turns, recording.calls = body[:_HEAD].tolist()
                file, recording.text = _texts(body[_HEAD:])[:2]
                recording.last = (file, line) if line else None
        else:
            self.broken()

    def _gather(self) -> None:
        """Append the rows that arrived since the last call to the recording, as one piece. Raises SimError for rows of unknown
        words or lines.
        """
        if self._parts:
            new = np.concatenate(self._parts)
            _check(self.recording, new)
            self.recording.pieces.append(new)
            self._parts.clear()


def read(data: bytes) -> WordStream:
    """Return the whole recording in `data`. Raises SimError for bytes that are not a complete recording."""
    reader = WordReader()
    reader.feed(data)
    reader.check_end()
    return reader.recording


def _texts(body: NDArray[Any]) -> list[str]:
    """Return the zero-terminated texts in a frame, followed by two empty ones."""
    return [one.decode("utf-8", "replace") for one in body.tobytes().split(b"\0") if one] + ["", ""]


def _check(recording: WordStream, rows: NDArray[np.int64]) -> None:
    """Raise SimError for rows with an unknown word or line: the kernel may have overwritten the recorder's memory."""
    known = (len(recording.shapes), len(recording.lines))
    if len(rows) and any(rows[:, at].min() < 0 or rows[:, at].max() >= known[at] for at in range(2)):
        raise SimError("the recorder of the kernel wrote rows of unknown words; the kernel overwrote the recorder's memory")
