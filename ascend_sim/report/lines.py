"""Source lines of a kernel's instructions.

note_lines(recording)                      # builds the programs again and notes the line that writes each row
line_table(programs)                       # what a page or a file keeps of them
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.findings import shown
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.kernel.inspection import Line, Notes, SourceLines, inspect
from ascend_sim.kernel.program import Program
from ascend_sim.runtime import Recording


@frozen
class SourceLine:
    """A source line of a kernel: `file` without parts that differ between machines, `number`, and its `text`, "" if the file
    was gone.
    """

    file: str
    number: int
    text: str

    @classmethod
    def of(cls, line: Line, notes: Notes) -> SourceLine:
        """Return the SourceLine of a noted line, its file shortened: relative to the folder that holds this package if it lies
        below that, else its name alone.

        A line of a stored run stays as it was stored.
        """
        if line in notes.texts:
            return cls(*line, notes.texts[line])
        file = Path(shown(line).rpartition(":")[0])
        return cls(file.name if file.is_absolute() else file.as_posix(), line[1], notes.text(line))

    @property
    def place(self) -> str:
        """Return "file:number", the form that editors open."""
        return f"{self.file}:{self.number}"


def note_lines(recording: Recording) -> None:
    """Build the kernels of a run once more and set the notes of every program: the source line that wrote each row.

    Raises SimError for a run loaded from a file, which has no kernels, and for a kernel that writes other rows every time.
    """
    of_block: dict[tuple[int, int], list[Program]] = {}
    for run in recording.timeline.programs:
        of_block.setdefault((run.task, run.program.block), []).append(run.program)
    for (task, block), programs in of_block.items():
        with inspect():
            again = recording.tasks[task].build(block)
        for program, other in zip(programs, again, strict=True):
            same = len(program) == len(other) and np.array_equal(program.per_row("pipe"), other.per_row("pipe"))
            if not same or not np.array_equal(program.rows[:, 1:], other.rows[:, 1:]):
                raise SimError(f"lines: {recording.tasks[task].name} does not write the same program when it is built again")
            program.notes = other.notes


def line_table(programs: Sequence[Program]) -> tuple[list[SourceLine], list[NDArray[np.int64]]]:
    """Return (distinct source lines of the programs, for each program an array of their index by row, -1 if unknown)."""
    known: dict[SourceLine, int] = {}
    made: dict[Line, int] = {}
    columns = []
    for program in programs:
        column = np.full(len(program), -1, np.int64)
        notes = program.notes
        if notes is not None and notes.rows:
            numbers, first, which = np.unique(notes.rows, return_index=True, return_inverse=True)
            places = np.full(len(numbers), -1, np.int64)
            for place in np.argsort(first).tolist():
                if numbers[place] >= 0:
                    line = notes.source.lines[numbers[place]]
                    if line not in made:
                        made[line] = known.setdefault(SourceLine.of(line, notes), len(known))
                    places[place] = made[line]
            column = places[which]
        columns.append(column)
    return list(known), columns


def notes_of(lines: Sequence[SourceLine], column: NDArray[np.int64]) -> Notes | None:
    """Return the notes of a program of a stored run, from each row's line index in `lines`; None if none has one (-1)."""
    if not (column >= 0).any():
        return None
    source, used = SourceLines(), np.unique(column[column >= 0]).tolist()
    numbers = np.full(len(lines) + 1, -1, np.int32)  # the last entry is for rows without a line
    numbers[used] = [source.number((lines[place].file, lines[place].number)) for place in used]
    texts = {(lines[place].file, lines[place].number): lines[place].text for place in used}
    return Notes(source, array("i", numbers[column].tobytes()), texts=texts)
