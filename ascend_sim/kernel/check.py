"""What is asked of a program: every row on a pipe of its core, inside buffers and tensors, at an aligned address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import RowError, SimError
from ascend_sim.kernel.program import OPERAND_COLUMN, Program
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT


def check_buffer(chip: ChipSpec, block: int, core: str, buffer: str, what: str) -> None:
    """SimError for a buffer that a kind of core lacks; `what` is there."""
    has = chip.cores.kinds[core].buffers  # type: ignore[index]
    if buffer not in has:
        raise SimError(
            f"block {block} {core}: {what} is in {buffer}, but an {core} of {chip.name} has {', '.join(has)} "
            f"(chip file, cores.kinds)"
        )


def check_pipe(chip: ChipSpec, block: int, core: str, pipe: str, what: str) -> None:
    """SimError for a pipe that a kind of core lacks, or without a queue, which flags need; `what` is on it."""
    has = [own for own in chip.cores.kinds[core].pipes if own != "S"]  # type: ignore[index]
    if pipe not in has:
        raise SimError(
            f"block {block} {core}: {what} is on pipe {pipe}; an {core} of {chip.name} has the pipes {', '.join(has)} "
            f"(chip file, cores.kinds)"
        )


def wrong_instructions(program: Program, new: NDArray[np.bool_]) -> Iterator[RowError]:
    """Those of the `new` rows that run on no pipe of this core, touch no buffer of this core or move no bytes."""
    table, core = program.table, program.core_kind
    parts = table.chip.cores.kinds[core]  # type: ignore[index]
    for index in np.flatnonzero(np.bincount(program.rows[new, 0])).tolist():
        if (core, index) in table.checked:
            continue
        instruction = table.instructions[index]
        regions = (*instruction.reads(), *instruction.writes())
        pipe = instruction.pipe(table.chip)
        foreign = [r.space for r in regions if r.space != "GM" and r.space not in parts.buffers]
        empty = any(min(r.row_bytes, r.rows, r.planes) < 1 or min(r.row_stride, r.plane_stride) < 0 for r in regions)
        if pipe in parts.pipes and not foreign and not empty:
            table.checked.add((core, index))
            continue
        row = int(np.flatnonzero(program.rows[:, 0] == index)[0])
        view = program[row]
        if empty:
            yield RowError(f"{program.where}: {view}: moves no bytes, or steps backwards", row)
            continue
        try:
            check_pipe(table.chip, program.block, core, pipe, str(view))
            check_buffer(table.chip, program.block, core, foreign[0], str(view))
        except SimError as error:
            yield RowError(str(error), row)


def check_addresses(program: Program, sizes: Sequence[int], new: NDArray[np.bool_]) -> None:
    """RowError for the first of the `new` rows outside its buffer or tensor or at an address that is not aligned.

    `sizes` are the bytes of the task's tensors.
    """
    places = np.flatnonzero(new)
    kinds = program.rows[places, 0]
    for operand, column in OPERAND_COLUMN.items():
        _check_operand(program, operand, sizes, places[program.table.limits()[0, column - 1, kinds] > 0])


def _check_operand(program: Program, operand: str, sizes: Sequence[int], places: NDArray[np.intp]) -> None:
    """The rows at `places`, all of which have the operand, stay inside their buffers and tensors, at aligned addresses."""
    column = OPERAND_COLUMN[operand]
    kinds, address = program.rows[places, 0], program.rows[places, column]
    extent, limit, unit = program.table.limits()[:, column - 1, kinds]
    in_gm = limit < 0
    if in_gm.any():
        slot = np.where(in_gm, address >> SLOT_SHIFT, len(sizes))
        limit = np.where(in_gm, np.asarray((*sizes, -1), np.int64)[np.minimum(slot, len(sizes))], limit)
        address = np.where(in_gm, address & OFFSET_MASK, address)
    wrong = (address < 0) | (address + extent > limit) | (address % unit != 0)
    if not wrong.any():
        return
    place = int(np.flatnonzero(wrong)[0])
    row = int(places[place])
    if limit[place] < 0:
        raise RowError(
            f"{program.where}: {program[row]}: {operand} is in tensor {int(program.rows[row, column]) >> SLOT_SHIFT}, "
            f"but the task has {len(sizes)} tensors, or it starts before the tensor",
            row,
        )
    raise RowError(
        f"{program.where}: {program[row]}: {operand} covers bytes {address[place]} to {address[place] + extent[place]} "
        f"of {limit[place]} and must start at a multiple of {unit[place]}",
        row,
    )
