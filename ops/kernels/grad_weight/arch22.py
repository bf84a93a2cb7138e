"""Cube program of dav-2201's open grad_weight kernel, Conv3DBackpropFilterV2 of ops-nn arch22, where it is deterministic.

Each core first clears its share of dW, from zeros in L1; then all cores meet, and a second TPipe begins. Each plane of
gradOutput that a tile sums over is a sum of its own in L0C. The core adds it to dW, plane by plane in the order of
images. An operand is loaded where a tile moves along it, or where its buffers do not hold all of K; a buffer is free
behind the last tile that reads it. B is loaded before A. (The kernel's own rows: stated.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import ne

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span, matrix_window
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import Barriers, CubePipeline, small_product
from ascend_sim.ops.kernels.cube.tpipe import ClearingPipe, PingPong, TPipePipeline, ping_pong
from ascend_sim.ops.kernels.grad_weight.cube import CubeBuilder, Image, Loads, Piece, Plane, SummedTile, filter_tiles
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.steps import Runs, Step, TaskWalks, Where
from ascend_sim.ops.kernels.grad_weight.stream_k import GRAD_WEIGHT
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask
from ascend_sim.ops.layouts.layout import FilterTile
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.window import InputRows, spanned_rows

SHARE_UNIT = FRACTAL * FRACTAL
"""Unit of a core's share of dW, in elements (stated)."""
ELEMENT = 4
"""Bytes of an element of dW."""
ALWAYS = Loads(True, True, 0)
"""Loads of one operand for a tile that is summed over several planes: loaded and freed for each plane."""


