"""grad_weight as the library's older kernels compute it: Conv2DBackpropFilter and Conv3DBackpropFilter of the 910B.

    dW[M, N] = sum over images of gradOutput[K, M]^T x img2col(input)[K, N]

A block keeps a tile of dW in L0C over all its images and all its K, and adds it to dW in GM once; a MemSet has cleared dW.
gradOutput (A) and the input (B) lie in L1 as the tiling says: for the whole block, for a tile with all of its K, or K step by K
step, the operand with the longer step outside. Nothing is loaded ahead but by the second buffer of an operand. From the
schedule of CANN 8.1 (conv2d_backprop_filter_schedule.py: stated). The Fixpipe takes a tile fractal by fractal (unit flag), but
not where rows are cut.

16-bit operands that are read as they lie go from L1 to L0 by load2d (`runs`), all others by load3d, one load a step.

L0A and L0B are two tensors there, each with two buffers and a place of its own in the loops (stated). With 32-bit operands, of
which alone there are measured rows with counters, each is handed over by flags of its own (inferred): how far the scalar unit
runs ahead, and so how long the Fixpipe waits at the unit flag, follows from the six entries of a step in MTE1's queue of 32.
With 16-bit ones both share a pair (assumed).

The 3-D kernel sums over planes (an image, a depth of gradOutput). A plane whose kernel plane lies in the padding is not left
out: gradOutput comes to L1, both halves of L0 are filled, and only the Mmad stands behind the condition; there is no unit flag
(conv3d_backprop_filter_schedule.py and _compute.py of CANN 8.1: stated). L0B then gets what L1 held last; here zeros, which
takes as long. Its tiling asks for two buffers of an operand in L1 and its schedule of 2022 for as many (stated), but whole
calls of the 910B2 last as long as load and products one after the other (inferred: ten measured tilings, whose chunks take 14
cycles a KB and two latencies longer than with loads ahead). What the compiler makes of the schedule is not known, so the rows
decide: one buffer of each, see ONE_AFTER_THE_OTHER.

B comes by load3d from rows of the input; where rows are too long for L1 from pieces of them, a step in L0 being a piece of one
row of gradOutput; of a signal from the columns that a run of pixels sees; or gathered from GM for each tap, pixel by pixel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.chip.fractal import ACCUMULATOR_FRACTAL_BYTES, BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span, matrix_window
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline, HeldOperand
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Attach, CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import a1_bytes, b1_bytes
from ascend_sim.ops.kernels.grad_weight.steps import Where
from ascend_sim.ops.kernels.grad_weight.tbe.blocks import HeldTile
from ascend_sim.ops.kernels.grad_weight.tbe.runs import TbeRuns, gather_taps
from ascend_sim.ops.kernels.grad_weight.tbe.walks import TbePart, TbeStep, further, moves
from ascend_sim.ops.kernels.grad_weight.tbe.work import Piece, TbeEnd, TbePlane, TbeWork
from ascend_sim.ops.layouts import weight_gradient, x_map, y_map
from ascend_sim.ops.layouts.layout import ChannelPlace, FilterTile, MapBox
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.runtime import Task

GRAD_OUTPUT, INPUT, GRAD_WEIGHT = 0, 1, 2
"""Tensors of the launch."""
ONE_AFTER_THE_OTHER = 1
"""Number of L1 buffers of an operand in the 3-D kernel, whatever its tiling asks for (inferred from whole calls; a load
that stands behind a condition, as those of the input do there, is one that the compiler's waits cannot move ahead).
"""


def tbe_grad_weight_task(
    call: CubeCall,
    p: FilterProblem,
    tiling: CacheTiling,
    tensors: list[Allocation],
    name: str,
    op_type: str,
    block_dim: int | None = None,
) -> Task:
    """Return the launch of the older kernel; `tensors` are gradOutput, input (both NC1HWC0) and dW (fp32 FRACTAL_Z).

    `block_dim` launches another number of blocks than the tiling's: more, which have no work; with fewer dW lacks parts.
    """
    table = InstructionTable(call.chip)
    sizes = [tensor.size for tensor in tensors]
    work = TbeWork(call, p, tiling)

    def build(block: int) -> list[Program]:
        k = KernelBuilder(table, block, call.core_kind, sizes, disarm=call.disarm)
        own = work.of(block)

        def written(pieces: Sequence[tuple[Piece, Where]]) -> Program:
            return _TbeBuilder(call, p, tiling, k).program(pieces)

        return [k.repeated_at(own.place, own.outline(), own.pieces, written) if own.tiles else written(())]

    storage = "float32" if call.inp.itemsize == 4 else call.dtype
    dtypes = {"grad_output": storage, "input": storage, "grad_weight": "float32"}
    info = call.info(tiling, dtypes) | {"input_load": p.load_words}
    return Task(name, op_type, call.core_kind, block_dim or tiling.cuts.blocks, tensors, build, info=info)


class _TbeBuilder:
    """Builder of one block's cube program of the older kernel: steps that begin, sum and store its tiles of dW."""

    def __init__(self, call: CubeCall, p: FilterProblem, tiling: CacheTiling, k: KernelBuilder) -> None:
        self.call, self.p, self.tiling, self.k = call, p, tiling, k
        self.inp, self.problem = call.inp, call.inp.problem
        self.c0, self.itemsize = call.inp.c0, call.inp.itemsize
        self.per_block = p.taps * self.c0
        # What load2d moves are whole fractals, and what is multiplied at a time begins one.
        self.held_runs = TbeRuns(k, FRACTAL if self.itemsize == 2 else 1, p.load is Load.SPLIT_W)
        self.moves = moves(p)
        self.dw, self.grad_output, self.features = weight_gradient(call.inp), y_map(call.inp), x_map(call.inp)
        tile = tiling.tile
        buffers = (ONE_AFTER_THE_OTHER,) * 2 if p.volumetric else (tile.db_al1, tile.db_bl1)
        self.a1 = HeldOperand(k, "A1", buffers[0], a1_bytes(p, tile))
        self.b1 = HeldOperand(k, "B1", buffers[1], b1_bytes(p, tile))
        self.pipeline = CubePipeline(
            k,
            2,
            tile.db_l0c,
            tile.m_l0 * tile.n_l0 * ACCUMULATOR_FRACTAL_BYTES,
            unit_flag=k.chip.has_unit_flag and not p.volumetric and p.load is not Load.SPLIT_W,
            own_flags=self.itemsize == 4,
        )

    def program(self, pieces: Sequence[tuple[Piece, Where]]) -> Program:
        """Return the program of the steps `pieces` at their places, with the end of all queues."""
        parts = {what.part for what, _ in pieces if isinstance(what, TbePlane)}
        self.pad_runs([step for part in parts for step in part.steps])
        for what, where in self.k.stamped(pieces):
            if isinstance(what, TbePlane):
                self.products(what, where)
            elif isinstance(what, TbeEnd):
                group, plane, m, n = self.placed(what.tile, where)[:4]
                self.pipeline.end_sum(m.length, n.length, self.c0, self.call.dtype, self.call.hf32_bits)
                self.dw.drain(self.pipeline, GRAD_WEIGHT, FilterTile(group, plane, *m, *n), True)
            else:
                self.k.next_tile()
                self.pipeline.begin_sum()
        self.a1.close()
        self.b1.close()
        self.pipeline.close()
        return self.k.finish()

    def products(self, plane: TbePlane, where: Where) -> None:
        """Append the loads and products of a part of a plane, step by step; an operand is loaded where the step needs
        other pixels in L1.

        For a plane in the padding L0 is filled, but nothing is multiplied.
        """
        batch, row = where.batch, where.row if self.moves else 0
        tile, last = self.placed(plane.tile, where), None
        for number, step in enumerate(plane.part.steps):
            loads = [self.load_a1] if last is None or step.new_a1(last) else []
            if last is None or step.new_b1(last):
                loads.insert(0 if plane.part.b_first else len(loads), self.load_b1)
            for load in loads:
                load(tile, plane, batch, further(self.p, step, row))
            self.fill_left(plane.tile, step)
            if plane.depth_in is None:
                self.leave_out(plane.tile, step.pixels.length)
            else:
                self.step(plane.tile, plane.part, number)
            last = step

    def placed(self, tile: HeldTile, where: Where) -> HeldTile:
        """Return the relative tile as it is at `where`, with absolute rows and columns; those of a gather already are."""
        m, n = (where.m, where.n) if self.moves else (0, 0)
        # All channels of a real group but of the only one are whole blocks.
        return tile.at(m * FRACTAL, n, where.group if self.inp.real_groups > 1 else 0, self.per_block)

    # -- GM -> L1 ------------------------------------------------------------------------------------------------------

    def load_a1(self, tile: HeldTile, plane: TbePlane, batch: int, step: TbeStep) -> None:
        """Load gradOutput pixels of a step for the rows `tile.m_held` of dW, as [c1][pixels][C0], unless L1 holds them from the
        last load.

        By `attach_a` they count as the same for all tiles (FULL), for tiles of the same kernel plane and L1 columns (WHOLE_K),
        or for one tile only (PART).
        """
        around: dict[Attach, tuple[int, ...]] = {
            Attach.FULL: (), Attach.WHOLE_K: (tile.plane, *tile.n_held), Attach.PART: (tile.plane, *tile.m, *tile.n)
        }  # fmt: skip
        span = step.in_a1
        key = (batch, plane.depth, tile.group, *tile.m_held, step.strip.column, *span, *around[self.tiling.attach_a])
        address = self.a1.begin(key)
        if address is None:
            return
        place = ChannelPlace(batch, tile.group * self.inp.cout_g + tile.m_held.start, plane.depth)
        self.held_runs.load(self.grad_output, GRAD_OUTPUT, place, tile.m_held.length, step.strip, span, address)
        self.a1.loaded()

    def load_b1(self, tile: HeldTile, plane: TbePlane, batch: int, step: TbeStep) -> None:
        """Load the input that the step's pixels read to L1, unless L1 holds it: runs of pixels, input rows, or gathered
        taps, by `p.load`.

        Nothing is loaded for a plane in the padding.
        """
        if plane.depth_in is None:
            return
        around = (tile.plane, *tile.m, *tile.n) if self.tiling.attach_b is Attach.PART else ()
        span = step.in_b1
        key = (batch, plane.depth_in, tile.group, *tile.n_held, step.seen.column, *span, *around)
        address = self.b1.begin(key)
        if address is None:
            return
        group = tile.group * self.inp.cin_g
        blocks = ChannelPlace(batch, group + tile.blocks.start * self.c0, plane.depth_in)
        if self.p.load is Load.LOAD2D:
            self.held_runs.load(self.features, INPUT, blocks, tile.channels, step.strip, span, address)
        elif self.p.load is Load.DMA:
            place, columns = ChannelPlace(batch, group, plane.depth_in), tile.n_held
            pixels = range(span.start, span.start + span.length)
            gather_taps(self.k, self.inp, INPUT, address, place, range(columns.start, columns.start + columns.length), pixels)
        else:
            self.load_rows(blocks, tile.channels, step, address)
        self.b1.loaded()

    def load_rows(self, place: ChannelPlace, channels: int, step: TbeStep, address: int) -> None:
        """Load the step's input rows to L1 as [c1][rows][columns][C0], of `channels` channels from `place` on; with
        `skips_rows` every stride_h-th row, one by one.
        """
        held, strip = step.held, step.seen
        columns = Span(strip.source, strip.problem.w_in)
        pitch = held.rows * columns.length
        lines = [(Span(held.first, held.rows), address)]
        if self.p.skips_rows:
            stride, size = self.problem.stride_h, columns.length * BLOCK_BYTES
            lines = [(Span((held.first + i) * stride, 1), address + i * size) for i in range(held.rows)]
        for rows, to in lines:
            self.features.load_pixels(self.k, INPUT, MapBox(place, channels, rows, columns), to, pitch, "B")

    # -- L1 -> L0, mmad: tiles and steps count from anywhere, L1 holds what is there ------------------------------------

    def pad_runs(self, steps: list[TbeStep]) -> None:
        """Append zeros over the L1 buffers (B's only if load2d reads them), and a barrier, if a step ends inside a fractal,
        since load2d takes whole fractals.
        """
        if all(step.pixels.length % self.held_runs.whole == 0 for step in steps):
            return
        for operand in (self.a1, self.b1) if self.p.load is Load.LOAD2D else (self.a1,):
            operand.clear()
        self.k.pipe_barrier("MTE2")

    def fill_left(self, tile: HeldTile, step: TbeStep) -> None:
        """Take the next half of L0A and L0B and load transposed gradOutput to L0A; L0B follows in `step` or `leave_out`."""
        left, held = self.pipeline.left[self.pipeline.operands.acquire()], step.in_a1
        rows = Span(tile.m.start - tile.m_held.start, ceil_to(tile.m.length, self.c0))
        if self.itemsize == 2:
            blocks = Span(rows.start // FRACTAL, rows.length // FRACTAL)
            self.held_runs.turn("L0A", left, self.a1.address, step.strip, held, step.pixels, blocks)
        else:
            window, pixels = matrix_window(held.length), Span(step.pixels.start - held.start, step.pixels.length)
            self.k.load_data_3d("L0A", left, self.a1.address, self.itemsize, window, pixels, rows, transpose=True)
        self.pipeline.load_right()

    def leave_out(self, tile: HeldTile, pixels: int) -> None:
        """Fill the current half of L0B with zeros for `pixels` pixels, then free it and the current half of L0A without a
        product; for a plane in the padding.
        """
        right = self.pipeline.right[self.pipeline.operands.filling]
        self.k.fill("L0B", right, ceil_div(pixels, self.c0) * ceil_div(tile.n.length, FRACTAL) * FRACTAL_BYTES)
        self.pipeline.leave_out()

    def step(self, tile: HeldTile, part: TbePart, number: int) -> None:
        """Load the input to L0B beside gradOutput in L0A, and multiply; step `number` of `part`."""
        step = part.steps[number]
        half, held, pixels, address = self.pipeline.operands.filling, step.in_b1, step.pixels, self.b1.address
        right, gathered = self.pipeline.right[half], self.p.load is Load.DMA
        first = tile.n_held.start if gathered else tile.blocks.start * self.per_block
        columns = Span(tile.n.start - first, tile.n.length)
        if self.p.load is Load.LOAD2D:
            blocks = Span(columns.start // FRACTAL, ceil_div(columns.length, FRACTAL))
            self.held_runs.turn("L0B", right, address, step.strip, held, pixels, blocks)
        else:
            matrix = matrix_window(held.length), Span(pixels.start - held.start, pixels.length)
            window, rows = matrix if gathered else part.windows[number]
            self.k.load_data_3d("L0B", right, address, self.itemsize, window, rows, columns)
        self.pipeline.multiply(half, tile.m.length, pixels.length, tile.n.length, self.call.dtype, self.call.hf32_bits)
