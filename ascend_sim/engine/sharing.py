"""Blocks of a task that do the same elsewhere: their programs differ in where they begin in each tensor, and share their rows.

Only runs that keep no columns share: the memory of a run is then that of its distinct programs, however many cores run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from ascend_sim.kernel.program import OPERAND_COLUMN, SPACES, InstructionTable, InstructionView, Program
from ascend_sim.memory.gm import SLOT_SHIFT

_KEPT = 8
"""Distinct programs of a task that a new one is compared with."""
_PIECE = 1 << 15
"""Rows that are compared at a time."""


@dataclass
class MovedProgram(Program):
    """A program whose GM operands lie `moved` bytes behind what its rows say, for each tensor of its task."""

    moved: NDArray[np.int64] | None = None

    def __getitem__(self, index: int) -> InstructionView:
        view = super().__getitem__(index)
        assert self.moved is not None
        regions = (*view.instruction.reads(), *view.instruction.writes())
        in_gm = {region.operand for region in regions if region.space == "GM"}
        return replace(
            view, **{name: (at := getattr(view, name)) + int(self.moved[at >> SLOT_SHIFT]) for name in in_gm}
        )


class SharedRows:
    """The rows of one task's programs, as long as one of these runs."""

    def __init__(self, tensors: int) -> None:
        self._tensors = tensors
        self._known: list[tuple[InstructionTable, ref[NDArray[np.int64]]]] = []

    def share(self, program: Program) -> Program:
        """The program with the rows of an earlier one that differs from it in nothing else; or as it is."""
        pattern = program.pattern
        if pattern is not None and pattern.rows is not program.rows:
            moved = pattern.moved(program.rows, self._tensors)
            return program if moved is None else _moved_program(program, pattern.rows, moved)
        for table, rows in self._known:
            base = rows()
            if base is not None and table is program.table:
                moved = self._moved(program, base)
                if moved is not None:
                    return _moved_program(program, base, moved)
        self._known = [one for one in self._known if one[1]() is not None][-_KEPT + 1 :]
        self._known.append((program.table, ref(program.rows)))
        return program

    def _moved(self, program: Program, base: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """How far the operands of `program` lie behind those of `base`, by tensor; None where they differ in more."""
        rows = program.rows
        if rows.shape != base.shape:
            return None
        touches = program.table.touches
        in_gm = np.zeros((len(program.table.instructions), 1 + len(OPERAND_COLUMN)), np.bool_)
        owner = np.repeat(np.arange(len(in_gm)), np.diff(touches.first))
        mine = touches.columns["space"] == SPACES.index("GM")
        in_gm[owner[mine], touches.columns["column"][mine]] = True
        moved, seen = np.zeros(self._tensors, np.int64), np.zeros(self._tensors, np.bool_)
        for first in range(0, len(rows), _PIECE):
            one, other = rows[first : first + _PIECE], base[first : first + _PIECE]
            if not (np.array_equal(one[:, 0], other[:, 0]) and np.array_equal(one[:, -1], other[:, -1])):
                return None
            for column in OPERAND_COLUMN.values():
                far = one[:, column] - other[:, column]
                shared = in_gm[one[:, 0], column]
                if far[~shared].any():
                    return None
                slot, far = one[shared, column] >> SLOT_SHIFT, far[shared]
                if not np.array_equal(slot, other[shared, column] >> SLOT_SHIFT):
                    return None
                new = slot[~seen[slot]]
                moved[new] = far[~seen[slot]]
                seen[new] = True
                if not np.array_equal(far, moved[slot]):
                    return None
        return moved


def _moved_program(program: Program, rows: NDArray[np.int64], moved: NDArray[np.int64]) -> MovedProgram:
    own = {field.name: getattr(program, field.name) for field in fields(Program)}
    return MovedProgram(**own | {"rows": rows}, moved=moved)


def moved_bases(program: Program, bases: Sequence[int]) -> list[int]:
    """Where the tensors of a program's task lie as its rows see them."""
    if not isinstance(program, MovedProgram) or program.moved is None:
        return list(bases)
    return [base + moved for base, moved in zip(bases, program.moved.tolist(), strict=True)]
