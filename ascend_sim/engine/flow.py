"""Byte flow of an instruction from source to destination, found by running it on numbered memory.

There is no second description of any instruction here. A mover runs on memory whose bytes are numbers; an instruction that
computes with items runs on zeros and ones, one run for each bit of the numbers; the cube shows where operands lie through
the views that it multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Instruction, ceil_div
from ascend_sim.isa.cube import Fixpipe, FixpipeNd, Mmad
from ascend_sim.isa.direct import FixpipeDn
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.isa.vector import (
    Compare,
    Gather,
    GatherMask,
    ReduceBlocks,
    ReducePieces,
    ReduceRows,
    Select,
    VectorBinary,
    VectorCast,
    VectorScalar,
    VectorUnary,
)
from ascend_sim.isa.vector.base import storage
from ascend_sim.memory.gm import gm_operand
from ascend_sim.memory.regions import Region, row_starts
from ascend_sim.numerics.distinct import distinct

_COMPUTED = (Mmad, VectorUnary, VectorScalar, ReduceRows, ReduceBlocks, ReducePieces, Compare, Select, Gather, GatherMask)
"""Instructions whose results are not bytes or items of one source: functions, sums, bits, and moves that depend on the
values.
"""

CONSTANT = -1
"""Source of a byte that the instruction itself makes up: zeros around a map, of a fill or of a missing channel."""

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]


@frozen
class Flow:
    """Byte flow of one instruction; offsets are relative to the operands' addresses.

    `touched` are the destination's bytes in ascending order, `source` the byte of `src0` that each comes from, or CONSTANT.
    Converted items have other sizes; all bytes of such an item come from the first byte of its source.
    """

    touched: Offsets
    source: Offsets

    def find(self, offsets: Offsets) -> tuple[NDArray[np.bool_], Offsets]:
        """Return (for each of `offsets` in the destination: True if written; the source bytes of those that are written)."""
        place = np.minimum(np.searchsorted(self.touched, offsets), len(self.touched) - 1)
        hit = self.touched[place] == offsets
        return hit, self.source[place[hit]]


def item_dtypes(instruction: Instruction) -> tuple[str, str] | None:
    """Return the (source, target) formats of a VectorBinary, a VectorCast or a move out of L0C; None for all others."""
    if isinstance(instruction, VectorBinary):
        return instruction.dtype, instruction.dtype
    if isinstance(instruction, VectorCast):
        return instruction.source, instruction.target
    if isinstance(instruction, Fixpipe | FixpipeNd | FixpipeDn | L0cToUb):
        return "float32", instruction.dtype
    return None


@lru_cache(maxsize=256)
def flow_of(instruction: Instruction, chip: ChipSpec) -> Flow:
    """Return the byte flow from `src0` to `dst`, found by running the instruction on numbered memory. Cached.

    An atomic addition counts as a plain write, a VectorBinary as an addition whose sources lie at one address. Raises SimError
    for an instruction whose result does not come from one source (`_COMPUTED`) or that writes nothing.
    """
    if isinstance(instruction, _COMPUTED) or not instruction.writes():
        raise SimError(f"{instruction.name} does not move bytes from one place to another")
    if isinstance(instruction, DataCopy):
        instruction = replace(instruction, atomic_add="")
    if isinstance(instruction, Fixpipe | FixpipeNd | FixpipeDn):
        instruction = replace(instruction, atomic_add=False)
    if isinstance(instruction, VectorBinary):  # both sources lie at 0: 1 + 1 shows where a 1 was
        instruction = replace(instruction, operation="add")
    target = max(instruction.writes(), key=lambda region: region.extent)
    touched = distinct(np.concatenate([_bytes_of(region) for region in instruction.writes()]))
    if not instruction.reads():
        return Flow(touched, np.full(len(touched), CONSTANT))
    operand = instruction.reads()[0].operand
    source = max((region for region in instruction.reads() if region.operand == operand), key=lambda r: r.extent)
    probe = _Probe(instruction, source, target, chip)
    converted = item_dtypes(instruction)
    numbers = probe.moved(touched) if converted is None else probe.converted(touched, *converted)
    return Flow(touched, numbers - 1)


def _bytes_of(region: Region) -> Offsets:
    """Return the offsets of all bytes of a region from its operand's address, row by row."""
    starts = np.sort(row_starts(region.simplified()))
    return (starts[:, None] + np.arange(region.simplified().row_bytes)).ravel()


def _rounded(size: int) -> int:
    return ceil_div(size, BLOCK_BYTES) * BLOCK_BYTES


def _memory(buffers: dict[str, Bytes], gm: list[Bytes], chip: ChipSpec) -> Memory:
    local: Any = SimpleNamespace(buffers=buffers)
    return Memory(local, gm, ValueModel(chip, "blas", False))


