"""Base of instructions: a frozen parameter object with its pipe, its regions, its cost and its effect on values.

A Program row holds the index of such an object and up to three addresses (`dst`, `src0`, `src1`); many rows share one
object, so everything that follows from the parameters alone (cost, pipe, regions) is worked out once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa import effect
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.moves import Moves
from ascend_sim.memory.regions import Region

PIPES = ("S", "MTE1", "MTE2", "MTE3", "M", "V", "FIX")
PIPE_INDEX = {name: index for index, name in enumerate(PIPES)}

LOCAL, SET, WAIT, DISARMED, TRANSFER, BARRIER, CROSS_SET, CROSS_WAIT, SCALAR, BARRIER_ALL = range(10)
"""Kinds of rows for an engine: work of known length, flag traffic, a GM transfer, a barrier, or scalar time."""


@frozen
class Cost:
    """Cycles of one instruction: it occupies its pipe for a head and `work`, and retires `latency` after that.

    `head_first` applies when the pipe was idle before, `head_stream` back to back. For GM transfers `work` is what the
    pipe itself needs (rows, format conversion); the transfer takes longer when port, L2 or HBM are slower.
    """

    head_first: int
    head_stream: int
    work: int
    latency: int


@frozen
class GmAccess:
    """The GM side of a transfer: its bytes (`region`, with the operand that has their address) and the most bytes per cycle
    that the core's port, or a slower unit before it, moves (`rate`).

    `direction` is "read", "write" or "atomic", which reads and writes its bytes in the L2. A read that is not `kept` goes past
    the L2 and leaves no lines there.
    """

    direction: str
    region: Region
    rate: float
    kept: bool = True


class Pace(NamedTuple):
    """Pace of a product or a drain with the unit flag over its tile of L0C, fractal by fractal in order.

    It takes `rows` x `columns` fractals (0 x 0 for a part of a tile) in `work` cycles, after at least `head` cycles.
    """

    rows: int
    columns: int
    work: int
    head: int

    def overlap(self, other: Pace) -> int:
        """Return how many cycles, rounded down, before the end of `self` a later access to the same tile (`other`) may begin to
        touch it.

        Each has its own speed, and the second may never overtake the first at any fractal. 0 if their tiles differ in shape, or
        for a part of a tile.
        """
        fractals = self.rows * self.columns
        if not fractals or self[:2] != other[:2]:
            return 0
        return min(self.work, other.work) * (fractals - 1) // fractals


@frozen
class Instruction:
    """Base of all instructions: subclasses are frozen dataclasses whose fields are the instruction's parameters.

    Its methods describe an instruction that waits for nothing, touches nothing and costs nothing; `pipe` has to be overridden.
    """

    name: ClassVar[str] = ""
    kind: ClassVar[int] = LOCAL
    has_values: ClassVar[bool] = True
    multiplies: ClassVar[bool] = False
    """True for a product of the cube."""
    atomic: ClassVar[bool] = False
    lead: ClassVar[int] = 0
    """Cycles by which a wait is over before its flag arrives; 0 for all but unit flags."""
    at_work: ClassVar[bool] = False
    """True for a wait during which its pipe counts as busy."""
    reads_late: ClassVar[bool] = False
    """True if it reads its operands piece by piece until the end of its occupancy, not at its start."""
    taken: ClassVar[str] = ""
    """Format in L0C of the numbers that a drain takes; "" for other instructions."""
    chooses: ClassVar[str] = ""
    """Operand of which it reads only elements that values choose; "" for an instruction that reads operands whole."""
    left_out: ClassVar[Mapping[str, Any]] = {}
    """Fields that `parameters` leaves out where they have these values."""
    publishes: ClassVar[bool] = False
    """True if other cores can see memory afterwards that a cache held until then."""
    _told_by_moves: ClassVar[tuple[Any, Any] | None] = None

    def pipe(self, chip: ChipSpec) -> str:
        """Return the pipe whose queue takes the instruction.

        Subclasses raise SimError if the chip lacks the path or operation, or if fields do not go together.
        """
        raise NotImplementedError

    def cost(self, chip: ChipSpec) -> Cost:
        """Return the cycles of the instruction on `chip`; 0 everywhere unless a subclass overrides this."""
        return Cost(0, 0, 0, 0)

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        """Return the GM side of a transfer; None without one, also for scalar loads and stores through the data cache."""
        return None

    def pace(self, chip: ChipSpec) -> Pace | None:
        """Return the pace over its tile of L0C for a product, or a drain with the unit flag; None for other instructions."""
        return None

    def interlocks(self, chip: ChipSpec) -> bool:
        """Return True for a product with so large a tile of L0C that the next on the tile needs no barrier."""
        return False

    def reads(self) -> tuple[Region, ...]:
        """Return the regions that the instruction reads, by default none, each relative to an operand's address; one without an
        operand lies at a fixed place.
        """
        return ()

    def writes(self) -> tuple[Region, ...]:
        """Return the regions that it writes, each relative to one operand's address."""
        return ()

    def moves(self, model: ValueModel) -> Moves | None:
        """Return the effect on values as data (`Moves`); None without one, or if `read` and `commit` are overridden instead."""
        return None

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        """Return the operands' values (copies, or their product) when the instruction starts, for `commit`; None without an
        effect.
        """
        told = self._effect(memory.model)
        return None if told is None else effect.taken(told, memory, {"src0": src0, "src1": src1})

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        """Write the result to `memory` when the instruction retires; `pending` is what `read` returned. Does nothing without an
        effect.
        """
        told = self._effect(memory.model)
        if told is not None:
            effect.put(told, memory, dst, pending)

    def _effect(self, model: ValueModel) -> Moves | None:
        if self not in model.effects:
            model.effects[self] = self.moves(model)
        return model.effects[self]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "moves" in vars(cls):
            cls._told_by_moves = (cls.read, cls.commit)

    def described(self, model: ValueModel) -> Moves | None:
        """Return `moves`, but None if a subclass overrides `read` or `commit` without `moves`; the model caches it."""
        own = type(self)
        return self._effect(model) if own._told_by_moves == (own.read, own.commit) else None

    def aligned(self) -> Mapping[str, int]:
        """Return {operand: bytes} for operands whose address must be aligned otherwise than its buffer demands."""
        return {}

    def parameters(self) -> dict[str, Any]:
        """Return {field: value} for listings of programs and traces, without fields that have the values of `left_out`; it may
        be the object's own dict, which must not be changed.
        """
        plain = self.left_out
        return {k: value for k, value in vars(self).items() if k not in plain or value != plain[k]} if plain else vars(self)

    def label(self) -> str:
        """Return the kernel's operand ("A", "B", ...) to which the moved bytes are counted; "" for none."""
        return ""

    def path(self) -> str:
        """Return the data path to which the instruction is counted, such as "GM->L1"; "" for none."""
        return ""


def ceil_div(a: int, b: int) -> int:
    """Return a / b of integers, rounded up."""
    return -(-a // b)


def cycles_of(size: int, bytes_per_cycle: float) -> int:
    """Return the cycles, rounded up, for moving `size` bytes at a rate that may be fractional or below one byte a cycle."""
    return math.ceil(size / bytes_per_cycle)
