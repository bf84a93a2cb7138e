"""grad_input: img2col of the zero-inserted gradOutput x the turned weights, one L0C tile at a time.

    dx[M, N] = sum over kernel planes of im2col(gradOutput)[M, K] x rot180(weight)[K, N]
    M = H_in*W_in pixels, N = C_in, K = (C_out blocks of C0, k_h, k_w, C0)

Dataflow: gradOutput (NDC1HWC0) GM -> L1, with zeros between the pixels where stride > 1 (a coupled core builds them in UB);
load_data_3d -> L0A, always at stride 1. Weights (FRACTAL_Z) GM -> L1; to L0B transposed and with the taps in reverse.
Results leave L0C cast, in NDC1HWC0; or in NCDHW, on dav-2201 by way of the vector cores (`grad_input_turn`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.ops.kernels.cube_common import (
    BLOCK_BYTES,
    CubeCall,
    CubePipeline,
    HeldOperand,
    WeightLayout,
    ZeroedQueue,
    ub_share,
)
from ascend_sim.ops.kernels.direct import Channels, load_channels, load_filters
from ascend_sim.ops.kernels.grad_input_turn import GRAD_INPUT, SLOTS, Slot, Tile, turn_program
from ascend_sim.ops.kernels.vector_common import cut
from ascend_sim.ops.params import ConvProblem
from ascend_sim.ops.tiling.capacity import grad_input_l1, is_resident
from ascend_sim.ops.tiling.fields import FRACTAL, GradInputTiling, ceil_div, ceil_to
from ascend_sim.ops.tiling.tasks import GradInputTask, grad_input_tasks
from ascend_sim.ops.tiling.window import RowWindow, needed_rows, pad_before
from ascend_sim.runtime import Task

GRAD_OUTPUT, WEIGHT = 0, 1


def grad_input_task(
    call: CubeCall,
    tiling: GradInputTiling,
    tensors: list[Allocation],
    name: str,
    op_type: str,
    block_dim: int | None = None,
) -> Task:
    """The kernel launch; `tensors` are gradOutput, weight and gradInput in the layouts above, in the compute dtype.

    With a fourth tensor, the slots of `grad_input_turn`, gradInput is NCDHW, turned by the vector cores. `block_dim`
    launches another number of blocks than the tiling's.
    """
    if block_dim is not None:
        tiling = tiling.but(block_dim=block_dim)
    table = InstructionTable(call.chip)
    sizes = [tensor.size for tensor in tensors]

    turned = len(tensors) > SLOTS

    def build(block: int) -> list[Program]:
        k = KernelBuilder(table, block, call.core_kind, sizes, disarm=call.disarm)
        programs = [_Builder(call, tiling, k, turned).program()]
        if turned:
            tiles = grad_input_tiles(call, tiling, block)
            for sub_block in range(call.chip.cores.aiv_per_aic):
                k = KernelBuilder(table, block, "AIV", sizes, sub_block=sub_block, disarm=call.disarm)
                programs.append(turn_program(k, call, tiling, tiles))
        return programs

    storage = "float32" if call.inp.itemsize == 4 else call.dtype
    names = ("grad_output", "weight", "grad_input")
    formats = ("NC1HWC0", "FRACTAL_Z", "NCDHW" if turned else "NC1HWC0")
    info = call.info(tiling, dict.fromkeys(names, storage), dict(zip(names, formats, strict=True)))
    return Task(name, op_type, "MIX" if turned else call.core_kind, tiling.block_dim, tensors, build, info=info)


def grad_input_tiles(call: CubeCall, tiling: GradInputTiling, block: int) -> list[Tile]:
    """Every tile of a block, in order.

    On coupled chips, whose L1 keeps an operand for as long as its tiles follow each other, in the order that loads less:
    all tasks for one strip of base_n channels, or all strips for one tile of pixels.
    """
    found = []
    inp, p = call.inp, call.inp.problem
    for task in grad_input_tasks(tiling, inp, block):
        # The last real group may lack channels: what it does not have is not computed.
        strips = pieces(task.n_start, _channels_end(call, task), tiling.step_n * tiling.base_n)
        maps = pieces(task.m_start, task.m_start + task.m_count, tiling.step_m * tiling.base_m)
        for strip, held in product(strips, maps):
            found += [
                Tile(task, *m, *n)
                for n in pieces(strip[0], sum(strip), tiling.base_n)
                for m in pieces(held[0], sum(held), tiling.base_m)
            ]
    if call.chip.cores.coupled and found:
        places = {
            tile: (held_pixels(tiling, tile.task, tile.m)[0], held_channels(call, tiling, tile.task, tile.n)[0])
            for tile in found
        }
        strips_count = len({n for _, n in places.values()})
        maps_count = len({(tile.task, m) for tile, (m, _) in places.items()})
        k_total = inp.cout_padded * inp.taps
        weights = inp.cin1 * inp.c0 * k_total  # elements of all strips
        pixels = p.h_out * p.w_out * inp.cout_padded * len({tile.task for tile in found})
        keeps_pixels = tiling.step_ka * tiling.base_k >= k_total
        keeps_weights = tiling.step_kb * tiling.base_k >= k_total
        # Weights stay in the L2, which all cores read them from; a map that is read again may have left it.
        by_strips = 2 * pixels * strips_count + weights * (1 if keeps_weights else maps_count)
        by_pixels = 2 * pixels * (1 if keeps_pixels else strips_count) + weights * maps_count
        if by_strips <= by_pixels:
            found.sort(key=lambda tile: (tile.task.group, places[tile][1]))
        else:
            found.sort(key=lambda tile: (tile.task.group, tile.task.batch, tile.task.depth, *places[tile]))
    return found


def _channels_end(call: CubeCall, task: GradInputTask) -> int:
    """The end of a task's channels that exist, in whole C0."""
    channels = ceil_to(call.group_channels(task.group, call.inp.problem.c_in, call.inp.cin_g), call.inp.c0)
    return min(task.n_start + task.n_count, channels)


