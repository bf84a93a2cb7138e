"""Where the columns of programs wait that are over: in memory as far as they are few, then on disk.

Analyses and files of a run read whole columns, and a kept run has 80 bytes of them and 40 bytes of rows for each instruction.
So what comes beyond `MOST` bytes goes, as its block ends, to a file that no name leads to (a run that is killed leaves
nothing), and is mapped: it looks as it did, and the system holds of it in memory what is being read.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from ascend_sim.engine.compiled.library import COLUMNS as TIMES
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.kernel.stamp import ROW

MOST = 256 << 20
"""Bytes of columns and rows that a run holds in memory."""
_FEW = 4096
"""Programs of fewer rows stay in memory; a system has some 65,000 maps for a process."""
NUMBERS = len(TIMES) + ROW
"""Of an instruction: its columns and its row."""


class ColumnStore:
    """Keeps the columns of the programs of one run."""

    def __init__(self) -> None:
        self._held = 0
        self._file: BinaryIO | None = None

    def kept(self, run: ProgramRun) -> ProgramRun:
        """The same program, its columns where there is room for them."""
        count = len(run.program)
        size = count * NUMBERS * 8
        if count < _FEW or self._held + size <= MOST:
            self._held += size
            return run
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # what is mapped outlives it
        try:
            return self._stored(run, self._file)
        except OSError:  # the disk is full: as long as there is memory, it does not matter
            return run

    def _stored(self, run: ProgramRun, file: BinaryIO) -> ProgramRun:
        begin, count = file.seek(0, 2), len(run.program)
        for array in (*(getattr(run, name) for name in TIMES), run.program.rows):
            file.write(np.ascontiguousarray(array, np.int64).data)
        file.flush()
        numbers = np.memmap(file, np.int64, "r", begin, NUMBERS * count).view(np.ndarray)
        times, rows = numbers[: len(TIMES) * count].reshape(-1, count), numbers[len(TIMES) * count :]
        program = run.program.with_rows(rows.reshape(count, ROW))
        columns: dict[str, Any] = dict(zip(TIMES, times, strict=True))
        return replace(run, program=program, **columns)
