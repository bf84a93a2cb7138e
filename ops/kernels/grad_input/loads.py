"""What grad_input's kernels bring to L1: rows of gradOutput, spread out where stride > 1, and weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import HeldOperand, ZeroedQueue, ub_share
from ascend_sim.ops.kernels.grad_input.capacity import grad_input_l1, is_resident, k_unit
from ascend_sim.ops.kernels.grad_input.exchange import Exchange
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.split import Part
from ascend_sim.ops.kernels.grad_input.tasks import GradInputTask
from ascend_sim.ops.kernels.grad_input.window import RowWindow, pad_before
from ascend_sim.ops.layouts.blocked import WeightLayout
from ascend_sim.ops.layouts.planar import Channels, FilterBox, MapBox, Pitches, Place, load_channels, load_filters
from ascend_sim.ops.problem.sizes import ceil_div, cut
from ascend_sim.ops.problem.tiling_input import TilingInput

GRAD_OUTPUT, WEIGHT = 0, 1
"""GM slots of the operands."""


@dataclass(frozen=True)
class Piece:
    """A piece of the zero-inserted map in L1, which is [blocks][rows][columns] of 32 bytes: `row` counts from the map's top,
    `column` from the first one that L1 holds.
    """

    block: int
    blocks: int
    row: int
    rows: int
    column: int
    columns: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.blocks * self.rows * self.columns * BLOCK_BYTES


def spread_pieces(blocks: int, rows: Span, columns: int, room: int) -> Iterator[Piece]:
    """Pieces of at most `room` pixels that adjoin in L1: whole blocks, else rows of a block, else a part of a row."""
    first, count = rows
    at_once = max(room // (count * columns), 1)
    most_rows, most_columns = max(room // columns, 1), min(columns, room)
    for block, block_count in cut(blocks, at_once):
        for row, row_count in cut(count, most_rows):
            for column, column_count in cut(columns, most_columns):
                yield Piece(block, block_count, first + row, row_count, column, column_count)


class PartMap:
    """One part of the problem as load_data_3d sees it (without a cut the only one): map, taps, the pieces it is summed of."""

    def __init__(self, index: int, part: Part, pieces: Sequence[Part] | None = None) -> None:
        p = self.p = part.problem
        self.index, self.part = index, part
        self.pieces = [self] if pieces is None else [PartMap(index, piece) for piece in pieces]
        self.taps = len(part.taps)
        self.pixels = part.rows * p.w_in
        self.width = (p.w_out - 1) * p.stride_w + 1
        _, left = pad_before(p)
        self.crop, self.pad_left = max(-left, 0), max(left, 0)
        self.strided = p.stride_h > 1 or p.stride_w > 1


class OperandLoads:
    """The L1 buffers of one block's program and the loads that fill them; what L1 holds already is not loaded again."""

    def __init__(
        self, call: CubeCall, tiling: GradInputTiling, k: KernelBuilder, largest: TilingInput, exchange: Exchange | None
    ) -> None:
        self.tiling, self.k, self.exchange = tiling, k, exchange
        inp = self.inp = call.inp
        self.p, self.c0, self.itemsize = inp.problem, inp.c0, inp.itemsize
        self.unit, self.layout = k_unit(inp), WeightLayout.of(inp, inp.itemsize)
        self.channel_blocks = ceil_div(self.p.c_out, self.c0)
        self.coupled = k.chip.cores.coupled
        self.resident = is_resident(tiling, largest)
        self.spread: ZeroedQueue | None = None
        if self.coupled and (largest.problem.stride_h > 1 or largest.problem.stride_w > 1):
            self.spread = ZeroedQueue(k, "spread", [k.allocate("UB", ub_share(k), f"spread[{i}]") for i in range(2)])
        producer = "MTE3" if self.spread is not None else "MTE2"
        a1, b1 = grad_input_l1(tiling, largest)
        self.a1 = HeldOperand(k, "A1", tiling.al1_buffers, a1 // tiling.al1_buffers, producer)
        self.b1 = HeldOperand(k, "B1", tiling.bl1_buffers, b1 // tiling.bl1_buffers)

    def close(self) -> None:
        """End of the program."""
        self.a1.close()
        self.b1.close()
        if self.spread is not None:
            self.spread.close()

    def gradient(
        self, part_map: PartMap, task: GradInputTask, plane: int, blocks: Span, window: RowWindow, m: int, n: int
    ) -> None:
        """Rows `window` (behind pixels m ..) of channel blocks of gradOutput, spread out where stride > 1."""
        p, k = self.p, self.k
        key: tuple[object, ...] = (task, part_map.part.taps, plane, blocks.start, m, n)  # never resident across tiles
        if self.coupled:
            key = (task, plane, blocks.start, m)
        address = self.a1.begin(key)
        if address is None:
            return
        if self.inp.direct:
            self.load_direct(part_map, task, plane, blocks, window, address)
            self.a1.loaded()
            return
        first_block = task.group * self.inp.cout_g // self.c0 + blocks.start
        line = (task.batch * p.d_out + plane) * self.channel_blocks + first_block
        source = line * p.h_out * p.w_out * BLOCK_BYTES
        rows, width = Span(window.first_row, window.rows), part_map.width - part_map.crop
        if self.spread is not None:
            for piece in spread_pieces(blocks.length, rows, width, ub_share(k) // BLOCK_BYTES):
                buffer = self.spread.acquire_zeroed(piece.size)
                self.copy_pixels(part_map, "UB", buffer, source, piece)
                self.spread.publish()
                offset = ((piece.block * rows.length + piece.row - rows.start) * width + piece.column) * BLOCK_BYTES
                k.data_copy("UB", "L1", address + offset, self.spread.take(), piece.size, operand="A")
                self.spread.release()
        else:
            whole = Piece(0, blocks.length, *rows, 0, width)
            if part_map.strided:
                k.fill("L1", address, whole.size)
                k.pipe_barrier("MTE2")
            self.copy_pixels(part_map, "L1", address, source, whole)
        self.a1.loaded()

    def load_direct(
        self, part_map: PartMap, task: GradInputTask, plane: int, blocks: Span, window: RowWindow, address: int
    ) -> None:
        """The same rows from NCDHW."""
        p, k, crop = part_map.p, self.k, part_map.crop
        width = part_map.width - crop
        row_pitch = width * BLOCK_BYTES
        if part_map.strided:
            k.fill("L1", address, blocks.length * window.rows * row_pitch)
            k.pipe_barrier("MTE2")
        row, column = ceil_div(window.first_row, p.stride_h), ceil_div(crop, p.stride_w)
        rows = (window.first_row + window.rows - 1) // p.stride_h - row + 1
        columns = (crop + width - 1) // p.stride_w - column + 1
        if rows <= 0 or columns <= 0:
            return
        target = address + (row * p.stride_h - window.first_row) * row_pitch
        target += (column * p.stride_w - crop) * BLOCK_BYTES
        channel, column = blocks.start * self.c0, part_map.part.source + column
        channels = min(blocks.length * self.c0, self.inp.cout_g - channel)
        place = Place(task.batch, task.group * self.inp.cout_g + channel, plane)
        box = MapBox(place, channels, Span(row, rows), Span(column, columns))
        pitches = Pitches(p.stride_h * row_pitch, p.stride_w * BLOCK_BYTES, window.rows * row_pitch)
        load_channels(k, target, GRAD_OUTPUT, Channels.of(self.inp, "out", self.itemsize), box, pitches, "A")

    def copy_pixels(self, part_map: PartMap, space: str, address: int, source: int, piece: Piece) -> None:
        """The real pixels of a piece of the zero-inserted map to their places in a buffer; block 0 starts at `source` in GM."""
        p, k = self.p, self.k
        row_pitch = piece.columns * BLOCK_BYTES
        block_pitch, plane_bytes = piece.rows * row_pitch, p.h_out * p.w_out * BLOCK_BYTES
        # Real rows and columns are those at multiples of the stride; the first ones that are inside the piece.
        row = ceil_div(piece.row, p.stride_h)
        rows = (piece.row + piece.rows - 1) // p.stride_h - row + 1
        left = part_map.crop + piece.column
        column = ceil_div(left, p.stride_w)
        columns = (left + piece.columns - 1) // p.stride_w - column + 1
        if rows <= 0 or columns <= 0:
            return
        source += piece.block * plane_bytes + (row * p.w_out + part_map.part.source + column) * BLOCK_BYTES
        target = address + (row * p.stride_h - piece.row) * row_pitch + (column * p.stride_w - left) * BLOCK_BYTES
        if p.stride_w > 1:
            for b in range(piece.blocks):
                for r in range(rows):
                    k.data_copy(
                        "GM", space, target + b * block_pitch + r * p.stride_h * row_pitch,
                        gm_operand(GRAD_OUTPUT, source + b * plane_bytes + r * p.w_out * BLOCK_BYTES),
                        BLOCK_BYTES, columns, BLOCK_BYTES, p.stride_w * BLOCK_BYTES, operand="A",
                    )  # fmt: skip
        elif p.stride_h > 1 or columns < p.w_out:
            for b in range(piece.blocks):
                k.data_copy(
                    "GM", space, target + b * block_pitch, gm_operand(GRAD_OUTPUT, source + b * plane_bytes),
                    columns * BLOCK_BYTES, rows, p.w_out * BLOCK_BYTES, p.stride_h * row_pitch, operand="A",
                )  # fmt: skip
        else:
            k.data_copy(
                "GM", space, target, gm_operand(GRAD_OUTPUT, source), rows * row_pitch, piece.blocks, plane_bytes,
                block_pitch, operand="A",
            )  # fmt: skip

    def weights(
        self, part_map: PartMap, task: GradInputTask, plane: int, slices: range, m: int, channels: Span
    ) -> None:
        """Weights of output-channel blocks `slices` for input `channels`: [cin1][tap][slices][unit][C0] in L1."""
        n, n_count = channels
        key: tuple[object, ...] = (
            task,
            part_map.part.taps,
            plane,
            slices,
            n,
            None if self.resident else m,
        )  # for one task
        if self.coupled or self.tiling.full_load:
            key = (task.group, part_map.part.taps, plane, slices, n)
        address = self.b1.begin(key)
        if address is None:
            return
        w, p = self.layout, self.p
        if self.exchange is not None:
            held = Span(n // self.c0, ceil_div(n_count, self.c0))
            self.exchange.load_weights(self.k, address, part_map.part, plane, held, slices)
        elif self.inp.direct:
            first, end = slices.start * self.unit, min(slices.stop * self.unit, self.inp.cout_g)
            box = FilterBox(
                filters=Span(task.group * self.inp.cout_g + first, end - first),
                channels=Span(n, min(n_count, self.inp.cin_g - n)),
                plane=plane,
                taps=Span(part_map.part.taps[0], part_map.taps),
            )
            rows = len(slices) * self.unit
            load_filters(self.k, address, WEIGHT, p, box, rows, self.itemsize, self.inp.channels_last)
        else:
            lines = ceil_div(n_count, self.c0) * w.taps
            source = w.offset(task.group, plane, n // self.c0, 0, slices.start)
            row, pitch = len(slices) * w.fractal_bytes, w.cout1 * w.fractal_bytes
            if row == pitch:
                row, lines, pitch = row * lines, 1, 0
            self.k.data_copy("GM", "L1", address, gm_operand(WEIGHT, source), row, lines, pitch, row, operand="B")
        self.b1.loaded()
