"""Checks of a program, that every row is on a pipe of its core, inside buffers and tensors, and at an aligned address; and of
flags that an experiment ignores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import RowError, SimError
from ascend_sim.isa.base import PIPES, Instruction
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.vector.overlap import overlap_fault
from ascend_sim.kernel.asked import asked
from ascend_sim.kernel.program import InstructionTable, InstructionView, Program
from ascend_sim.kernel.stamp import ROW, TILE, Stamp
from ascend_sim.kernel.touches import OPERAND_COLUMN, moves_nothing
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT

_UNKNOWN = "unknown"


def check_buffer(chip: ChipSpec, block: int, core: str, buffer: str, what: str) -> None:
    """Raise SimError if the chip's cores of kind `core` lack the buffer; `what` names its user in the message."""
    has = chip.cores.kinds[core].buffers  # type: ignore[index]
    if buffer not in has:
        raise SimError(
            f"block {block} {core}: {what} is in {buffer}, but an {core} of {chip.name} has {', '.join(has)} "
            f"(chip file, cores.kinds)"
        )


def check_pipe(chip: ChipSpec, block: int, core: str, pipe: str, what: str, scalar: bool = False) -> None:
    """Raise SimError if the chip's cores of kind `core` lack the pipe; `what` names its user in the message.

    Pipe S, which has no queue, is allowed only with `scalar`.
    """
    has = [own for own in chip.cores.kinds[core].pipes if scalar or own != "S"]  # type: ignore[index]
    if pipe not in has:
        raise SimError(
            f"block {block} {core}: {what} is on pipe {pipe}; an {core} of {chip.name} has the pipes {', '.join(has)} "
            f"(chip file, cores.kinds)"
        )


def wrong_instructions(program: Program) -> Iterator[RowError]:
    """Yield an error, with its first row, for each instruction on a pipe or buffer that the core lacks, or that moves no bytes
    or steps backwards.
    """
    unfit = program.table.unfit(program.core_kind)
    if not unfit.any():
        return
    for index in np.flatnonzero(unfit & (program.counts() > 0)).tolist():
        row = int(np.flatnonzero(program.rows[:, 0] == index)[0])
        yield RowError(_why(program, index, str(program[row])), row)


def _why(program: Program, index: int, view: str) -> str:
    """Return the reason why an instruction cannot run on this core, for its error; `view` is its row as text."""
    table, core = program.table, program.core_kind
    regions = table.touches.of_instruction(index)
    if any(map(moves_nothing, regions)):
        return f"{program.where}: {view}: moves no bytes, or steps backwards"
    try:
        check_pipe(table.chip, program.block, core, PIPES[table.pipes[index]], view)
        for region in regions:
            if region.space != "GM":
                check_buffer(table.chip, program.block, core, region.space, view)
    except SimError as error:
        return str(error)
    raise AssertionError(view)


def overlapping(program: Program) -> Iterator[RowError]:
    """Yield an error for each row of the vector unit whose source overlaps its result in a forbidden way.

    Each stamp of a task is checked once, unless its operands move.
    """
    table, sheet = program.table, program.sheet
    if "by_vector" not in table.traits:
        return
    if all(_apart(table, stamp) for stamp in sheet.new_stamps(table.apart)):
        return
    rows = program.rows
    for row, fault in _overlaps(table, rows):
        yield RowError(f"{program.where}: {program[row]}: {fault}", row)


