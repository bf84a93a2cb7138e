"""Conflicts over banks of the Unified Buffer: the cycles by which they lengthen a vector instruction.

Block i of UB (32 bytes) lies in bank group i % groups. In a cycle a group gives one block to the reads of a repeat, and takes
one of its writes; a bank is read or written. So a repeat takes longer if its two sources share a group, if blocks of one
operand do, and if a source and dst share a bank, except block by block the same one: dst is then written a repeat later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES

PAIRS = (("src0", "src1"), ("src0", "dst"), ("src1", "dst"))
"""Operands between which conflicts are counted."""


class OperandBlocks(NamedTuple):
    """Where the blocks of an operand lie: `rows` rows of `row_bytes` bytes, `stride` bytes apart, whose blocks are `step` bytes
    apart. Rows and blocks 0 bytes apart are read once.
    """

    row_bytes: int
    rows: int = 1
    stride: int = 0
    step: int = BLOCK_BYTES

    def per_repeat(self, repeat_bytes: int, groups: int) -> NDArray[np.int64]:
        """Return [repeat, group]: how many blocks of the group each repeat accesses if the operand begins in group 0."""
        repeats, per = -(-self.row_bytes // repeat_bytes), repeat_bytes // BLOCK_BYTES
        block = np.arange(repeats * per).reshape(repeats, per)
        accessed = block < -(-self.row_bytes // BLOCK_BYTES)
        if not self.step:
            accessed[:, 1:] = False
        start = np.arange(self.rows)[:, None, None] * (self.stride // BLOCK_BYTES)
        group = (start + block * (self.step // BLOCK_BYTES)) % groups
        found = ((group[..., None] == np.arange(groups)) & accessed[..., None]).sum(axis=2)
        if not self.stride:
            found[1:] = 0
        return found.reshape(-1, groups)


def bank_cycles(chip: ChipSpec, slope: float, operands: dict[str, OperandBlocks]) -> NDArray[np.int64] | None:
    """Return [pair of PAIRS, groups from its first operand on to its second]: the cycles that conflicts add to an instruction
    whose repeats take `slope` cycles each; None if they add none anywhere.

    The instruction takes longer by the largest of its three numbers; those with dst count if both operands begin in the same
    bank of their groups. `operands` are "src0" and others that the instruction reads and writes in UB.
    """
    vector = chip.vector
    of_reads, of_writes = slope * (vector.bank_conflict - 1), slope * (vector.bank_write_conflict - 1)
    if not operands or not (of_reads or of_writes):
        return None
    return _added(vector.repeat_bytes, vector.banks.groups, of_reads, of_writes, tuple(operands.items()))


@lru_cache(4096)
def _added(
    repeat_bytes: int, groups: int, of_reads: float, of_writes: float, operands: tuple[tuple[str, OperandBlocks], ...]
) -> NDArray[np.int64] | None:
    """Return the cycles of `bank_cycles`; they are kept, since instructions differ in scalars more often than in blocks."""
    accesses = {name: one.per_repeat(repeat_bytes, groups) for name, one in operands}
    none = np.zeros_like(accesses["src0"])
    kinds, times = np.unique([accesses.get(name, none) for name in ("dst", "src0", "src1")], axis=1, return_counts=True)
    dst, *sources = kinds
    on = (np.arange(groups) - np.arange(groups)[:, None]) % groups
    other, written = sources[1][:, on], dst[:, on]  # [kind of repeat, distance, group]
    most = np.maximum((sources[0][:, None] + other).max(axis=2), dst.max(axis=1)[:, None])
    meets = [((one[:, None] > 0) & (written > 0)).any(axis=2) & (one[:, None] != written).any(axis=2) for one in sources]
    lost = [times @ np.maximum(most - 1, 0) * of_reads, *(times @ one * of_writes for one in meets)]
    cycles = np.ceil(lost).astype(np.int64)
    cycles.setflags(write=False)
    return cycles if cycles.any() else None


def cycles_at(chip: ChipSpec, cycles: NDArray[np.int64], addresses: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return [2][row]: the cycles by which conflicts over bank groups, or over banks, lengthen each row; the other number is 0.

    `cycles` has the `bank_cycles` of each row's instruction, `addresses` the addresses in UB of each operand.
    """
    banks, row = chip.vector.banks, np.arange(len(cycles))
    found = []
    for pair, (first, second) in enumerate(PAIRS):
        one, other = addresses[first], addresses[second]
        found.append(cycles[row, pair, (other // BLOCK_BYTES - one // BLOCK_BYTES) % banks.groups])
        if second == "dst":  # a bank of each group is as many successive addresses
            found[pair][one // (banks.groups * banks.bytes) != other // (banks.groups * banks.bytes)] = 0
    of_groups, of_banks = found[0], np.maximum(*found[1:])
    return np.array([np.where(of_groups >= of_banks, of_groups, 0), np.where(of_groups < of_banks, of_banks, 0)])
