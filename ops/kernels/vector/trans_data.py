"""TransData: converts between plain layouts and C0 layouts, one tile in UB at a time.

Both directions move the same bytes: `Move`s between GM and a tile's plain side, `BlockTurn`s (vector transposition)
between its plain side and its C0 side, `Move`s between its C0 side and GM. A `TurnTile` lists them once; the direction
decides which side is loaded and which stored.

Where copies count whole blocks (the 910 and 310P) plain rows are loaded rounded up. From C0 to plain a row of a block
or more backs off: the pixels of its last block are transposed once more, behind the others (`backed_off`). Shorter rows
lie back to back in UB; where a tile of them is not whole blocks either, one core converts everything and merges. The
library's kernels back off too, where a last unit is smaller than a block (CANN 8.1.RC1, tbe,
trans_data_negative_target_ntc: stated). Shorter rows: ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen, mutable
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.loops import Where
from ascend_sim.kernel.operands import CopyLoop, TurnLayout
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.vector.common import SOURCE, TARGET, buffer_queue, padded
from ascend_sim.ops.kernels.vector.whole_blocks import Merge, load_rows, store_rows
from ascend_sim.ops.problem.sizes import ceil_div

_TILES = 4  # a tile's plain side and its C0 side take a quarter of UB each (assumed)
ROWS_AT_ONCE = 16  # rows of one TransDataTo5HD
LIST_INSTRUCTIONS = 32  # of one TransDataTo5HD: 16 sources and 16 destinations, each put in a register by the scalar unit

Piece = TypeVar("Piece", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Move:
    """Copy of `rows` rows of `row_bytes` between byte `gm` of a tensor in GM and byte `ub` of a UB tile; strides in bytes."""

    gm: int
    ub: int
    row_bytes: int
    rows: int = 1
    gm_stride: int = 0
    ub_stride: int = 0


@dataclass(frozen=True, slots=True)
class BlockTurn:
    """One transposition (`TransposeBlocks`) between a tile's plain side, from byte `plain` on, and its C0 side, from byte
    `blocks` on; `channels` are at most 32 bytes of them.
    """

    plain: int
    blocks: int
    channels: int
    pixels: int
    layout: TurnLayout


@mutable
class TurnTile:
    """One UB tile of a conversion: copies between GM and its plain side (`plain`), between GM and its C0 side
    (`blocks`), and its transpositions (`turns`).

    `block_bytes` is the size of the C0 side.
    """

    block_bytes: int
    plain: list[Move] = field(default_factory=list)
    blocks: list[Move] = field(default_factory=list)
    turns: list[BlockTurn] = field(default_factory=list)

    def address_lists(self, itemsize: int) -> int:
        """Return how many address lists of TransDataTo5HD the tile's transpositions need.

        A list serves `ROWS_AT_ONCE` rows, whole ones if they are aligned, else 32 bytes of each. Single pixels are
        copied without a transposition.
        """
        rows = 0
        for turn in self.turns:
            if turn.pixels == 1:
                continue
            layout = turn.layout
            steps = ceil_div(turn.pixels * itemsize, BLOCK_BYTES)
            if layout.row_stride % BLOCK_BYTES == 0 and (layout.repeats == 1 or layout.plain_step % BLOCK_BYTES == 0):
                steps = 1
            rows += layout.repeats * turn.channels * steps
        return ceil_div(rows, ROWS_AT_ONCE)

    @property
    def has_gaps(self) -> bool:
        """Return True if some 32-byte blocks of the C0 side get no data (padding, other groups); all of it is zeroed first."""
        return sum(turn.layout.repeats * turn.pixels for turn in self.turns) * BLOCK_BYTES < self.block_bytes


@frozen
class BlockLayout:
    """Layout in channel blocks: `c0` channels of `itemsize` bytes each.

    A block is one or more slices of 32 bytes, the width of the vector unit's transposition: fp32 in blocks of 16
    channels has two slices of 8. SimError unless it is 8 or 16 channels of 2 or 4 bytes, and whole slices.
    """

    c0: int
    itemsize: int

    @classmethod
    def of(cls, itemsize: int, c0: int | None = None) -> BlockLayout:
        """Return the layout of blocks of 32 bytes, or of `c0` channels if given. SimError for sizes TransData does not take."""
        return cls(c0 or BLOCK_BYTES // max(itemsize, 1), itemsize)

    def __post_init__(self) -> None:
        if self.itemsize not in (2, 4) or self.c0 not in (8, 16) or self.c0 % self.slice_channels:
            raise SimError(
                f"TransData: C0 = {self.c0} with {self.itemsize}-byte elements; blocks are 8 or 16 channels of "
                f"2 or 4 bytes and at least {BLOCK_BYTES} bytes"
            )

    @property
    def slice_channels(self) -> int:
        """Return the channels in a slice of 32 bytes."""
        return BLOCK_BYTES // self.itemsize

    @property
    def block_bytes(self) -> int:
        """Return the bytes of one pixel's block."""
        return self.c0 * self.itemsize

    @property
    def slices(self) -> int:
        """Return the number of 32-byte slices of a block."""
        return self.block_bytes // BLOCK_BYTES

    def pixels_per_tile(self, tile: int) -> int:
        """Return how many pixels of one channel block fit either side of a tile of `tile` bytes, in rows of whole 32 bytes."""
        return tile // self.block_bytes // self.slice_channels * self.slice_channels

    def piece_bytes(self, pixels: int, row_pitch: int) -> int:
        """Return the bytes of `pixels` of one channel block on a tile's larger side: `pixels` blocks, or C0 plain rows that are
        `row_pitch` bytes apart.
        """
        return max(pixels * self.block_bytes, self.c0 * row_pitch)

    def pitch(self, pixels: int) -> int:
        """Return the bytes in UB from one plain row of `pixels` pixels to the next if each begins on a 32-byte block."""
        return padded(pixels * self.itemsize)


