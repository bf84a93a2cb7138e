"""Values by C: instructions that move, convert or multiply plain numbers run in C; the others come back to Python.

Two generators yield what Python has to do, in order; asking for the next value means that it is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from ctypes import c_int64, c_void_p
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.engine.compiled import library
from ascend_sim.engine.events import ValueEvents
from ascend_sim.engine.values import ProgramValues
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.effect import whole_product
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, Place, Product
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.stamp import address_of
from ascend_sim.kernel.touches import OPERAND_COLUMN, PLACED, SPACES
from ascend_sim.memory.local import LocalMemory
from ascend_sim.numerics import FORMATS, decode

NO_VALUES, MOVES, MULTIPLIES, IN_PYTHON = range(4)
ENDED, WANTS_PRODUCT, WANTS_PYTHON, NOT_WRITTEN, NOT_WRITTEN_LATE, WANTS_PROGRAM, PROGRAM_ENDED = range(7)
FRESH, LOOKED_AT, MULTIPLIED, DONE = range(4)

MOST_WIDTH = 64
"""Most products that C adds one after the other; products.h has the same number."""
MOST_LOOPS = 5
"""Most nested loops of a place; moves.h has the same number."""
_EIGHT_BITS = ("hifloat8", "float8_e4m3fn", "float8_e5m2")
CASTS = {
    ("", ""): 0,
    ("float16", "float32"): 1,
    ("bfloat16", "float32"): 2,
    ("float32", "hf32"): 3,
    ("float32", "float16"): 4,
    ("float32", "bfloat16"): 5,
    ("float32", "float32"): 6,
    **{(name, "float32"): 7 for name in _EIGHT_BITS},
}
"""(source, target) of a conversion -> its number in moves.c."""
_NARROW = ("float16", "bfloat16", *_EIGHT_BITS)
_ADDS = ("", "float32", "int32")
"""Formats in which C adds to the destination ("": it does not), in the order of `adds` in values.h."""
_BYTES = {"": 1, **{name: FORMATS[name].storage.itemsize for name in (*_NARROW, "float32", "hf32")}}

_PLACE = np.dtype(
    [(name, np.int64) for name in ("space", "column", "low", "high", "item", "count", "offset", "loops")]
    + [*((name, np.int64, (MOST_LOOPS,)) for name in ("shape", "strides", "packed")), ("list", np.uint64)]
)
_ACTION = np.dtype(
    [(name, np.int64) for name in ("what", "takes", "cast", "bits", "saturate", "floats", "adds", "settles")]
    + [(name, np.int64) for name in ("m", "n", "k", "held", "width")]
    + [("from", _PLACE, (3,)), ("to", _PLACE)]
)


class _Bytes(ctypes.Structure):
    """ctypes mirror of the C struct `Bytes` (values.h)."""

    _fields_ = [("bytes", c_void_p), ("size", c_int64)]

    @classmethod
    def of(cls, array: NDArray[Any]) -> _Bytes:
        return cls(address_of(array), array.nbytes)


class _Values(ctypes.Structure):
    """ctypes mirror of the C struct `Values` (values.h)."""

    _fields_ = [
        ("rows", c_void_p), ("order", c_void_p), ("count", c_int64), ("actions", c_void_p), ("first", c_void_p),
        ("touches", c_void_p), ("tensors", c_void_p), ("tensor_count", c_int64), ("block", c_int64),
        ("buffers", _Bytes * len(SPACES)), ("written", _Bytes * len(SPACES)),
    ]  # fmt: skip


class _Scratch(ctypes.Structure):
    """ctypes mirror of the C struct `Scratch` (values.h)."""

    _fields_ = [("factors", _Bytes * 3), ("product", _Bytes)]


class _Events(ctypes.Structure):
    """ctypes mirror of the C struct `ValueEvents` (values.h)."""

    _fields_ = [
        *((name, c_void_p) for name in ("owner", "row", "pair", "starts", "watched")),
        ("count", c_int64),
        ("program_count", c_int64),
        *((name, c_void_p) for name in ("programs", "held", "left", "open", "next", "begun")),
    ]  # fmt: skip


class _Course(ctypes.Structure):
    """ctypes mirror of the C struct `Course` (values.h)."""

    _fields_ = [
        *((name, c_void_p) for name in ("values", "events", "scratch")),
        *((name, c_int64) for name in ("position", "stage", "owner", "row", "instruction")),
    ]


class Workspace:
    """Memory that all programs of a run share in C: buffers for factors and products, and C actions by instruction table."""

    def __init__(self, chip: ChipSpec, model: ValueModel) -> None:
        most = max(chip.buffers.values())
        self.left, self.right, self.product = (np.empty(2 * most // 4, np.float32) for _ in range(3))
        self.start = np.empty(most // 4, np.float32)
        factors = (_Bytes * 3)(_Bytes.of(self.left), _Bytes.of(self.right), _Bytes.of(self.start))
        self.scratch = _Scratch(factors, _Bytes.of(self.product))
        self._model = model
        self._tables: dict[int, _Actions] = {}

    def actions(self, table: InstructionTable) -> _Actions:
        """Return the C actions of an instruction table, extended by instructions that were added to it."""
        found = self._tables.get(id(table))
        if found is None:
            found = self._tables[id(table)] = _Actions(table)
        found.extend(self)
        return found

    def action(self, instruction: Instruction, kept: list[Any]) -> tuple[Any, Product | None]:
        """Return (C struct of an instruction as a tuple, the product that C computes or prepares, or None).

        Arrays that the struct points to are appended to `kept`. An instruction without values, or one that C cannot run, has
        the action IN_PYTHON, and None even if it is a product.
        """
        found = instruction.described(self._model) if instruction.has_values else None
        if found is None or not self._fits(found):
            return (IN_PYTHON, *(0,) * 12, [_NO_PLACE] * 3, _NO_PLACE), None
        takes = [_place(place, kept) for place in found.takes] + [_NO_PLACE] * (3 - len(found.takes))
        what = MOVES if found.product is None else MULTIPLIES
        conversion = CASTS[found.source, found.target], found.bits, found.saturate, _floats(found.source)
        how = (what, len(found.takes), *conversion, _ADDS.index(found.adds), found.settles)
        return (*how, *self._product(found.product), takes, _place(found.put, kept)), found.product

    def _product(self, product: Product | None) -> tuple[int, ...]:
        """Return (m, n, k, stored k, width) of a product for C; `width` products are added one after the other.

        The width is 0 where numpy multiplies; all are 0 without a product.
        """
        if product is None:
            return (0,) * 5
        in_order = self._model.accumulate == "chunk" and product.dtype != "int8"
        width = self._model.chip.cube.rates[product.dtype].k0 if in_order else 0  # type: ignore[index]
        return product.m, product.n, product.k, product.held_k, width

    def _fits(self, moves: Moves) -> bool:
        """Return True if C can perform the moves and sum in the model's order: it has their conversion, rounding, addition,
        fill and loops, and room for all items; there is no scaling, maximum or minimum, and `put` is no list or overlap.
        """
        if moves.scaling is not None or moves.keeps or (moves.source, moves.target) not in CASTS or moves.adds not in _ADDS:
            return False
        if moves.product is not None and self._model.accumulate == "exact_group" and moves.product.dtype != "int8":
            return False
        if moves.product is not None and self._product(moves.product)[-1] > MOST_WIDTH:
            return False
        plain = not moves.saturate if moves.source in _NARROW else moves.rounding in (None, "RINT")
        if (
            (moves.source == moves.target and moves.rounding)
            or not plain
            or len(moves.takes) > (1 if moves.product is None else 2 + moves.product.starts)
        ):
            return False
        puts = moves.put.listed is None and moves.put.is_apart and not moves.fill.strip(b"\0")
        if not puts or not all(_is_simple(place) for place in (*moves.takes, moves.put)):
            return False
        taken = [_taken(moves, place) for place in moves.takes]
        whole = not moves.takes or _room(moves) >= moves.put.count * moves.put.itemsize
        return whole and max(*taken, _room(moves), 0) <= self.left.nbytes


@cache
def _decoded(name: str) -> NDArray[np.float32]:
    """Return the float32 values of the 256 codes of an 8-bit format; cached for good, because C keeps the array's address."""
    return np.ascontiguousarray(decode(np.arange(256, dtype=np.uint8), name))


