"""The forward convolution: grad_input of a transposed call.

    y[M, N] = sum over kernel planes of im2col(x)[M, K] x weight[K, N]
    M = H_out*W_out pixels, N = C_out, K = (C_in blocks of C0, k_h, k_w, C0)

x (NDC1HWC0) GM -> L1 -> load_data_3d with the forward stride -> L0A. FRACTAL_Z has the order of L0B already, so weights go
GM -> L1 -> L0B untransposed. Results leave L0C cast, in NDC1HWC0. On dav-3510 all three are NCDHW, and groups may be merged
(`with_groups_merged`). A bias lies in L1 beside the weights, goes to BT with the first Mmad of a tile, and every sum begins
with it in float32 (ops-nn, Conv3DV2 and arch35's Conv2DV2: stated).
"""

from __future__ import annotations

import math

from ascend_sim.chip.fractal import BIAS_UNIT, BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import MapWindow, Span
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.conv_forward.tiling import BUFFERS, ConvForwardTiling, l1_bytes, strip_input, strips
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.libraries import kernel_of, surrogates_of
from ascend_sim.ops.kernels.cube.pipeline import BiasPiece, CubePipeline, HeldOperand, input_window
from ascend_sim.ops.kernels.cube.tasks import core_share
from ascend_sim.ops.kernels.vector.merge import WEIGHT, WORKSPACE, await_weights, is_merged, merge_program
from ascend_sim.ops.layouts import weights, x_map, y_map
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.layouts.layout import ChannelPlace, FilterBox, MapBox, MapTile, Pitches, TileRun
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.window import input_rows
from ascend_sim.runtime import Allocation, Task

X, Y = 0, 2


def conv_forward_task(call: CubeCall, tiling: ConvForwardTiling, tensors: list[Allocation], name: str, op_type: str) -> Task:
    """Return the Task of a forward convolution; `tensors` are x, weight and y in the layouts above, in the compute dtype
    (HF32: fp32).

    If groups are merged the fourth is the workspace of the vector cores that merge them (a MIX launch). The last one is
    the bias, if the call has one.
    """
    table = InstructionTable(call.chip)
    sizes = [tensor.size for tensor in tensors]
    merged = is_merged(call.inp)

    def builder(block: int, core: str, sub_block: int = 0) -> KernelBuilder:
        return KernelBuilder(table, block, core, sizes, sub_block=sub_block, disarm=call.disarm)

    def build(block: int) -> list[Program]:
        programs = [_ForwardBuilder(call, tiling, builder(block, call.core_kind), len(tensors) - 1).program()]
        cores = call.chip.cores.aiv_per_aic
        for sub_block in range(cores if merged else 0):
            k = builder(block, "AIV", sub_block)
            programs.append(merge_program(k, call.inp, tiling.block_dim, cores, group_cycles(call, op_type)))
        return programs

    storage = "float32" if call.inp.itemsize == 4 else call.dtype
    names = ("x", "weight", "y")
    info = call.info(tiling, dict.fromkeys(names, storage) | ({"bias": call.bias} if call.bias else {}))
    info |= {"surrogates": surrogates_of(call.library, op_type)} if merged else {}
    kind = "MIX" if merged else call.core_kind
    return Task(name, op_type, kind, tiling.block_dim, tensors, build, all_cores=merged, info=info)


def group_cycles(call: CubeCall, op_type: str) -> int:
    """Return the cycles, rounded up, that a core's share of all groups takes beside the multiplication of merged ones: a
    surrogate (`group_pixel_cycles`).

    The share is an equal one of all cores of the chip, also of those without a block.
    """
    p = call.inp.problem
    pixels = p.n * p.groups * p.d_out * p.h_out * p.w_out
    return math.ceil(pixels * kernel_of(call.library, op_type)["group_pixel_cycles"]["value"] / call.chip.cores.aic)


