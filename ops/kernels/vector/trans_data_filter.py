"""TransData of filters between [C_out][C_in/g][K_d][K_h*K_w] and FRACTAL_Z, which holds merged groups as block-diagonal
matrices.

FRACTAL_Z is [real group][K_d][cin1][K_h*K_w][cout1][16 co][C0 ci]; elements of no group, and padding, are written as
zeros, and skipped in the other direction. `TilingInput` decides how groups are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import TurnLayout
from ascend_sim.ops.kernels.vector.common import Loop, call_info, known_loop, padded, require_positive, vector_cores
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout, BlockTurn, Move, TurnTile, plane_runs, tile_bytes, turn_tiles
from ascend_sim.ops.kernels.vector.trans_data_lines import GradientLines
from ascend_sim.ops.kernels.vector.trans_data_units import C0, MovedWeights, WeightUnits
from ascend_sim.ops.kernels.vector.whole_blocks import Merge, with_whole_end
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div, cut
from ascend_sim.ops.problem.tiling_input import TilingInput

_PACKET = 256  # bytes from which on transfers run at their rate: a run of the C0 side has as many (stated)
_SPARE = 512  # bytes that a quarter of UB has less than that (derived: 16256 elements of 256 KB in the tiling's tests)

_UNITS: Mapping[tuple[int, int, bool], type[WeightUnits] | type[GradientLines]] = {
    (2, 16, True): WeightUnits,
    (4, 16, False): GradientLines,
}
"""Class of the kernel of its own by (bytes of an element, channels of a block, True to FRACTAL_Z)."""


class FilterShape(NamedTuple):
    """Shape of weights, [c_out][c_in_per_group][k_d][taps] in `groups` groups; `taps` are the K_h*K_w positions of a plane."""

    c_out: int
    c_in_per_group: int
    k_d: int
    taps: int
    groups: int


class FilterPiece(NamedTuple):
    """Part of a real group that one tile converts.

    It has `channels` output channels from `start` on, counted from its place, of which the first `present` hold weights,
    `blocks` channel blocks from `block` on, and `positions` kernel positions from `position` on.
    """

    start: int
    channels: int
    present: int
    block: int
    blocks: int
    position: int
    positions: int


@frozen
class _Run:
    """Output channels of one group in a tile: `count` from `start` on, counted like the piece's, with input channels
    `low` .. `high` - 1.

    Input channels count within the real group; `origin` is the first that belongs to the group.
    """

    start: int
    count: int
    origin: int
    low: int
    high: int


@frozen
class _Filter:
    """Sizes of one filter and its division into UB tiles of output channels x channel blocks x kernel positions."""

    layout: BlockLayout
    inp: TilingInput
    tile: int
    backs_off: bool = False
    """True if plain rows are stored as whole blocks, then their last block (see `whole_blocks`)."""

    @cached_property
    def taps(self) -> int:
        """Return the number of kernel positions of one plane."""
        return self.inp.taps

    @cached_property
    def positions(self) -> int:
        """Return the number of kernel positions of all planes."""
        return self.inp.problem.k_d * self.taps

    @cached_property
    def cin(self) -> int:
        """Return the input channels of one group."""
        return self.inp.problem.c_in // self.inp.problem.groups

    @cached_property
    def cout(self) -> int:
        """Return the output channels of one group."""
        return self.inp.problem.c_out // self.inp.problem.groups

    @cached_property
    def dense(self) -> bool:
        """Return True if the plain rows of an output channel lie back to back in UB.

        So they do where every channel block begins at a multiple of C0 channels of its group and a tile holds the whole
        kernel; rows that back off also must be shorter than a block, or whole blocks together. Else each row has its own
        32-byte blocks.
        """
        whole = self.layout.piece_bytes(self.positions, self.positions * self.layout.itemsize)
        aligned = self.inp.group_extension == 1 or self.cin % self.layout.c0 == 0
        return aligned and whole <= self.tile and (self._short or not self.backs_off or self._whole)

    @property
    def _short(self) -> bool:
        """Return True if a row (one channel's kernel positions) is shorter than a block."""
        return self.positions * self.layout.itemsize < BLOCK_BYTES

    @property
    def _whole(self) -> bool:
        """Return True if all rows of an output channel together are whole blocks."""
        return self.cin * self.positions * self.layout.itemsize % BLOCK_BYTES == 0

    @property
    def merges(self) -> bool:
        """Return True if one core must store all rows in order, with `Merge`: they back off, but are shorter than a block, and
        do not lie back to back as whole blocks.
        """
        return self.backs_off and self._short and not (self.dense and self._whole)

    def pitch(self, positions: int) -> int:
        """Return the bytes in UB from a plain row of `positions` to the next: no gap if `dense`, else whole 32-byte blocks."""
        return positions * self.layout.itemsize if self.dense else self.layout.pitch(positions)

    def together(self, channels: int) -> int:
        """Return the output channels of a tile, if `channels` are cut evenly: at most those of a 256-byte run of the C0 side,
        and of a quarter of UB, but at least 1.

        Source: the library's tiling of TransData by axes (transdata_dsl_general.cc: stated); of its cuts the one along
        output channels alone: inferred, it gives the published blocks of both directions. From FRACTAL_Z a tile is as
        large as UB allows (ours).
        """
        line = self.layout.piece_bytes(self.positions, self.layout.pitch(self.positions))
        held = (self.tile - _SPARE) // (self.inp.cin1 * line)
        most = max(min(ceil_div(_PACKET, self.layout.block_bytes), held, channels), 1)
        return ceil_div(channels, ceil_div(channels, most))

    def pieces(self, first: int, count: int, together: int, padding: bool) -> Iterator[tuple[FilterPiece, tuple[int, int]]]:
        """Yield (piece of at most `together` output channels, its place) for `count` output channels from `first` on;
        these count over the padded real groups.

        A place is (real group, channel from which the piece's channels count). Without `padding` only pieces with
        weights are yielded.
        """
        inp, layout = self.inp, self.layout
        per_block = layout.piece_bytes(self.positions, self.pitch(self.positions))
        if per_block > self.tile:
            spans = cut(self.positions, layout.pixels_per_tile(self.tile), layout.slice_channels)
            if self.backs_off:
                spans = with_whole_end(spans, layout.slice_channels)
            blocks, channels = [(b, 1) for b in range(inp.cin1)], 1
        else:
            spans = [(0, self.positions)]
            blocks = cut(inp.cin1, self.tile // per_block)
            channels = max(self.tile // (inp.cin1 * per_block + BLOCK_BYTES), 1) if len(blocks) == 1 else 1
            channels = min(channels, together)
        for group in range(first // inp.cout_padded, ceil_div(first + count, inp.cout_padded)):
            begin = group * inp.cout_padded
            low, high = max(first - begin, 0), min(first + count - begin, inp.cout_padded)
            merged = min(inp.group_extension, inp.problem.groups - group * inp.group_extension)
            real = merged * self.cout
            written = inp.cin1 if padding else ceil_div(merged * self.cin, layout.c0)  # channel blocks that dW has
            if not padding:
                high = min(high, real)
            for start, channels_here in cut(high - low, channels) if high > low else []:
                present = min(max(real - low - start, 0), channels_here)
                # Where groups are merged a piece depends on the channel that it begins at.
                begins, place = (0, low + start) if inp.group_extension == 1 else (low + start, 0)
                for block, count_here in blocks:
                    for span in spans:
                        held = min(count_here, written - block)
                        piece = FilterPiece(begins, channels_here, present, block, held, *span)
                        if padding or any(self._runs(piece)):
                            yield piece, (group, place)

    def tiles_of(self, piece: FilterPiece, where: tuple[int, int]) -> list[TurnTile]:
        """Return the copies and transpositions that convert a piece at place `where` (of `pieces`): a list of one TurnTile."""
        layout, positions = self.layout, piece.positions
        line = piece.channels * layout.block_bytes
        job = TurnTile(piece.blocks * positions * line)
        self._block_moves(job, where, line, piece)
        base = 0
        for run in self._runs(piece):
            width = run.high - run.low
            pitch = self.pitch(positions)
            step = padded(width * pitch)
            self._plain_moves(job, where, run, base, piece, pitch, step)
            for slice_index in range(run.low // layout.slice_channels, ceil_div(run.high, layout.slice_channels)):
                begin = slice_index * layout.slice_channels
                low, high = max(run.low, begin), min(run.high, begin + layout.slice_channels)
                index, part = divmod(slice_index - piece.block * layout.slices, layout.slices)
                target = index * positions * line + (run.start - piece.start) * layout.block_bytes + part * BLOCK_BYTES
                plain = base + (low - run.low) * pitch
                places = TurnLayout(pitch, line, low - begin, run.count, step, layout.block_bytes)
                job.turns.append(BlockTurn(plain, target, high - low, positions, places))
            base += run.count * step
        return [job]

    def _runs(self, piece: FilterPiece) -> Iterator[_Run]:
        """Yield, for each group, the run of its output channels whose input channels lie in the piece's channel blocks."""
        start, end = piece.start, piece.start + piece.present
        low, high = (b * self.layout.c0 for b in (piece.block, piece.block + piece.blocks))
        for group in range(start // self.cout, ceil_div(end, self.cout)) if piece.present else ():
            origin = group * self.cin
            first, last = max(origin, low), min(origin + self.cin, high)
            if first < last:
                begin = max(group * self.cout, start)
                yield _Run(begin, min((group + 1) * self.cout, end) - begin, origin, first, last)

    def _plain_moves(
        self, job: TurnTile, where: tuple[int, int], run: _Run, base: int, piece: FilterPiece, pitch: int, step: int
    ) -> None:
        """Add to `job` the copies of the plain rows of `run`, which begin at byte `base` of the tile: whole output
        channels if dense, else row by row. `where` is the place of the piece, `pitch` and `step` are the tile's bytes
        from one row, and one output channel, to the next.
        """
        itemsize, (group, place) = self.layout.itemsize, where
        position, positions = piece.position, piece.positions
        row = self.positions * itemsize
        width = run.high - run.low
        channel = group * self.inp.cout_g + place + run.start
        gm = (channel * self.cin + run.low - run.origin) * row + position * itemsize
        if self.dense:
            job.plain.append(Move(gm, base, width * row, run.count, self.cin * row, step))
        elif width == self.cin:
            job.plain.append(Move(gm, base, positions * itemsize, run.count * width, row, pitch))
        else:
            for i in range(run.count):
                move = Move(gm + i * self.cin * row, base + i * step, positions * itemsize, width, row, pitch)
                job.plain.append(move)

    def _block_moves(self, job: TurnTile, where: tuple[int, int], line: int, piece: FilterPiece) -> None:
        """Add to `job` the copies of the FRACTAL_Z lines of a piece at place `where`, `line` bytes each: one for all if
        it has all positions of a 2-D kernel, else one for each channel block and kernel plane.
        """
        inp, taps, (group, place) = self.inp, self.taps, where
        start, _, _, first_block, blocks, position, positions = piece
        stride = inp.cout_padded * self.layout.block_bytes
        offset = (place + start) * self.layout.block_bytes
        planes = inp.problem.k_d
        if planes == 1 and positions == taps:
            gm = (group * inp.cin1 + first_block) * taps * stride + offset
            job.blocks.append(Move(gm, 0, line, blocks * taps, stride, line))
            return
        for index in range(blocks):
            for done, plane, tap, count in plane_runs(position, positions, taps):
                gm_line = ((group * planes + plane) * inp.cin1 + first_block + index) * taps + tap
                ub = (index * positions + done) * line
                job.blocks.append(Move(gm_line * stride + offset, ub, line, count, stride, line))


def to_fractal_z(k: KernelBuilder, inp: TilingInput, first: int, count: int, slots: tuple[int, int]) -> None:
    """Append the conversion of weights to FRACTAL_Z for `count` output channels from `first` on (counted with padding).

    `slots` are the numbers of the source and the target among the launch's tensors.
    """
    filters = _Filter(BlockLayout(inp.c0, inp.itemsize), inp, tile_bytes(k.chip.buffers["UB"]))
    turn_tiles(k, filters.pieces(first, count, count, padding=True), filters.tiles_of, True, inp.itemsize, slots)


def filter_work(chip: ChipSpec, shape: FilterShape, layout: BlockLayout, to_c0: bool, dtype: str = "") -> Loop:
    """Return the work of a TransData of [C_out][C_in/g][K_d][taps] to FRACTAL_Z in blocks of `layout`, or back.

    Padding becomes zeros; back, it is dropped. dW is fp32 in blocks of the compute dtype: elements of 4 bytes in blocks of 16
    channels (16-bit operands) or 8 (32-bit). `dtype` only serves reports. Raises SimError for a size below 1.
    """
    require_positive("TransData", **shape._asdict())
    c_out, c_in, k_d, taps, _ = shape
    inp = _problem(chip, shape, layout)
    plain = [c_out, c_in, taps] if k_d == 1 else [c_out, c_in, k_d, taps]
    fractal = [inp.real_groups * k_d * inp.cin1 * taps, inp.cout_padded // FRACTAL, FRACTAL, layout.c0]
    formats, shapes = ["NCHW", "FRACTAL_Z"], [plain, fractal]
    if k_d > 1:
        formats = ["NCDHW", "FRACTAL_Z_3D"]
    if not to_c0:
        formats, shapes = formats[::-1], shapes[::-1]
    element = dtype or f"{8 * layout.itemsize}-bit"
    info = call_info((element, element), formats, shapes)
    return replace(_loop(chip, shape, layout, to_c0), info=info, template="TransData_filters")


def _problem(chip: ChipSpec, shape: FilterShape, layout: BlockLayout) -> TilingInput:
    """Return a convolution with these weights as a TilingInput, which decides how groups are merged.

    That depends on C0, so its item size is that of the compute dtype, 32 bytes / C0.
    """
    c_out, c_in, k_d, taps, groups = shape
    problem = ConvProblem(
        1, c_in * groups, c_out, d_in=1, h_in=1, w_in=1, d_out=1, h_out=1, w_out=1, k_d=k_d, k_h=1, k_w=taps, groups=groups
    )
    return TilingInput(
        problem, BLOCK_BYTES // layout.c0, vector_cores(chip), {}, chip.memory.l2_bytes, load3d=chip.load3d.limits
    )


def _units_of(
    shape: FilterShape, layout: BlockLayout, to_c0: bool
) -> type[WeightUnits] | type[MovedWeights] | type[GradientLines] | None:
    """Return the class of the library's own kernel for these weights (16-bit weights to FRACTAL_Z if `to_c0`, else fp32
    dW from it; one group, blocks of 16 channels); None where the general one converts them.
    """
    kernel = _UNITS.get((layout.itemsize, layout.c0, to_c0)) if shape.groups == 1 else None
    whole = shape.k_d * shape.taps == 1 and shape.c_in_per_group % C0 == 0
    return MovedWeights if kernel is WeightUnits and whole else kernel


@known_loop
def _loop(chip: ChipSpec, shape: FilterShape, layout: BlockLayout, to_c0: bool) -> Loop:
    inp = _problem(chip, shape, layout)
    kernel = _units_of(shape, layout, to_c0)
    if kernel is not None:
        units = kernel(*shape[:4], vector_cores(chip), chip.buffers["UB"], copies_whole_blocks(chip))
        return Loop(units.blocks, units.units, units.write)
    filters = _Filter(layout, inp, tile_bytes(chip.buffers["UB"]), copies_whole_blocks(chip) and not to_c0)
    channels = inp.real_groups * inp.cout_padded
    together = filters.together(channels)
    tiles = ceil_div(channels, together)
    each = ceil_div(tiles, 1 if filters.merges else vector_cores(chip)) * together

    def pieces(block: int) -> Iterator[tuple[FilterPiece, tuple[int, int]]]:
        first = block * each
        count = min(each, channels - first)
        yield from filters.pieces(first, count, together if to_c0 else count, padding=to_c0)

    def body(k: KernelBuilder, pieces: Iterable[tuple[FilterPiece, tuple[int, int]]]) -> None:
        turn_tiles(k, pieces, filters.tiles_of, to_c0, layout.itemsize, merge=Merge if filters.merges else None)

    return Loop(ceil_div(channels, each), pieces, body)
