"""grad_weight as the library's older kernels compute it: Conv2DBackpropFilter and Conv3DBackpropFilter of the 910B.

    dW[M, N] = sum over images of gradOutput[K, M]^T x img2col(input)[K, N]

A block keeps a tile of dW in L0C over all its images and all its K, and adds it to dW in GM once; a MemSet has cleared dW.
gradOutput (A) and the input (B) lie in L1 as the tiling says: for the whole block, for a tile with all of its K, or K step by K
step, the operand with the longer step outside. Nothing is loaded ahead but by the second buffer of an operand. From the
schedule of CANN 8.1 (conv2d_backprop_filter_schedule.py: stated), but for one thing: 16-bit A goes to L0A by load3d here. The
Fixpipe takes a tile fractal by fractal (unit flag), but not where rows are cut.

The 3-D kernel sums over planes (an image, a depth of gradOutput). A plane whose kernel plane lies in the padding is not left
out: gradOutput comes to L1, both halves of L0 are filled, and only the Mmad stands behind the condition; there is no unit flag
(conv3d_backprop_filter_schedule.py and _compute.py of CANN 8.1: stated). L0B then gets what L1 held last; here zeros, which
takes as long. Its tiling asks for two buffers of an operand in L1, but whole calls of the 910B2 last as long as load and
products one after the other (inferred: ten measured tilings, whose chunks take 14 cycles a KB and two latencies longer than
with loads ahead), so it has one buffer of each here: see ONE_AFTER_THE_OTHER.

B comes by load3d from rows of the input; where rows are too long for L1 from pieces of them, a step in L0 being a piece of one
row of gradOutput; of a signal from the columns that a run of pixels sees; or gathered from GM for each tap, pixel by pixel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ascend_sim.chip.fractal import ACCUMULATOR_FRACTAL_BYTES, BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import MapWindow, Span, matrix_window
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline, HeldOperand
from ascend_sim.ops.kernels.cube.strips import Strip
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Attach, CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.held import a1_bytes, b1_bytes
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.strips import boxes, input_rows, piece, strips
from ascend_sim.ops.kernels.grad_weight.tbe.blocks import Block, OutTile, block_part, out_tiles
from ascend_sim.ops.kernels.grad_weight.tbe.gather import gather_taps
from ascend_sim.ops.layouts import weight_gradient, x_map, y_map
from ascend_sim.ops.layouts.layout import FilterTile, MapBox, Place
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.runtime import Task

GRAD_OUTPUT, INPUT, GRAD_WEIGHT = 0, 1, 2
"""Tensors of the launch."""
TURNED_AT_ONCE = 32
"""Channels of gradOutput that one load brings to L0A where it turns 32-bit items (inferred: it explains MTE1 of the two
AlexNet rows within 5 %, and scalar time and the Fixpipe's waits come nearer; a slower rate explains MTE1 alone, and MatMulV3,
which turns 32-bit items at full rate, speaks against one)."""
ONE_AFTER_THE_OTHER = 1
"""Buffers of an operand in L1 of the 3-D kernel, whatever its tiling asks for (inferred from whole calls; a load that stands
behind a condition, as those of the input do there, is one that the compiler's waits cannot move ahead)."""


def tbe_grad_weight_task(
    call: CubeCall,
    p: FilterProblem,
    tiling: CacheTiling,
    tensors: list[Allocation],
    name: str,
    op_type: str,
    block_dim: int | None = None,
) -> Task:
    """The kernel launch; `tensors` are gradOutput, input (both NC1HWC0) and dW (fp32 FRACTAL_Z)."""
    table = InstructionTable(call.chip)
    sizes = [tensor.size for tensor in tensors]

    def build(block: int) -> list[Program]:
        k = KernelBuilder(table, block, call.core_kind, sizes, disarm=call.disarm)
        return [_TbeBuilder(call, p, tiling, k).program()]

    storage = "float32" if call.inp.itemsize == 4 else call.dtype
    dtypes = {"grad_output": storage, "input": storage, "grad_weight": "float32"}
    info = call.info(tiling, dtypes)
    return Task(name, op_type, call.core_kind, block_dim or tiling.cuts.blocks, tensors, build, info=info)


@dataclass(frozen=True)
class _Run:
    """Pixels of a strip that are multiplied together, `step` in L0 and `span_a`, `span_b` in L1 at a time."""

    strip: Strip
    first: int
    last: int
    step: int
    span_a: int
    span_b: int


@dataclass(frozen=True)
class _Plane:
    """One image that a tile sums over, and the input plane that its kernel plane meets, None in the padding."""

    image: int
    depth: int
    batch: int
    depth_in: int | None


class _TbeBuilder:
    """Writes the cube program of one block."""

    def __init__(self, call: CubeCall, p: FilterProblem, tiling: CacheTiling, k: KernelBuilder) -> None:
        self.call, self.p, self.tiling, self.k = call, p, tiling, k
        self.inp, self.problem = call.inp, call.inp.problem
        self.c0, self.itemsize = call.inp.c0, call.inp.itemsize
        # The input as L1 gets it: without the rows that a flat kernel steps over.
        self.read = replace(self.problem, h_in=p.h_in, stride_h=p.stride_h)
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
        )

    def program(self) -> Program:
        block = block_part(self.p, self.tiling.cuts, self.k.block)
        if not block.empty:
            for group in block.groups:
                part = replace(block, groups=range(group, group + 1))
                m = self.call.group_channels(group, self.problem.c_out, self.inp.cout_g)
                channels = self.call.group_channels(group, self.problem.c_in, self.inp.cin_g)
                n = ceil_to(channels, self.c0) * self.p.taps
                for out in out_tiles(part, self.tiling.tile, self.p.taps, m, n):
                    self.tile(block, out)
        self.a1.close()
        self.b1.close()
        self.pipeline.close()
        return self.k.finish()

    def tile(self, block: Block, out: OutTile) -> None:
        """A tile of dW, summed over the images and K of the block, then added to dW."""
        self.k.next_tile()
        self.pipeline.begin_sum()
        d_out = self.problem.d_out
        for (depth, depth_in), batch in self.k.stamped(self.planes(block, out.plane), out, block.k):
            for run in self.runs(block):
                self.products(out, _Plane(batch * d_out + depth, depth, batch, depth_in), run)
        self.pipeline.end_sum(len(out.m), len(out.n), self.c0, self.call.dtype, self.call.hf32_bits)
        done = FilterTile(out.group, out.plane, out.m.start, len(out.m), out.n.start, len(out.n))
        self.dw.drain(self.pipeline, GRAD_WEIGHT, done, True)

    def planes(self, block: Block, kernel_plane: int) -> Iterator[tuple[tuple[int, int | None], int]]:
        """((depth, input depth or None in the padding), image of the batch) of the block."""
        p = self.problem
        for batch in block.images:
            for depth in block.depths:
                depth_in = depth * p.stride_d - p.pad_front + kernel_plane * p.dilation_d
                yield (depth, depth_in if 0 <= depth_in < p.d_in else None), batch

    def runs(self, block: Block) -> Iterator[_Run]:
        """The block's pixels of an image."""
        tile, pixels = self.tiling.tile, self.p.k0
        if self.p.load is Load.SPLIT_W:
            for strip in strips(self.problem, tile.k_l0 * pixels):
                width = strip.problem.w_out
                spans = (tile.k_al1 // tile.k_l0 * width, tile.k_bl1 // tile.k_l0 * width)
                yield _Run(strip, block.k.start * width, block.k.stop * width, width, *spans)
            return
        last = min(block.k.stop * pixels, self.problem.h_out * self.problem.w_out)
        if block.k.start * pixels < last:
            spans = (tile.k_al1 * pixels, tile.k_bl1 * pixels)
            yield _Run(
                Strip(self.read, 0, self.read.w_out, 0), block.k.start * pixels, last, tile.k_l0 * pixels, *spans
            )

    def products(self, out: OutTile, plane: _Plane, run: _Run) -> None:
        """Products of a run of pixels."""
        for pixel in range(run.first, run.last, run.step):
            pixels = range(pixel, min(pixel + run.step, run.last))
            a, b = (_span(run, pixel, span) for span in (run.span_a, run.span_b))
            strip, shift = self.seen(run.strip, b)
            if not strip.problem.w_in or input_rows(strip.problem, pixel - shift, pixels.stop - shift).rows <= 0:
                continue  # these pixels see padding only
            if run.span_b > run.span_a:
                self.load_b1(out, plane, strip, b, shift)
                self.load_a1(out, plane, run.strip, a)
            else:
                self.load_a1(out, plane, run.strip, a)
                self.load_b1(out, plane, strip, b, shift)
            self.fill_left(out, pixels, a)
            if plane.depth_in is None:
                self.leave_out(out, pixels)
            else:
                self.step(out, strip, pixels, b, shift)

    def seen(self, strip: Strip, b: range) -> tuple[Strip, int]:
        """The problem that B's pixels are a part of, and the number of its first pixel: of a signal, the columns they see."""
        if self.p.conv1d:
            return piece(strip.problem, b.start, len(b)), b.start
        return strip, 0

    # -- GM -> L1 ------------------------------------------------------------------------------------------------------

    def load_a1(self, out: OutTile, plane: _Plane, strip: Strip, span: range) -> None:
        """gradOutput pixels of the rows of dW that L1 holds: [c1][pixels][C0]."""
        around = {Attach.FULL: None, Attach.WHOLE_K: (out.plane, out.n_held), Attach.PART: out}[self.tiling.attach_a]
        address = self.a1.begin((plane.image, out.group, out.m_held, strip.column, span, around))
        if address is None:
            return
        place = Place(plane.batch, out.group * self.inp.cout_g + out.m_held.start, plane.depth)
        for rows, columns, offset in boxes(strip, Span(span.start, len(span))):
            box = MapBox(place, len(out.m_held), rows, columns)
            self.grad_output.load_pixels(self.k, GRAD_OUTPUT, box, address + offset, len(span), "A")
        self.a1.loaded()

    def load_b1(self, out: OutTile, plane: _Plane, strip: Strip, span: range, shift: int) -> None:
        """What the pixels see of the input, for the columns of dW that L1 holds: rows or columns of channel blocks, or taps."""
        if plane.depth_in is None:
            return
        around = out if self.tiling.attach_b is Attach.PART else None
        address = self.b1.begin((plane.batch, plane.depth_in, out.group, out.n_held, strip.column, span, around))
        if address is None:
            return
        if self.p.load is Load.DMA:
            place = Place(plane.batch, out.group * self.inp.cin_g, plane.depth_in)
            gather_taps(self.k, self.inp, INPUT, address, place, out.n_held, span)
        else:
            place = Place(plane.batch, out.group * self.inp.cin_g + self.blocks(out).start * self.c0, plane.depth_in)
            self.load_rows(out, place, strip, range(span.start - shift, span.stop - shift), address)
        self.b1.loaded()

    def load_rows(self, out: OutTile, place: Place, strip: Strip, span: range, address: int) -> None:
        """Input rows of channel blocks from `place` on: [c1][rows][columns][C0]."""
        blocks = self.blocks(out)
        present = self.call.group_channels(out.group, self.problem.c_in, self.inp.cin_g)
        channels = min(len(blocks) * self.c0, present - blocks.start * self.c0)
        held = input_rows(strip.problem, span.start, span.stop)
        columns = Span(strip.source, strip.problem.w_in)
        pitch = held.rows * columns.length
        lines = [(Span(held.first, held.rows), address)]
        if self.p.skips_rows:
            step, size = self.problem.stride_h, columns.length * BLOCK_BYTES
            lines = [(Span((held.first + i) * step, 1), address + i * size) for i in range(held.rows)]
        for rows, to in lines:
            self.features.load_pixels(self.k, INPUT, MapBox(place, channels, rows, columns), to, pitch, "B")

    def blocks(self, out: OutTile) -> range:
        """Channel blocks of the input that the columns in L1 belong to."""
        per_block = self.p.taps * self.c0
        return range(out.n_held.start // per_block, ceil_div(out.n_held.stop, per_block))

    # -- L1 -> L0, mmad ------------------------------------------------------------------------------------------------

    def fill_left(self, out: OutTile, pixels: range, a: range) -> None:
        """The next half of L0: gradOutput to L0A."""
        k, left = self.k, self.pipeline.left[self.pipeline.operands.acquire()]
        count, channels = len(pixels), ceil_to(len(out.m), self.c0)
        rows, first = Span(pixels.start - a.start, count), out.m.start - out.m_held.start
        each = TURNED_AT_ONCE if self.itemsize == 4 else channels
        fractals = ceil_div(count, self.c0)
        for start in range(0, channels, each):
            columns = Span(first + start, min(each, channels - start))
            target = left + start // FRACTAL * fractals * FRACTAL_BYTES
            k.load_data_3d(
                "L0A", target, self.a1.address, self.itemsize, matrix_window(len(a)), rows, columns, transpose=True
            )

    def leave_out(self, out: OutTile, pixels: range) -> None:
        """Fill L0B too, and multiply nothing."""
        right = self.pipeline.right[self.pipeline.operands.filling]
        self.k.fill("L0B", right, ceil_div(len(pixels), self.c0) * ceil_div(len(out.n), FRACTAL) * FRACTAL_BYTES)
        self.pipeline.leave_out()

    def step(self, out: OutTile, strip: Strip, pixels: range, b: range, shift: int) -> None:
        """The input to L0B beside gradOutput in L0A, and the product of both."""
        k, half, count = self.k, self.pipeline.operands.filling, len(pixels)
        if self.p.load is Load.DMA:
            window, rows, first_column = matrix_window(len(b)), Span(pixels.start - b.start, count), out.n_held.start
        else:
            held = range(b.start - shift, b.stop - shift)
            window, first_row = _window(strip, held, pixels.stop - shift), held.start // strip.problem.w_out
            rows = Span(pixels.start - shift - first_row * strip.problem.w_out, count)
            first_column = self.blocks(out).start * self.p.taps * self.c0
        columns = Span(out.n.start - first_column, len(out.n))
        k.load_data_3d("L0B", self.pipeline.right[half], self.b1.address, self.itemsize, window, rows, columns)
        self.pipeline.multiply(half, len(out.m), count, len(out.n), self.call.dtype, self.call.hf32_bits)


def _window(strip: Strip, held: range, end: int) -> MapWindow:
    """How load3d sees the rows behind the pixels `held`, up to pixel `end` of the strip."""
    p = strip.problem
    rows = input_rows(p, held.start, held.stop)
    return MapWindow(
        height=rows.rows,
        width=p.w_in,
        k_h=p.k_h,
        k_w=p.k_w,
        stride_h=p.stride_h,
        stride_w=p.stride_w,
        dilation_h=p.dilation_h,
        dilation_w=p.dilation_w,
        pad_top=rows.pad_top,
        pad_left=p.pad_left,
        out_height=(end - 1) // p.w_out - held.start // p.w_out + 1,
        out_width=p.w_out,
    )


def _span(run: _Run, pixel: int, span: int) -> range:
    """The pixels that L1 holds together with one."""
    start = run.first + (pixel - run.first) // span * span
    return range(start, min(start + span, run.last))
