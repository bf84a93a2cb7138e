"""The cube's program of grad_weight: tiles of dW in L0C, summed over pixels and images, and their way out.

Whoever computes dW in another order overrides the pieces: what is summed at a time, how a plane's pixels come to L1, where a
finished tile goes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span, matrix_window
from ascend_sim.kernel.program import Program
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline, HeldOperand
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.operand import input_operand
from ascend_sim.ops.kernels.grad_weight.stream_k import (
    ALL_CUBES,
    CUBE_TO_VECTOR,
    GRAD_OUTPUT,
    GRAD_WEIGHT,
    INPUT,
    WORKSPACE,
    slot_bytes,
)
from ascend_sim.ops.kernels.grad_weight.strips import InputRows, Strip, boxes, input_rows
from ascend_sim.ops.kernels.grad_weight.taps import by_tap, walk
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, adds_once_per_task, grad_weight_tasks
from ascend_sim.ops.layouts import weight_gradient, y_map
from ascend_sim.ops.layouts.layout import FilterTile, MapBox, Place
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to


@dataclass
class Tile:
    """A tile under way: dW rows m .. x columns of a kernel plane (of `tap` where taps are split)."""

    task: GradWeightTask
    m: int
    m_count: int
    column: int
    n_count: int
    tap: int


class CubeBuilder:
    """Writes the cube program of one block."""

    def __init__(self, call: CubeCall, tiling: GradWeightTiling, k: KernelBuilder) -> None:
        self.call, self.tiling, self.k = call, tiling, k
        inp = self.inp = by_tap(call.inp) if tiling.split_kernel else call.inp
        self.p = call.inp.problem
        self.c0, self.itemsize = inp.c0, inp.itemsize
        self.dw, self.grad_output = weight_gradient(inp), y_map(call.inp)
        self.input = input_operand(call, inp, tiling, k, INPUT)
        self.atomic = tiling.template != SPLIT_STREAM_K
        a1 = tiling.step_ka * tiling.base_k * tiling.step_m * tiling.base_m * self.itemsize
        self.a1 = self.held("A1", tiling.al1_buffers, a1)
        self.b1 = self.held("B1", tiling.bl1_buffers, tiling.bl1_bound * self.itemsize)
        tile_bytes = ceil_div(tiling.base_m, FRACTAL) * ceil_div(tiling.base_n, FRACTAL) * FRACTAL * FRACTAL * 4
        self.pipeline = CubePipeline(k, tiling.al0_buffers, tiling.cl0_buffers, tile_bytes)

    def held(self, name: str, buffers: int, size: int) -> HeldOperand:
        """The L1 buffers of an operand."""
        return HeldOperand(self.k, name, buffers, size)

    def program(self) -> Program:
        for task in grad_weight_tasks(self.tiling, self.inp, self.k.block):
            for part, images in self.parts(task):
                self.sums(part, images)
        self.a1.close()
        self.b1.close()
        self.pipeline.close()
        if self.tiling.stream_k_type != STREAM_NONE:
            self.k.cross_core_set(ALL_CUBES, 0, "FIX")
            self.k.cross_core_wait(ALL_CUBES, 0, "FIX")
            self.k.cross_core_set(CUBE_TO_VECTOR, 2, "FIX")
        return self.k.finish()

    def sums(self, task: GradWeightTask, images: range) -> None:
        """The tiles of a task, each summed over `images`."""
        if len(images) > 1:  # `tile` has the loop over images that repeat
            for tile in self.tiles(task):
                self.tile(task, images, *tile)
            return
        batch, depth = divmod(images.start, self.p.d_out)
        slot = () if task.slot is None else (task.slot, self.k.block)
        for tile, batch in self.k.stamped(
            [(tile, batch) for tile in self.tiles(task)], "tiles", depth, *task.part, *slot
        ):
            self.tile(task, [batch * self.p.d_out + depth], *tile)

    def parts(self, task: GradWeightTask) -> Iterator[tuple[GradWeightTask, range]]:
        """What is summed in L0C before dW is written: the task, or rows of it, of some images."""
        images = range(task.image_start, task.image_start + task.images)
        if not self.atomic or adds_once_per_task(self.tiling):
            yield task, images
        else:
            yield from ((task, range(image, image + 1)) for image in images)

    def tiles(self, task: GradWeightTask) -> Iterator[tuple[int, int, int, int]]:
        """L0C tiles of a task, (m, count, n, count), in the order of the tiling; a tile stays within one kernel plane."""
        per_plane = self.inp.cin1 * self.inp.taps * self.c0
        present = self.input_blocks(task) * self.inp.taps * self.c0
        columns = []
        n = task.n_start
        while n < task.n_start + task.n_count:
            left = task.n_start + task.n_count - n
            count = min(self.tiling.base_n, left, present - n % per_plane)
            if count <= 0:
                n += min(left, per_plane - n % per_plane)  # channels that the last real group does not have
                continue
            columns.append((n, count))
            n += count
        end = min(task.m_start + task.m_count, self.channels(task))
        rows = [(m, min(self.tiling.base_m, end - m)) for m in range(task.m_start, end, self.tiling.base_m)]
        if self.tiling.iterate_order:
            yield from ((*row, *column) for column in columns for row in rows)
        else:
            yield from ((*row, *column) for row in rows for column in columns)

    # -- one L0C tile --------------------------------------------------------------------------------------------------

    def tile(self, task: GradWeightTask, images: Iterable[int], m: int, m_count: int, n: int, n_count: int) -> None:
        """dW rows m .. (of the real group) x columns n .., summed over `images` and the task's rows, then written."""
        self.k.next_tile(counted=not task.slot)  # parts of a StreamK task share its tiles
        p = self.p
        plane, column = divmod(n, self.inp.cin1 * self.inp.taps * self.c0)
        if task.plane is not None:
            plane = task.plane
        kernel_depth, tap = self.input.plane_and_tap(plane)
        tile = Tile(task, m, m_count, column, n_count, tap)
        self.pipeline.begin_sum()
        sections = walk(p, self.tiling, tap, task.row_start, task.rows)
        planes = [(image % p.d_out, image // p.d_out) for image in images]
        for depth_out, batch in self.k.stamped(planes, "images", *task.part, m, m_count, n, n_count):
            image = batch * p.d_out + depth_out
            depth = depth_out * p.stride_d - p.pad_front + kernel_depth * p.dilation_d
            if 0 <= depth < p.d_in:
                for strip, row, rows in sections:
                    self.pixels(tile, strip, image, depth, row * strip.problem.w_out, rows * strip.problem.w_out)
        self.pipeline.end_sum(m_count, n_count, self.c0, self.call.dtype, self.call.hf32_bits)
        self.write(task, plane, m, m_count, column, n_count)

    def pixels(self, tile: Tile, strip: Strip, image: int, depth: int, first: int, pixels: int) -> None:
        """Products of the gradOutput pixels first .. of a strip, and what they see of input plane `depth`."""
        tiling, end = self.tiling, first + pixels
        span_a, span_b = tiling.step_ka * tiling.base_k, tiling.step_kb * tiling.base_k
        for pixel in range(first, end, tiling.base_k):
            count = min(tiling.base_k, end - pixel)
            if (pixel - first) % span_a == 0:
                span_in_a1 = Span(pixel, min(span_a, end - pixel))
            if (pixel - first) % span_b == 0:
                span_in_b1 = Span(pixel, min(span_b, end - pixel))
                held = input_rows(strip.problem, pixel, pixel + span_in_b1.length)
            seen = input_rows(strip.problem, pixel, pixel + count)
            if held.rows <= 0 or seen.rows <= 0 or not strip.problem.w_in:
                continue  # these pixels see padding only
            self.load_a1(tile, strip, image, span_in_a1)
            self.load_b1(tile, strip, image // self.p.d_out, depth, span_in_b1, held)
            self.step(tile, strip, Span(pixel, count), span_in_a1, span_in_b1, held)

    # -- GM -> L1 ------------------------------------------------------------------------------------------------------

    def load_a1(self, tile: Tile, strip: Strip, image: int, span: Span) -> Hashable:
        """gradOutput pixels of the channel blocks of stepM*baseM rows: [c1][pixels][C0] in L1; what they are known by there."""
        key, place, channels = self.a1_chunk(tile, strip, image, span)
        address = self.a1.begin(key)
        if address is None:
            return key
        for rows_of, columns, offset in boxes(strip, span):
            box = MapBox(place, channels, rows_of, columns)
            self.grad_output.load_pixels(self.k, GRAD_OUTPUT, box, address + offset, span.length, "A")
        self.a1.loaded()
        return key

    def a1_chunk(self, tile: Tile, strip: Strip, image: int, span: Span) -> tuple[Hashable, Place, int]:
        """What pixels of gradOutput are known by in L1, where they stand and how many channels there are of them."""
        task, rows = tile.task, self.tiling.step_m * self.tiling.base_m
        base = task.m_start + (tile.m - task.m_start) // rows * rows
        batch, depth = divmod(image, self.p.d_out)
        place = Place(batch, task.group * self.inp.cout_g + base, depth)
        return (image, task.group, base, strip.column, *span), place, min(rows, self.channels(task) - base)

    def input_blocks(self, task: GradWeightTask) -> int:
        """Channel blocks of the input that exist in the task's real group."""
        return ceil_div(self.call.group_channels(task.group, self.p.c_in, self.inp.cin_g), self.c0)

    def channels(self, task: GradWeightTask) -> int:
        """gradOutput channels that exist in the task's real group."""
        return self.call.group_channels(task.group, self.p.c_out, self.inp.cout_g)

    def load_b1(self, tile: Tile, strip: Strip, batch: int, depth: int, span: Span, held: InputRows) -> Hashable:
        """What of the input, of its rows `held`, is behind the gradOutput pixels `span`, in the tile's channel blocks."""
        task, per_block = tile.task, self.inp.taps * self.c0
        first, end = tile.column // per_block, ceil_div(tile.column + tile.n_count, per_block)
        what = self.input.key(strip, tile.tap, span, held)
        key = (batch, depth, task.group, first, end, *what, held.first, held.rows)
        address = self.b1.begin(key)
        if address is None:
            return key
        present = self.call.group_channels(task.group, self.p.c_in, self.inp.cin_g)
        channels = min((end - first) * self.c0, present - first * self.c0)
        place = Place(batch, task.group * self.inp.cin_g + first * self.c0, depth)
        self.input.load(place, channels, strip, tile.tap, span, held, address)
        self.b1.loaded()
        return key

    # -- L1 -> L0, mmad ------------------------------------------------------------------------------------------------

    def step(self, tile: Tile, strip: Strip, pixels: Span, span_in_a1: Span, span_in_b1: Span, held: InputRows) -> None:
        """One base block of `pixels`: fill half of L0A and L0B, multiply. The spans and `held` are what L1 holds."""
        k, task = self.k, tile.task
        half = self.pipeline.operands.acquire()
        left, right = self.pipeline.left[half], self.pipeline.right[half]
        rows_held = self.tiling.step_m * self.tiling.base_m
        channel = (tile.m - task.m_start) % rows_held
        channels = min(tile.m_count, self.channels(task) - tile.m)
        first, count = pixels
        rows = Span(first - span_in_a1.start, count)
        columns = Span(channel, ceil_to(channels, self.c0))
        k.load_data_3d(
            "L0A", left, self.a1.address, self.itemsize, matrix_window(span_in_a1.length), rows, columns, transpose=True
        )
        window, rows = self.input.window(strip, pixels, span_in_b1, held)
        columns = Span(tile.column % (self.inp.taps * self.c0), tile.n_count)
        k.load_data_3d("L0B", right, self.b1.address, self.itemsize, window, rows, columns)
        self.pipeline.multiply(half, channels, count, tile.n_count, self.call.dtype, self.call.hf32_bits)

    # -- L0C -> GM -----------------------------------------------------------------------------------------------------

    def write(self, task: GradWeightTask, plane: int, m: int, m_count: int, column: int, n_count: int) -> None:
        """The tile to dW (added or stored), or to this core's slot."""
        tile = FilterTile(task.group, plane, m, min(m_count, self.channels(task) - m), column, n_count)
        if task.slot is not None:
            self.to_slot(task, tile, atomic_add=False)
        else:
            self.dw.drain(self.pipeline, GRAD_WEIGHT, tile, self.atomic)

    def to_slot(self, task: GradWeightTask, tile: FilterTile, *, atomic_add: bool) -> None:
        """The tile to this core's slot."""
        offset = self.k.block * slot_bytes(self.tiling, self.inp)
        self.dw.drain_to_slot(self.pipeline, WORKSPACE, offset, task, tile, atomic_add)