def held_pixels(tiling: GradInputTiling, task: GradInputTask, m: int) -> tuple[int, int]:
    """First pixel and number of those whose rows L1 holds together with pixel `m`."""
    held = tiling.step_m * tiling.base_m
    start = task.m_start + (m - task.m_start) // held * held
    return start, min(held, task.m_start + task.m_count - start)


def held_channels(call: CubeCall, tiling: GradInputTiling, task: GradInputTask, n: int) -> tuple[int, int]:
    """First channel and number of those whose weights L1 holds together with channel `n`."""
    held = tiling.step_n * tiling.base_n
    start = task.n_start + (n - task.n_start) // held * held
    return start, min(held, _channels_end(call, task) - start)


def contributing_planes(problem: ConvProblem, depth: int) -> Iterator[tuple[int, int]]:
    """(kernel plane, gradOutput plane) pairs that reach input plane `depth`."""
    for plane in range(problem.k_d):
        position = depth + problem.pad_front - plane * problem.dilation_d
        if position % problem.stride_d == 0 and 0 <= position // problem.stride_d < problem.d_out:
            yield plane, position // problem.stride_d


def pieces(start: int, end: int, size: int) -> list[tuple[int, int]]:
    """(first, number) of runs of `size` from `start`, the last one shorter."""
    return [(first, min(size, end - first)) for first in range(start, end, size)]


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


