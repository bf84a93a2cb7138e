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
from ascend_sim.chip.headroom import MOST_CYCLES

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


def bank_cycles(chip: ChipSpec, slope: float, operands: dict[str, OperandBlocks]) -> NDArray[np.int64] | None:
    """Return [pair of PAIRS, groups from its first operand on to its second]: the cycles that conflicts add to an instruction
    whose repeats take `slope` cycles each; None if they add none anywhere.

    The instruction takes longer by the largest of its three numbers; those with dst count if both operands begin in the same
    bank of their groups. `operands` are "src0" and others that the instruction reads and writes in UB, of as many rows and
    bytes.
    """
    vector = chip.vector
    of_reads, of_writes = slope * (vector.bank_conflict - 1), slope * (vector.bank_write_conflict - 1)
    if not operands or not (of_reads or of_writes):
        return None
    return _added(vector.repeat_bytes, vector.banks.groups, of_reads, of_writes, tuple(operands.items()))


@lru_cache(4096)
def _added(
    repeat_bytes: int, groups: int, of_reads: float, of_writes: float, named: tuple[tuple[str, OperandBlocks], ...]
) -> NDArray[np.int64] | None:
    """Return the cycles of `bank_cycles`; they are kept, since instructions differ in scalars more often than in blocks."""
    operands, per = dict(named), repeat_bytes // BLOCK_BYTES
    row_bytes, count, *_ = operands["src0"]
    whole, rest = divmod(-(-row_bytes // BLOCK_BYTES), per)
    found, turned = np.zeros((len(PAIRS), groups)), np.add.outer(np.arange(groups), np.arange(groups)) % groups
    for rows in (range(1), range(1, count)):
        here = {name: one for name, one in operands.items() if one.stride or rows.start == 0}
        for repeats, size in ((range(whole), per), (range(whole, whole + 1), rest)):
            number = len(rows) * len(repeats)
            if not number or not size:
                continue
            added = _of_repeat(size, groups, *(here[name].step if name in here else None for name in ("src0", "src1", "dst")))
            begins = {
                name: np.add.outer(np.array(rows) * one.stride, np.array(repeats) * per * one.step).ravel() // BLOCK_BYTES
                for name, one in here.items()
            }
            for pair, (one, other) in enumerate(PAIRS):
                apart = np.zeros(number, np.int64) + begins.get(other, 0) - begins.get(one, 0)
                found[pair] += np.bincount(apart % groups, minlength=groups) @ added[pair][turned]
    longer = np.ceil(np.round(found * [[of_reads], [of_writes], [of_writes]], 6))
    cycles = np.minimum(longer, MOST_CYCLES + 1).astype(np.int64)  # more than any instruction may take
    cycles.setflags(write=False)
    return cycles if cycles.any() else None


@lru_cache
def _of_repeat(size: int, groups: int, *steps: int | None) -> NDArray[np.int64]:
    """Return [pair of PAIRS, groups from its first operand on to its second] for one repeat of `size` blocks: the further
    accesses to the busiest group, then 1 where a source and dst meet in a group, but not block by block. `steps` are those of
    src0, src1 and dst; None for an operand that is not accessed.
    """
    blocks = [range(0) if step is None else range(size if step else 1) for step in steps]
    *sources, dst = (
        np.bincount(np.array(every, np.int64) * ((step or 0) // BLOCK_BYTES) % groups, minlength=groups)
        for every, step in zip(blocks, steps, strict=True)
    )
    added = np.zeros((len(PAIRS), groups), np.int64)
    for apart in range(groups):
        written = np.roll(dst, apart)
        added[0, apart] = max(max(sources[0] + np.roll(sources[1], apart)), max(dst), 1) - 1
        added[1:, apart] = [((one > 0) & (written > 0)).any() and (one != written).any() for one in sources]
    added.setflags(write=False)
    return added


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
