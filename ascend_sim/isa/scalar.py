"""Loads and stores of the scalar unit: one element of the Unified Buffer or of GM, and the cache through which it sees GM.

The scalar unit reaches no other buffer (asc-devkit, Reading and writing data by the scalar unit). All are instructions of
pipe S, which issues nothing further until they are over. No source has their cycles: chip file, scalar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import SCALAR, Cost, Instruction
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.moves import Moves, loops, moves
from ascend_sim.memory.regions import Region
from ascend_sim.numerics.casting import encode
from ascend_sim.numerics.integers import INTEGERS, like_float64, storage

SPACES = ("UB", "GM")
"""Spaces that the scalar unit can read and write."""


@frozen
class ScalarAccess(Instruction):
    """Base of scalar loads and stores of one element of `size` bytes in `space`. Raises SimError for spaces and sizes that are
    not possible.

    `cached` says that the data cache holds its line of GM. That decides the cycles alone; values follow what the cache holds.
    """

    space: str
    size: int
    cached: bool = False

    kind = SCALAR

    def aligned(self) -> Mapping[str, int]:
        return {"dst": self.size, "src0": self.size}

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise SimError(
                f"{self.name}: the scalar unit cannot reach {self.space}; it reads and writes {' and '.join(SPACES)} "
                f"(asc-devkit, Reading and writing data by the scalar unit)"
            )
        if self.size not in (1, 2, 4, 8):
            raise SimError(f"{self.name}: an element of {self.size} bytes; elements of 1, 2, 4 and 8 bytes are possible")

    def pipe(self, chip: ChipSpec) -> str:
        return "S"

    def cost(self, chip: ChipSpec) -> Cost:
        costs = chip.scalar
        in_gm = costs.gm_cached_cycles if self.cached else costs.gm_line_cycles
        return Cost(0, 0, costs.ub_cycles if self.space == "UB" else in_gm, 0)


@frozen
class ScalarLoad(ScalarAccess):
    """Read the element at src0, from GM through the data cache. The value goes nowhere: a row of a program cannot use it."""

    name = "scalar_load"

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", self.space, self.size),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        if self.space == "GM":
            return memory.cache.read(src0, self.size)
        return memory.array("UB", src0, (self.size,), np.uint8).copy()


@frozen
class ScalarStore(ScalarAccess):
    """Write the element at dst, in GM into the data cache; the operand src0 holds its bits, as a signed number."""

    name = "scalar_store"

    @property
    def publishes(self) -> bool:  # type: ignore[override]
        """Return True for a store to GM, which others may see once its line is written back."""
        return self.space == "GM"

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", self.space, self.size),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        return np.frombuffer(int(src0).to_bytes(8, "little", signed=True), np.uint8)[: self.size]

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        if self.space == "GM":
            memory.cache.write(dst, pending)
        else:
            memory.array("UB", dst, (self.size,), np.uint8)[...] = pending


@frozen
class ScalarCopy(ScalarAccess):
    """Read the element at src0 and write it at dst, both in the Unified Buffer (a load and a store). Raises SimError for GM."""

    name = "scalar_copy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space != "UB":
            raise SimError(f"scalar_copy: in {self.space}; it copies within UB")

    def cost(self, chip: ChipSpec) -> Cost:
        return Cost(0, 0, 2 * chip.scalar.ub_cycles, 0)

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "UB", self.size),)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", self.size),)

    def moves(self, model: ValueModel) -> Moves:
        take, put = (loops(operand, "UB", (self.size,), (1,), 1) for operand in ("src0", "dst"))
        return moves(take, put=put)


@frozen
class CleanDataCache(Instruction):
    """Write the line of GM at dst back from the data cache and drop it, or all lines (DataCacheCleanAndInvalid).

    Only changed lines are written, but whole: other cores' writes to a line's other bytes since it was fetched are lost. `pipe`
    raises SimError for a chip without the instruction.
    """

    all_lines: bool

    name = "clean_data_cache"
    kind = SCALAR
    publishes = True

    def pipe(self, chip: ChipSpec) -> str:
        if not chip.scalar.cleans_data_cache:
            raise SimError(
                f"{self.name}: {chip.name} ({chip.identity.arch}) has no such instruction (chip file, scalar.cleans_data_cache)"
            )
        return "S"

    def cost(self, chip: ChipSpec) -> Cost:
        return Cost(0, 0, chip.scalar.clean_all_cycles if self.all_lines else chip.scalar.clean_line_cycles, 0)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        return None if self.all_lines else dst

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.cache.clean(pending)


def bits_of_number(value: Any, dtype: str) -> int:
    """Return a number in the format named `dtype` as the signed 64-bit operand of a scalar store that holds its bits.

    Its bytes are the lowest, zeros follow. A float format rounds it once; beyond the format it becomes an infinity, or what the
    format has instead. An integer format must hold it.
    """
    size = storage(dtype).itemsize
    bits = int(value) if dtype in INTEGERS else int(encode(like_float64(value), dtype))
    return int.from_bytes((bits % (1 << 8 * size)).to_bytes(8, "little"), "little", signed=True)
