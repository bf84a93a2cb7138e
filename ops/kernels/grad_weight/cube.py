"""Cube program of grad_weight: tiles of dW in L0C, summed over pixels and images, and stored.

A subclass overrides the steps for another order: the part summed at a time, the loads of a plane's pixels, the store of a tile.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain, product
from operator import sub
from typing import NamedTuple

from ascend_sim.chip.fractal import FRACTAL, FRACTAL_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import ColumnRuns, Span, matrix_window
from ascend_sim.kernel.program import Program
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline, HeldOperand
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, SPLIT_STREAM_K, STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.operand import input_operand
from ascend_sim.ops.kernels.grad_weight.parts import boxes, by_tap
from ascend_sim.ops.kernels.grad_weight.steps import Run, Runs, Step, StripWalk, TaskWalks, Where
from ascend_sim.ops.kernels.grad_weight.stream_k import (
    ALL_CUBES,
    CUBE_TO_VECTOR,
    GRAD_OUTPUT,
    GRAD_WEIGHT,
    INPUT,
    WORKSPACE,
    slot_bytes,
)
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.layouts import slotted_gradient, weight_gradient, y_map
from ascend_sim.ops.layouts.layout import ChannelPlace, FilterTile, MapBox
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.window import InputRows


class SummedTile(NamedTuple):
    """A tile of dW: `rows` existing rows of a real group from row `m` on, and `n_count` columns of one kernel plane (or
    of one `tap`) from `column` on. For it L1 holds gradOutput for the existing rows `held` of dW, and `channels`
    input channels in the channel `blocks`.
    """

    group: int
    tap: int
    m: int
    rows: int
    held: Span
    column: int
    n_count: int
    blocks: Span
    channels: int

    def counted(self, c0: int, per_block: int) -> tuple[SummedTile, int, int]:
        """Return (tile, row block of C0 channels, channel block of the input): the tile is moved to the origin of its row
        block, channel block and group. A channel block has `per_block` columns of dW.
        """
        rows_from, first = self.held.start // c0, self.blocks.start
        return self.at(-rows_from * c0, -first, -self.group, per_block), rows_from, first

    def at(self, row: int, block: int, group: int, per_block: int) -> SummedTile:
        """Return the relative tile moved by `row` rows, `block` channel blocks of the input and `group` groups."""
        return self._replace(
            group=self.group + group,
            m=self.m + row,
            held=Span(self.held.start + row, self.held.length),
            column=self.column + block * per_block,
            blocks=Span(self.blocks.start + block, self.blocks.length),
        )


class Begin(NamedTuple):
    """Step of a program: begin a tile. `counted` is False for all but the first part (slot 0) of a tile that cores share
    (StreamK), so that it counts once.
    """

    counted: bool


class Loads(NamedTuple):
    """Loads of one operand for a plane: `wanted` if it is loaded at all, `freed` if its buffers are free after the plane;
    `first` is the number of its first load, from which its buffer follows.
    """

    wanted: bool
    freed: bool
    first: int


class Plane(NamedTuple):
    """Step of a program: add plane `depth_out` of gradOutput times plane `depth` of the input to a tile; tile and `walk` are
    relative to the step's place. `begin` is set if the plane is the only one of its tile, `loads` (of A and of B) if the kernel
    numbers its loads.
    """

    tile: SummedTile
    walk: StripWalk
    depth_out: int
    depth: int
    begin: Begin | None = None
    loads: tuple[Loads, Loads] | None = None


class End(NamedTuple):
    """Step of a program: store the sum of `tile`, which belongs to kernel plane `plane`.

    A `moved` tile is relative to the step's place; another one is absolute but for its group, which the place adds.
    `slot` is (StreamK task, block to whose slot the sum goes), None if it goes to dW.
    """

    tile: SummedTile
    plane: int
    moved: bool
    slot: tuple[GradWeightTask, int] | None


class Image(NamedTuple):
    """A plane of a map: image of the batch, and depth."""

    batch: int
    depth: int


class Round(Enum):
    """Step of a program: the begin or end of a round, in which a core computes at most one tile, which goes to its slot."""

    BEGINS = 0
    ENDS = 1


Piece = Begin | Plane | End | Round
"""A step of a program."""


def filter_tiles(call: CubeCall, tiling: GradWeightTiling, task: GradWeightTask) -> Iterator[FilterTile]:
    """Yield the L0C tiles of a task in the tiling's order; a tile stays in one kernel plane, and has no rows and no channel
    blocks beyond those of its group.
    """
    inp = by_tap(call.inp) if tiling.split_kernel else call.inp
    per_block = inp.taps * inp.n0
    per_plane = inp.n1 * per_block
    channels_in = call.group_channels(task.group, call.inp.problem.c_in, inp.cin_g)
    present = ceil_div(channels_in, inp.n0) * per_block
    columns = []
    n = task.n_start
    while n < task.n_start + task.n_count:
        left = task.n_start + task.n_count - n
        count = min(tiling.base_n, left, present - n % per_plane)
        if count <= 0:
            n += min(left, per_plane - n % per_plane)  # channels that the last real group does not have
            continue
        columns.append((n, count))
        n += count
    channels = call.group_channels(task.group, call.inp.problem.c_out, inp.cout_g)
    end = min(task.m_start + task.m_count, channels)
    rows = [(m, min(tiling.base_m, end - m)) for m in range(task.m_start, end, tiling.base_m)]
    pairs = product(columns, rows) if tiling.iterate_order else ((c, r) for r, c in product(rows, columns))
    for (n, n_count), (m, m_count) in pairs:
        plane, column = divmod(n, per_plane)
        yield FilterTile(task.group, plane if task.plane is None else task.plane, m, m_count, column, n_count)


class CubeBuilder:
    """Builder of one block's cube program of grad_weight: steps that begin, sum and store the tiles of its tasks."""

    def __init__(self, call: CubeCall, tiling: GradWeightTiling, k: KernelBuilder, walks: TaskWalks, runs: Runs) -> None:
        self.call, self.tiling, self.k, self.walks, self.known = call, tiling, k, walks, runs
        inp = self.inp = by_tap(call.inp) if tiling.split_kernel else call.inp
        self.p = call.inp.problem
        self.c0, self.itemsize = inp.c0, inp.itemsize
        self.per_block = inp.taps * inp.n0
        self.dw, self.grad_output = weight_gradient(inp), y_map(call.inp)
        self.input = input_operand(call, inp, tiling, k, INPUT)
        self.atomic = tiling.template != SPLIT_STREAM_K
        a1 = tiling.step_ka * tiling.base_k * tiling.step_m * tiling.base_m * self.itemsize
        self.a1, self.b1 = self.held(a1, tiling.bl1_bound * self.itemsize)
        tile_bytes = ceil_div(tiling.base_m, FRACTAL) * ceil_div(tiling.base_n, FRACTAL) * FRACTAL * FRACTAL * 4
        self.pipeline = self.cube_pipeline(tile_bytes)

    def held(self, a1: int, b1: int) -> tuple[HeldOperand, HeldOperand]:
        """Return the L1 buffers (of gradOutput A, of the input B), newly allocated, of `a1` and `b1` bytes each."""
        tiling = self.tiling
        return (HeldOperand(self.k, "A1", tiling.al1_buffers, a1), HeldOperand(self.k, "B1", tiling.bl1_buffers, b1))

    def cube_pipeline(self, tile_bytes: int) -> CubePipeline:
        """Return the pipeline with buffers of L0A and L0B, and of L0C for tiles of `tile_bytes` bytes."""
        # Items of 1 byte are turned in squares, so that L0A has whole ones.
        tiling = self.tiling
        pipeline = CubePipeline(self.k, tiling.al0_buffers, tiling.cl0_buffers, tile_bytes)
        pipeline.row_unit = self.inp.unit
        return pipeline

    def program(self) -> Program:
        runs = [(run, where) for run, where in self.runs() if run.pieces]
        first = runs[0][1] if runs else Where()
        outline = tuple([(run, *map(sub, where, first)) for run, where in runs])
        return self.k.repeated_at(
            first, outline, lambda: list(chain.from_iterable(run.at(where) for run, where in runs)), self.written
        )

    def written(self, pieces: Iterable[tuple[Piece, Where]]) -> Program:
        """Return the program of the steps `pieces`, with the end of all queues."""
        for piece, where in self.k.stamped(pieces):
            self.write_piece(piece, where)
        self.a1.close()
        self.b1.close()
        self.pipeline.close()
        self.ended()
        return self.k.finish()

    def ended(self) -> None:
        """Append the end of the program: with StreamK the flag that the slots are complete, else nothing."""
        if self.tiling.stream_k_type != STREAM_NONE:
            self.slots_done()

    def slots_done(self) -> None:
        """Append the wait for all cubes and the flag after which the vector cores read the sums in the slots."""
        self.k.cross_core_set(ALL_CUBES, 0, "FIX")
        self.k.cross_core_wait(ALL_CUBES, 0, "FIX")
        self.k.cross_core_set(CUBE_TO_VECTOR, 2, "FIX")

    def runs(self) -> Iterator[tuple[Run, Where]]:
        """Yield (run of steps, its place) for the tiles of the block's tasks, in order."""
        for task in grad_weight_tasks(self.tiling, self.inp, self.k.block):
            for part, images in self.parts(task):
                yield self.run(part, images)

    def run(self, part: GradWeightTask, images: range, tile: tuple[int, SummedTile] | None = None) -> tuple[Run, Where]:
        """Return (run of the steps of all tiles of a part, or of `tile` alone; its place).

        Equal planes of other images have the same run, at other places.
        """

        def pieces(images: range) -> Iterator[tuple[Piece, Where]]:
            for one in self.tiles(part) if tile is None else [tile]:
                yield from self.summed(part, images, one)

        if not self.k.stamping:
            return Run(tuple(pieces(images))), Where()
        batch, first = divmod(images.start, self.p.d_out)
        own = range(first, first + len(images))
        shared = None if part.slot is None else (part, self.k.block)
        run, where = self.known.of((part.part, own, shared, tile), lambda: pieces(own))
        return run, where._replace(batch=where.batch + batch)

    def summed(self, task: GradWeightTask, images: range, placed: tuple[int, SummedTile]) -> Iterator[tuple[Piece, Where]]:
        """Yield (step, place) for a tile of one kernel plane: begin, a step for each plane of `images` not padding, end.

        A single plane begins the tile itself. Without any the tile is begun and ended, a sum of nothing.
        """
        p, (plane, tile) = self.p, placed
        begin = Begin(not task.slot)  # parts of a StreamK task share its tiles
        slot = self.slot(task)
        kernel_depth, _ = self.input.plane_and_tap(plane)
        walk, row = self.walks.of(tile.tap, task.row_start, task.rows)
        shape, rows_block, columns_block = tile.counted(self.c0, self.per_block)
        at = Where(0, row, rows_block, columns_block, tile.group)
        planes: list[tuple[Plane, Where]] = []
        for batch, depth_out in (divmod(image, p.d_out) for image in images):
            depth = depth_out * p.stride_d - p.pad_front + kernel_depth * p.dilation_d
            if 0 <= depth < p.d_in:
                planes.append((Plane(shape, walk, depth_out, depth), at._replace(batch=batch)))
        first, last = (planes[0][1], planes[-1][1]) if planes else (at, at)
        if len(planes) == 1:
            planes = [(planes[0][0]._replace(begin=begin), first)]
        else:
            yield begin, first
        yield from planes
        moved = slot is None and self.dw.uniform
        yield End(shape if moved else tile._replace(group=0), plane, moved, slot), last

    def slot(self, task: GradWeightTask) -> tuple[GradWeightTask, int] | None:
        """Return (task, block) whose slot the task's tiles go to; None where they go to dW, as for all but StreamK tasks."""
        return None if task.slot is None else (task, self.k.block)

    def parts(self, task: GradWeightTask) -> Iterator[tuple[GradWeightTask, range]]:
        """Yield (task, images summed in L0C before dW is written): all at once, or one at a time where sums are atomic and the
        template is not 0.
        """
        images = range(task.image_start, task.image_start + task.images)
        if not self.atomic or self.tiling.template == SPLIT_GRID:
            yield task, images
        else:
            yield from ((task, range(image, image + 1)) for image in images)

    def tiles(self, task: GradWeightTask) -> Iterator[tuple[int, SummedTile]]:
        """Yield (kernel plane, L0C tile) for each tile of a task, in the order of the tiling."""
        channels = self.call.group_channels(task.group, self.p.c_out, self.inp.cout_g)
        channels_in = self.call.group_channels(task.group, self.p.c_in, self.inp.cin_g)
        rows_held = self.tiling.step_m * self.tiling.base_m
        for group, plane, m, rows, column, n_count in filter_tiles(self.call, self.tiling, task):
            base = task.m_start + (m - task.m_start) // rows_held * rows_held
            first, last = column // self.per_block, ceil_div(column + n_count, self.per_block)
            yield (
                plane,
                SummedTile(
                    group=group,
                    tap=self.input.plane_and_tap(plane)[1],
                    m=m,
                    rows=rows,
                    held=Span(base, min(rows_held, channels - base)),
                    column=column,
                    n_count=n_count,
                    blocks=Span(first, last - first),
                    channels=min((last - first) * self.inp.n0, channels_in - first * self.inp.n0),
                ),
            )

    # -- one L0C tile --------------------------------------------------------------------------------------------------

    def write_piece(self, piece: Piece, where: Where) -> None:
        """Append the instructions of one step (begin, plane or end of a tile) at its place; nothing for a Round."""
        if isinstance(piece, Begin):
            self.begin(piece)
        elif isinstance(piece, Plane):
            if piece.begin is not None:
                self.begin(piece.begin)
            for strip, steps in piece.walk.parts:
                self.plane(piece, strip, steps, where)
        elif isinstance(piece, End):
            tile = self.placed(piece.tile, where if piece.moved else Where(group=where.group))
            self.pipeline.end_sum(tile.rows, tile.n_count, self.c0, self.call.dtype, self.call.hf32_bits)
            self.write(FilterTile(tile.group, piece.plane, tile.m, tile.rows, tile.column, tile.n_count), piece.slot)

    def begin(self, begin: Begin) -> None:
        """Append the begin of the next tile of L0C."""
        self.k.next_tile(counted=begin.counted)
        self.pipeline.begin_sum()

    def plane(self, plane: Plane, strip: Strip, steps: Sequence[Step], where: Where) -> None:
        """Append the loads and products of a plane: gradOutput pixels of a strip times the input that they read."""
        tile, batch, row = self.placed(plane.tile, where), where.batch, where.row
        last = None
        for step in steps:
            if last is None or step.in_a1 != last.in_a1:
                self.load_a1(tile, strip, Image(batch, plane.depth_out), step.at(strip.problem, row).in_a1)
            if last is None or step[2:] != last[2:]:
                self.load_b1(tile, strip, Image(batch, plane.depth), *step.at(strip.problem, row)[2:])
            self.step(plane.tile, strip, step)
            last = step

    def placed(self, tile: SummedTile, where: Where) -> SummedTile:
        """Return the relative tile as it is at `where`, with absolute rows and columns."""
        # All channels of a real group but of the only one are whole blocks, or may begin anywhere.
        group = where.group if self.inp.real_groups > 1 else 0
        return tile.at(where.m * self.c0, where.n, group, self.per_block)

    # -- GM -> L1 ------------------------------------------------------------------------------------------------------

    def load_a1(self, tile: SummedTile, strip: Strip, image: Image, span: Span) -> Hashable:
        """Load the gradOutput pixels `span` for the tile's rows to L1 as [c1][pixels][C0], unless held; return their key."""
        key = self.key_of_rows(tile, strip, image, span)
        address = self.a1.begin(key)
        if address is None:
            return key
        place = self.place_of_rows(tile, image)
        for rows, columns, offset in self.boxes(strip, span):
            box = MapBox(place, tile.held.length, rows, columns)
            self.grad_output.load_pixels(self.k, GRAD_OUTPUT, box, address + offset, span.length, "A")
        self.a1.loaded()
        return key

    def boxes(self, strip: Strip, span: Span) -> Iterator[tuple[Span, Span, int]]:
        """Yield (rows, columns, byte offset in L1) of the pieces in which a run of gradOutput pixels is loaded: the rest of
        the first row, whole rows, the beginning of the last row.
        """
        return boxes(strip, span)

    def key_of_rows(self, tile: SummedTile, strip: Strip, image: Image, span: Span) -> Hashable:
        """Return the key of gradOutput pixels `span` of the tile's rows in L1; pixels count in the strip that it names."""
        return (*image, tile.group, tile.held.start, strip.column, strip.columns, *span)

    def place_of_rows(self, tile: SummedTile, image: Image) -> ChannelPlace:
        """Return the place in the map of the first gradOutput channel that L1 holds for a tile."""
        return ChannelPlace(image.batch, tile.group * self.inp.cout_g + tile.held.start, image.depth)

    def load_b1(self, tile: SummedTile, strip: Strip, image: Image, span: Span, held: InputRows) -> Hashable:
        """Load the input rows `held`, which pixels `span` read, of the tile's blocks to L1, unless held; return the key."""
        key = (*image, tile.group, *tile.blocks, *self.input.key(strip, tile.tap, span, held), held.first, held.rows)
        address = self.b1.begin(key)
        if address is None:
            return key
        place = ChannelPlace(image.batch, tile.group * self.inp.cin_g + tile.blocks.start * self.inp.n0, image.depth)
        self.input.load(place, tile.channels, strip, tile.tap, span, held, address)
        self.b1.loaded()
        return key

    # -- L1 -> L0, mmad ------------------------------------------------------------------------------------------------

    def step(self, tile: SummedTile, strip: Strip, step: Step) -> None:
        """Load one base block to half of L0A and half of L0B, and multiply. Tile and step may be relative to the same place."""
        k, (pixels, in_a1, in_b1, held) = self.k, step
        half = self.pipeline.operands.acquire()
        left, right = self.pipeline.left[half], self.pipeline.right[half]
        rows = Span(pixels.start - in_a1.start, pixels.length)
        columns = Span(tile.m - tile.held.start, ceil_to(tile.rows, self.c0))
        k.load_data_3d("L0A", left, self.a1.address, self.itemsize, matrix_window(in_a1.length), rows, columns, transpose=True)
        window, rows = self.input.window(strip, pixels, in_b1, held)
        for place, taken in self.columns(tile):
            k.load_data_3d("L0B", right + place, self.b1.address, self.itemsize, window, rows, taken)
        self.pipeline.multiply(half, tile.rows, pixels.length, tile.n_count, self.call.dtype, self.call.hf32_bits)

    def columns(self, tile: SummedTile) -> Iterator[tuple[int, Span | ColumnRuns]]:
        """Yield (byte offset in half of L0B, columns) for each load3d of a tile: one for all columns, or, with several taps,
        one for each fractal where C0 is half of `n0`: a tap's channels then fill it in two runs (ops-nn, arch35: stated).
        """
        first, taps, c0 = tile.column % self.per_block, self.inp.taps, self.c0
        if self.inp.n0 == c0 or taps == 1:
            yield 0, Span(first, min(tile.n_count, ceil_to(tile.channels, c0) * taps - first))
            return
        line = ceil_div(tile.n_count, FRACTAL)
        for fractal in range(line):
            block, tap = divmod(first // FRACTAL + fractal, taps)
            runs = min(ceil_div(tile.channels - block * self.inp.n0, c0), FRACTAL // c0)
            start = (block * self.inp.n0 // c0 * taps + tap) * c0
            yield fractal * FRACTAL_BYTES, ColumnRuns(start, c0, runs, taps, line)

    # -- L0C -> GM -----------------------------------------------------------------------------------------------------

    def write(self, tile: FilterTile, slot: tuple[GradWeightTask, int] | None) -> None:
        """Append the store of the tile in L0C: to dW (added, where sums are atomic) or, with `slot` (task, block), to the slot
        of that block.
        """
        if slot is None:
            self.dw.drain(self.pipeline, GRAD_WEIGHT, tile, self.atomic)
            return
        task, block = slot
        offset = block * slot_bytes(self.tiling, self.inp)
        slotted_gradient(self.inp).drain_to_slot(self.pipeline, WORKSPACE, offset, task, tile, False)