def clear(k: KernelBuilder, size: int, blocks: int) -> None:
    """Append the clearing of this core's share of dW (`size` bytes, dealt to `blocks` cores) with zeros, then wait for all."""
    pipe = ClearingPipe(k)
    share = ceil_to(ceil_div(size // ELEMENT, blocks), SHARE_UNIT) * ELEMENT
    start = k.block * share
    count = min(share, size - start)
    if count > 0:
        zeros = min(count, k.chip.buffers["L1"])
        place = k.allocate("L1", zeros, "zeros", keep=False)
        k.fill("L1", place, zeros)
        filled = k.flag("MTE2", "MTE3", "zeros")
        k.set_flag(filled)
        k.wait_flag(filled)
        for first, length in cut(count, zeros):
            k.data_copy("L1", "GM", gm_operand(GRAD_WEIGHT, start + first), place, length, 1, length, length)
    pipe.meet("MTE3")


def copied_blocks(blocks: int, taps: int) -> int:
    """Return how many channel blocks of the input, of `taps` C0 blocks of dW columns each, the kernel loads for a run of
    `blocks` C0 blocks that begins at a multiple of its length.

    It is ceil(blocks / taps) or one more: all that the run touches, or one too many.
    """
    count = ceil_div(blocks, taps)
    return count + (taps % blocks > 0 if taps > blocks else 2 * blocks % taps > 0)


def copied_rows(problem: ConvProblem, pixels: Span, first: int, rows: int) -> InputRows:
    """Return the input rows that are loaded for the run `pixels` of a task's gradOutput pixels; the task has `rows`
    rows from row `first` on.

    Their number is the library's bound for a run of that length that begins at a multiple of its length, without rows beyond
    the image or the task.
    """
    p = problem
    beyond = (p.k_h - 1) * p.dilation_h + 1 - p.stride_h
    top, begin = pixels.start // p.w_out * p.stride_h - p.pad_up, first * p.stride_h - p.pad_up
    above = max(-top, 0)
    count = spanned_rows(pixels.length, p.w_out) * p.stride_h + beyond - above
    if top + count > p.h_in:
        count = p.h_in - top
    held = min(p.h_in, rows * p.stride_h + beyond)
    done = top - begin if top > 0 and begin > 0 else max(top, 0)
    return InputRows(max(top, 0), min(count, held - done), above)


class OpenTaskWalks(TaskWalks):
    """Walks of a task whose steps load the input rows of `copied_rows`, as the open kernel does."""

    def steps(self, problem: ConvProblem, first: int, rows: int) -> Iterator[Step]:
        for step in super().steps(problem, first, rows):
            yield step._replace(held=copied_rows(problem, step.in_b1, first, rows))


class OpenCubeBuilder(CubeBuilder):
    """Builder of the cube program of one block of the open kernel; `size` is the bytes of dW, which it clears first."""

    a1: PingPong
    b1: PingPong

    def __init__(
        self, call: CubeCall, tiling: GradWeightTiling, k: KernelBuilder, walks: TaskWalks, runs: Runs, size: int
    ) -> None:
        clear(k, size, tiling.block_dim)
        self._counts: dict[GradWeightTask, tuple[int, int]] = {}
        super().__init__(call, tiling, k, walks, runs)
        self.atomic = True

    def held(self, a1: int, b1: int) -> tuple[PingPong, PingPong]:
        """Return the L1 buffers (of gradOutput A, of the input B), newly allocated, of `a1` and `b1` bytes each; the number of
        a load decides which buffer it takes.
        """
        tiling = self.tiling
        return ping_pong(self.k, (tiling.al1_buffers, a1), (tiling.bl1_buffers, b1))

    def cube_pipeline(self, tile_bytes: int) -> CubePipeline:
        """Return the pipeline with the flags of a TPipe and barriers, for L0C tiles of `tile_bytes` bytes."""
        barriers = Barriers(behind=small_product(self.k.chip) - 1, drain=True)
        return TPipePipeline(self.k, self.tiling.al0_buffers, self.tiling.cl0_buffers, tile_bytes, barriers=barriers)

    def parts(self, task: GradWeightTask) -> Iterator[tuple[GradWeightTask, range]]:
        """Yield (task, images summed at once): each image outside padding; for a StreamK part all its images at once."""
        images = range(task.image_start, task.image_start + task.images)
        if task.slot is not None:
            yield task, images
            return
        for image in images:
            if self.depth_of(image, task) is not None:
                yield task, range(image, image + 1)

    def depth_of(self, image: int, task: GradWeightTask) -> int | None:
        """Return the input depth that the task's kernel plane (None: 0) reads for an image; None if it is padding."""
        p, plane = self.p, 0 if task.plane is None else task.plane
        depth = image % p.d_out * p.stride_d - p.pad_front + self.input.plane_and_tap(plane)[0] * p.dilation_d
        return depth if 0 <= depth < p.d_in else None

    # -- tiles ---------------------------------------------------------------------------------------------------------

    def tiles(self, task: GradWeightTask) -> Iterator[tuple[int, SummedTile]]:
        """Yield (kernel plane, L0C tile) of a task, one block of stepM x stepN tiles after the other, in the tiling's order.

        Each tile has the rows of gradOutput and the channel blocks of the input that L1 holds for its whole block.
        """
        tiling = self.tiling
        listed = list(super().tiles(task))
        _, columns = self.count(task)
        end = max((tile.m + tile.rows for _, tile in listed), default=0)
        last = (task.n_start + task.n_count) // self.per_block
        found: dict[tuple[int, ...], tuple[int, SummedTile]] = {}
        for plane, tile in listed:
            row, column = self.place(task, tile)
            block_row, block_column = row - row % tiling.step_m, column - column % tiling.step_n
            base = task.m_start + block_row * tiling.base_m
            first = (task.n_start + block_column * tiling.base_n) // self.per_block
            wide = min(tiling.step_n, columns - block_column) * tiling.base_n // self.c0
            blocks = Span(first, min(copied_blocks(wide, self.inp.taps), last - first))
            channels_in = self.call.group_channels(task.group, self.p.c_in, self.inp.cin_g)
            tile = tile._replace(
                held=Span(base, min(tiling.step_m * tiling.base_m, end - base)),
                blocks=blocks,
                channels=min(blocks.length * self.c0, channels_in - first * self.c0),
            )
            by_rows, by_columns = (block_row, block_column, row, column), (block_column, block_row, column, row)
            found[by_columns if tiling.iterate_order else by_rows] = plane, tile
        yield from (found[order] for order in sorted(found))

    def place(self, task: GradWeightTask, tile: SummedTile | FilterTile) -> tuple[int, int]:
        """Return (row, column) of a tile in its task's grid of L0C tiles."""
        row = tile.row if isinstance(tile, FilterTile) else tile.m
        return (row - task.m_start) // self.tiling.base_m, (tile.column - task.n_start) // self.tiling.base_n

    def count(self, task: GradWeightTask) -> tuple[int, int]:
        """Return (rows, columns) of the task's grid of tiles, at least (1, 1); cached."""
        if task not in self._counts:
            places = [(0, 0), *(self.place(task, tile) for tile in filter_tiles(self.call, self.tiling, task))]
            rows, columns = zip(*places, strict=True)
            self._counts[task] = max(rows) + 1, max(columns) + 1
        return self._counts[task]

    def summed(self, task: GradWeightTask, images: range, placed: tuple[int, SummedTile]) -> Iterator[tuple[Piece, Where]]:
        """Yield (step, place) of a tile summed over planes `images`; a plane's step says what `plane` loads for it.

        Over several planes or strips both operands are loaded, and freed, for each of them.
        """
        kept = self.loads(task, placed[1]) if len(images) == 1 else (ALWAYS, ALWAYS)
        for piece, where in super().summed(task, images, placed):
            if isinstance(piece, Plane):
                piece = piece._replace(loads=kept if len(piece.walk.parts) == 1 else (ALWAYS, ALWAYS))
            yield piece, where

    def loads(self, task: GradWeightTask, tile: SummedTile) -> tuple[Loads, Loads]:
        """Return (loads of gradOutput A, loads of the input B) that a tile needs, by its place in the order of tiles.

        A block of tiles has stepM rows and stepN columns. Along a row of tiles (a column if `iterate_order`) one operand
        changes: it is loaded once for each row of each block, the other one once for a whole row of blocks. Either is loaded
        for each tile where its buffers do not hold all of K.
        """
        tiling, (rows, columns), (row, column) = self.tiling, self.count(task), self.place(task, tile)
        steps = ceil_div(task.rows * self.inp.problem.w_out, tiling.base_k)
        top, left = row % tiling.step_m == 0, column % tiling.step_n == 0
        bottom = row == rows - 1 or (row + 1) % tiling.step_m == 0
        right = column == columns - 1 or (column + 1) % tiling.step_n == 0
        if tiling.iterate_order:
            kept_a, kept_b = (top, bottom), (top and left and row < tiling.step_m, right and row == rows - 1)
        else:
            kept_a, kept_b = (top and left and column < tiling.step_n, bottom and column == columns - 1), (left, right)
        found = []
        for (begins, ends), step, buffers, block in (
            (kept_a, tiling.step_ka, tiling.al1_buffers, row // tiling.step_m),
            (kept_b, tiling.step_kb, tiling.bl1_buffers, column // tiling.step_n),
        ):
            more = steps > step * buffers
            found.append(Loads(more or begins, more or ends, block * ceil_div(steps, step)))
        return found[0], found[1]

    # -- a plane -------------------------------------------------------------------------------------------------------

    def plane(self, plane: Plane, strip: Strip, steps: Sequence[Step], where: Where) -> None:
        """Append one plane's loads and products: gradOutput pixels of a strip times the input that they read. B is
        loaded before A, and each only where `plane.loads` asks for it.
        """
        tile, batch, row = self.placed(plane.tile, where), where.batch, where.row
        assert plane.loads is not None
        loads_a, loads_b = plane.loads
        spans = [step.in_a1 for step in steps], [step.in_b1 for step in steps]
        numbers = [list(accumulate(map(ne, span[1:], span), initial=0)) for span in spans]
        for i, step in enumerate(steps):
            own, ends = step.at(strip.problem, row), i + 1 == len(steps)
            begins_a, begins_b = (not i or span[i] != span[i - 1] for span in spans)
            ends_a, ends_b = (ends or span[i] != span[i + 1] for span in spans)
            self.b1.turn(loads_b.first + numbers[1][i])
            if begins_b and loads_b.wanted:
                self.b1.renew()
                self.load_b1(tile, strip, Image(batch, plane.depth), own.in_b1, own.held)
            self.a1.turn(loads_a.first + numbers[0][i])
            if begins_a and loads_a.wanted:
                self.a1.renew()
                self.load_a1(tile, strip, Image(batch, plane.depth_out), own.in_a1)
            self.multiply(plane.tile, strip, step, (ends_a and loads_a.freed, ends_b and loads_b.freed))

    def boxes(self, strip: Strip, span: Span) -> Iterator[tuple[Span, Span, int]]:
        """Yield (rows, columns, byte offset in L1) of the pieces in which gradOutput pixels are loaded: one piece if the
        strip has all columns; else the rest of the first row, whole rows, the beginning of the last row.
        """
        if strip.columns == self.p.w_out:
            yield Span(0, 1), span, 0
        else:
            yield from super().boxes(strip, span)

    def multiply(self, tile: SummedTile, strip: Strip, step: Step, freed: tuple[bool, bool]) -> None:
        """Append one base block: load half of L0B, then of L0A, and multiply. `freed`: behind it (A1, B1) are free."""
        k, (pixels, in_a1, in_b1, held) = self.k, step
        half = self.pipeline.operands.acquire()
        left, right = self.pipeline.left[half], self.pipeline.right[half]
        window, rows = self.input.window(strip, pixels, in_b1, held)
        columns = Span(tile.column - tile.blocks.start * self.per_block, tile.n_count)
        k.load_data_3d("L0B", right, self.b1.read(), self.itemsize, window, rows, columns)
        if freed[1]:
            self.b1.done()
        above = tile.m - tile.held.start
        # Where C0 is half of a fractal, L1 may hold the first half of the last fractal alone.
        height = min(ceil_to(tile.rows, FRACTAL), ceil_to(tile.held.length - above, self.c0))
        offset = above // self.c0 * in_a1.length + pixels.start - in_a1.start
        matrix, rows, columns = matrix_window(in_a1.length), Span(0, pixels.length), Span(0, height)
        source = self.a1.read() + offset * BLOCK_BYTES
        k.load_data_3d("L0A", left, source, self.itemsize, matrix, rows, columns, transpose=True)
        if freed[0]:
            self.a1.done()
        self.pipeline.multiply(half, height, pixels.length, tile.n_count, self.call.dtype, self.call.hf32_bits)
