"""The builder of a program: a kernel is a Python loop over methods of a `KernelBuilder`, each of which appends one row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import chain
from operator import sub
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.isa.sync import Scalar
from ascend_sim.isa.vector import (
    Duplicate,
    Interleave,
    ReduceRows,
    Scatter,
    TransposeBlocks,
    VectorBinary,
    VectorCast,
    scalar_field,
)
from ascend_sim.kernel.abilities import Abilities
from ascend_sim.kernel.check import (
    check_addresses,
    check_buffer,
    check_pipe,
    misread_sums,
    overlapping,
    unset_mask,
    wrong_instructions,
)
from ascend_sim.kernel.cube import CubeMethods
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.field_types import check_types, real_number
from ascend_sim.kernel.inspection import Allocated, Inspection, Notes, calling_line, current_inspection
from ascend_sim.kernel.loops import What, Where
from ascend_sim.kernel.mask_register import MaskRegisterMethods
from ascend_sim.kernel.operands import ScatterLoops, TurnLayout
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.scalar import ScalarMethods
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.kernel.sync import SyncMethods
from ascend_sim.kernel.tracked import settled
from ascend_sim.kernel.transfer import TransferMethods
from ascend_sim.kernel.vector import VectorMethods
from ascend_sim.memory.sizes import whole_number


class KernelBuilder(SyncMethods, TransferMethods, CubeMethods, VectorMethods, MaskRegisterMethods, ScalarMethods, Abilities):
    """Builder that collects the rows of one program.

    `core_kind` is "AIC", "AIV" or "AI_CORE"; `tensor_sizes` the bytes of the task's tensors by slot. Waits on flags whose name
    is in `disarm` are disarmed. Raises SimError at once for what the chip lacks; `finish` checks every row's pipe, buffers and
    addresses, and that flags are set as often as they are waited for.
    """

    def __init__(
        self,
        table: InstructionTable,
        block: int,
        core_kind: str,
        tensor_sizes: Sequence[int],
        *,
        sub_block: int = 0,
        disarm: Collection[str] = (),
    ) -> None:
        super().__init__(table, tensor_sizes, disarm)
        self.chip = table.chip
        self._block = block
        self._asked_block = False
        self.core_kind = core_kind
        parts = self.chip.cores.kinds.get(core_kind)  # type: ignore[call-overload]
        if parts is None:
            raise SimError(
                f"{self.chip.name} has no core {core_kind!r}; it has {', '.join(self.chip.cores.kinds)} "
                f"(chip file, cores.kinds)"
            )
        self._parts = parts
        self.issue_cycles = self.chip.scalar.issue_cycles[core_kind]  # type: ignore[index]
        self.sub_block = sub_block
        self._index = table.index
        self._used: dict[str, int] = {}
        self._inspection = current_inspection()
        self.notes = None if self._inspection is None else Notes(table.source)
        self.stamping = self.stamping and (self._inspection is None or self._inspection.stamping)

    @property
    def block(self) -> int:
        """Return the number of this block, and note that the program asked for it, so that its stamps are tied to the block."""
        self._asked_block = True
        return self._block

    def _refuse(self, error: SimError, tool: str = "memcheck") -> None:
        """Raise the error; under inspection record it as a fault of the check `tool` instead and return."""
        if self._inspection is None:
            raise error
        self._inspection.add(self._where, str(error), tool=tool)

    @property
    def _where(self) -> str:
        return f"block {self._block} {self.core_kind}{self.sub_block if self.core_kind == 'AIV' else ''}"

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _emit(self, key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None:
        """Append a row: the instruction `key` (class and fields) with its operands. For a key that the table refuses `_refuse`
        is called, and no row appended.

        Raises SimError for a field that cannot be hashed (a list, an array), for an operand that is no address, and for one
        beyond 64 bits.
        """
        if self._trace is not None:
            key = settled(key)
        try:
            index = self._index.get(key)
        except TypeError:  # a field cannot be part of a key
            check_types(key)
            raise SimError(f"{key[0].name}: {key[1:]}: a list or an array; numbers and names are allowed") from None
        if index is None:
            try:
                index = self.table.add(key)
            except SimError as error:
                return self._refuse(error)
        row = [index, dst, src0, src1, self._tile]
        if self._trace is not None:
            self._emit_moving(row)
        else:
            try:
                self._sheet.written.fromlist(row)
            except TypeError:
                self._emit_moving(row)
            except OverflowError:
                raise self._too_far(f"an address of {key[0].name}") from None
        if self.notes is not None:
            self.notes.add()

    def next_tile(self, *, counted: bool = True) -> None:
        """Begin a new tile: the rows that follow belong to it.

        A tile that several programs share is `counted` by one of them only, so that a report's number of tiles is right.
        """
        self._tile += 1
        self._tiles += counted

    def allocate(self, buffer: str, size: int, name: str, unit: int = 0, *, keep: bool = True) -> int:
        """Return the address of `size` fresh bytes of a buffer, aligned to `unit` (0: as the buffer needs it).

        Without `keep` the next allocation may begin there again. Raises SimError when the buffer overflows, for a buffer that
        the core lacks, for a size (from 1) or unit that is no whole number, and inside a stamped loop; a traced loop goes on as
        a plain one.
        """
        check_buffer(self.chip, self._block, self.core_kind, buffer, name)
        self._outside_stamps(f"allocation of {name}")
        what = f"block {self.block} {self.core_kind}: the {{}} of {name} in {buffer}"
        size = whole_number(size, what.format("size in bytes"), 1)
        unit = whole_number(unit, what.format("unit"), 0) or self.chip.alignment.unit(buffer)
        start = -(-self._used.get(buffer, 0) // unit) * unit
        capacity = self.chip.buffers[buffer]  # type: ignore[index]
        if start + size > capacity:
            self._refuse(
                SimError(
                    f"block {self.block} {self.core_kind}: {name} needs {size} bytes of {buffer} at {start:#x}, "
                    f"which ends at {start + size} of {capacity} bytes (chip {self.chip.name}, buffers.{buffer})"
                )
            )
        if keep:
            self._used[buffer] = start + size
        if self.notes is not None:
            self.notes.allocated.append(Allocated(buffer, start, size, name, calling_line()))
        return start

    def _check_pipe(self, pipe: str, what: str, scalar: bool = False) -> None:
        check_pipe(self.chip, self._block, self.core_kind, pipe, what, scalar)

    # -- the scalar unit -----------------------------------------------------------------------------------------------

    def scalar(self, cycles: int) -> None:
        """Append scalar time for loop control and address work: `cycles`, a whole number from 0 (else SimError)."""
        if not isinstance(cycles, int | np.integer) or isinstance(cycles, bool) or cycles < 0:
            raise SimError(
                f"block {self.block} {self.core_kind}: scalar({cycles!r}): allowed is a whole number of cycles from 0"
            )
        self._emit((Scalar, cycles))

    # -- vector --------------------------------------------------------------------------------------------------------

    def vector_binary(self, operation: str, dst: int, left: int, right: int, dtype: str, count: int) -> None:
        """Compute `count` elements of `dtype` in UB from two operands, element by element, without gaps: dst = left `operation`
        right.

        `operation` is a row of `isa.vector.BINARY`: "add", "sub", "mul", "div", "max", "min", "and", "or", "add_relu",
        "sub_relu".
        """
        self._emit((VectorBinary, operation, dtype, count), dst, left, right)

    def vector_cast(self, dst: int, src: int, source: str, target: str, count: int, rounding: str | None = None) -> None:
        """Convert `count` elements in UB from format `source` to `target`; `rounding` None is the chip's first mode for that
        pair (chip file, vector.casts).

        Raises SimError for a pair or a mode that the chip lacks.
        """
        mode = self.chip.vector.cast_mode(source, target, rounding)
        self._emit((VectorCast, source, target, count, mode), dst, src)

    def vector_duplicate(self, dst: int, dtype: str, count: int, value: float = 0.0) -> None:
        """Set `count` elements of UB to one value, zero unless given.

        Raises SimError for a value that is no number, or that an integer format cannot hold.
        """
        self._emit((Duplicate, dtype, count, scalar_field(real_number("duplicate", value))), dst)

    def reduce_rows(self, dst: int, src: int, rows: int, columns: int, row_stride: int) -> None:
        """Sum each row of `columns` fp32 elements in UB: dst[r] is the sum of row r; results adjoin, rows lie `row_stride`
        bytes apart.
        """
        self._emit((ReduceRows, rows, columns, row_stride), dst, src)

    def scatter(self, dst: int, src: int, dtype: str, loops: ScatterLoops) -> None:
        """Copy elements in UB to separate places; see `Scatter`.

        Elements of a row adjoin in `src`; groups, rows and columns have their strides in `loops`.
        """
        self._emit((Scatter, dtype, *loops), dst, src)

    def transpose_blocks(
        self, dst: int, src: int, to_c0: bool, itemsize: int, channels: int, pixels: int, layout: TurnLayout
    ) -> None:
        """Transpose between [channels][pixels] and [pixels][C0] in UB; see `TransposeBlocks`.

        `to_c0` True is the direction to [pixels][C0]: elements of a block that belong to no channel become zero.
        """
        self._emit((TransposeBlocks, to_c0, itemsize, channels, pixels, *layout), dst, src)

    def interleave(self, dst: int, even: int, odd: int, itemsize: int, count: int) -> None:
        """Interleave the elements of two runs in UB.

        dst[2 i] = even[i] and dst[2 i + 1] = odd[i], for `count` elements of each run.
        """
        self._emit((Interleave, itemsize, count), dst, even, odd)

    # -- finish --------------------------------------------------------------------------------------------------------

    def repeated(self, pieces: Sequence[tuple[What, Where]], write: Callable[[], Program], *same: Hashable) -> Program:
        """Return the program that `write` makes with one stamped loop over `pieces`, or a moved copy of an earlier one.

        A piece is (the part that decides its rows, its place). If an earlier block had the same pieces, all of them the same
        distance away, its program is copied with moved addresses and `write` is not called. `same` is whatever else the rows
        depend on, as for `stamped`. A program whose rows outside the loop have addresses in GM, or depend on the block, is not
        copied.
        """
        if not self.stamping or not pieces:
            return write()
        try:
            places = _places(pieces)
        except OverflowError:
            return write()  # raises the error for it
        outline = same, tuple([what for what, _ in pieces]), (places - places[0]).tobytes()
        return self.repeated_at(places[0].tolist(), outline, lambda: pieces, lambda _: write())

    def repeated_at(
        self,
        place: Sequence[int],
        outline: Hashable,
        pieces: Callable[[], Sequence[tuple[What, Where]]],
        write: Callable[[Sequence[tuple[What, Where]]], Program],
    ) -> Program:
        """Return the program that `write(pieces())` makes, or a moved copy of an earlier program with the same `outline`; see
        `repeated`.

        `place` is the place of the first piece. Equal outlines promise equal pieces at equal distances from it, so that neither
        `pieces` nor `write` is called for a copy. Programs are copied as long as they live.
        """
        if not self.stamping:
            return write(pieces())
        key = (self.core_kind, self.sub_block, self._sizes, self._disarm, outline, self.notes is None)
        known = self.table.stamps.repeated
        found, there = known.get(key, (None, ()))
        first, by = found() if found is not None else None, tuple(map(sub, place, there))
        if first is not None and first.sheet.holds_at(by):
            where = (np.asarray(first.sheet.where).reshape(-1, len(by)) + by).reshape(-1)
            moved = self._program(first.sheet.moved(where), first.flags, first.tiles, first.notes)
            return moved if self.notes is not None or first.sheet.may_move(by) else self._checked(moved)
        listed = pieces()
        program = write(listed)
        sheet, in_gm = program.sheet, self.table.in_gm()
        stamps_alone = sheet.where.tobytes() == _places(listed).tobytes()
        if stamps_alone and sheet.is_of_any_block and not any(in_gm[one.rows[:, 0]].any() for one in sheet.own):
            known[key] = ref(program), tuple(place)
        return program

    def _program(self, sheet: Sheet, flags: Mapping[str, tuple[str, str, int]], tiles: int, notes: Notes | None) -> Program:
        return Program(self._block, self.core_kind, self.sub_block, self.table, sheet, tiles, flags, notes)

    def _checked(self, program: Program) -> Program:
        """Return the program if its addresses are right.

        Raises RowError for a row outside its space or unaligned, SimError for a loop beyond 64 bits.
        """
        if not program.sheet.is_right(self.table.limits(), self._sizes):
            check_addresses(program, self._sizes)
            if program.sheet.wraps():
                raise SimError(f"{program.where}: a stamped loop goes so far that an address does not fit into 64 bits")
        return program

    def finish(self) -> Program:
        """Return the checked Program, without the sets that `drop_set` marked; under inspection all faults but the first named
        are recorded instead.

        Raises SimError if a stamped loop was left early, a flag has more or fewer sets than waits, an instruction cannot run,
        an address is outside its space or unaligned, vector operands overlap in a forbidden way, L0C is read in a wrong format,
        or a mask register is used before it is set.
        """
        if self._outer is not None:
            raise SimError(f"{self._where}: a stamped loop was left before the end of its body")
        dropped = self._sheet.without_last(self._dropped_kinds())
        flags = {f.name: (f.source, f.destination, f.identity) for f in self._flags.values()}
        program = self._program(self._sheet, flags, self._tiles, self.notes)
        if self._inspection is not None:
            self._inspect(program, dropped, self._inspection)
            return program
        for error in wrong_instructions(program):
            raise error
        self._check_all_taken()
        checked = self._checked(program)
        for error in chain(overlapping(program), misread_sums(program), unset_mask(program)):
            raise error
        return checked

    def _inspect(self, program: Program, dropped: list[int], inspection: Inspection) -> None:
        """Record as faults the program's instructions that cannot run, overlap, misread sums or take a mask that nothing has
        set; flags and addresses are checked later.
        """
        assert self.notes is not None
        self.notes.without(dropped)
        for error in wrong_instructions(program):
            inspection.add(self._where, str(error), self.notes.line(error.row))
        for error in chain(overlapping(program), misread_sums(program), unset_mask(program)):
            inspection.add(self._where, str(error), self.notes.line(error.row))


def _places(pieces: Sequence[tuple[What, Where]]) -> NDArray[np.int64]:
    """Return the places of the pieces as an array [piece][axis]; a plain number has one axis.

    Raises ValueError or TypeError for places with different counts of numbers, OverflowError for numbers beyond 64 bits.
    """
    wheres: list[Any] = [where for _, where in pieces]
    if not wheres or not isinstance(wheres[0], tuple):
        return np.array(wheres, np.int64).reshape(len(wheres), 1)
    if len({*map(len, wheres)}) > 1:
        raise ValueError(f"places of {sorted({*map(len, wheres)})} numbers in one loop; they have as many numbers each")
    count = len(wheres) * len(wheres[0])
    return np.fromiter(chain.from_iterable(wheres), np.int64, count).reshape(len(wheres), -1)


class Closed(dict[Key, int]):
    """Index of instructions of a finished program: its `get` raises SimError, so that no further row is appended."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def get(self, key: Key, default: Any = None) -> Any:
        raise SimError(
            f"{self.where}: {key[0].__name__} after the program was made; a builder works only during the kernel's call"
        )
