"""TransData of feature maps: [N][C][D][HW] and [N][D][C1][HW][C0]; missing channels of the last block are zeros."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.frozen import frozen
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import TurnLayout
from ascend_sim.ops.kernels.vector.common import Loop, call_info, known_loop, require_positive, share, vector_cores
from ascend_sim.ops.kernels.vector.trans_data import (
    LIST_INSTRUCTIONS,
    ROWS_AT_ONCE,
    BlockLayout,
    BlockTurn,
    Move,
    TurnTile,
    tile_bytes,
    turn_tiles,
)
from ascend_sim.ops.kernels.vector.whole_blocks import Merge, with_whole_end
from ascend_sim.ops.problem.sizes import ceil_div, cut


class FeatureShape(NamedTuple):
    """Shape of a feature map [n][c][d][hw]: images, channels, depths, pixels of a plane."""

    n: int
    c: int
    d: int
    hw: int


class FeaturePiece(NamedTuple):
    """A tile's part of an image: depth `depth`, `blocks` channel blocks from `block` on, `pixels` pixels from `pixel` on."""

    depth: int
    block: int
    blocks: int
    pixel: int
    pixels: int


@frozen
class _Feature:
    """Sizes of one map and its division into UB tiles: whole channel blocks, or pixels of one block where HW is large.

    `row_cycles`: extra cycles of a row that is copied alone. `issue`: cycles of an instruction on the scalar
    unit. `backs_off`: plain rows are stored as whole blocks, then their last block.
    """

    layout: BlockLayout
    n: int
    c: int
    d: int
    hw: int
    tile: int
    row_cycles: float
    issue: int
    backs_off: bool

    @property
    def merges(self) -> bool:
        """Return True if one core must store all rows in order, with `Merge`: rows back off and one is shorter than a block,
        unless the rows of an image lie back to back and are whole blocks together.
        """
        return self.backs_off and self.hw * self.layout.itemsize < BLOCK_BYTES and not (self.dense and self._whole)

    @property
    def _whole(self) -> bool:
        """Return True if all rows of an image together are whole blocks."""
        return self.c * self.hw * self.layout.itemsize % BLOCK_BYTES == 0

    @property
    def dense(self) -> bool:
        """Return True if an image's rows lie back to back in UB, as in GM: rows of a single pixel, and rows that would
        take more cycles if copied one by one.

        Each 32 bytes of 16 rows then need an address list of their own. The counters of 6 x 6 maps (AlexNet on a 910B2) show
        that the compiled kernel does the same. A tile must hold a whole plane of a channel block, and the map have one depth.
        If rows back off, all that are shorter than a block do so, longer ones only if together they are whole blocks.
        """
        row = self.hw * self.layout.itemsize
        lists = ceil_div(row, BLOCK_BYTES) * LIST_INSTRUCTIONS * self.issue
        fits = self.d == 1 and self.layout.piece_bytes(self.hw, row) <= self.tile
        if self.backs_off and (row < BLOCK_BYTES or not self._whole):
            return fits and row < BLOCK_BYTES
        return fits and (self.hw == 1 or lists < ROWS_AT_ONCE * self.row_cycles + LIST_INSTRUCTIONS * self.issue)

    def pitch(self, pixels: int) -> int:
        """Return the bytes in UB from a plain row of `pixels` to the next: no gap if `dense`, else whole 32-byte blocks."""
        return pixels * self.layout.itemsize if self.dense else self.layout.pitch(pixels)

    @property
    def c1(self) -> int:
        """Return the number of channel blocks."""
        return ceil_div(self.c, self.layout.c0)

    def pieces(self) -> list[FeaturePiece]:
        """Return the pieces of an image, each a tile: as many whole channel blocks as fit, else a block's pixels in parts."""
        layout = self.layout
        whole = layout.piece_bytes(self.hw, self.pitch(self.hw))
        if whole <= self.tile:
            blocks, pixels = cut(self.c1, self.tile // whole), [(0, self.hw)]
        else:
            blocks = [(b, 1) for b in range(self.c1)]
            pixels = cut(self.hw, layout.pixels_per_tile(self.tile), layout.slice_channels)
            if self.backs_off:
                pixels = with_whole_end(pixels, layout.slice_channels)
        return [FeaturePiece(depth, *b, *p) for depth in range(self.d) for b in blocks for p in pixels]

    def tile_of(self, piece: FeaturePiece, image: int) -> TurnTile:
        """Return the copies and transpositions that convert a piece of image `image`, for either direction."""
        depth, block, blocks, pixel, pixels = piece
        layout, itemsize = self.layout, self.layout.itemsize
        channel = block * layout.c0
        channels = min(blocks * layout.c0, self.c - channel)
        pitch, span = self.pitch(pixels), pixels * layout.block_bytes
        job = TurnTile(blocks * span)
        plane = (image * self.c + channel) * self.d + depth
        gm = (plane * self.hw + pixel) * itemsize
        if self.dense:
            job.plain.append(Move(gm, 0, channels * pitch))
        else:
            job.plain.append(Move(gm, 0, pixels * itemsize, channels, self.d * self.hw * itemsize, pitch))
        line = (image * self.d + depth) * self.c1 + block
        gm = (line * self.hw + pixel) * layout.block_bytes
        job.blocks.append(Move(gm, 0, span, blocks, self.hw * layout.block_bytes, span))
        width = layout.slice_channels
        full, rest = divmod(channels, layout.c0)
        step = layout.c0 * pitch
        for part in range(layout.slices):
            plain, target = part * width * pitch, part * BLOCK_BYTES
            if full:
                whole = TurnLayout(pitch, layout.block_bytes, repeats=full, plain_step=step, block_step=span)
                job.turns.append(BlockTurn(plain, target, width, pixels, whole))
            left = min(rest - part * width, width)
            if left > 0:
                plain, target = plain + full * step, target + full * span
                job.turns.append(BlockTurn(plain, target, left, pixels, TurnLayout(pitch, layout.block_bytes)))
        return job


def feature_work(chip: ChipSpec, shape: FeatureShape, layout: BlockLayout, to_c0: bool, dtype: str = "") -> Loop:
    """Return the work of a TransData of [N][C][D][HW] to [N][D][C1][HW][C0], in blocks of `layout`, or back.

    Missing channels become zeros; back, they are dropped. `dtype` only serves reports. Raises SimError for a size below 1.
    """
    n, c, d, hw = shape
    require_positive("TransData", n=n, c=c, d=d, hw=hw)
    c1 = ceil_div(c, layout.c0)
    formats, shapes = ["NCHW", "NC1HWC0"], [[n, c, hw], [n, c1, hw, layout.c0]]
    if d > 1:
        formats, shapes = ["NCDHW", "NDC1HWC0"], [[n, c, d, hw], [n, d, c1, hw, layout.c0]]
    if not to_c0:
        formats, shapes = formats[::-1], shapes[::-1]
    element = dtype or f"{8 * layout.itemsize}-bit"
    info = call_info((element, element), formats, shapes)
    return replace(_loop(chip, shape, layout, to_c0), info=info, template="TransData_features")


@known_loop
def _loop(chip: ChipSpec, shape: FeatureShape, layout: BlockLayout, to_c0: bool) -> Loop:
    n, c, d, hw = shape
    ways = (chip.path("GM", "UB"), chip.path("UB", "GM"))
    by_blocks = copies_whole_blocks(chip)  # then such a row takes an instruction
    row_cycles = sum(way.head if by_blocks else way.unaligned_row or 0 for way in ways) / len(ways)
    issue = chip.scalar.issue_cycles[chip.cores.vector_kind(0)]
    backs_off = by_blocks and not to_c0
    feature = _Feature(layout, n, c, d, hw, tile_bytes(chip.buffers["UB"]), row_cycles, issue, backs_off)
    pieces, cores = feature.pieces(), 1 if feature.merges else vector_cores(chip)
    parts = min(max(cores // n, 1), len(pieces)) if cores > 1 else 1
    blocks = min(n, cores) * parts

    def images(block: int) -> Iterator[tuple[tuple[int, int], int]]:
        """Yield ((first piece, end of its pieces), image) for each image of a block."""
        group, part = divmod(block, parts)
        first_image, image_count = share(n, blocks // parts, group)
        first_piece, count = share(len(pieces), parts, part)
        for image in range(first_image, first_image + image_count):
            yield (first_piece, first_piece + count), image

    def tiles_of(part: tuple[int, int], image: int) -> Iterator[TurnTile]:
        return (feature.tile_of(piece, image) for piece in pieces[slice(*part)])

    def body(k: KernelBuilder, pieces: Iterable[tuple[tuple[int, int], int]]) -> None:
        merge = partial(Merge, kept=feature.tile // BLOCK_BYTES if d > 1 else 0) if feature.merges else None
        turn_tiles(k, pieces, tiles_of, to_c0, layout.itemsize, merge=merge)

    return Loop(blocks, images, body)
