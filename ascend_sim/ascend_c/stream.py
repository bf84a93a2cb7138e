"""The output of a recorder: frames of distinct words, of source lines and of rows, and how the program ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.kernel.inspection import Line

_SHAPE, _LINE, _ROWS, _END = range(1, 5)
FINE, REFUSED, CRASHED, TOO_LONG = range(4)
ROW = 5
"""Numbers of a row: its shape, its line and three addresses."""


@dataclass
class WordStream:
    """The words of one program.

    `how` is FINE, REFUSED, CRASHED or TOO_LONG; `last` is the line of the last call before that.
    """

    shapes: list[tuple[int, ...]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, ROW), np.int64))
    how: int = FINE
    detail: int = 0
    last: Line | None = None
    text: str = ""


def read(data: bytes) -> WordStream:
    """Return the recording of a program; SimError for bytes that are none."""
    recording, parts, at, ended = WordStream(), [], 0, False
    numbers: NDArray[Any] = np.frombuffer(data, np.int64, len(data) // 8)
    while at + 2 <= len(numbers) and not ended:
        kind, size = int(numbers[at]), int(numbers[at + 1])
        body = numbers[at + 2 : at + 2 + size // 8]
        if size < 0 or size % 8 or len(body) * 8 != size:
            break
        if kind == _SHAPE:
            recording.shapes.append(tuple(body.tolist()))
        elif kind == _LINE:
            recording.lines.append((_texts(body[1:])[0], int(body[0])))
        elif kind == _ROWS:
            parts.append(body)
        elif kind == _END:
            ended = True
            recording.how, recording.detail, line = (int(one) for one in body[:3])
            file, recording.text = _texts(body[3:])[:2]
            recording.last = (file, line) if line else None
        at += 2 + size // 8
    if not ended or at * 8 != len(data):
        raise SimError(
            f"the recorder of the kernel wrote {len(data)} bytes that are no recording; it was ended from outside"
        )
    if parts:
        recording.rows = np.concatenate(parts).reshape(-1, ROW)
    _check(recording)
    return recording


def _texts(body: NDArray[Any]) -> list[str]:
    """Return texts that end with zeros, each filled up to a whole number."""
    return [one.decode("utf-8", "replace") for one in body.tobytes().split(b"\0") if one] + ["", ""]


def _check(recording: WordStream) -> None:
    """SimError for rows that name a word or a line that was never told: the process is the user's, and may write anything."""
    rows = recording.rows
    wrong = (rows[:, 0] < 0) | (rows[:, 0] >= len(recording.shapes))
    wrong |= (rows[:, 1] < 0) | (rows[:, 1] >= len(recording.lines))
    if wrong.any():
        raise SimError(
            "the recorder of the kernel wrote rows of unknown words; the kernel overwrote the recorder's memory"
        )