class _ForwardBuilder:
    """Builder of a block's program of the forward kernel: its share of tiles (strip, group, image, depth, pixels, channels)."""

    def __init__(self, call: CubeCall, tiling: ConvForwardTiling, k: KernelBuilder, last_slot: int) -> None:
        self.call, self.tiling, self.k, self.bias_slot = call, tiling, k, last_slot
        inp = self.inp = call.inp
        self.p = inp.problem
        self.c0, self.itemsize = inp.c0, inp.itemsize
        self.merged = is_merged(inp)
        self.x, self.y = x_map(inp), y_map(inp)
        self.filters = FractalZ.of(inp, inp.itemsize) if self.merged else weights(inp)
        part = strip_input(inp, tiling.split_wo) if tiling.split_wo else inp
        a1, b1 = l1_bytes(part, tiling.base_m, tiling.base_n, tiling.slices, 1)
        self.a1 = HeldOperand(k, "A1", tiling.l1_buffers, a1)
        self.b1 = HeldOperand(k, "B1", tiling.l1_buffers, b1)
        self.strips = strips(self.p, tiling.split_wo)
        self.pipeline = CubePipeline(k, BUFFERS, BUFFERS, ceil_to(tiling.base_m, FRACTAL) * tiling.base_n * 4)
        self.bias: HeldOperand | None = None
        if call.bias:
            self.bias_itemsize = int(numpy_dtype(call.bias).itemsize)
            self.bias = HeldOperand(k, "bias", 1, ceil_to(tiling.base_n * self.bias_itemsize, BIAS_UNIT))
            self.pipeline.use_bias(call.bias, tiling.base_n)

    def program(self) -> Program:
        """Return the program of this block's tiles; it first waits for the vector cores if they merge the weights of groups."""
        p, tiling = self.p, self.tiling
        pixels = p.h_out * self.strips[0].problem.w_out
        parts, n_parts = ceil_div(pixels, tiling.base_m), ceil_div(ceil_to(self.inp.cout_g, FRACTAL), tiling.base_n)
        total = self.inp.real_groups * p.n * p.d_out * n_parts * len(self.strips) * parts
        if self.merged:
            await_weights(self.k)
        if self.bias is not None:  # a copy to BT takes whole units of it
            self.bias.clear()
            self.k.pipe_barrier("MTE2")
        pieces = (self.piece(number, n_parts, parts) for number in core_share(total, tiling.block_dim, self.k.block))
        for piece, batch in self.k.stamped(piece for piece in pieces if piece is not None):
            index, group, depth, m, m_count, n, n_count = piece
            self.tile(self.strips[index], group, batch * p.d_out + depth, m, m_count, n, n_count)
        self.a1.close()
        self.b1.close()
        if self.bias is not None:
            self.bias.close()
        self.pipeline.close()
        return self.k.finish()

    def piece(self, number: int, n_parts: int, parts: int) -> tuple[tuple[int, ...], int] | None:
        """Return ((strip, group, depth, first pixel, pixels, first channel, channels), image) of tile `number`; None if y has
        none of its pixels (beyond the last strip's columns) or none of its channels.

        `parts` is the number of tiles along M (pixels) of one strip, `n_parts` that along N (channels) of one group.
        """
        rest, m = divmod(number, len(self.strips) * parts)
        rest, n = divmod(rest, n_parts)
        rest, depth = divmod(rest, self.p.d_out)
        group, batch = divmod(rest, self.p.n)
        index, m = divmod(m, parts)
        strip, m, n = self.strips[index], m * self.tiling.base_m, n * self.tiling.base_n
        channels = ceil_div(self.call.group_channels(group, self.p.c_out, self.inp.cout_g), self.c0) * self.c0
        n_count = min(self.tiling.base_n, channels - n)
        width = strip.problem.w_out
        m_count = min(self.tiling.base_m, self.p.h_out * self.strips[0].problem.w_out - m)
        if n_count <= 0 or not any(strip.adjoining(width, m, m_count)):
            return None
        return (index, group, depth, m, m_count, n, n_count), batch

    def tile(self, strip: Strip, group: int, image: int, m: int, m_count: int, n: int, n_count: int) -> None:
        """Append one tile of y: its sum over kernel planes and K, and its store.

        The tile is `m_count` pixels from `m` on by `n_count` channels from `n` on of a real group; `image` counts
        planes of y. Kernel planes in padding are left out.
        """
        self.k.next_tile()
        p, per_block = strip.problem, self.inp.taps * self.c0
        batch, depth_out = divmod(image, p.d_out)
        self.pipeline.begin_sum(self.load_bias(group, n, n_count))
        held, pixels = input_rows(p, m, m + m_count), Span(m % p.w_out, m_count)
        window = input_window(p, held, pixels)
        blocks = ceil_div(self.call.group_channels(group, p.c_in, self.inp.cin_g), self.c0)
        for plane in range(p.k_d):
            depth = depth_out * p.stride_d - p.pad_front + plane * p.dilation_d
            if not 0 <= depth < p.d_in or held.rows <= 0 or p.w_in <= 0:
                continue
            for block in range(0, blocks, self.tiling.slices):
                count = min(self.tiling.slices, blocks - block)
                self.load_a1(strip, group, batch, depth, block, count, Span(held.first, held.rows))
                self.load_b1(group, plane, block, count, n, n_count)
                for k_start in range(0, count * per_block, self.tiling.base_k):
                    k_count = min(self.tiling.base_k, count * per_block - k_start)
                    self.step(window, pixels, n_count, Span(k_start, k_count))
        self.pipeline.end_sum(m_count, n_count, self.c0, self.call.dtype, self.call.hf32_bits)
        self.write(strip, group, image, m, m_count, n, n_count)

    def load_bias(self, group: int, n: int, n_count: int) -> BiasPiece | None:
        """Load a group's bias of `n_count` channels from `n` on to L1, unless L1 holds it; return its place, or None without a
        bias.
        """
        if self.bias is None:
            return None
        size = self.bias_itemsize
        address, channel = self.bias.begin((group, n)), group * self.inp.cout_g + n
        if address is not None:
            channels = min(n_count, self.call.group_channels(group, self.p.c_out, self.inp.cout_g) - n)
            source = gm_operand(self.bias_slot, channel * size)
            self.k.data_copy_nd2nz(address, source, 1, channels, size, channels * size, 1, "bias")
            self.bias.loaded()
        return BiasPiece(self.bias.address, ceil_to(n_count * size, BIAS_UNIT) // size)

    def load_a1(self, strip: Strip, group: int, batch: int, depth: int, block: int, blocks: int, rows: Span) -> None:
        """Load input `rows` of `blocks` channel blocks to L1 as [c1][rows][W][C0], unless held; W: the strip's columns."""
        width = strip.problem.w_in
        address = self.a1.begin((strip.column, group, batch, depth, block, *rows))
        if address is None:
            return
        channel = block * self.c0
        channels = min(blocks * self.c0, self.call.group_channels(group, self.p.c_in, self.inp.cin_g) - channel)
        place = ChannelPlace(batch, group * self.inp.cin_g + channel, depth)
        box = MapBox(place, channels, rows, Span(strip.source, width))
        pitches = Pitches(width * BLOCK_BYTES, BLOCK_BYTES, rows.length * width * BLOCK_BYTES)
        self.x.load(self.k, X, box, address, pitches, "A")
        self.a1.loaded()

    def load_b1(self, group: int, plane: int, block: int, blocks: int, n: int, n_count: int) -> None:
        """Load the weights of `blocks` C_in blocks for `n_count` channels from `n` on to L1 as [cin1][tap][n1][16][C0],
        the order of L0B, unless L1 holds them.
        """
        address = self.b1.begin((group, plane, block, n))
        if address is None:
            return
        channel = block * self.c0
        box = FilterBox(
            group=group,
            filters=Span(n, min(n_count, self.inp.cout_g - n)),
            channels=Span(channel, min(blocks * self.c0, self.inp.cin_g - channel)),
            plane=plane,
            taps=Span(0, self.inp.taps),
        )
        self.filters.load(self.k, WORKSPACE if self.merged else WEIGHT, box, address, ceil_to(n_count, FRACTAL))
        self.b1.loaded()

    def step(self, window: MapWindow, pixels: Span, n_count: int, k_span: Span) -> None:
        """Append one base block: load half of L0A and L0B from L1, and multiply; `k_span` is its range of K within L1."""
        k, (k_start, k_count) = self.k, k_span
        half = self.pipeline.acquire()
        left, right = self.pipeline.left[half], self.pipeline.right[half]
        k.load_data_3d("L0A", left, self.a1.address, self.itemsize, window, pixels, k_span)
        columns = ceil_div(n_count, FRACTAL)
        source = self.b1.address + k_start // self.c0 * columns * FRACTAL_BYTES
        k.load_data_2d("L0B", right, source, self.itemsize, k_count // self.c0 * columns)
        self.pipeline.multiply(half, pixels.length, k_count, n_count, self.call.dtype, self.call.hf32_bits)

    def write(self, strip: Strip, group: int, image: int, m: int, m_count: int, n: int, n_count: int) -> None:
        """Store the finished tile to y; a strip's pixels go run by run, without columns and channels that y lacks."""
        dtype, width = "float32" if self.itemsize == 4 else self.call.dtype, self.p.w_out
        found = [TileRun(0, m, m_count)]
        if self.tiling.split_wo:
            found = [
                TileRun(done, row * width + strip.column + column, count)
                for done, row, column, count in strip.adjoining(strip.problem.w_out, m, m_count)
            ]
        batch, depth = divmod(image, self.p.d_out)
        place = ChannelPlace(batch, group * self.inp.cout_g + n, depth)
        channels = min(n_count, self.call.group_channels(group, self.p.c_out, self.inp.cout_g) - n)
        self.y.drain(self.pipeline, Y, MapTile(place, found, m_count, channels), dtype)