def _floats(source: str) -> int:
    """Return the address of the float32 values of a source format's codes; 0 for a format of other widths."""
    return address_of(_decoded(source)) if source in _EIGHT_BITS else 0


def _taken(moves: Moves, place: Place) -> int:
    """Return the bytes that a place's items have after their conversion."""
    return place.count * place.itemsize // _BYTES[moves.source] * _BYTES[moves.target]


def _room(moves: Moves) -> int:
    """Return the bytes that C must hold between an instruction's start and retirement: the product, or converted items."""
    if moves.product is not None:
        return 4 * moves.product.m * moves.product.n
    return sum(_taken(moves, place) for place in moves.takes)


def _is_simple(place: Place) -> bool:
    """Return True if the place has items and at most MOST_LOOPS loops, and listed offsets fit 31 bits."""
    far = 0 if place.listed is None or not place.count else int(place.listed.max())
    return place.count > 0 and len(place.strides) <= MOST_LOOPS and far < 1 << 31


def _place(place: Place, kept: list[Any]) -> Any:
    """Return the C struct of a place as a tuple; an array of listed offsets is appended to `kept`, to keep it alive."""
    where = SPACES.index(place.space), OPERAND_COLUMN.get(place.operand, PLACED), *place.span
    listed = 0
    if place.listed is not None:
        kept.append(place.listed.astype(np.int32))
        listed = kept[-1].ctypes.data
    nest = () if listed else (place.shape, place.strides, place.packed)
    loops = [(*numbers, *(0,) * (MOST_LOOPS - len(numbers))) for numbers in nest or ((), (), ())]
    return (*where, place.itemsize, place.count, place.offset, len(nest and place.shape), *loops, listed)


