"""grad_input: img2col of the zero-inserted gradOutput times the rotated weights, one L0C tile at a time.

    dx[M, N] = sum over kernel planes of im2col(gradOutput)[M, K] x rot180(weight)[K, N]
    M = H_in*W_in pixels, N = C_in, K = (C_out blocks of C0, k_h, k_w, C0)

Dataflow: gradOutput (NDC1HWC0) GM -> L1, with zeros between the pixels where stride > 1 (a coupled core builds them in UB);
load_data_3d -> L0A, always at stride 1. Weights (FRACTAL_Z) GM -> L1; to L0B transposed and with the taps in reverse.
Results leave L0C cast, in NDC1HWC0; or in NCDHW, on dav-2201 through the vector cores (`turn`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import MapWindow, Span
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import Barriers, CubePipeline, small_product
from ascend_sim.ops.kernels.cube.tpipe import TPipePipeline
from ascend_sim.ops.kernels.grad_input.clearing import clear
from ascend_sim.ops.kernels.grad_input.exchange import Exchange
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, variant_of
from ascend_sim.ops.kernels.grad_input.loads import OperandLoads, PartMap
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_HW, split_products, tiling_input
from ascend_sim.ops.kernels.grad_input.rows import Place, PlacedTile, SeenPart, TileChannels, TileRows
from ascend_sim.ops.kernels.grad_input.tiles import DataTile, contributing_planes, grad_input_tiles, held_pixels, runs
from ascend_sim.ops.kernels.grad_input.turn import GRAD_INPUT, SLOTS, Slot, turn_program
from ascend_sim.ops.kernels.vector.merge import WORKSPACE, await_weights, is_merged, merge_program, merged_bytes
from ascend_sim.ops.layouts import x_map
from ascend_sim.ops.layouts.layout import ChannelPlace as MapPlace
from ascend_sim.ops.layouts.layout import DrainPiece, MapTile
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.window import RowWindow
from ascend_sim.runtime import Task

OLDER = "Conv2DBackpropInput"
"""Operator of the library's older kernel, which uses the unit flag with one group and one tile in L0C (schedule of CANN
8.1: stated).
"""


def grad_input_task(
    call: CubeCall, tiling: GradInputTiling, tensors: list[Allocation], name: str, op_type: str, block_dim: int | None = None
) -> Task:
    """Return the kernel launch; `tensors` are gradOutput, weight and gradInput in the layouts above, in the compute dtype
    (HF32: fp32).

    With a fourth tensor the vector cores help: it is the workspace of a split kernel (`exchange`), the weights of merged
    groups, or the slots of `turn`, which brings gradInput to NCDHW. `block_dim` launches another number of blocks than the
    tiling's. SimError for more blocks than cores where they meet at a barrier.
    """
    if block_dim is not None:
        tiling = tiling.but(block_dim=block_dim)
    exchange, merged = Exchange.of(call, tiling), is_merged(call.inp)
    together = exchange is not None or merged
    if together and tiling.block_dim > call.chip.cores.aic:
        why = "groups are merged" if merged else "the kernel is split"
        raise SimError(
            f"block_dim of {name}: {tiling.block_dim} given; {why} and its vector cores meet at a barrier, so "
            f"at most {call.chip.cores.aic} blocks can run ({call.chip.name}, cores.aic)"
        )
    table = InstructionTable(call.chip)
    sizes = [tensor.size for tensor in tensors]
    helped = len(tensors) > SLOTS
    turned = helped and not together
    open_rows = has_open_rows(call, op_type)
    form = KernelForm(
        turned, has_unit_flag(call, tiling, op_type), open_rows, open_rows and bool(tiling.init_output) and not helped
    )
    rows = TileRows(call, tiling, exchange, form.open_rows, form.cleared)
    if form.cleared and tiling.block_dim > call.chip.cores.aic:
        raise SimError(
            f"block_dim of {name}: {tiling.block_dim} given; its cube cores clear dx and meet at a barrier, so at most "
            f"{call.chip.cores.aic} blocks can run ({call.chip.name}, cores.aic)"
        )

    def build(block: int) -> list[Program]:
        k = KernelBuilder(table, block, call.core_kind, sizes, disarm=call.disarm)
        tiles = grad_input_tiles(call, tiling, block)
        pieces = list(rows.placed(tiles))

        def cube_program() -> Program:
            if form.cleared:
                size = sizes[GRAD_INPUT]
                itemsize = call.inp.itemsize
                clear(k, size // itemsize, itemsize, "float32" if itemsize == 4 else call.dtype, tiling.block_dim)
            return _DataBuilder(call, tiling, k, rows, form).program(pieces)

        programs = [cube_program() if helped else k.repeated(pieces, cube_program)]
        if helped:
            cores = call.chip.cores.aiv_per_aic
            for sub_block in range(cores):
                k = KernelBuilder(table, block, "AIV", sizes, sub_block=sub_block, disarm=call.disarm)
                if exchange is not None:
                    programs.append(exchange.program(k, tiles))
                elif merged:
                    programs.append(merge_program(k, call.inp, tiling.block_dim, cores))
                else:
                    programs.append(turn_program(k, call, tiling, tiles))
        return programs

    storage = "float32" if call.inp.itemsize == 4 else call.dtype
    names = ("grad_output", "weight", "grad_input")
    formats = {"grad_input": "NCDHW"} if turned else None
    needed = split_products(call.inp.problem, tiling.kernel_split)
    info = call.info(tiling, dict.fromkeys(names, storage), formats, needed)
    kind = "MIX" if helped else call.core_kind
    all_cores = together or form.cleared
    return Task(name, op_type, kind, tiling.block_dim, tensors, build, all_cores=all_cores, info=info)


def has_unit_flag(call: CubeCall, tiling: GradInputTiling, op_type: str) -> bool:
    """Return True if cube and Fixpipe hand tiles of L0C over fractal by fractal: in the older operator with one group
    and one L0C buffer, on chips with the unit flag.
    """
    alone = call.inp.problem.groups == 1 and tiling.cl0_buffers == 1
    return op_type == OLDER and call.chip.has_unit_flag and alone


def has_open_rows(call: CubeCall, op_type: str) -> bool:
    """Return True if the kernel has the instructions of ops-nn's open Conv3DBackpropInputV2, on dav-2201.

    Conv3DBackpropInput, which is closed, is taken for the same kernel (inferred); Conv2DBackpropInput, which was
    measured, is not.
    """
    return variant_of(call.inp).open_rows and op_type != OLDER


class KernelForm(NamedTuple):
    """Variant of the kernel's program: `turned`: vector cores bring dx to NCDHW (`turn_program`).

    `unit_flag`: cube and Fixpipe hand tiles of L0C over fractal by fractal (`has_unit_flag`). `open_rows`: it has the
    instructions of ops-nn's open kernel (`has_open_rows`). `cleared`: before its tiles, the cube cores set dx to 0.
    """

    turned: bool = False
    unit_flag: bool = False
    open_rows: bool = False
    cleared: bool = False


def workspace_bytes(call: CubeCall, tiling: GradInputTiling) -> int:
    """Return the bytes of workspace of a split kernel, or for the weights of merged groups; else 0. Slots of `turn` are not
    counted.
    """
    exchange = Exchange.of(call, tiling)
    return merged_bytes(call.inp) if exchange is None else exchange.bytes


class KRange(NamedTuple):
    """`length` elements of K from element `start` on of the whole K; in L1 they begin at element `held`."""

    held: int
    start: int
    length: int


class HeldFilters(NamedTuple):
    """Weights in L1 that a tile reads: `n_count` input channels from L1's C0 block `channel`, `taps`, C_out blocks `slices`."""

    taps: int
    channel: int
    n_count: int
    slices: range


