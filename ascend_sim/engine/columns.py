"""Where the columns of programs wait that are over: in memory as far as they are few, then packed on disk.

Analyses and files of a run read whole columns, and a kept run has 80 bytes of them and 40 bytes of rows for each instruction.
The times of a few thousand rows lie close together, and most other columns are small or zero: packed they are about 20 bytes.
Rows are the stamps that the program holds anyway. Either is written out when it is read, and held only as long as those read
later are few. C packs columns as rows end, where it looks at them anyway (a watched run). Columns that are there as arrays
stay so while there is room, because to pack them takes longer than C took to write them. What comes beyond `MOST` bytes goes,
packed, as its block ends, to a file that no name leads to (a run that is killed leaves nothing), and is mapped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.timeline import TIMES, ProgramRun
from ascend_sim.host import Lately

MOST = 256 << 20
"""Bytes of columns that a run holds in memory, packed or not, and as many of those that were read lately."""
FEW = 4096
"""Programs of fewer rows stay as they are; a system has some 65,000 maps for a process."""
PIECE = 4096
"""Rows that are packed together."""
_FROM = {"end": "start", "retire": "end"}
"""What is packed as the difference from another column."""
_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_PACKING = 3
"""Numbers that say how a column of a piece is packed."""


@dataclass(eq=False)
class Packed(Mapping[str, NDArray[np.int64]]):
    """The columns of a program of `count` rows, packed in pieces; `Kept` of engine/compiled/columns.c is its twin.

    Piece i begins at byte `places[i]` with (base, width, at) of each column: its numbers less `base` stand `at` bytes behind
    the beginning, unsigned, in `width` bytes each; with width 0 all are `base`.
    """

    count: int
    bytes: NDArray[np.uint8]
    places: NDArray[np.int64]
    lately: Lately = field(default_factory=lambda: Lately(MOST))
    _own: object = field(default_factory=object)

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[np.int64]]) -> Packed:
        """Pack columns that are there."""
        count = len(columns["start"])
        numbers = [np.asarray(columns[name], np.int64) for name in TIMES]
        numbers = [
            numbers[i] - numbers[TIMES.index(_FROM[name])] if name in _FROM else numbers[i]
            for i, name in enumerate(TIMES)
        ]
        pieces = [_packed([one[first : first + PIECE] for one in numbers]) for first in range(0, count, PIECE)]
        places = np.cumsum([0, *(len(piece) for piece in pieces)], dtype=np.int64)[: len(pieces)]
        return cls(count, np.frombuffer(b"".join(pieces), np.uint8), places)

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        """One of `TIMES`, for reading."""
        if name not in TIMES:
            raise KeyError(name)
        return self.lately.get((self._own, name), lambda: self._unpacked(name))

    def __iter__(self) -> Iterator[str]:
        return iter(TIMES)

    def __len__(self) -> int:
        return len(TIMES)

    def _unpacked(self, name: str) -> NDArray[np.int64]:
        found = np.empty(self.count, np.int64)
        begin = self.places[:, None] + np.arange(_PACKING) * 8 + TIMES.index(name) * _PACKING * 8
        packing = self.bytes.view(np.int64)[begin // 8]
        for i, (place, (base, width, at)) in enumerate(zip(self.places.tolist(), packing.tolist(), strict=True)):
            piece = found[i * PIECE : (i + 1) * PIECE]
            piece[:] = base
            if width:
                first = place + at
                exceeds = self.bytes[first : first + width * len(piece)].view(_WIDTHS[width])
                piece += exceeds.view(np.int64) if width == 8 else exceeds  # differences of int64 may need all 64 bits
        if name in _FROM:
            found += self[_FROM[name]]
        found.flags.writeable = False
        return found


def _packed(numbers: Sequence[NDArray[np.int64]]) -> bytes:
    """One piece: these columns of its rows."""
    packing, parts, at = [], [], len(numbers) * _PACKING * 8
    for one in numbers:
        base = int(one.min())
        most = int(one.max()) - base
        width = next((width for width in (0, *_WIDTHS) if most < 1 << 8 * width), 8)
        packing.append((base, width, at))
        if width:
            exceeds = (one.view(np.uint64) - np.uint64(base % (1 << 64))).astype(_WIDTHS[width]).tobytes()
            parts.append(exceeds + bytes(-len(exceeds) % 8))
            at += len(parts[-1])
    return b"".join([np.array(packing, np.int64).tobytes(), *parts])


class ColumnStore:
    """Keeps the columns of the programs of one run."""

    def __init__(self) -> None:
        self._held = 0
        self._file: BinaryIO | None = None
        self._lately = Lately(MOST)

    def kept(self, run: ProgramRun) -> ProgramRun:
        """The same program, its columns where there is room for them."""
        if len(run.program) < FEW:
            return run
        run.program.sheet.hold_lately(self._lately)
        columns = run.columns
        if not isinstance(columns, Packed):
            if self._holds(sum(one.nbytes for one in columns.values())):
                return run
            columns = run.columns = Packed.of(columns)
        columns.lately = self._lately
        if not self._holds(len(columns.bytes)):
            columns.bytes = self._stored(columns.bytes)
        return run

    def _holds(self, size: int) -> bool:
        """Whether there is room in memory for so many bytes more, which then are in it."""
        if self._held + size > MOST:
            return False
        self._held += size
        return True

    def _stored(self, numbers: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The same bytes in the file."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  # what is mapped outlives it
            begin = self._file.seek(0, 2)
            self._file.write(numbers.data)
            self._file.flush()
            return np.memmap(self._file, np.uint8, "r", begin, numbers.shape).view(np.ndarray)
        except OSError:  # the disk is full: as long as there is memory, it does not matter
            return numbers