_NO_PLACE = (*(0,) * 8, *((0,) * MOST_LOOPS,) * 3, 0)


class _Factors(NamedTuple):
    """Views of the C buffers of one product: factors [m, k] and [n, k], result [m, n], and a row's bias [n] or None."""

    left: NDArray[Any]
    right: NDArray[Any]
    product: NDArray[Any]
    start: NDArray[Any] | None


class _Actions:
    """C actions of all instructions of a table: `columns`, a C struct for each instruction; `factors`, for the number of each
    product the views of C's buffers of its factors, result and bias.
    """

    def __init__(self, table: InstructionTable) -> None:
        self.table = table
        self.columns = np.empty(0, _ACTION)
        self.address = 0
        self.factors: dict[int, _Factors] = {}
        self._kept: list[Any] = []

    def extend(self, work: Workspace) -> None:
        """Append the actions of instructions that were added to the table since the last call."""
        known, rows = len(self.columns), []
        for number, instruction in enumerate(self.table.instructions[known:], known):
            row, product = work.action(instruction, self._kept)
            rows.append(row)
            if product is not None:
                m, n, held, k = product.m, product.n, product.held_k, product.k
                whole = product.dtype == "int8"
                left, right = (one.view(np.int8 if whole else np.float32) for one in (work.left, work.right))
                start, result = (one.view(np.int32 if whole else np.float32) for one in (work.start, work.product))
                self.factors[number] = _Factors(
                    left[: m * held].reshape(m, held)[:, :k],
                    right[: n * held].reshape(n, held)[:, :k],
                    result[: m * n].reshape(m, n),
                    start[:n] if product.starts else None,
                )
        if rows:
            columns = np.empty(known + len(rows), _ACTION)  # np.concatenate compares all fields by name
            columns[:known], columns[known:] = self.columns, rows
            self.columns, self.address = columns, columns.ctypes.data