class _Probe:
    """Memory just large enough to run one instruction: its source at 0, its destination behind it or in memory of its own."""

    def __init__(self, instruction: Instruction, source: Region, target: Region, chip: ChipSpec) -> None:
        self._instruction = instruction
        self._size = source.extent
        room = _rounded(source.extent)
        shared = source.space == target.space != "GM"
        self._dst = room if shared else 0
        first = np.zeros(room + (_rounded(target.extent) if shared else 0), np.uint8)
        second = first if shared else np.zeros(_rounded(target.extent), np.uint8)
        buffers = {space: memory for space, memory in ((source.space, first), (target.space, second)) if space != "GM"}
        self._source, self._target = first, second
        self._memory = _memory(buffers, [first, second], chip)
        self._src_operand = gm_operand(0, 0)
        self._dst_operand = gm_operand(1, 0) if target.space == "GM" else self._dst

    def _run(self, fill: Callable[[Bytes], None]) -> Bytes:
        """Let `fill` write the source's bytes, run the instruction, and return a view of the memory from its destination on,
        which the next run overwrites.
        """
        fill(self._source[: self._size])
        pending = self._instruction.read(self._memory, self._dst_operand, self._src_operand, 0)
        self._instruction.commit(self._memory, self._dst_operand, pending)
        return self._target[self._dst :]

    def moved(self, touched: Offsets) -> Offsets:
        """Return 1 + the source byte of each destination byte of `touched`; 0 where the instruction writes zeros."""
        numbers = np.arange(1, self._size + 1, dtype="<u4").view(np.uint8).reshape(-1, 4)
        result = np.zeros(len(touched), np.int64)
        for byte in range(4):
            got = self._run(lambda memory, byte=byte: np.copyto(memory, numbers[:, byte]))  # type: ignore[misc]
            result |= got[touched].astype(np.int64) << 8 * byte
        return result

    def converted(self, touched: Offsets, before: str, after: str) -> Offsets:
        """Return for each byte of `touched` 1 + the first byte of the source item that it comes from; 0 for written zeros.

        `before` and `after` are the formats of source and result. The probe uses 0 and 1, which are exact in every format.
        """
        dtype = storage(before)
        one = np.ones(1, dtype)
        numbers = np.arange(1, self._size // dtype.itemsize + 1)
        size = storage(after).itemsize
        items = touched.reshape(-1, size)
        result = np.zeros(len(items), np.int64)
        for bit in range(int(numbers[-1]).bit_length()):
            ones = np.where(numbers >> bit & 1, one, np.zeros(1, dtype)).view(np.uint8)
            got = self._run(lambda memory, ones=ones: np.copyto(memory[: len(ones)], ones))  # type: ignore[misc]
            result |= got[items].any(axis=1).astype(np.int64) << bit
        first = np.where(result > 0, (result - 1) * dtype.itemsize + 1, 0)
        return np.repeat(first, size)


@frozen
class CubeFlow:
    """Byte offsets of the elements of one mmad, from its operands' addresses.

    `left` [M, k] lies in L0A, `right` [N, k] in L0B (k in the order of the products); M and N = `columns` are whole fractals.
    `place` [bytes / 4] has for each element of L0C its place m * `columns` + n.
    """

    left: Offsets
    right: Offsets
    place: Offsets
    columns: int

    def element(self, offset: int) -> tuple[int, int]:
        """Return (m, n) of the product's element at byte `offset` from the address in L0C."""
        row, column = divmod(int(self.place[offset // 4]), self.columns)
        return row, column


@lru_cache(maxsize=256)
def cube_flow_of(mmad: Mmad, chip: ChipSpec) -> CubeFlow:
    """Return where the operands and results of one mmad lie, found by running it on numbered memory. Cached."""
    sizes = {region.space: region.extent for region in (*mmad.reads(), *mmad.writes())}
    itemsize = mmad.itemsize
    left = right = np.zeros(1, np.int64)
    bits = (max(sizes["L0A"], sizes["L0B"]) // itemsize - 1).bit_length()
    for shift in range(0, bits, 8 * itemsize):  # as many bits of the numbers as an item holds
        numbers = {
            space: (np.arange(sizes[space] // itemsize) >> shift).astype(f"u{itemsize}").view(np.uint8)
            for space in ("L0A", "L0B")
        }
        memory = _memory({**numbers, "L0C": np.zeros(sizes["L0C"], np.uint8)}, [], chip)
        digits = [
            view.view(f"u{itemsize}").astype(np.int64).reshape(view.shape[0] * FRACTAL, -1)[:, : mmad.k]
            for view in mmad.operands(memory, 0, 0)
        ]
        left, right = (old + (new << shift) * itemsize for old, new in zip((left, right), digits, strict=True))
    rows, columns = len(left), len(right)
    elements = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    replace(mmad, accumulate=False).commit(memory, 0, elements)
    place = memory.array("L0C", 0, (rows * columns,), np.float32).astype(np.int64)
    return CubeFlow(left, right, place, columns)
