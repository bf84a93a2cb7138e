"""The unit flag of products and drains: a word has a mode for it; here the flags of a tile of L0C become rows of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ascend_c.errors import SourceError
from ascend_sim.ascend_c.words import Word
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.sync import SetFlag, WaitFlag, WaitUnitFlag
from ascend_sim.kernel.inspection import Line
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import Key
from ascend_sim.kernel.unit_flag import before_free, before_full

SETS, ASKS = 3, 2
"""Modes of a word: it waits for the tile and hands it on, or waits alone (asc-devkit, Mmad page, unitFlag)."""


class _Inserted(NamedTuple):
    """One row to insert for a unit flag: the index of the row before which it goes, and its instruction's key."""

    before: int
    key: Key


class _Tiles:
    """The tiles of L0C by address, with the product that last filled and the drain that last emptied each, and the rows to
    insert.
    """

    def __init__(self, k: Kernel) -> None:
        self.k = k
        self.filled: dict[int, Instruction] = {}
        self.drained: dict[int, tuple[int, Instruction]] = {}
        self.found: list[_Inserted] = []

    def product(self, row: int, tile: int, mode: int, one: Instruction) -> None:
        """Add a product's wait for the last drain of its tile; a product of mode SETS, the last of its tile, also sets the flag
        for the next drain.
        """
        if tile in self.drained:
            at, drain = self.drained.pop(tile)
            self._pair("FIX", "M", f"unit flag {tile} free", at + 1, row, before_free(one, drain, self.k.chip))
        if mode == SETS:
            self.filled[tile] = one
            self.found.append(_Inserted(row + 1, self._set("M", "FIX", f"unit flag {tile} full")))

    def drain(self, row: int, tile: int, one: Instruction) -> None:
        """Add a drain's wait for the product that filled its tile. Raises SimError if no product did."""
        product = self.filled.pop(tile, None)
        if product is None:
            raise SimError(f"Fixpipe with unitFlag 3: no Mmad with unitFlag 3 filled the tile at {tile} of L0C")
        early = before_full(product, one, self.k.chip)
        self.found.append(_Inserted(row, self._wait("M", "FIX", f"unit flag {tile} full", early)))
        self.drained[tile] = row, one

    def _pair(self, source: str, destination: str, name: str, sets: int, waits: int, early: int | None) -> None:
        """Insert a set of the unit flag `name` before row `sets`, and a wait that ends `early` cycles early before `waits`."""
        self.found.append(_Inserted(sets, self._set(source, destination, name)))
        self.found.append(_Inserted(waits, self._wait(source, destination, name, early)))

    def _set(self, source: str, destination: str, name: str) -> Key:
        """Return the key of a set of the unit flag `name`, and count the set."""
        flag = self.k.unit_flag(source, destination, name)
        self.k.count_flag(flag, 1)
        return SetFlag, source, destination, flag.identity

    def _wait(self, source: str, destination: str, name: str, early: int | None) -> Key:
        """Return the key of a wait for the unit flag `name` that ends `early` cycles before the flag arrives.

        If `early` is None (an instruction without a pace), it is a plain wait. Counts the wait against the flag's sets.
        """
        flag = self.k.unit_flag(source, destination, name)
        self.k.count_flag(flag, -1)
        fields = source, destination, flag.identity, self.k.is_armed(flag)
        return (WaitFlag, *fields) if early is None else (WaitUnitFlag, *fields, early)


def with_unit_flags(
    k: Kernel, rows: NDArray[np.int64], source: NDArray[np.int64], words: Sequence[Word], line_of: Callable[[int], Line]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (rows with the rows of unit flags inserted, the index of the recorded word for each row); `words` are those of
    `rows`.

    The flag of a drain that no product follows is left out. Raises SourceError, at the row's line, for a mode that is not
    simulated and for a drain of a tile that no product filled.
    """
    tiles = _Tiles(k)
    for row, word in enumerate(words):
        mode = word.fields.get("unit_flag", 0)
        if not mode:
            continue
        if mode not in (SETS, ASKS) or (mode == ASKS and word.name != "mad"):
            call = "Mmad" if word.name == "mad" else "Fixpipe"
            raise SourceError(f"{call}: unitFlag {mode} is not simulated; allowed are 0 and 3, and 2 for Mmad", line_of(row))
        one = k.table.instructions[rows[row, 0]]
        if word.name == "mad":
            tiles.product(row, int(rows[row, 1]), mode, one)
        else:
            try:
                tiles.drain(row, int(rows[row, 2]), one)
            except SimError as error:
                raise SourceError(str(error), line_of(row)) from error
    listed = sorted(tiles.found, key=lambda one: one.before)
    places = [one.before for one in listed]
    new = np.zeros((len(listed), rows.shape[1]), np.int64)
    known = k.table.index
    new[:, 0] = [known[one.key] if one.key in known else k.table.add(one.key) for one in listed]
    theirs = [source[min(one.before, len(source) - 1)] if _is_wait(one) else source[one.before - 1] for one in listed]
    return np.insert(rows, places, new, axis=0), np.insert(source, places, theirs)


def _is_wait(one: _Inserted) -> bool:
    return one.key[0] in (WaitFlag, WaitUnitFlag)