class CompiledValues:
    """One program with its memory as C sees it; `order` are the rows to run, for a run row by row (empty: by events)."""

    def __init__(self, values: ProgramValues, work: Workspace, order: NDArray[np.int64]) -> None:
        self.values, self.order = values, order
        actions = work.actions(values.program.table)
        self.factors = actions.factors
        self.rows = np.ascontiguousarray(values.program.rows)
        touches = actions.table.touches
        gm = values.memory.gm
        tensors = (_Bytes * max(len(gm), 1))(*(_Bytes.of(tensor) for tensor in gm))
        self._kept = actions.columns, touches, tensors
        self.struct = _Values(
            address_of(self.rows), address_of(order), len(order), actions.address,
            *touches.addresses, ctypes.addressof(tensors), len(gm), BLOCK_BYTES,
        )  # fmt: skip
        self._point_at(values.local)

    def run_again(self) -> None:
        """Point C at the program's present buffers, if they are new ones."""
        if self.values.local is not self._local:
            self._point_at(self.values.local)

    def _point_at(self, local: LocalMemory) -> None:
        """Point the C struct at the buffers of `local` and at their marks of written bytes."""
        self._local = local
        for place, name in enumerate(SPACES):
            if name in local.buffers:
                self.struct.buffers[place] = _Bytes.of(local.buffers[name])
                self.struct.written[place] = _Bytes.of(local.written[name])

    def multiply(self, instruction: int) -> None:
        """Multiply with numpy the factors that C has laid out for an instruction number; the product goes to C's buffer."""
        left, right, product, start = self.factors[instruction]
        if left.dtype == np.int8:
            product[...] = whole_product(left, right)
        else:
            np.matmul(left, right.T, out=product)
        if start is not None:
            product += start

    def look(self, row: int, late: bool) -> None:
        """Check a row's reads of bytes that C found unwritten, and record the finding; `late`: reads at its retirement."""
        argument, dst, src0, src1, _ = self.rows[row].tolist()
        key = self.values.key(argument, dst, src0, src1)
        (self.values.at_retirement if late else self.values.at_start)(row, key)


def rows_for_python(program: CompiledValues, work: Workspace) -> Iterator[int]:
    """Run the rows of a program in C; yield each row that Python has to run before C continues."""
    run = library.load().values_run
    course = _Course(ctypes.addressof(program.struct), None, ctypes.addressof(work.scratch), 0, FRESH)
    told = ctypes.byref(course)
    while (why := run(told)) != ENDED:
        if why == WANTS_PRODUCT:
            program.multiply(course.instruction)
            course.stage = MULTIPLIED
        elif why == WANTS_PYTHON:
            yield course.row
            course.stage = DONE
        else:
            late = why == NOT_WRITTEN_LATE
            program.look(course.row, late)
            course.stage = DONE if late else LOOKED_AT


def events_for_python(
    events: ValueEvents,
    watched: NDArray[np.int8] | None,
    left: NDArray[np.int64],
    work: Workspace,
    begin: Callable[[int], ProgramValues],
    end: Callable[[int], None],
) -> Iterator[int]:
    """Run value events in C; yield the index of each event that Python has to run before C continues.

    `watched` marks events that Python runs in any case. `left` holds the number of events of each program and is counted down
    in place. `begin(program)` is called before a program's first event and returns its memory, `end(program)` after its last
    one.
    """
    programs: dict[int, CompiledValues] = {}
    pointers = np.zeros(len(left), np.uint64)
    instructions = len(events.owner) // 2
    held = np.zeros(instructions, np.uint64)
    opened, following, begun = (np.full(len(left) + 1, -1), np.empty(instructions, np.int64), np.empty(instructions, np.int64))
    struct = _Events(
        *(column.ctypes.data for column in (events.owner, events.row, events.pair, events.starts)),
        None if watched is None else watched.ctypes.data,
        len(events.owner), len(left),
        *(column.ctypes.data for column in (pointers, held, left, opened, following, begun)),
    )  # fmt: skip
    lib, none = library.load(), np.empty(0, np.int64)
    run = lib.values_replay
    course = _Course(None, ctypes.addressof(struct), ctypes.addressof(work.scratch), 0, FRESH)
    told = ctypes.byref(course)
    try:
        while (why := library.checked(run(told))) != ENDED:
            owner = course.owner
            if why == WANTS_PRODUCT:
                programs[owner].multiply(course.instruction)
                course.stage = MULTIPLIED
            elif why == WANTS_PYTHON:
                yield course.position
                course.stage = DONE
            elif why == WANTS_PROGRAM:
                programs[owner] = CompiledValues(begin(owner), work, none)
                pointers[owner] = ctypes.addressof(programs[owner].struct)
                course.stage = FRESH
            elif why == PROGRAM_ENDED:
                pointers[owner] = 0
                del programs[owner]
                end(owner)
                course.position, course.stage = course.position + 1, FRESH
            else:
                programs[owner].look(course.row, why == NOT_WRITTEN_LATE)
                course.stage = LOOKED_AT
    finally:
        lib.values_drop(held.ctypes.data, len(held))
