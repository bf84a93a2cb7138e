"""Bytes of a recorder are checked before they are believed."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.ascend_c.confinement import JUDGED
from ascend_sim.ascend_c.stream import CRASHED, read
from ascend_sim.ascend_c.words import NAMES
from ascend_sim.errors import SimError

pytestmark = pytest.mark.fast


def frame(kind: int, *numbers: int, text: str = "") -> bytes:
    body = np.array(numbers, np.int64).tobytes()
    for one in text.split("|") if text else ():
        body += one.encode() + bytes(8 - len(one) % 8)
    return np.array([kind, len(body)], np.int64).tobytes() + body


BARRIER = NAMES.index("pipe_barrier")
SHAPE, LINE = frame(1, BARRIER, 4), frame(2, 17, text="add.cpp")
END = frame(4, CRASHED, 11, 17, 8, 2, text="add.cpp|bad")


def test_a_recording_is_read() -> None:
    found = read(SHAPE + LINE + frame(3, 0, 0, 1, 2, 3) + frame(3, 0, 0, 4, 5, 6) + END)
    assert found.shapes == [(BARRIER, 4)] and found.lines == [("add.cpp", 17)]
    assert found.rows.tolist() == [[0, 0, 1, 2, 3], [0, 0, 4, 5, 6]]
    assert (found.how, found.detail, found.last, found.text) == (CRASHED, 11, ("add.cpp", 17), "bad")
    assert (found.turns, found.calls) == (8, 2)


@pytest.mark.parametrize(
    "data",
    (
        b"",
        SHAPE,
        SHAPE + LINE,
        END[:-8],
        END + END,
        END + b"x",
        frame(4, CRASHED, 11, 17, 8),
        frame(4, CRASHED, 11, 17, -1, 2),
        frame(4, CRASHED, 11, 17, 8, -2),
        frame(9, 1) + END[:8],
        np.array([3, -8], np.int64).tobytes() + END,
        np.array([3, 1 << 60], np.int64).tobytes() + END,
        *(frame(1, *numbers) + END for numbers in ((), (3,), (3, 4, 5), (-1, 4), (1 << 62, 4))),
    ),
)
def test_bytes_that_are_no_recording_are_refused(data: bytes) -> None:
    with pytest.raises(SimError, match="that are not a recording"):
        read(data)


@pytest.mark.parametrize("row", [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_rows_of_unknown_words_or_lines_are_refused(row: tuple[int, int]) -> None:
    with pytest.raises(SimError, match="rows of unknown words"):
        read(SHAPE + LINE + frame(3, *row, 0, 0, 0) + END)


def test_a_judged_kernel_names_no_file_but_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a line that a kernel names stands in its verdict."""
    monkeypatch.setenv(JUDGED, "1")
    found = read(SHAPE + LINE + frame(2, 4, text="add.py") + END)
    assert found.lines == [("add.cpp", 17), ("", 4)]