def spread_pieces(blocks: int, rows: tuple[int, int], columns: int, room: int) -> Iterator[Piece]:
    """Pieces of at most `room` pixels that adjoin in L1: whole blocks, else rows of a block, else a part of a row.

    `rows` is the first row and their number.
    """
    first, count = rows
    at_once = max(room // (count * columns), 1)
    most_rows, most_columns = max(room // columns, 1), min(columns, room)
    for block, block_count in cut(blocks, at_once):
        for row, row_count in cut(count, most_rows):
            for column, column_count in cut(columns, most_columns):
                yield Piece(block, block_count, first + row, row_count, column, column_count)


class _Builder:
    """Writes the program of one block."""

    def __init__(self, call: CubeCall, tiling: GradInputTiling, k: KernelBuilder, turned: bool = False) -> None:
        self.call, self.tiling, self.k = call, tiling, k
        self.slot = Slot(k, tiling, call.inp) if turned else None
        inp = self.inp = call.inp
        p = self.p = inp.problem
        self.c0, self.itemsize = inp.c0, inp.itemsize
        self.weights = WeightLayout.of(inp, inp.itemsize)
        self.width = (p.w_out - 1) * p.stride_w + 1
        _, left = pad_before(p)
        self.crop, self.pad_left = max(-left, 0), max(left, 0)
        self.channel_blocks = ceil_div(p.c_out, self.c0)
        self.coupled = k.chip.cores.coupled
        self.resident = is_resident(tiling, inp)
        a1, b1 = grad_input_l1(tiling, inp)
        self.strided = p.stride_h > 1 or p.stride_w > 1
        self.spread: ZeroedQueue | None = None
        if self.strided and k.chip.cores.coupled:
            self.spread = ZeroedQueue(k, "spread", [k.allocate("UB", ub_share(k), f"spread[{i}]") for i in range(2)])
        producer = "MTE3" if self.spread is not None else "MTE2"
        self.a1 = HeldOperand(k, "A1", tiling.al1_buffers, a1 // tiling.al1_buffers, producer)
        self.b1 = HeldOperand(k, "B1", tiling.bl1_buffers, b1 // tiling.bl1_buffers)
        tile_bytes = ceil_div(tiling.base_m, FRACTAL) * ceil_div(tiling.base_n, FRACTAL) * FRACTAL * FRACTAL * 4
        self.pipeline = CubePipeline(k, tiling.al0_buffers, tiling.cl0_buffers, tile_bytes)

    def program(self) -> Program:
        for tile in grad_input_tiles(self.call, self.tiling, self.k.block):
            self.tile(*tile)
        self.a1.close()
        self.b1.close()
        if self.spread is not None:
            self.spread.close()
        self.pipeline.close()
        if self.slot is not None:
            self.slot.close()
        return self.k.finish()

    # -- one L0C tile --------------------------------------------------------------------------------------------------

    def tile(self, task: GradInputTask, m: int, m_count: int, n: int, n_count: int) -> None:
        """dx pixels m .. x channels n .. (of the real group), summed over kernel planes and K, then written out."""
        self.k.next_tile()
        held_m, held_n = held_pixels(self.tiling, task, m), held_channels(self.call, self.tiling, task, n)
        window = needed_rows(self.p, *held_m)
        planes = list(contributing_planes(self.p, task.depth)) if window.rows and self.crop < self.width else []
        accumulator = self.pipeline.tiles.acquire()
        started = False
        group_channels = self.call.group_channels(task.group, self.p.c_out, self.inp.cout_g)
        k_total = ceil_div(group_channels, self.c0) * self.inp.taps * self.c0
        span_a, span_b = self.tiling.step_ka * self.tiling.base_k, self.tiling.step_kb * self.tiling.base_k
        for plane, gradient_plane in planes:
            for k_start in range(0, k_total, self.tiling.base_k):
                k_count = min(self.tiling.base_k, k_total - k_start)
                if k_start % span_a == 0:
                    blocks = ceil_div(min(span_a, k_total - k_start), self.inp.taps * self.c0)
                    self.load_a1(
                        task, gradient_plane, k_start // (self.inp.taps * self.c0), blocks, window, held_m[0], n
                    )
                if k_start % span_b == 0:
                    slices = self.k_slices(k_start, min(k_start + span_b, k_total))
                    self.load_b1(task, plane, slices, m, *held_n)
                pixel = m - held_m[0] + held_m[0] % self.p.w_in  # counted from the first whole row
                channel = (n - held_n[0]) // self.c0
                self.step(
                    window, pixel, m_count, channel, n_count, k_start, k_count, span_a, slices, accumulator, started
                )
                started = True
        if not started:
            self.pipeline.zero(self.k, accumulator, m_count, n_count, self.c0, self.call)
        self.write(task, m, m_count, n, n_count)

    def k_slices(self, k_start: int, k_end: int) -> range:
        """Blocks of 16 output channels that K elements k_start .. k_end - 1 belong to, in whole units."""
        whole, blocks = self.inp.taps * self.inp.unit, self.inp.unit // FRACTAL
        return range(k_start // whole * blocks, ceil_div(k_end, whole) * blocks)

    # -- GM -> L1 ------------------------------------------------------------------------------------------------------

    def load_a1(
        self, task: GradInputTask, plane: int, block: int, blocks: int, window: RowWindow, m: int, n: int
    ) -> None:
        """Rows `window` (behind pixels m ..) of `blocks` channel blocks of gradOutput, spread out where stride > 1."""
        p, k = self.p, self.k
        key: tuple[object, ...] = (task, plane, block, m, n)  # never resident across tiles
        if self.coupled:
            key = (task, plane, block, m)
        address = self.a1.begin(key)
        if address is None:
            return
        if self.inp.direct:
            self.load_direct(task, plane, block, blocks, window, address)
            self.a1.loaded()
            return
        first_block = task.group * self.inp.cout_g // self.c0 + block
        line = (task.batch * p.d_out + plane) * self.channel_blocks + first_block
        source = line * p.h_out * p.w_out * BLOCK_BYTES
        rows, width = (window.first_row, window.rows), self.width - self.crop
        if self.spread is not None:
            for piece in spread_pieces(blocks, rows, width, ub_share(k) // BLOCK_BYTES):
                buffer = self.spread.acquire_zeroed(piece.size)
                self.copy_pixels("UB", buffer, source, piece)
                self.spread.publish()
                offset = ((piece.block * rows[1] + piece.row - rows[0]) * width + piece.column) * BLOCK_BYTES
                k.data_copy("UB", "L1", address + offset, self.spread.take(), piece.size, operand="A")
                self.spread.release()
        else:
            whole = Piece(0, blocks, *rows, 0, width)
            if self.strided:
                k.fill("L1", address, whole.size)
                k.pipe_barrier("MTE2")
            self.copy_pixels("L1", address, source, whole)
        self.a1.loaded()

    def load_direct(
        self, task: GradInputTask, plane: int, block: int, blocks: int, window: RowWindow, address: int
    ) -> None:
        """The same rows from NCDHW."""
        p, k = self.p, self.k
        width = self.width - self.crop
        row_pitch = width * BLOCK_BYTES
        if self.strided:
            k.fill("L1", address, blocks * window.rows * row_pitch)
            k.pipe_barrier("MTE2")
        row, column = ceil_div(window.first_row, p.stride_h), ceil_div(self.crop, p.stride_w)
        rows = (window.first_row + window.rows - 1) // p.stride_h - row + 1
        columns = (self.crop + width - 1) // p.stride_w - column + 1
        if rows <= 0 or columns <= 0:
            return
        target = address + (row * p.stride_h - window.first_row) * row_pitch
        target += (column * p.stride_w - self.crop) * BLOCK_BYTES
        channel = block * self.c0
        channels = min(blocks * self.c0, self.inp.cout_g - channel)
        load_channels(
            k, target, GRAD_OUTPUT, Channels.of(self.inp, "out", self.itemsize),
            (task.batch, task.group * self.inp.cout_g + channel, plane), channels, (row, rows), (column, columns),
            (p.stride_h * row_pitch, p.stride_w * BLOCK_BYTES, window.rows * row_pitch), "A",
        )  # fmt: skip

    def copy_pixels(self, space: str, address: int, source: int, piece: Piece) -> None:
        """The real pixels of a piece of the zero-inserted map to their places in a buffer; block 0 starts at `source` in GM."""
        p, k = self.p, self.k
        row_pitch = piece.columns * BLOCK_BYTES
        block_pitch, plane_bytes = piece.rows * row_pitch, p.h_out * p.w_out * BLOCK_BYTES
        # Real rows and columns are those at multiples of the stride; the first ones that are inside the piece.
        row = ceil_div(piece.row, p.stride_h)
        rows = (piece.row + piece.rows - 1) // p.stride_h - row + 1
        left = self.crop + piece.column
        column = ceil_div(left, p.stride_w)
        columns = (left + piece.columns - 1) // p.stride_w - column + 1
        if rows <= 0 or columns <= 0:
            return
        source += piece.block * plane_bytes + (row * p.w_out + column) * BLOCK_BYTES
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

    def load_b1(self, task: GradInputTask, plane: int, slices: range, m: int, n: int, n_count: int) -> None:
        """Weights of output-channel blocks `slices` for input channels n ..: [cin1][tap][slices][16][C0] in L1."""
        key: tuple[object, ...] = (task, plane, slices, n, None if self.resident else m)  # resident for one task
        if self.coupled:
            key = (task.group, plane, slices, n)
        address = self.b1.begin(key)
        if address is None:
            return
        w, p = self.weights, self.p
        if self.inp.direct:
            first, end = slices.start * FRACTAL, min(slices.stop * FRACTAL, self.inp.cout_g)
            channels = min(n_count, self.inp.cin_g - n)
            load_filters(
                self.k, address, WEIGHT, p, (task.group * self.inp.cout_g + first, end - first), (n, channels), plane,
                len(slices), self.itemsize, self.inp.channels_last,
            )  # fmt: skip
            self.b1.loaded()
            return
        lines = ceil_div(n_count, self.c0) * w.taps
        source = w.offset(task.group, plane, n // self.c0, 0, slices.start)
        row, pitch = len(slices) * w.fractal_bytes, w.cout1 * w.fractal_bytes
        if row == pitch:
            row, lines, pitch = row * lines, 1, 0
        self.k.data_copy("GM", "L1", address, gm_operand(WEIGHT, source), row, lines, pitch, row, operand="B")
        self.b1.loaded()

    # -- L1 -> L0, mmad ------------------------------------------------------------------------------------------------

    def step(
        self, window: RowWindow, pixel: int, m_count: int, channel: int, n_count: int, k_start: int, k_count: int,
        span_a: int, slices: range, accumulator: int, accumulate: bool,
    ) -> None:  # fmt: skip
        """One base block: fill half of L0A and L0B, multiply. `pixel`, `channel` (in C0) count from what L1 holds."""
        p, k = self.p, self.k
        half = self.pipeline.operands.acquire()
        left, right = self.pipeline.left[half], self.pipeline.right[half]
        k.load_data_3d(
            (
                "L0A", self.itemsize, window.rows, self.width - self.crop, p.k_h, p.k_w, 1, 1, p.dilation_h, p.dilation_w,
                window.pad_top, self.pad_left, ceil_div(pixel + m_count, p.w_in), p.w_in,
                pixel, m_count, k_start % span_a, k_count,
            ),
            left, self.a1.address,
        )  # fmt: skip
        columns = ceil_div(n_count, FRACTAL)
        for place, index in enumerate(range(k_start // self.c0, (k_start + k_count) // self.c0)):
            channel_block, tap = divmod(index, self.inp.taps)
            turned = channel * self.inp.taps + self.inp.taps - 1 - tap
            self.load_right(right + place * columns * 512, channel_block, turned, slices, n_count)
        self.pipeline.operands.publish()
        self.pipeline.operands.take()
        k.mmad(accumulator, left, right, m_count, k_count, n_count, self.call.dtype, accumulate, self.call.hf32_bits)
        self.pipeline.operands.release()

    def load_right(self, address: int, channel_block: int, line: int, slices: range, n_count: int) -> None:
        """One C0 of K for all channels of the tile: the [co][ci] blocks of one tap, turned to [ci][co].

        `line` is the tap's place among the taps of all channel blocks in L1.
        """
        taps = self.inp.taps
        if self.itemsize < 4:  # a fractal, or with 8-bit weights the two of a square, is a C0 of K
            fractal = line * len(slices) + channel_block * self.c0 // FRACTAL - slices.start
            source = self.b1.address + fractal * self.weights.fractal_bytes
            pitch = taps * len(slices)
            self.k.load_data_2d("L0B", address, source, self.itemsize, ceil_div(n_count, self.c0), pitch, True)
            return
        # 32-bit: a block of 16 output channels holds two C0 of K; its rows are read as pixels of a 16 wide map.
        cout1, half = divmod(channel_block, FRACTAL // self.c0)
        height = taps * len(slices)
        row = (line * len(slices) + cout1 - slices.start) * FRACTAL + half * self.c0
        load: tuple[Any, ...] = (
            "L0B", 4, height, FRACTAL, 1, 1, 1, 1, 1, 1, 0, 0, height, FRACTAL, row, self.c0, 0, n_count, True,
        )  # fmt: skip
        self.k.load_data_3d(load, address, self.b1.address)

    # -- L0C -> GM -----------------------------------------------------------------------------------------------------

    def write(self, task: GradInputTask, m: int, m_count: int, n: int, n_count: int) -> None:
        """The finished tile to gradInput, or to the slot from which a vector core takes it there."""
        p = self.p
        if self.slot is not None:
            address = self.slot.acquire()
            self.pipeline.drain(address, m_count, n_count, self.call.dtype, self.c0, m_count * BLOCK_BYTES)
            self.slot.publish()
            return
        if self.inp.direct:
            channels = Channels.of(self.inp, "in", self.itemsize)
            target = channels.offset(task.batch, task.group * self.inp.cin_g + n, task.depth, m)
            count = min(n_count, self.inp.cin_g - n)
            dtype = "float32" if self.itemsize == 4 else self.call.dtype
            self.pipeline.drain_elements(
                gm_operand(GRAD_INPUT, target), (m_count, 0, count), dtype, (channels.pixel, channels.stride)
            )
            return
        total_blocks = ceil_div(p.c_in, self.c0)
        block = (task.group * self.inp.cin_g + n) // self.c0
        plane_bytes = p.h_in * p.w_in * BLOCK_BYTES
        offset = ((task.batch * p.d_in + task.depth) * total_blocks + block) * plane_bytes + m * BLOCK_BYTES
        dtype = "float32" if self.itemsize == 4 else self.call.dtype
        self.pipeline.drain(gm_operand(GRAD_INPUT, offset), m_count, n_count, dtype, self.c0, plane_bytes)