def _apart(table: InstructionTable, stamp: Stamp) -> bool:
    """Return True if the stamp's vector instructions have no forbidden overlap of operands at any place.

    It returns False also where these operands move with the stamp, since each place must then be checked.
    """
    if len(stamp.moves):
        moved = stamp.moves[:, 0]
        in_ub = (table.column("by_vector")[stamp.rows[moved // ROW, 0]] > 0) & (moved % ROW > 0) & (moved % ROW < TILE)
        if in_ub.any():
            return False
    return not _overlaps(table, stamp.rows)


def _overlaps(table: InstructionTable, rows: NDArray[np.int64]) -> list[tuple[int, str]]:
    """Return [(row, reason), ...] of the vector instructions in `rows` whose source overlaps the result in a forbidden way."""
    at = np.flatnonzero(table.column("by_vector")[rows[:, 0]])
    if not len(at):
        return []
    taken, first = rows[at], OPERAND_COLUMN["src0"]
    kinds, distance = taken[:, 0], taken[:, first : first + 2] - taken[:, 1:2]
    extent = table.limits()[..., 0].take(kinds, axis=0)
    room, size = extent[:, :1], extent[:, first - 1 : first + 1]
    place, source = np.nonzero((size > 0) & (room > 0) & (distance < room) & (-distance < size))
    keys = zip(kinds[place].tolist(), source.tolist(), distance[place, source].tolist(), strict=True)
    found = []
    for row, key in zip(at[place].tolist(), keys, strict=True):
        fault = table.overlaps.get(key)
        if fault is None:
            kind, operand, apart = key
            fault = table.overlaps[key] = overlap_fault(table.instructions[kind], table.chip, ("src0", "src1")[operand], apart)
        if fault:
            found.append((row, fault))
    return sorted(found)


def unset_mask(program: Program) -> Iterator[RowError]:
    """Yield at most one error: for the first use of the mask register, if no earlier row of the program sets it."""
    table = program.table
    if "takes_mask" not in table.traits or not program.counts()[table.column("takes_mask") > 0].any():
        return
    kinds = program.rows[:, 0]
    row = int(np.argmax(table.column("takes_mask")[kinds]))
    if not table.column("sets_mask")[kinds[:row]].any():
        what = "nothing has set the mask register; compare_to_register and load_mask_register do"
        yield RowError(f"{program.where}: {program[row]}: {what}", row)


def misread_sums(program: Program) -> Iterator[RowError]:
    """Yield an error for each drain of L0C that reads numbers in another format than the products left there.

    Rows count in the order of issue. A program in which no product leaves int32 and no drain takes int32 yields none, without a
    look at its rows.
    """
    if "in_integers" not in program.table.traits or not program.counts()[program.table.column("in_integers") > 0].any():
        return
    instructions = program.table.instructions
    taken, made = [one.taken for one in instructions], [_left(one) for one in instructions]
    extent, first = program.table.limits()[:, 0, 0], OPERAND_COLUMN["src0"]
    held: dict[int, tuple[int, str]] = {}  # by where they begin: where sums end, and their format
    matters = np.array([bool(one or other) for one, other in zip(made, taken, strict=True)])
    rows = program.rows
    for row in np.flatnonzero(matters[rows[:, 0]]).tolist():
        index, dst, source = int(rows[row, 0]), int(rows[row, 1]), int(rows[row, first])
        if made[index]:
            end = dst + int(extent[index])
            held = {at: one for at, one in held.items() if one[0] <= dst or at >= end} | {dst: (end, made[index])}
            continue
        found = next((kind for at, (end, kind) in held.items() if at <= source < end), taken[index])
        if found not in (taken[index], _UNKNOWN):
            yield RowError(f"{program.where}: {program[row]}: {_misread(taken[index], found, program[row])}", row)


def _left(instruction: Instruction) -> str:
    """Return the format of the numbers that an instruction writes to L0C: `_UNKNOWN` unless it is a product, "" if it writes
    none.
    """
    if isinstance(instruction, Mmad):
        return instruction.result
    return _UNKNOWN if any(region.space == "L0C" for region in instruction.writes()) else ""


def _misread(taken: str, held: str, view: InstructionView) -> str:
    """Return the text of an error with advice: the drain `view` reads numbers as `taken` where L0C has them as `held`."""
    if held == "int32" and "pre" in vars(view.instruction):
        advice = 'dequantise with pre=Quantisation("int32", scale), or bring int32 out'
    else:
        advice = f"bring {held} out"
    return f"takes {taken}; L0C+{view.src0:#x} holds {held}, the sums of mmad; {advice} (asc-devkit, Fixpipe L0C to GM)"


def check_addresses(program: Program, sizes: Sequence[int]) -> None:
    """Raise RowError for a row outside its buffer or tensor, or at an unaligned address: the first by its dst, else by src0,
    src1.

    `sizes` are the bytes of the task's tensors.
    """
    for operand in OPERAND_COLUMN:
        _check_operand(program, operand, sizes)


def _check_operand(program: Program, operand: str, sizes: Sequence[int]) -> None:
    """Raise RowError for the first row whose operand lies outside its buffer or tensor, or at an unaligned address."""
    column, rows = OPERAND_COLUMN[operand], program.rows
    found = asked(program.table.limits()[:, column - 1].take(rows[:, 0], axis=0), sizes, rows[:, column])
    wrong = np.flatnonzero(found.wrong())
    if not len(wrong):
        return
    row = int(wrong[0])
    offset, extent, limit, unit = (int(column[row]) for column in found)
    slot = int(rows[row, column]) >> SLOT_SHIFT
    in_gm = program.table.in_gm()[rows[row, 0], column - 1]
    if in_gm and offset > OFFSET_MASK // 2 and slot + 1 < len(sizes):
        before = OFFSET_MASK + 1 - offset
        raise RowError(f"{program.where}: {program[row]}: {operand} starts {before} bytes before tensor {slot + 1}", row)
    if limit < 0:
        raise RowError(
            f"{program.where}: {program[row]}: {operand} is in tensor {slot}, but the task has {len(sizes)} tensors", row
        )
    aligned = f" and must start at a multiple of {unit}" if offset % unit else ""
    raise RowError(
        f"{program.where}: {program[row]}: {operand} covers bytes {offset} to {offset + extent} of {limit}{aligned}", row
    )


def check_disarmed(disarm: Mapping[str, Collection[str]], flags: Mapping[str, Collection[str]]) -> None:
    """Raise SimError for the first kernel or flag of `disarm` that is not in `flags`: an experiment without effect misleads.

    Both are {kernel: its flags}.
    """
    for kernel, wanted in disarm.items():
        if kernel not in flags:
            raise SimError(f"disarm: no kernel {kernel!r}; this call has {', '.join(flags)}")
        for name in wanted:
            if name not in flags[kernel]:
                known = sorted(flags[kernel])
                near = [flag for flag in known if flag.startswith(name)] or get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise SimError(f"disarm: no flag {name!r} in {kernel}{hint}; it has {', '.join(known) or 'none'}")
