"""Storage for the columns of finished programs: packed on disk, but for a few short ones.

Analyses and files of a run read whole columns, and a kept run has 80 bytes of them and 40 bytes of rows for each instruction.
The times of a few thousand rows lie close together, and most other columns are small or zero: packed they are about 20 bytes.

In a watched run C packs columns and appends them to the file as rows end. Otherwise columns stay arrays up to a limit, because
packing takes longer than C took to write them; the rest is packed when its block ends. The file has no name, so that a run that
is killed leaves nothing. Rows are the stamps that the program holds anyway. Columns and rows are unpacked when they are read,
and kept in a cache of the most recent ones.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, BinaryIO, ClassVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.timeline import OF_ALL, OF_MOVES, TIMES, ProgramRun
from ascend_sim.frozen import mutable
from ascend_sim.host import Lately

MOST = 256 << 20
"""Most bytes of columns held in memory: of those read lately, and, in a run that is not watched, of those kept as arrays."""
SHORT = 16 << 20
"""Most bytes of columns that a watched run holds as arrays: reading them back would take longer than so much memory is
worth.
"""
FEW = 4096
"""Least rows of a program whose columns are packed while it runs."""
FILES = 64
"""Most runs whose columns are on disk at a time: each takes a file descriptor, of which a process has some hundred."""
PIECE = 4096
"""Rows that are packed together."""
_FROM = {"end": "start", "retire": "end"}
"""Column -> the column from which it is packed as a difference."""
_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_PACKING = 3
"""Numbers of the header for each column of a piece: base, width, place."""


class ColumnFile:
    """Unnamed temporary file to which bytes are appended; bytes in it never change.

    Threads and forked processes may read it at once: a read names its place and does not use the position that they share.
    """

    open: ClassVar[WeakSet[ColumnFile]] = WeakSet()
    """All files that some run still needs."""

    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # as long as columns need it
        ColumnFile.open.add(self)

    def descriptor(self) -> int:
        """Return the file descriptor for C, which appends as `append` does."""
        return self._file.fileno()

    def append(self, numbers: bytes) -> int:
        """Append the bytes `numbers` and return the offset at which they begin. Raises OSError when the disk is full."""
        place = self._file.seek(0, 2)
        self._file.write(numbers)
        self._file.flush()
        return place

    def read(self, place: int, size: int) -> bytes:
        """Return `size` bytes from offset `place` on, fewer at the end of the file."""
        return os.pread(self._file.fileno(), size, place)


@mutable(eq=False)
class Written(Mapping[str, NDArray[np.int64]]):
    """The columns of a program as C writes them.

    `times` [rows, 5] has five columns of every row; `moves` [transfers, 6] five more of each transfer, behind the
    number of its row.
    """

    times: NDArray[np.int64]
    moves: NDArray[np.int64]

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        """Return the column called `name`, one of `TIMES`, a number for each row; of OF_MOVES 0 in rows without a transfer.

        Raises KeyError for another name.
        """
        if name in OF_ALL:
            return self.times[:, OF_ALL.index(name)]
        if name not in OF_MOVES:
            raise KeyError(name)
        found = np.zeros(len(self.times), np.int64)
        found[self.moves[:, 0]] = self.moves[:, 1 + OF_MOVES.index(name)]
        found.flags.writeable = False
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(TIMES)

    def __len__(self) -> int:
        return len(TIMES)


@mutable(eq=False)
class Packed(Mapping[str, NDArray[np.int64]]):
    """The columns of a program of `count` rows, packed in pieces; `Kept` of engine/compiled/columns.c packs pieces of the same
    format.

    Piece i begins at byte `places[i]` of the file or, below 0, at byte -1 - `places[i]` of `bytes`, with (base, width, at) of
    each column: its numbers less `base` stand `at` bytes behind the beginning, unsigned, in `width` bytes each; with width 0
    all are `base`. The numbers of `end` and `retire` are differences from another column (`_FROM`). `lately` caches unpacked
    columns.
    """

    count: int
    bytes: NDArray[np.uint8]
    places: NDArray[np.int64]
    file: ColumnFile | None = None
    lately: Lately = field(default_factory=lambda: Lately(MOST))
    _own: object = field(default_factory=object)

    def __reduce__(self) -> tuple[Callable[..., Packed], tuple[dict[str, NDArray[np.int64]]]]:
        return Packed.of, (dict(self),)  # a file does not go into another process

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[np.int64]]) -> Packed:
        """Return the columns of a finished program, packed in memory."""
        count = len(columns["start"])
        numbers = [np.asarray(columns[name], np.int64) for name in TIMES]
        numbers = [
            numbers[i] - numbers[TIMES.index(_FROM[name])] if name in _FROM else numbers[i] for i, name in enumerate(TIMES)
        ]
        pieces = [_packed([one[first : first + PIECE] for one in numbers]) for first in range(0, count, PIECE)]
        places = np.cumsum([0, *(len(piece) for piece in pieces)], dtype=np.int64)[: len(pieces)]
        return cls(count, np.frombuffer(b"".join(pieces), np.uint8), -1 - places)

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        """Return the column called `name`, one of `TIMES`, unpacked and read-only; the most recently read ones are cached.

        Raises KeyError for another name.
        """
        if name not in TIMES:
            raise KeyError(name)
        return self.lately.get((self._own, name), lambda: self._unpacked(name))

    def __iter__(self) -> Iterator[str]:
        return iter(TIMES)

    def __len__(self) -> int:
        return len(TIMES)

    def write_out(self, file: ColumnFile) -> None:
        """Move the packed columns from memory to the file.

        Raises OSError, and changes nothing, if the file cannot take them.
        """
        begin = file.append(self.bytes.tobytes())
        self.places, self.bytes, self.file = begin - 1 - self.places, np.empty(0, np.uint8), file

    def _unpacked(self, name: str) -> NDArray[np.int64]:
        found = np.empty(self.count, np.int64)
        header = np.dtype((np.int64, _PACKING))
        for i, place in enumerate(self.places.tolist()):
            piece = found[i * PIECE : (i + 1) * PIECE]
            ((base, width, at),) = self._read(place, TIMES.index(name) * header.itemsize, header, 1).tolist()
            piece[:] = base
            if width:
                exceeds = self._read(place, at, np.dtype(_WIDTHS[width]), len(piece))
                piece += exceeds.view(np.int64) if width == 8 else exceeds  # differences of int64 may need all 64 bits
        if name in _FROM:
            found += self[_FROM[name]]
        found.flags.writeable = False
        return found

    def _read(self, place: int, behind: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """Return `count` numbers of `dtype`, read `behind` bytes after the beginning of the piece at `place`."""
        size = count * dtype.itemsize
        if place < 0:
            first = -1 - place + behind
            return self.bytes[first : first + size].view(dtype.base).reshape(count, *dtype.shape)
        assert self.file is not None
        return np.frombuffer(self.file.read(place + behind, size), dtype.base).reshape(count, *dtype.shape)


def _packed(numbers: Sequence[NDArray[np.int64]]) -> bytes:
    """Return one packed piece as bytes: the headers of all columns, then each one's numbers less its smallest, padded to 8."""
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
    """Keeps the columns of one run's programs: up to `room` bytes of them as arrays, the rest packed."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._file: ColumnFile | None = None
        self._asked = False
        self._lately = Lately(MOST)

    def file(self) -> ColumnFile | None:
        """Return the file for packed columns, made at the first call.

        Returns None if none could be made then: for lack of disk, or beyond `FILES` open ones. Packed columns stay in memory.
        """
        if self._file is None and not self._asked:
            self._asked = True
            if len(ColumnFile.open) < FILES:
                with suppress(OSError):
                    self._file = ColumnFile()
        return self._file

    def kept(self, run: ProgramRun) -> ProgramRun:
        """Return the finished program itself, changed to the form in which the run keeps it.

        Its columns stay arrays while there is room; otherwise they are packed and written to the file, if there is one. With
        packed columns the program's rows too are held only in the cache of recently read arrays.
        """
        columns = run.columns
        if not isinstance(columns, Packed):
            size = len(TIMES) * 8 * len(run.program)
            if size <= self._room:
                self._room -= size
                return run
            columns = run.columns = Packed.of(columns)
            file = self.file()
            if file is not None:
                with suppress(OSError):  # the disk is full: as long as there is memory, it does not matter
                    columns.write_out(file)
        columns.lately = self._lately
        run.program.sheet.hold_lately(self._lately)
        return run
