"""Loads of grad_input's kernels to L1: rows of gradOutput, with zeros between the pixels where stride > 1, and weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span
from ascend_sim.kernel.queue import ZeroedQueue
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import HeldOperand, ub_share
from ascend_sim.ops.kernels.cube.tpipe import ping_pong
from ascend_sim.ops.kernels.grad_input.capacity import grad_input_l1, is_resident
from ascend_sim.ops.kernels.grad_input.exchange import Exchange
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, variant_of
from ascend_sim.ops.kernels.grad_input.parts import MapPart
from ascend_sim.ops.kernels.grad_input.tasks import GradInputTask
from ascend_sim.ops.kernels.vector.merge import WORKSPACE, is_merged
from ascend_sim.ops.layouts import weights, y_map
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.layouts.layout import ChannelPlace, FilterBox, MapBox, Pitches
from ascend_sim.ops.problem.sizes import ceil_div, cut
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import RowWindow, pad_before, read_width

GRAD_OUTPUT, WEIGHT = 0, 1
"""GM slots of the operands."""


class SpreadBox(NamedTuple):
    """Box of zero-inserted gradOutput: channel blocks of a group, rows from the map's top, columns from L1's first."""

    block: int
    blocks: int
    row: int
    rows: int
    column: int
    columns: int

    @property
    def size(self) -> int:
        """Return the bytes of the box in a buffer: 32 for each pixel of each channel block."""
        return self.blocks * self.rows * self.columns * BLOCK_BYTES


def spread_boxes(blocks: Span, rows: Span, columns: int, room: int) -> Iterator[SpreadBox]:
    """Yield boxes of at most `room` pixels, each in one piece of L1, that cover `blocks` x `rows` x `columns`: whole
    channel blocks, else rows of one, else part of a row.
    """
    at_once = max(room // (rows.length * columns), 1)
    most_rows, most_columns = max(room // columns, 1), min(columns, room)
    for block, block_count in cut(blocks.length, at_once):
        for row, row_count in cut(rows.length, most_rows):
            for column, column_count in cut(columns, most_columns):
                yield SpreadBox(blocks.start + block, block_count, rows.start + row, row_count, column, column_count)


class PartMap:
    """One part of dx for the program: its problem, number of taps, pieces of the kernel, and the columns of zero-inserted
    gradOutput that it reads: `width` from the first one on, of which the first `crop` are left out.
    """

    def __init__(self, index: int, part: MapPart, pieces: Sequence[MapPart] | None = None) -> None:
        p = self.p = part.problem
        self.index, self.part = index, part
        self.pieces = [self] if pieces is None else [PartMap(index, piece) for piece in pieces]
        self.taps = len(part.taps)
        self.pixels = part.rows * p.w_in
        _, left = pad_before(p)
        self.crop, self.pad_left = max(-left, 0), max(left, 0)
        self.width = read_width(p)
        self.strided = p.stride_h > 1 or p.stride_w > 1


class OperandLoads:
    """L1 buffers of A (gradOutput) and B (weights) of a block's program, and the loads of what they do not hold yet."""

    def __init__(
        self,
        call: CubeCall,
        tiling: GradInputTiling,
        k: KernelBuilder,
        largest: TilingInput,
        exchange: Exchange | None,
        open_rows: bool,
    ) -> None:
        self.call, self.tiling, self.k, self.exchange = call, tiling, k, exchange
        inp = self.inp = call.inp
        self.c0 = inp.c0
        self.unit = tiling.k_unit(inp)
        self.grad_output = y_map(inp)
        self.merged = is_merged(inp)
        filters = FractalZ.of(inp, inp.itemsize) if self.merged else weights(inp)
        self.filters = replace(filters, joined=False) if open_rows and isinstance(filters, FractalZ) else filters
        self.keeps_operands = variant_of(inp).keeps_operands
        self.resident = is_resident(tiling, largest)
        self.spread: ZeroedQueue | None = None
        if inp.family.coupled and (largest.problem.stride_h > 1 or largest.problem.stride_w > 1):
            self.spread = ZeroedQueue(k, "spread", [k.allocate("UB", ub_share(k), f"spread[{i}]") for i in range(2)])
        producer = "MTE3" if self.spread is not None else "MTE2"
        bytes_a, bytes_b = grad_input_l1(tiling, largest)
        self.buffer_a = bytes_a // tiling.al1_buffers
        a1, b1 = (tiling.al1_buffers, self.buffer_a), (tiling.bl1_buffers, bytes_b // tiling.bl1_buffers)
        self.a1: HeldOperand
        self.b1: HeldOperand
        self.fills_buffer = open_rows
        if open_rows:
            self.a1, self.b1 = ping_pong(k, a1, b1)
        else:
            self.a1, self.b1 = HeldOperand(k, "A1", *a1, producer), HeldOperand(k, "B1", *b1)

    def close(self) -> None:
        """Release the buffers at the end of the program, so that none of their flags stays set."""
        self.a1.close()
        self.b1.close()
        if self.spread is not None:
            self.spread.close()

    def gradient(
        self, part_map: PartMap, task: GradInputTask, plane: int, blocks: Span, exist: int, window: RowWindow, m: int, n: int
    ) -> None:
        """Load the rows `window` of gradOutput's channel `blocks` to L1 for a tile of dx from pixel `m` and channel `n`
        on, with zeros between pixels if stride > 1.

        The group has `exist` channels; the others become zero. On coupled chips with a stride the rows are built in UB
        first. Nothing is loaded if L1 holds them.
        """
        k = self.k
        key: tuple[object, ...] = (task, part_map.part.taps, plane, blocks.start, m, n)  # never resident across tiles
        if self.keeps_operands:
            key = (task, plane, blocks.start, m)
        address = self.a1.begin(key)
        if address is None:
            return
        rows, width = Span(window.first_row, window.rows), part_map.width - part_map.crop
        if self.spread is not None:
            for box in spread_boxes(blocks, rows, width, ub_share(k) // BLOCK_BYTES):
                buffer = self.spread.acquire_zeroed(box.size)
                self.load_pixels(part_map, task, plane, box, exist, "UB", buffer)
                self.spread.publish()
                line = (box.block - blocks.start) * rows.length + box.row - rows.start
                target = address + (line * width + box.column) * BLOCK_BYTES
                k.data_copy("UB", "L1", target, self.spread.take(), box.size, operand="A")
                self.spread.release()
        else:
            whole = SpreadBox(*blocks, *rows, 0, width)
            if part_map.strided:
                k.fill("L1", address, self.buffer_a if self.fills_buffer else whole.size)
                k.pipe_barrier("MTE2")
            self.load_pixels(part_map, task, plane, whole, exist, "L1", address)
        self.a1.loaded()

    def load_pixels(
        self, part_map: PartMap, task: GradInputTask, plane: int, box: SpreadBox, exist: int, space: str, address: int
    ) -> None:
        """Load the gradOutput pixels in a box of the zero-inserted map to their places in the buffer of `space` at
        `address`; zeros there must be written before.

        Channels beyond `exist` are not loaded.
        """
        p, row_pitch = part_map.p, box.columns * BLOCK_BYTES
        # Real rows and columns are those at multiples of the stride; the first ones that are inside the box.
        row = ceil_div(box.row, p.stride_h)
        rows = (box.row + box.rows - 1) // p.stride_h - row + 1
        left = part_map.crop + box.column
        column = ceil_div(left, p.stride_w)
        columns = (left + box.columns - 1) // p.stride_w - column + 1
        if rows <= 0 or columns <= 0:
            return
        target = address + (row * p.stride_h - box.row) * row_pitch + (column * p.stride_w - left) * BLOCK_BYTES
        channel = box.block * self.c0
        wanted = MapBox(
            ChannelPlace(task.batch, task.group * self.inp.cout_g + channel, plane),
            min(box.blocks * self.c0, exist - channel),
            Span(row, rows),
            Span(part_map.part.source + column, columns),
        )
        pitches = Pitches(p.stride_h * row_pitch, p.stride_w * BLOCK_BYTES, box.rows * row_pitch)
        self.grad_output.load(self.k, GRAD_OUTPUT, wanted, target, pitches, "A", space)

    def weights(
        self, part_map: PartMap, task: GradInputTask, plane: int, slices: range, m: int, channels: Span, exist: int
    ) -> None:
        """Load the weights of a part's taps of kernel plane `plane` to L1 as [cin1][tap][slices][unit][C0], unless L1
        holds them.

        `slices` are blocks of output channels, `channels` the input channels, of which `exist` exist; the others become
        zero. `m` is the first pixel of the tile: another tile loads them again, unless the weights stay in L1 or the chip is
        coupled. With a split kernel or merged groups they come from the vector cores' workspace.
        """
        n, n_count = channels
        key: tuple[object, ...] = (task, part_map.part.taps, plane, slices, n, None if self.resident else m)  # for one task
        if self.keeps_operands or self.tiling.full_load:
            key = (task.group, part_map.part.taps, plane, slices, n)
        address = self.b1.begin(key)
        if address is None:
            return
        if self.exchange is not None:
            held = Span(n // self.c0, ceil_div(n_count, self.c0))
            self.exchange.load_weights(self.k, address, part_map.part, plane, held, slices)
        else:
            first, end = slices.start * self.unit, min(slices.stop * self.unit, self.inp.cout_g)
            box = FilterBox(
                group=task.group,
                filters=Span(first, end - first),
                channels=Span(n, exist),
                plane=plane,
                taps=Span(part_map.part.taps[0], part_map.taps),
            )
            self.filters.load(self.k, WORKSPACE if self.merged else WEIGHT, box, address, len(slices) * self.unit)
        self.b1.loaded()
