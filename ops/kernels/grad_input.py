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

from ascend_sim.errors import SimError
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
from ascend_sim.ops.kernels.grad_input_exchange import WORKSPACE, Exchange
from ascend_sim.ops.kernels.grad_input_turn import GRAD_INPUT, SLOTS, Slot, Tile, turn_program
from ascend_sim.ops.kernels.vector_common import cut
from ascend_sim.ops.params import ConvProblem
from ascend_sim.ops.tiling.capacity import grad_input_l1, is_resident, k_unit
from ascend_sim.ops.tiling.fields import FRACTAL, GradInputTiling, ceil_div, ceil_to
from ascend_sim.ops.tiling.kernel_split import SPLIT_HW, Part, split_input, split_parts
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

    With a fourth tensor the vector cores help: it is the workspace of a split kernel (`grad_input_exchange`), or else the
    slots of `grad_input_turn`, which turns gradInput to NCDHW. `block_dim` launches another number of blocks than the
    tiling's.
    """
    if block_dim is not None:
        tiling = tiling.but(block_dim=block_dim)
    exchange = Exchange.of(call, tiling)
    if exchange is not None and tiling.block_dim > call.chip.cores.aic:
        raise SimError(
            f"block_dim of {name}: {tiling.block_dim} given; the kernel is split and its vector cores meet at a barrier, so "
            f"at most {call.chip.cores.aic} blocks can run ({call.chip.name}, cores.aic)"
        )
    table = InstructionTable(call.chip)
    sizes = [tensor.size for tensor in tensors]
    helped = len(tensors) > SLOTS
    turned = helped and exchange is None

    def build(block: int) -> list[Program]:
        k = KernelBuilder(table, block, call.core_kind, sizes, disarm=call.disarm)
        programs = [_Builder(call, tiling, k, turned).program()]
        if helped:
            tiles = grad_input_tiles(call, tiling, block)
            for sub_block in range(call.chip.cores.aiv_per_aic):
                k = KernelBuilder(table, block, "AIV", sizes, sub_block=sub_block, disarm=call.disarm)
                programs.append(
                    turn_program(k, call, tiling, tiles) if exchange is None else exchange.program(k, tiles)
                )
        return programs

    storage = "float32" if call.inp.itemsize == 4 else call.dtype
    names = ("grad_output", "weight", "grad_input")
    formats = ("NC1HWC0", "FRACTAL_Z", "NCDHW" if turned else "NC1HWC0")
    info = call.info(tiling, dict.fromkeys(names, storage), dict(zip(names, formats, strict=True)))
    kind, together = "MIX" if helped else call.core_kind, exchange is not None
    return Task(name, op_type, kind, tiling.block_dim, tensors, build, all_cores=together, info=info)


def workspace_bytes(call: CubeCall, tiling: GradInputTiling) -> int:
    """Bytes of the fourth tensor where the kernel is split, else 0."""
    exchange = Exchange.of(call, tiling)
    return 0 if exchange is None else exchange.bytes


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


class _Map:
    """One part of the problem as load_data_3d sees it (without a kernel split the only one): its map and its taps."""

    def __init__(self, index: int, part: Part) -> None:
        p = self.p = part.problem
        self.index, self.part = index, part
        self.taps = len(part.taps)
        self.pixels = part.rows * p.w_in
        self.width = (p.w_out - 1) * p.stride_w + 1
        _, left = pad_before(p)
        self.crop, self.pad_left = max(-left, 0), max(left, 0)
        self.strided = p.stride_h > 1 or p.stride_w > 1


class _Builder:
    """Writes the cube program of one block."""

    def __init__(self, call: CubeCall, tiling: GradInputTiling, k: KernelBuilder, turned: bool = False) -> None:
        self.call, self.tiling, self.k = call, tiling, k
        self.slot = Slot(k, tiling, call.inp) if turned else None
        inp = self.inp = call.inp
        p = self.p = inp.problem
        self.c0, self.itemsize = inp.c0, inp.itemsize
        self.unit = k_unit(inp)
        self.weights = WeightLayout.of(inp, inp.itemsize)
        self.maps = [_Map(i, part) for i, part in enumerate(split_parts(p, tiling.kernel_split))]
        self.channel_blocks = ceil_div(p.c_out, self.c0)
        self.coupled = k.chip.cores.coupled
        largest = split_input(inp, tiling.kernel_split)
        self.resident = is_resident(tiling, largest)
        a1, b1 = grad_input_l1(tiling, largest)
        # Channel blocks of one L1 step: L1 holds as many of every part, whose kernels may be smaller.
        self.step_a = tiling.step_ka * tiling.base_k // (largest.taps * self.c0)
        self.step_b = tiling.step_kb * tiling.base_k // (largest.taps * self.c0)
        self.spread: ZeroedQueue | None = None
        if self.maps[0].strided and k.chip.cores.coupled:
            self.spread = ZeroedQueue(k, "spread", [k.allocate("UB", ub_share(k), f"spread[{i}]") for i in range(2)])
        producer = "MTE3" if self.spread is not None else "MTE2"
        self.a1 = HeldOperand(k, "A1", tiling.al1_buffers, a1 // tiling.al1_buffers, producer)
        self.b1 = HeldOperand(k, "B1", tiling.bl1_buffers, b1 // tiling.bl1_buffers)
        tile_bytes = ceil_div(tiling.base_m, FRACTAL) * ceil_div(tiling.base_n, FRACTAL) * FRACTAL * FRACTAL * 4
        self.pipeline = CubePipeline(k, tiling.al0_buffers, tiling.cl0_buffers, tile_bytes)
        self.exchange = Exchange.of(call, tiling)

    def program(self) -> Program:
        tiles = grad_input_tiles(self.call, self.tiling, self.k.block)
        if self.exchange is not None:
            self.exchange.await_weights(self.k)
        for number, tile in enumerate(tiles):
            self.tile(number, *tile)
        self.a1.close()
        self.b1.close()
        if self.spread is not None:
            self.spread.close()
        self.pipeline.close()
        if self.slot is not None:
            self.slot.close()
        return self.k.finish()

    # -- one L0C tile --------------------------------------------------------------------------------------------------

    def tile(self, number: int, task: GradInputTask, m: int, m_count: int, n: int, n_count: int) -> None:
        """dx pixels m .. x channels n .. (of the real group): of each part, in segments of K, summed and written out."""
        self.k.next_tile()
        shared = self.tiling.kernel_split == SPLIT_HW
        if shared and self.exchange is not None:
            self.exchange.open(self.k, number)
        for of in self.maps:
            count = min(m_count, of.pixels - m)
            if count <= 0 or (not shared and of.index != task.part):
                continue
            for segment, blocks in enumerate(self.segments(task)):
                accumulator = self.pipeline.tiles.acquire()
                self.sum(of, task, m, count, n, n_count, blocks, accumulator)
                if shared and self.exchange is not None:
                    self.hand_over(number, of.index, count, n, n_count)
                else:
                    self.write(of, task, m, count, n, n_count, atomic=segment > 0)
        if shared and self.exchange is not None:
            self.exchange.close(self.k)

    def segments(self, task: GradInputTask) -> Iterator[range]:
        """Channel blocks of gradOutput that are summed before the result goes to GM."""
        channels = self.call.group_channels(task.group, self.p.c_out, self.inp.cout_g)
        total = ceil_div(channels, self.c0)
        step = self.tiling.k_segment // self.c0 or total
        yield from (range(start, min(start + step, total)) for start in range(0, total, step))

    def sum(
        self, of: _Map, task: GradInputTask, m: int, m_count: int, n: int, n_count: int, blocks: range, accumulator: int
    ) -> None:
        """One tile of L0C, summed over kernel planes and K; zeros where nothing contributes."""
        held_m, held_n = held_pixels(self.tiling, task, m), held_channels(self.call, self.tiling, task, n)
        window = needed_rows(of.p, held_m[0], min(held_m[1], of.pixels - held_m[0]))
        planes = list(contributing_planes(self.p, task.depth)) if window.rows and of.taps and of.crop < of.width else []
        per_block = of.taps * self.c0
        k_total = len(blocks) * per_block
        span_a, span_b = self.step_a * per_block, self.step_b * per_block
        started = False
        for plane, gradient_plane in planes:
            for start in range(0, k_total, min(span_a, span_b)):
                end = min(start + min(span_a, span_b), k_total)
                if start % span_a == 0:
                    held = ceil_div(min(span_a, k_total - start), per_block)
                    self.load_a1(
                        of, task, gradient_plane, blocks.start + start // per_block, held, window, held_m[0], n
                    )
                if start % span_b == 0:
                    slices = self.k_slices(of, blocks.start * per_block + start, min(start + span_b, k_total) - start)
                    self.load_b1(of, task, plane, slices, m, *held_n)
                for k_start in range(start, end, self.tiling.base_k):
                    k_count = min(self.tiling.base_k, end - k_start)
                    place = (k_start % span_a, blocks.start * per_block + k_start, k_count)
                    pixel = m - held_m[0] + held_m[0] % of.p.w_in  # counted from the first whole row
                    channel = (n - held_n[0]) // self.c0
                    self.step(of, window, pixel, m_count, channel, n_count, place, slices, accumulator, started)
                    started = True
        if not started:
            self.pipeline.zero(self.k, accumulator, m_count, n_count, self.c0, self.call)

    def k_slices(self, of: _Map, k_start: int, k_count: int) -> range:
        """Blocks of output channels (16, or C0 where NCDHW is read) that K elements k_start .. belong to."""
        whole = of.taps * self.unit
        return range(k_start // whole, ceil_div(k_start + k_count, whole))

    # -- GM -> L1 ------------------------------------------------------------------------------------------------------

    def load_a1(
        self, of: _Map, task: GradInputTask, plane: int, block: int, blocks: int, window: RowWindow, m: int, n: int
    ) -> None:
        """Rows `window` (behind pixels m ..) of `blocks` channel blocks of gradOutput, spread out where stride > 1."""
        p, k = self.p, self.k
        key: tuple[object, ...] = (task, of.index, plane, block, m, n)  # never resident across tiles
        if self.coupled:
            key = (task, plane, block, m)
        address = self.a1.begin(key)
        if address is None:
            return
        if self.inp.direct:
            self.load_direct(of, task, plane, block, blocks, window, address)
            self.a1.loaded()
            return
        first_block = task.group * self.inp.cout_g // self.c0 + block
        line = (task.batch * p.d_out + plane) * self.channel_blocks + first_block
        source = line * p.h_out * p.w_out * BLOCK_BYTES
        rows, width = (window.first_row, window.rows), of.width - of.crop
        if self.spread is not None:
            for piece in spread_pieces(blocks, rows, width, ub_share(k) // BLOCK_BYTES):
                buffer = self.spread.acquire_zeroed(piece.size)
                self.copy_pixels(of, "UB", buffer, source, piece)
                self.spread.publish()
                offset = ((piece.block * rows[1] + piece.row - rows[0]) * width + piece.column) * BLOCK_BYTES
                k.data_copy("UB", "L1", address + offset, self.spread.take(), piece.size, operand="A")
                self.spread.release()
        else:
            whole = Piece(0, blocks, *rows, 0, width)
            if of.strided:
                k.fill("L1", address, whole.size)
                k.pipe_barrier("MTE2")
            self.copy_pixels(of, "L1", address, source, whole)
        self.a1.loaded()

    def load_direct(
        self, of: _Map, task: GradInputTask, plane: int, block: int, blocks: int, window: RowWindow, address: int
    ) -> None:
        """The same rows from NCDHW."""
        p, k = of.p, self.k
        width = of.width - of.crop
        row_pitch = width * BLOCK_BYTES
        if of.strided:
            k.fill("L1", address, blocks * window.rows * row_pitch)
            k.pipe_barrier("MTE2")
        row, column = ceil_div(window.first_row, p.stride_h), ceil_div(of.crop, p.stride_w)
        rows = (window.first_row + window.rows - 1) // p.stride_h - row + 1
        columns = (of.crop + width - 1) // p.stride_w - column + 1
        if rows <= 0 or columns <= 0:
            return
        target = address + (row * p.stride_h - window.first_row) * row_pitch
        target += (column * p.stride_w - of.crop) * BLOCK_BYTES
        channel = block * self.c0
        channels = min(blocks * self.c0, self.inp.cout_g - channel)
        load_channels(
            k, target, GRAD_OUTPUT, Channels.of(self.inp, "out", self.itemsize),
            (task.batch, task.group * self.inp.cout_g + channel, plane), channels, (row, rows), (column, columns),
            (p.stride_h * row_pitch, p.stride_w * BLOCK_BYTES, window.rows * row_pitch), "A",
        )  # fmt: skip

    def copy_pixels(self, of: _Map, space: str, address: int, source: int, piece: Piece) -> None:
        """The real pixels of a piece of the zero-inserted map to their places in a buffer; block 0 starts at `source` in GM."""
        p, k = self.p, self.k
        row_pitch = piece.columns * BLOCK_BYTES
        block_pitch, plane_bytes = piece.rows * row_pitch, p.h_out * p.w_out * BLOCK_BYTES
        # Real rows and columns are those at multiples of the stride; the first ones that are inside the piece.
        row = ceil_div(piece.row, p.stride_h)
        rows = (piece.row + piece.rows - 1) // p.stride_h - row + 1
        left = of.crop + piece.column
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

    def load_b1(self, of: _Map, task: GradInputTask, plane: int, slices: range, m: int, n: int, n_count: int) -> None:
        """Weights of output-channel blocks `slices` for input channels n ..: [cin1][tap][slices][unit][C0] in L1."""
        key: tuple[object, ...] = (
            task,
            of.index,
            plane,
            slices,
            n,
            None if self.resident else m,
        )  # resident for one task
        if self.coupled or self.tiling.full_load:
            key = (task.group, of.index, plane, slices, n)
        address = self.b1.begin(key)
        if address is None:
            return
        w, p = self.weights, self.p
        if self.exchange is not None:
            self.exchange.load_weights(
                self.k, address, of.part, plane, (n // self.c0, ceil_div(n_count, self.c0)), slices
            )
        elif self.inp.direct:
            first, end = slices.start * self.unit, min(slices.stop * self.unit, self.inp.cout_g)
            channels = min(n_count, self.inp.cin_g - n)
            load_filters(
                self.k, address, WEIGHT, p, (task.group * self.inp.cout_g + first, end - first), (n, channels), plane,
                len(slices) * self.unit, self.itemsize, self.inp.channels_last,
            )  # fmt: skip
        else:
            lines = ceil_div(n_count, self.c0) * w.taps
            source = w.offset(task.group, plane, n // self.c0, 0, slices.start)
            row, pitch = len(slices) * w.fractal_bytes, w.cout1 * w.fractal_bytes
            if row == pitch:
                row, lines, pitch = row * lines, 1, 0
            self.k.data_copy("GM", "L1", address, gm_operand(WEIGHT, source), row, lines, pitch, row, operand="B")
        self.b1.loaded()

    # -- L1 -> L0, mmad ------------------------------------------------------------------------------------------------

    def step(
        self, of: _Map, window: RowWindow, pixel: int, m_count: int, channel: int, n_count: int, place: tuple[int, int, int],
        slices: range, accumulator: int, accumulate: bool,
    ) -> None:  # fmt: skip
        """One base block: fill half of L0A and L0B, multiply.

        `pixel`, `channel` (in C0) count from what L1 holds; `place` is (K within A1, K, count).
        """
        p, k = of.p, self.k
        k_held, k_start, k_count = place
        half = self.pipeline.operands.acquire()
        left, right = self.pipeline.left[half], self.pipeline.right[half]
        k.load_data_3d(
            (
                "L0A", self.itemsize, window.rows, of.width - of.crop, p.k_h, p.k_w, 1, 1, p.dilation_h, p.dilation_w,
                window.pad_top, of.pad_left, ceil_div(pixel + m_count, p.w_in), p.w_in, pixel, m_count, k_held, k_count,
            ),
            left, self.a1.address,
        )  # fmt: skip
        columns = ceil_div(n_count, FRACTAL)
        for number, index in enumerate(range(k_start // self.c0, (k_start + k_count) // self.c0)):
            channel_block, tap = divmod(index, of.taps)
            line = channel * of.taps + of.taps - 1 - tap
            self.load_right(right + number * columns * 512, of.taps, channel_block, line, slices, n_count)
        self.pipeline.operands.publish()
        self.pipeline.operands.take()
        k.mmad(accumulator, left, right, m_count, k_count, n_count, self.call.dtype, accumulate, self.call.hf32_bits)
        self.pipeline.operands.release()

    def load_right(self, address: int, taps: int, channel_block: int, line: int, slices: range, n_count: int) -> None:
        """One C0 of K for all channels of the tile: the [co][ci] blocks of one tap of `taps`, turned to [ci][co].

        `line` is the tap's place among the taps of all channel blocks in L1.
        """
        if self.itemsize < 4:  # a fractal, or with 8-bit weights the two of a square, is a C0 of K
            each = self.unit // FRACTAL
            fractal = (line * len(slices) + channel_block - slices.start) * each
            source = self.b1.address + fractal * self.weights.fractal_bytes
            pitch = taps * len(slices) * each
            self.k.load_data_2d("L0B", address, source, self.itemsize, ceil_div(n_count, self.c0), pitch, True)
            return
        # 32-bit: a block of output channels holds one C0 of K or two; its rows are read as pixels of a map so wide.
        cout1, half = divmod(channel_block, self.unit // self.c0)
        height = taps * len(slices)
        row = (line * len(slices) + cout1 - slices.start) * self.unit + half * self.c0
        load: tuple[Any, ...] = (
            "L0B", 4, height, self.unit, 1, 1, 1, 1, 1, 1, 0, 0, height, self.unit, row, self.c0, 0, n_count, True,
        )  # fmt: skip
        self.k.load_data_3d(load, address, self.b1.address)

    # -- L0C -> GM -----------------------------------------------------------------------------------------------------

    @property
    def result(self) -> str:
        """The dtype that a tile leaves L0C in."""
        return "float32" if self.itemsize == 4 else self.call.dtype

    def write(
        self, of: _Map, task: GradInputTask, m: int, m_count: int, n: int, n_count: int, *, atomic: bool = False
    ) -> None:
        """The finished tile to gradInput, or to the slot from which a vector core takes it there.

        `atomic` adds to the segment of K that stands in gradInput.
        """
        p = self.p
        if self.slot is not None:
            address = self.slot.acquire()
            self.pipeline.drain(address, m_count, n_count, self.call.dtype, self.c0, m_count * BLOCK_BYTES)
            self.slot.publish()
            return
        if self.inp.direct:
            channels = Channels.of(self.inp, "in", self.itemsize)
            count = min(n_count, self.inp.cin_g - n)
            pieces = []
            for start, first_pixel, pixels in runs(of.part, p.w_in, m, m_count):
                target = channels.offset(task.batch, task.group * self.inp.cin_g + n, task.depth, first_pixel)
                pieces.append((gm_operand(GRAD_INPUT, target), start, pixels, 0, count))
            if atomic:
                self.k.pipe_barrier("FIX")  # the segment before must stand in GM
            strides = (channels.pixel, channels.stride)
            self.pipeline.drain_pieces(pieces, m_count, strides, atomic, self.result)
            return
        total_blocks = ceil_div(p.c_in, self.c0)
        block = (task.group * self.inp.cin_g + n) // self.c0
        plane_bytes = p.h_in * p.w_in * BLOCK_BYTES
        offset = ((task.batch * p.d_in + task.depth) * total_blocks + block) * plane_bytes + m * BLOCK_BYTES
        self.pipeline.drain(gm_operand(GRAD_INPUT, offset), m_count, n_count, self.result, self.c0, plane_bytes)

    def hand_over(self, number: int, index: int, m_count: int, n: int, n_count: int) -> None:
        """The finished tile of part `index` to its place in the slot that the vector cores take it from."""
        assert self.exchange is not None
        pitch = self.exchange.pitch
        target = gm_operand(WORKSPACE, self.exchange.offset(self.k.block, number, index))
        piece = (m_count, 0, min(n_count, self.inp.cin_g - n))
        self.pipeline.drain_elements(target, piece, self.result, (self.itemsize, pitch))


def runs(part: Part, width: int, m: int, m_count: int) -> Iterator[tuple[int, int, int]]:
    """(first pixel of the tile, dx pixel, pixels) of what adjoins in GM: a part's rows, or all of a map that is not split.

    `width` is that of dx, which the part's columns must be as well.
    """
    if part.row_step == 1:
        yield 0, m, m_count
        return
    done = 0
    while done < m_count:
        row, column = divmod(m + done, width)
        pixels = min(width - column, m_count - done)
        yield done, (part.row + row * part.row_step) * width + column, pixels
        done += pixels
