"""Synchronisation that the vendor's compiler adds by itself (--cce-auto-sync): rows inserted between recorded rows.

It orders vector instructions that share bytes of UB, and the scalar unit with the vector pipe and the pipes that copy from and
to UB (stated: BiSheng compiler, Automatic Synchronization). Where the compiler puts them is assumed: right before the later
instruction, and bytes count by blocks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.sync import PipeBarrier, SetFlag, WaitFlag
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.function import Race
from ascend_sim.kernel.kernel import Kernel

_VECTOR, _SCALAR = "V", "S"
_PIPES = ("V", "S", "MTE2", "MTE3")
"""Pipes that touch UB."""
_OPERANDS = {"dst": 1, "src0": 2, "src1": 3}
"""Operand -> the column of a row that holds its address."""


def orders(race: Race) -> bool:
    """Return True if the vendor's compiler would have ordered the two accesses of a race.

    It does so in UB if both pipes are V, or one of them is S.
    """
    space, pipes = race
    return space == "UB" and (pipes == {_VECTOR} or _SCALAR in pipes)


class _Span(NamedTuple):
    """Bytes of UB that an instruction touches: from `first` to `end` behind the address in `column`."""

    column: int
    first: int
    end: int
    written: bool


class _Order:
    """State of the inserter: the last row of each pipe that read and that wrote each block of UB; for each pipe the last row of
    every pipe, its own too, that has ended before it goes on; and the instructions to insert (`found`).
    """

    def __init__(self, k: Kernel) -> None:
        self.k = k
        blocks = -(-int(k.chip.buffers["UB"]) // BLOCK_BYTES)  # type: ignore[index]
        self.touched = {(pipe, written): np.full(blocks, -1, np.int64) for pipe in _PIPES for written in (False, True)}
        """(pipe, True for writes) -> the last row of that pipe that wrote (or read) each block of UB; -1: none."""
        self.ended: dict[tuple[str, str], int] = defaultdict(lambda: -1)
        """(pipe, waiting pipe) -> the last row of the pipe that has ended before the waiting pipe continues."""
        self._sets: dict[tuple[str, str, int], list[dict[str, int]]] = defaultdict(list)
        self.found: list[tuple[int, Key]] = []

    def synchronised(self, row: int, one: Instruction) -> bool:
        """Note a barrier, a set or a wait that the kernel itself has in `row`, and return True; return False for other
        instructions.
        """
        if isinstance(one, PipeBarrier):
            for pipe in _PIPES:
                for waiting in _PIPES:
                    if one.on == "ALL" or pipe == waiting == one.on:
                        self.ended[pipe, waiting] = row
        elif isinstance(one, SetFlag):
            self._sets[one.source, one.destination, one.flag].append(self._known_to(one.source, row))
        elif isinstance(one, WaitFlag):
            sets = self._sets[one.source, one.destination, one.flag]
            if sets:
                self._learn(one.destination, sets.pop(0))
        else:
            return False
        return True

    def touch(self, row: int, pipe: str, spans: list[tuple[slice, bool]]) -> None:
        """Add the synchronisation that `row` on `pipe` needs, and note the blocks of UB that it touches; `spans` are (blocks,
        written).
        """
        for other in _PIPES:
            if (pipe == other == _VECTOR or (_SCALAR in (pipe, other) and pipe != other)) and self._meets(other, pipe, spans):
                self.found += [(row, key) for key in self._keys(other, pipe)]
                self._learn(pipe, self._known_to(other, row - 1))
        for blocks, written in spans:
            self.touched[pipe, written][blocks] = row

    def _known_to(self, pipe: str, row: int) -> dict[str, int]:
        """Return {pipe: its last row that has ended} at the time when `pipe` has ended its rows up to `row`."""
        return {other: row if other == pipe else self.ended[other, pipe] for other in _PIPES}

    def _learn(self, pipe: str, known: dict[str, int]) -> None:
        """Note that `pipe` knows the rows `known`, {other pipe: its last row that has ended}."""
        for other, row in known.items():
            self.ended[other, pipe] = max(self.ended[other, pipe], row)

    def _meets(self, other: str, pipe: str, spans: list[tuple[slice, bool]]) -> bool:
        """Return True if a row of pipe `other` that may still run shares a block with `spans`, and one of both writes it."""
        since = self.ended[other, pipe]
        return any(
            (self.touched[other, before][blocks] > since).any()
            for blocks, written in spans
            for before in ((False, True) if written else (True,))
        )

    def _keys(self, source: str, destination: str) -> tuple[Key, ...]:
        """Return the keys of the instructions that order `destination` after `source`: a barrier for one pipe, else a set and a
        wait of a flag, which are also counted in the builder.
        """
        if source == destination:
            return ((PipeBarrier, source),)
        flag = self.k.unit_flag(source, destination, f"automatic {source} to {destination}")
        self.k.count_flag(flag, 1)
        self.k.count_flag(flag, -1)
        fields = source, destination, flag.identity
        return (SetFlag, *fields), (WaitFlag, *fields, self.k.is_armed(flag))


def with_auto_sync(
    k: Kernel, rows: NDArray[np.int64], source: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (rows with the compiler's barriers and flags inserted, the index of the recorded word for each row).

    `source` are these indices before; both arrays are returned themselves if nothing is to be inserted. New instructions are
    added to the builder's table, and flags are counted in it.
    """
    order = _Order(k)
    spans: dict[int, list[_Span]] = {}
    for number, row in enumerate(rows.tolist()):
        one = k.table.instructions[row[0]]
        if order.synchronised(number, one):
            continue
        pipe = one.pipe(k.chip)
        if pipe not in _PIPES:
            continue
        if row[0] not in spans:
            spans[row[0]] = _spans(one)
        touched = [
            (slice((row[at] + first) // BLOCK_BYTES, -(-(row[at] + end) // BLOCK_BYTES)), written)
            for at, first, end, written in spans[row[0]]
        ]
        order.touch(number, pipe, touched)
    if not order.found:
        return rows, source
    places = [before for before, _ in order.found]
    new = np.zeros((len(places), rows.shape[1]), np.int64)
    known = k.table.index
    new[:, 0] = [known[key] if key in known else k.table.add(key) for _, key in order.found]
    return np.insert(rows, places, new, axis=0), np.insert(source, places, source[places])


def _spans(one: Instruction) -> list[_Span]:
    """Return the bytes of UB that an instruction reads and writes, relative to its operands."""
    sides = [(region, False) for region in one.reads()] + [(region, True) for region in one.writes()]
    return [
        _Span(_OPERANDS[region.operand], region.offset, region.extent, written)
        for region, written in sides
        if region.space == "UB" and region.operand and region.extent
    ]