def plane_runs(start: int, count: int, taps: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (positions before it, kernel plane, tap, positions) for each run, within one kernel plane of `taps` taps, of
    `count` kernel positions from `start` on.
    """
    done = 0
    while done < count:
        plane, tap = divmod(start + done, taps)
        run = min(taps - tap, count - done)
        yield done, plane, tap, run
        done += run


def tile_bytes(ub: int) -> int:
    """Return the bytes of one side of a tile: a quarter of a UB of `ub` bytes, in whole 32-byte blocks."""
    return ub // _TILES // BLOCK_BYTES * BLOCK_BYTES


def backed_off(job: TurnTile, itemsize: int) -> TurnTile:
    """Return the tile with the last 32 bytes of each plain row transposed once more behind its whole blocks, as
    `store_rows` needs; unchanged if rows are whole blocks. No row may be shorter than 32 bytes.
    """
    if all(m.row_bytes % BLOCK_BYTES == 0 for m in job.plain):
        return job
    unit, turns = BLOCK_BYTES // itemsize, []
    for t in job.turns:
        body = t.pixels // unit * unit
        last = t.blocks + (t.pixels - unit) * t.layout.block_stride
        turns += [replace(t, pixels=body), replace(t, plain=t.plain + body * itemsize, blocks=last, pixels=unit)]
    return replace(job, turns=turns)


def turn_tiles(
    k: KernelBuilder,
    pieces: Iterable[tuple[Piece, Where]],
    tiles_of: Callable[[Piece, Where], Iterable[TurnTile]],
    to_c0: bool,
    itemsize: int,
    slots: tuple[int, int] = (SOURCE, TARGET),
    merge: Callable[[KernelBuilder], Merge] | None = None,
) -> None:
    """Append the conversion of a block's tiles, from the source through UB to the target; `slots` are the numbers of
    both tensors.

    `pieces` are (part of the tensors, place) as a stamped loop takes them; `tiles_of` returns the tiles of one. `to_c0`
    is the direction. `merge` makes the store of rows where one block merges them, else None. Buffers are single:
    published counters (AlexNet on a 910B2) show that the pipes of the compiled kernels hardly overlap, and that the
    scalar unit prepares the address lists of a tile while the vector unit waits.
    """
    tile = tile_bytes(k.chip.buffers["UB"])
    incoming = buffer_queue(k, "in", "MTE2", "V", tile, 1)
    outgoing = buffer_queue(k, "out", "V", "MTE3", tile, 1)
    merging = None if merge is None else merge(k)
    for piece, where in k.stamped(pieces, "turn", to_c0, merge is None):
        for job in tiles_of(piece, where):
            if not to_c0 and merging is None and k.copies_whole_blocks:
                job = backed_off(job, itemsize)
            _turn_tile(k, job, to_c0, itemsize, slots, (incoming, outgoing), merging)
    incoming.close()
    outgoing.close()


def _turn_tile(
    k: KernelBuilder,
    job: TurnTile,
    to_c0: bool,
    itemsize: int,
    slots: tuple[int, int],
    queues: tuple[BufferQueue[int], BufferQueue[int]],
    merge: Merge | None,
) -> None:
    """Append the conversion of one tile: load (nothing for one of padding only), to C0 zero all of the target if it has
    gaps, transpose, store (with `merge` row by row in order).

    `to_c0`: from plain rows to blocks of channels, else back. `slots` are the numbers of the source and the target
    among the launch's tensors, `queues` the UB queues of loaded and of converted tiles.
    """
    incoming, outgoing = queues
    k.next_tile()
    read, written = (job.plain, job.blocks) if to_c0 else (job.blocks, job.plain)
    source = 0
    if read:
        room = incoming.acquire()
        for m in read:
            rows = CopyLoop(m.rows, m.gm_stride, m.ub_stride)
            load_rows(k, room + m.ub, gm_operand(slots[0], m.gm), m.row_bytes, rows)
        incoming.publish()
        source = incoming.take()
    if job.turns:
        k.scalar_wait("V")
        k.scalar(job.address_lists(itemsize) * LIST_INSTRUCTIONS * k.issue_cycles)
    target = outgoing.acquire()
    if to_c0 and job.has_gaps:
        k.vector_duplicate(target, "float32", job.block_bytes // 4)
        k.pipe_barrier("V")
    for t in job.turns:
        start, end = (t.plain, t.blocks) if to_c0 else (t.blocks, t.plain)
        k.transpose_blocks(target + end, source + start, to_c0, itemsize, t.channels, t.pixels, t.layout)
    if read:
        incoming.release()
    outgoing.publish()
    result = outgoing.take()
    moves = [
        (gm_operand(slots[1], m.gm), result + m.ub, m.row_bytes, CopyLoop(m.rows, m.ub_stride, m.gm_stride)) for m in written
    ]
    if merge is None:
        store_rows(k, *moves)
    else:
        for move in moves:
            merge.store(*move)
    outgoing.release()
