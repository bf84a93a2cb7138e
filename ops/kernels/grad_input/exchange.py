"""Vector cores' part of a grad_input whose kernel is split by stride (dav-3510): they transpose weights and interleave
columns of dx.

Before the cubes start, all vector cores bring the weights to FRACTAL_Z in the workspace, where the taps of a part lie
apart by a constant step. If both axes are split, a cube stores the parts of a tile of dx to one of two slots of the
workspace, and its vector cores interleave them to rows of dx. (ops-nn, arch35: weights are transposed by the vector
cores, results go through UB or a workspace of that size: stated; the rest is ours.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop, Span
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_HW, SPLIT_NONE, MapPart, split_parts
from ascend_sim.ops.kernels.grad_input.tiles import DataTile, numbered
from ascend_sim.ops.kernels.grad_input.turn import GRAD_INPUT
from ascend_sim.ops.kernels.vector.common import buffer_queue, padded, share
from ascend_sim.ops.kernels.vector.merge import WORKSPACE, turn_weights
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.layouts.layout import ChannelPlace
from ascend_sim.ops.layouts.planar import PlanarMap
from ascend_sim.ops.problem.sizes import ceil_to, cut

_SLOT_FULL, _SLOT_FREE = 2, 3
"""Cross-core flags beside those of `merge` (0 and 1): a slot is full; a slot is free."""
_SLOTS = 2
_ALIGNMENT = 512


@frozen
class Exchange:
    """Workspace and flags by which cube and vector cores of a launch with a split kernel hand over weights and results."""

    call: CubeCall
    tiling: GradInputTiling
    parts: tuple[MapPart, ...]
    layout: FractalZ

    @classmethod
    def of(cls, call: CubeCall, tiling: GradInputTiling) -> Exchange | None:
        """Return the exchange of a launch; None if its kernel is not split."""
        if tiling.kernel_split == SPLIT_NONE:
            return None
        inp = call.inp
        parts = split_parts(inp.problem, tiling.kernel_split)
        return cls(call, tiling, parts, FractalZ.of(inp, inp.itemsize))

    @property
    def pitch(self) -> int:
        """Return the bytes from one channel of a tile to the next in a slot: its base_m pixels, in whole blocks of 32 bytes."""
        return ceil_to(self.tiling.base_m * self.call.inp.itemsize, BLOCK_BYTES)

    @property
    def bytes(self) -> int:
        """Return the bytes of the workspace: the transposed weights, then all slots of all blocks."""
        return self._weights + self.tiling.block_dim * self.turns * len(self.parts) * self.tiling.base_n * self.pitch

    @property
    def turns(self) -> int:
        """Return how many slots a block's tiles use in turn: 2 if both axes of the kernel are split, else 0."""
        return _SLOTS if self.tiling.kernel_split == SPLIT_HW else 0

    @property
    def _weights(self) -> int:
        """Return the bytes of the transposed weights of all real groups, padded to where the slots begin."""
        return ceil_to(self.layout.total_bytes(self.call.inp.real_groups), _ALIGNMENT)

    def offset(self, block: int, number: int, part: int) -> int:
        """Return the byte offset in the workspace of part `part` of tile `number` of a block, in the slot `number` modulo 2."""
        slot = block * _SLOTS + number % _SLOTS
        return self._weights + (slot * len(self.parts) + part) * self.tiling.base_n * self.pitch

    # -- the cube's side -----------------------------------------------------------------------------------------------

    def open(self, k: KernelBuilder, number: int) -> None:
        """Append the cube's wait for a free slot before it stores tile `number`; the first two tiles find theirs free."""
        if number >= _SLOTS:
            k.cross_core_wait(_SLOT_FREE, 2, "FIX")

    def close(self, k: KernelBuilder) -> None:
        """Append the cube's flag that a slot is full, after it has stored the last part of a tile."""
        k.cross_core_set(_SLOT_FULL, 2, "FIX")

    def load_weights(self, k: KernelBuilder, address: int, part: MapPart, plane: int, channels: Span, slices: range) -> None:
        """Load the weights of a part's taps from the workspace to L1 as [cin1][tap][slices][unit][C0].

        `channels` are the C0 blocks of input channels, `slices` the blocks of output channels.
        """
        (first, count), taps, unit = channels, len(part.taps), GradInputTiling.k_unit(self.call.inp)
        row, line = len(slices) * unit * BLOCK_BYTES, self.layout.line_bytes

        def source(block: int, tap: int) -> int:
            place = self.layout.offset(0, plane, first + block, tap, 0) + slices.start * unit * BLOCK_BYTES
            return gm_operand(WORKSPACE, place)

        across = part.problem.k_w
        if count * (taps // across) < taps:  # fewer transfers block by block, a kernel row at a time
            step = (part.taps[1] - part.taps[0]) * line
            for block in range(count):
                for tap in range(0, taps, across):
                    target = address + (block * taps + tap) * row
                    k.copy_rows("GM->L1", target, source(block, part.taps[tap]), row, CopyLoop(across, step, row), operand="B")
            return
        step = self.layout.taps * line
        for number, tap in enumerate(part.taps):
            k.copy_rows("GM->L1", address + number * row, source(0, tap), row, CopyLoop(count, step, taps * row), operand="B")

    # -- the vector cores' side ----------------------------------------------------------------------------------------

    def program(self, k: KernelBuilder, tiles: Sequence[DataTile]) -> Program:
        """Return a vector core's program: transpose its share of weights, then interleave `tiles` if both axes are split."""
        turn_weights(k, self.call.inp, self.tiling.block_dim, self.call.chip.cores.aiv_per_aic)
        if self.tiling.kernel_split == SPLIT_HW:
            room = k.chip.buffers["UB"] // 16 // BLOCK_BYTES * BLOCK_BYTES
            _Interleaver(self, k, room).write(tiles)
        return k.finish()


class _Interleaver:
    """Builder of the vector core's interleaving of parts' columns from slots to rows of dx; `room`: bytes of one part in UB."""

    def __init__(self, exchange: Exchange, k: KernelBuilder, room: int) -> None:
        self.exchange, self.k, self.room = exchange, k, room
        inp = exchange.call.inp
        self.itemsize, self.p = inp.itemsize, inp.problem
        self.parts = exchange.parts
        self.width, self.steps = self.parts[0].problem.w_in, len({part.row for part in self.parts})
        self.incoming = buffer_queue(k, "columns", "MTE2", "V", 2 * room)
        self.outgoing = buffer_queue(k, "rows", "V", "MTE3", 2 * room)
        self.dx = PlanarMap(self.p.c_in, (self.p.d_in, self.p.h_in, self.p.w_in), self.itemsize)

    def write(self, tiles: Sequence[DataTile]) -> None:
        """Append, for each tile of the block, the wait for its slot and the interleaving of its parts' columns into
        rows of dx, for this core's share of the channels; then the slot is freed, if a later tile needs it.
        """
        k, cores = self.k, self.exchange.call.chip.cores.aiv_per_aic
        turns = self.exchange.turns
        pieces = (((*piece, place + turns < len(tiles)), batch) for place, (piece, batch) in enumerate(numbered(tiles, turns)))
        for (number, of_first, again), batch in k.stamped(pieces, "rows", k.block):
            task, m, m_count, n, n_count = of_first.of(batch)
            k.next_tile(counted=False)
            k.cross_core_wait(_SLOT_FULL, 2, "MTE2")
            first, channels = share(min(n_count, self.p.c_in - n), cores, k.sub_block)
            for row, rows, column, columns in rectangles(m, m_count, self.width):
                pitch = padded(columns * self.itemsize)
                for start, count in cut(rows, max(self.room // (self.steps * pitch), 1)):
                    own = DataTile(task, m, m_count, n + first, channels)
                    self.rectangle(number, own, first, Span(row + start, count), Span(column, columns))
            if again:  # the slot is used again
                k.cross_core_set(_SLOT_FREE, 2, "MTE2")
        self.incoming.close()
        self.outgoing.close()

    def rectangle(self, number: int, tile: DataTile, skipped: int, row_span: Span, column_span: Span) -> None:
        """Append the interleaving of a rectangle of a tile, rows and columns of the parts' maps, from the slot of tile `number`
        to the rows of dx.

        `tile` has this core's channels; `skipped` channels of the slot belong to the cores before it.
        """
        task, m, _, n, channels = tile
        (row, rows), (column, columns) = row_span, column_span
        k, size = self.k, self.itemsize
        pitch = padded(columns * size)
        there = [max(min(rows, part.rows - row), 0) for part in self.parts]
        height = sum(have for part, have in zip(self.parts, there, strict=True) if part.column == 0)
        step = rows * self.steps * pitch  # bytes of a channel of one residue
        at_once = max(self.room // step, 1) if height == rows * self.steps else 1  # a short last row leaves a gap
        for start, count in cut(channels, at_once) if channels else []:
            held = self.incoming.acquire()
            for index, (part, have) in enumerate(zip(self.parts, there, strict=True)):
                source = self.exchange.offset(k.block, number, index) + (row * self.width + column - m) * size
                for channel in range(count if have else 0):
                    at = source + (skipped + start + channel) * self.exchange.pitch
                    target = held + part.column * self.room + channel * step + part.row * pitch
                    k.data_copy(
                        "GM",
                        "UB",
                        target,
                        gm_operand(WORKSPACE, at),
                        columns * size,
                        have,
                        self.width * size,
                        self.steps * pitch,
                    )
            self.incoming.publish()
            held, result = self.incoming.take(), self.outgoing.acquire()
            k.interleave(result, held, held + self.room, size, count * height * pitch // size)
            self.incoming.release()
            self.outgoing.publish()
            result = self.outgoing.take()
            left = column * self.p.stride_w
            wide = min(columns * self.p.stride_w, self.p.w_in - left)
            for channel in range(count):
                pixel = row * self.p.stride_h * self.p.w_in + left
                own = n + start + channel
                target = gm_operand(GRAD_INPUT, self.dx.offset(ChannelPlace(task.batch, own, task.depth), pixel))
                k.data_copy("UB", "GM", target, result + channel * 2 * step, wide * size, height, 2 * pitch, self.p.w_in * size)
            self.outgoing.release()


def rectangles(m: int, count: int, width: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (first row, rows, first column, columns) of the rectangles that `count` (1 or more) pixels from pixel `m` on make
    in a map `width` wide, as far as there are any: the end (or a part) of a row, whole rows, the beginning of a row.
    """
    row, column = divmod(m, width)
    if column or count < width:
        columns = min(width - column, count)
        yield row, 1, column, columns
        row, count = row + 1, count - columns
    if count >= width:
        yield row, count // width, 0, width
        row += count // width
    if count > 0 and count % width:
        yield row, 1, 0, count % width
