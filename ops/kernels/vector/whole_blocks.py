"""Copies between GM and UB of rows that are not whole 32-byte blocks.

Most chips copy rows of any bytes. The copies of the 910 and 310P count whole blocks (`copies_whole_blocks`); a row
begins at any byte of GM, but on a block of UB. There a kernel does one of three things:

It rounds up. A load takes the rest of the last block along, of a tensor's last row out of the slack behind it
(`room_of`). A store does so only where the tensor ends, from a UB address that lies on a block.

It backs off. A row of a block or more is stored as the whole blocks from its start, and then the block that ends it, which
overlaps them (`store_rows`). Nothing but the row is written, so blocks of a launch share tensors as they do on other chips.

It merges. A shorter row overwrites the bytes behind it; these are written later, or were read before and are put back
(`Merge`). One core does all of it.
"""

from __future__ import annotations

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.ops.problem.sizes import ceil_to

ONE = CopyLoop(1, 0, 0)


def whole(k: KernelBuilder, size: int) -> int:
    """Return the bytes that a copy between GM and UB moves for a row of `size` bytes: whole blocks where copies count these."""
    return ceil_to(size, BLOCK_BYTES) if k.copies_whole_blocks else size


def load_rows(k: KernelBuilder, target: int, source: int, size: int, rows: CopyLoop = ONE) -> None:
    """Append the copy of rows of `size` bytes from GM (`source`) to UB, with the strides of `rows`; rounded up where copies
    count whole blocks.
    """
    k.copy_rows("GM->UB", target, source, whole(k, size), rows)


def store_end(k: KernelBuilder, target: int, source: int, size: int) -> None:
    """Append the copy of `size` bytes from UB (`source`) to GM. Where copies count whole blocks it is rounded up, and
    overwrites what follows: so only for whole blocks, or the end of a tensor.
    """
    k.data_copy("UB", "GM", target, source, whole(k, size))


def load_backed_off(k: KernelBuilder, target: int, source: int, size: int, rows: CopyLoop = ONE) -> None:
    """Append the copy of rows of `size` bytes, a block or more, from GM to UB as `store_rows` takes them: where copies count
    whole blocks and `size` is no multiple of 32, a row's last 32 bytes once more behind its whole blocks.
    """
    done = _body(k, size)
    k.copy_rows("GM->UB", target, source, done, rows)
    if done < size:
        k.copy_rows("GM->UB", target + done, source + size - BLOCK_BYTES, BLOCK_BYTES, rows)


def store_rows(k: KernelBuilder, *moves: tuple[int, int, int, CopyLoop]) -> None:
    """Append copies of rows to GM; a move is (target, source, bytes of a row, rows). Where copies count whole blocks, rows of
    other sizes back off, and must have a block or more.

    In UB such a row has its last block behind its whole blocks; last blocks are stored after all others, behind a barrier.
    """
    for target, source, size, rows in moves:
        k.copy_rows("UB->GM", target, source, _body(k, size), rows)
    endings = [move for move in moves if _body(k, move[2]) < move[2]]
    if endings:
        k.pipe_barrier("MTE3")
    for target, source, size, rows in endings:
        k.copy_rows("UB->GM", target + size - BLOCK_BYTES, source + _body(k, size), BLOCK_BYTES, rows)


def _body(k: KernelBuilder, size: int) -> int:
    """Return the bytes of a row that `store_rows` stores first: all, or only its whole blocks where copies count these."""
    return size // BLOCK_BYTES * BLOCK_BYTES if k.copies_whole_blocks else size


class Merge:
    """Store of rows of any bytes by one core, where each row overwrites up to 31 bytes behind it.

    Rows in the order of their addresses, without gaps, overwrite only the start of the next ones and the slack behind
    the tensor. For others `kept` is the most rows of a store: the block behind each row is read before, and put back.
    """

    def __init__(self, k: KernelBuilder, kept: int = 0) -> None:
        self._k, self._keeps = k, kept > 0
        if self._keeps:
            self._kept = k.allocate("UB", kept * BLOCK_BYTES, "kept")
            self._stored, self._read = k.flag("MTE3", "MTE2", "rows stored"), k.flag("MTE2", "MTE3", "blocks kept")

    def store(self, target: int, source: int, size: int, rows: CopyLoop = ONE) -> None:
        """Append the store of rows of `size` bytes one by one; each must begin at or behind the end of the one before.

        With `kept`, the block behind each row is loaded before the store and put back after it.
        """
        k = self._k
        if self._keeps:
            k.set_flag(self._stored)
            k.wait_flag(self._stored)
            behind = CopyLoop(rows.times, rows.dst_stride, BLOCK_BYTES)
            k.copy_rows("GM->UB", self._kept, target + size, BLOCK_BYTES, behind)
            k.set_flag(self._read)
            k.wait_flag(self._read)
        for row in range(rows.times):
            place = target + row * rows.dst_stride
            k.pipe_barrier("MTE3")
            k.data_copy("UB", "GM", place, source + row * rows.src_stride, ceil_to(size, BLOCK_BYTES))
            if self._keeps:
                k.pipe_barrier("MTE3")
                k.data_copy("UB", "GM", place + size, self._kept + row * BLOCK_BYTES, BLOCK_BYTES)


def with_whole_end(pieces: list[tuple[int, int]], unit: int) -> list[tuple[int, int]]:
    """Return the pieces (start, count) of a row; a last of several that is below `unit` takes `unit` of the one before."""
    if len(pieces) == 1 or pieces[-1][1] >= unit:
        return pieces
    *others, (start, count), (end, rest) = pieces
    return [*others, (start, count - unit), (end - unit, rest + unit)]