class _DataBuilder:
    """Builder of one block's cube program of grad_input: each tile's loads, products and store, in order."""

    def __init__(self, call: CubeCall, tiling: GradInputTiling, k: KernelBuilder, rows: TileRows, form: KernelForm) -> None:
        self.call, self.tiling, self.k, self.rows, self.form = call, tiling, k, rows, form
        self.slot = Slot(k, tiling, call.inp) if form.turned else None
        inp = self.inp = call.inp
        self.p, self.c0, self.itemsize = inp.problem, inp.c0, inp.itemsize
        self.unit, self.grad_input = tiling.k_unit(inp), x_map(inp)
        largest = tiling_input(tiling, inp)
        # Channel blocks of one L1 step: L1 holds as many of every part, whose kernels may be smaller.
        self.step_a = tiling.step_ka * tiling.base_k // (largest.taps * self.c0)
        self.step_b = tiling.step_kb * tiling.base_k // (largest.taps * self.c0)
        self.exchange = Exchange.of(call, tiling)
        self.kept = False  # weights that a further tile of the task reads
        k.carry(self, "kept")
        self.loads = OperandLoads(call, tiling, k, largest, self.exchange, form.open_rows)
        tile_bytes = ceil_div(tiling.base_m, FRACTAL) * ceil_div(tiling.base_n, FRACTAL) * FRACTAL * FRACTAL * 4
        buffers = tiling.al0_buffers, tiling.cl0_buffers, tile_bytes
        if form.open_rows:
            self.pipeline: CubePipeline = TPipePipeline(k, *buffers, barriers=Barriers(before=small_product(k.chip)))
        else:
            self.pipeline = CubePipeline(k, *buffers, unit_flag=form.unit_flag)

    def program(self, pieces: Iterable[tuple[PlacedTile, Place]]) -> Program:
        """Return the program that computes the tiles `pieces` at their places; it first waits for the weights if vector cores
        turn or merge them.
        """
        if self.exchange is not None or self.loads.merged:
            await_weights(self.k)
        # A block has slots of its own for what its vector cores take on.
        own = (self.k.block,) if self.slot is not None or self.exchange is not None else ()
        for placed, place in self.k.stamped(pieces, "tiles", *own):
            self.tile(*self.rows.at(placed, place))
        if self.slot is not None and self.form.open_rows:
            self.slot.close()
        self.loads.close()
        self.pipeline.close()
        if self.slot is not None and not self.form.open_rows:
            self.slot.close()
        return self.k.finish()

    # -- one L0C tile --------------------------------------------------------------------------------------------------

    def tile(self, number: int, tile: DataTile, channels: TileChannels, parts: Sequence[SeenPart]) -> None:
        """Append the sums of a tile of dx, part by part, in segments of K, and their stores (with a split of both axes
        through `exchange`, which interleaves the parts' columns).

        With a cleared dx nothing is stored for a tile to which no gradOutput row or plane contributes.
        """
        self.k.next_tile()
        if self.form.cleared and not any(window for part in parts for window in part.windows):
            if self.kept and self.is_last(tile):
                self.loads.b1.done()
                self.kept = False
            return
        shared = self.tiling.kernel_split == SPLIT_HW
        if shared and self.exchange is not None:
            self.exchange.open(self.k, number)
        for part, pixels, windows in parts:
            part_map, own = self.rows.maps[part], tile._replace(m_count=pixels)
            if self.form.cleared and not any(contributing_planes(self.p, tile.task.depth)):
                self.pipeline.begin_sum()
                self.pipeline.drop()
                continue
            for segment, blocks in enumerate(self.segments(channels.summed)):
                self.sum(part_map, own, channels, windows, blocks)
                if shared and self.exchange is not None:
                    self.hand_over(number, part_map.index, own)
                else:
                    self.write(part_map, own, channels.present, atomic=segment > 0)
        if shared and self.exchange is not None:
            self.exchange.close(self.k)

    def segments(self, channels: int) -> Iterator[range]:
        """Yield the C0 blocks of output channels of each segment of K (`k_segment`, or all), whose sums are stored in turn."""
        total = ceil_div(channels, self.c0)
        step = self.tiling.k_segment // self.c0 or total
        yield from (range(start, min(start + step, total)) for start in range(0, total, step))

    def sum(
        self, part_map: PartMap, tile: DataTile, channels: TileChannels, windows: Sequence[RowWindow | None], blocks: range
    ) -> None:
        """Append the sum of one tile over kernel pieces, kernel planes and channel `blocks`; zeros if nothing contributes."""
        self.pipeline.begin_sum()
        for piece, window in zip(part_map.pieces, windows, strict=True):
            if window is not None:
                self.sum_piece(piece, tile, channels, window, blocks)
        self.pipeline.end_sum(tile.m_count, tile.n_count, self.c0, self.call.dtype, self.call.hf32_bits)

    def sum_piece(self, piece: PartMap, tile: DataTile, channels: TileChannels, window: RowWindow, blocks: range) -> None:
        """Append the loads and products that a kernel piece adds to the tile, over kernel planes and `blocks` of output
        channels; it reads the rows `window` of gradOutput.
        """
        task, m, m_count, n, n_count = tile
        held_m = Span(*held_pixels(self.tiling, task, m))
        held_n = Span(n - channels.before, channels.held)
        if not piece.taps or piece.crop >= piece.width:
            return
        per_block = piece.taps * self.c0
        k_total = len(blocks) * per_block
        span_a, span_b = self.step_a * per_block, self.step_b * per_block
        pixels = Span(m - held_m.start + held_m.start % piece.p.w_in, m_count)  # counted from the first whole row
        channel = channels.before // self.c0
        if self.form.open_rows:
            pixels = Span(pixels.start, ceil_to(m_count, FRACTAL))  # the cube multiplies whole fractals of rows
        gradient_window = self.gradient_window(piece, window, pixels)
        a1, b1 = self.loads.a1, self.loads.b1
        row = (m - task.m_start) // self.tiling.base_m * ceil_div(k_total, span_a)
        column = (n - task.n_start) // self.tiling.base_n * ceil_div(k_total, span_b)
        kept = self.kept = self.loads.resident and not self.is_last(tile)
        for plane, gradient_plane in contributing_planes(self.p, task.depth):
            for start in range(0, k_total, min(span_a, span_b)):
                end = min(start + min(span_a, span_b), k_total)
                if start % span_a == 0:
                    a1.turn(row + start // span_a)
                    held = Span(blocks.start + start // per_block, ceil_div(min(span_a, k_total - start), per_block))
                    self.loads.gradient(piece, task, gradient_plane, held, channels.summed, window, held_m.start, n)
                if start % span_b == 0:
                    b1.turn(column + start // span_b)
                    slices = self.k_slices(piece, blocks.start * per_block + start, min(start + span_b, k_total) - start)
                    self.loads.weights(piece, task, plane, slices, m, held_n, channels.weighted)
                    filters = HeldFilters(piece.taps, channel, n_count, slices)
                for k_start in range(start, end, self.tiling.base_k):
                    k_range = KRange(
                        held=k_start % span_a,
                        start=blocks.start * per_block + k_start,
                        length=min(self.tiling.base_k, end - k_start),
                    )
                    done = k_start + self.tiling.base_k
                    freed = [done >= k_total or done % span == 0 for span in (span_a, span_b)]
                    self.step(gradient_window, pixels, filters, k_range, (freed[0], freed[1] and not kept))

    def is_last(self, tile: DataTile) -> bool:
        """Return True if the tile has the last pixels and the last channels of its task."""
        task, m, m_count, n, n_count = tile
        return m + m_count == task.m_start + task.m_count and n + n_count >= task.n_start + task.n_count

    def k_slices(self, piece: PartMap, k_start: int, k_count: int) -> range:
        """Return the blocks of output channels (of `k_unit`) that `k_count` elements of K from `k_start` on touch."""
        whole = piece.taps * self.unit
        return range(k_start // whole, ceil_div(k_start + k_count, whole))

    # -- L1 -> L0, mmad ------------------------------------------------------------------------------------------------

    def gradient_window(self, piece: PartMap, window: RowWindow, pixels: Span) -> MapWindow:
        """Return load_data_3d's view of the rows `window` of zero-inserted gradOutput in L1; its output pixels, those of dx in
        `piece`, end with the row of dx that has the last of `pixels`.
        """
        p = piece.p
        return MapWindow(
            height=window.rows,
            width=piece.width - piece.crop,
            k_h=p.k_h,
            k_w=p.k_w,
            dilation_h=p.dilation_h,
            dilation_w=p.dilation_w,
            pad_top=window.pad_top,
            pad_left=piece.pad_left,
            out_height=ceil_div(pixels.start + pixels.length, p.w_in),
            out_width=p.w_in,
        )

    def step(self, window: MapWindow, pixels: Span, filters: HeldFilters, k_range: KRange, freed: tuple[bool, bool]) -> None:
        """Append one base block: load half of L0A and L0B from L1, and multiply.

        `pixels` count from the start of the first row held in L1. `freed`: True if this block is the last to read (A1, B1).
        """
        k, (k_held, k_start, k_count), n_count = self.k, k_range, filters.n_count
        a1, b1 = self.loads.a1, self.loads.b1
        source = a1.read()
        half = self.pipeline.operands.acquire()
        left, right = self.pipeline.left[half], self.pipeline.right[half]
        k.load_data_3d("L0A", left, source, self.itemsize, window, pixels, Span(k_held, k_count))
        if freed[0]:
            a1.done()
        b1.read()
        fractals = ceil_div(n_count, FRACTAL) * FRACTAL_BYTES
        for number, index in enumerate(range(k_start // self.c0, (k_start + k_count) // self.c0)):
            self.load_right(right + number * fractals, filters, *divmod(index, filters.taps))
        if freed[1]:
            b1.done()
        self.pipeline.multiply(half, pixels.length, k_count, n_count, self.call.dtype, self.call.hf32_bits)

    def load_right(self, address: int, filters: HeldFilters, channel_block: int, tap: int) -> None:
        """Load one C0 of K for all the tile's channels to L0B: [co][ci] blocks of tap `taps - 1 - tap`, turned to [ci][co]."""
        taps, channel, n_count, slices = filters
        line = channel * taps + taps - 1 - tap  # its place among the taps of all channel blocks in L1
        if self.itemsize < 4:  # a fractal, or with 8-bit weights the two of a square, is a C0 of K
            each = self.unit // FRACTAL
            fractal = (line * len(slices) + channel_block - slices.start) * each
            source = self.loads.b1.address + fractal * FRACTAL_BYTES
            pitch = taps * len(slices) * each
            self.k.load_data_2d("L0B", address, source, self.itemsize, ceil_div(n_count, self.c0), pitch, True, each)
            return
        # 32-bit: a block of output channels holds one C0 of K or two; its rows are read as pixels of a map so wide.
        cout1, half = divmod(channel_block, self.unit // self.c0)
        height = taps * len(slices)
        window = MapWindow(height=height, width=self.unit, out_height=height, out_width=self.unit)
        rows = Span((line * len(slices) + cout1 - slices.start) * self.unit + half * self.c0, self.c0)
        self.k.load_data_3d("L0B", address, self.loads.b1.address, 4, window, rows, Span(0, n_count), transpose=True)

    # -- L0C -> GM -----------------------------------------------------------------------------------------------------

    @property
    def result(self) -> str:
        """Return the dtype in which a tile leaves L0C: float32 for 32-bit operands, else the compute dtype."""
        return "float32" if self.itemsize == 4 else self.call.dtype

    def write(self, part_map: PartMap, tile: DataTile, channels: int, *, atomic: bool = False) -> None:
        """Append the store of the finished tile: its first `channels` channels to gradInput, or all to the vector core's slot.

        `atomic` adds to the sum of earlier segments of K in gradInput, behind a barrier.
        """
        task, m, m_count, n, n_count = tile
        if self.slot is not None:
            address = self.slot.acquire()
            self.pipeline.drain(address, m_count, n_count, self.call.dtype, self.c0, m_count * BLOCK_BYTES)
            self.slot.publish()
            return
        if atomic:
            self.k.pipe_barrier("FIX")  # the segment before must stand in GM
        place = MapPlace(task.batch, task.group * self.inp.cin_g + n, task.depth)
        found = list(runs(part_map.part, self.p.w_in, m, m_count))
        finished = MapTile(place, found, m_count, channels)
        self.grad_input.drain(self.pipeline, GRAD_INPUT, finished, self.result, atomic)

    def hand_over(self, number: int, index: int, tile: DataTile) -> None:
        """Append the store of the finished tile of part `index` to the workspace slot that the vector cores read."""
        assert self.exchange is not None
        target = gm_operand(WORKSPACE, self.exchange.offset(self.k.block, number, index))
        piece = DrainPiece(target, 0, tile.m_count, 0, min(tile.n_count, self.inp.cin_g - tile.n))
        self.pipeline.drain_elements([piece], tile.m_count, self.itemsize, self.exchange.pitch, dtype=self.result)
