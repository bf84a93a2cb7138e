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
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.inspection import Line
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.unit_flag import before_free, before_full
from ascend_sim.memory.regions import Region, overlap

SETS, ASKS = 3, 2
"""Modes of a word: it waits for the flags of its fractals, and changes them or not (asc-devkit, UnitFlag page)."""


class _Inserted(NamedTuple):
    """One row to insert for a unit flag: the index of the row before which it goes, and its instruction's key."""

    before: int
    key: Key


class _Use(NamedTuple):
    """A use of L0C: its row, the instruction, and the bytes that it touches behind address `place`."""

    row: int
    one: Instruction
    place: int
    region: Region

    def meets(self, other: _Use) -> bool:
        """Return True if a byte is touched by both."""
        return overlap(self.region, other.region, other.place - self.place)


class _Tiles:
    """The tiles of L0C: the products that filled them and the drains that emptied them, and the rows to insert."""

    def __init__(self, k: Kernel) -> None:
        self.k = k
        self.filled: list[_Use] = []
        """Products that set the flags of their tiles; a later one on the same bytes takes the place of an earlier one."""
        self.drained: list[_Use] = []
        """Drains that cleared flags, until a product waited for them."""
        self.empty: list[_Use] = []
        """Drains that cleared flags, until a product fills their bytes again."""
        self.cleared: set[int] = set()
        """Rows of the products whose flags a drain clears."""
        self.found: list[_Inserted] = []

    def product(self, use: _Use, mode: int) -> None:
        """Add a product's waits for the drains of its tile, with the drains' sets; a product of mode SETS fills the tile for
        the next drains.

        Raises SimError for a tile that is still full.
        """
        if any(one.meets(use) and one.row not in self.cleared for one in self.filled):
            why = f"the tile at {use.place} of L0C is still full; a Fixpipe with unitFlag 3 empties it"
            raise SimError(f"Mmad with unitFlag {mode}: {why}")
        for drain in [one for one in self.drained if one.meets(use)]:
            self.drained.remove(drain)
            early = before_free(use.one, drain.one, self.k.chip)
            self._pair("FIX", "M", f"unit flag {drain.place} free", drain.row + 1, use.row, early)
        if mode == SETS:
            self.filled = [*(one for one in self.filled if not one.meets(use)), use]
            self.empty = [one for one in self.empty if not one.meets(use)]

    def drain(self, use: _Use, mode: int) -> None:
        """Add the set of the product that filled a drain's tile, and the drain's wait for it; a drain of mode SETS empties the
        tile.

        Raises SimError if no product filled it, or if a drain emptied it.
        """
        product = next((one for one in self.filled if one.meets(use)), None)
        if product is None or any(one.meets(use) for one in self.empty):
            raise SimError(f"Fixpipe with unitFlag {mode}: no Mmad with unitFlag 3 filled the tile at {use.place} of L0C")
        early = before_full(product.one, use.one, self.k.chip)
        self._pair("M", "FIX", f"unit flag {use.place} full", product.row + 1, use.row, early)
        if mode == SETS:
            self.drained.append(use)
            self.empty.append(use)
            self.cleared.add(product.row)

    def end(self) -> None:
        """Add the sets of products whose flags no drain clears."""
        for product in self.filled:
            if product.row not in self.cleared:
                self.found.append(_Inserted(product.row + 1, self._set("M", "FIX", f"unit flag {product.place} full")))

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
    """Return (rows with the rows of unit flags inserted, the index of the recorded word for each row); `source` are these
    indices before, `words` the words of `rows`.

    The flag of a drain that no product follows is left out. Raises SourceError, at the row's line, for an unknown mode, a
    product on a tile that is still full (unless it has GOES_ON), and a drain of a tile that no product filled.
    """
    tiles = _Tiles(k)
    for row, word in enumerate(words):
        mode = word.fields.get("unit_flag", 0)
        if not mode:
            continue
        is_product = word.name == "mad"
        if mode not in (SETS, ASKS):
            call = "Mmad" if is_product else "Fixpipe"
            raise SourceError(f"{call}: unitFlag {mode} is not simulated; allowed are 0, 2 and 3", line_of(row))
        one = k.table.instructions[rows[row, 0]]
        region = one.writes()[0] if is_product else one.reads()[0]
        use = _Use(row, one, int(rows[row, 1 if is_product else 2]), region)
        if word.fields.get("goes_on"):
            tiles.filled = [one for one in tiles.filled if not one.meets(use)]
        try:
            (tiles.product if is_product else tiles.drain)(use, mode)
        except SimError as error:
            raise SourceError(str(error), line_of(row)) from error
    tiles.end()
    listed = sorted(tiles.found, key=lambda one: one.before)
    places = [one.before for one in listed]
    new = np.zeros((len(listed), rows.shape[1]), np.int64)
    known = k.table.index
    new[:, 0] = [known[one.key] if one.key in known else k.table.add(one.key) for one in listed]
    waits = [one.key[0] in (WaitFlag, WaitUnitFlag) for one in listed]
    behind = [min(one.before, len(source) - 1) if wait else one.before - 1 for one, wait in zip(listed, waits, strict=True)]
    return np.insert(rows, places, new, axis=0), np.insert(source, places, source[behind])
