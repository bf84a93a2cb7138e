"""What grad_input has to do with a tiling, tile by tile."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.isa.direct import FixpipeDn
from ascend_sim.isa.load import LoadData2D
from ascend_sim.isa.transfer import Fill
from ascend_sim.ops.kernels.grad_input.capacity import is_resident, k_slice
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import tiling_input
from ascend_sim.ops.kernels.grad_input.pieces import UNCUT, kernel_pieces
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import task_count
from ascend_sim.ops.kernels.grad_input.split import SPLIT_HW, SPLIT_NONE, Part, split_parts
from ascend_sim.ops.kernels.grad_input.tasks import grad_input_tasks
from ascend_sim.ops.kernels.grad_input.tiles import contributing_planes, runs
from ascend_sim.ops.kernels.grad_input.window import needed_rows, pad_before
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.studies.tiles.prices import Moved, Prices, TilingWork, Work, lengths

_OF_NO_WORK: dict[str, Any] = {
    "al0_buffers": 1, "bl0_buffers": 1, "cl0_buffers": 1, "al1_buffers": 1, "bl1_buffers": 1, "iterate_order": 0,
    "step_m": 1, "step_n": 1, "source": "",
}  # fmt: skip
"""Fields on which the work of a block does not depend, but for whether weights are resident; many tilings differ only there."""
_OF_NO_BYTES = {"base_k": FRACTAL, "step_ka": 1, "step_kb": 1, "block_dim": 1}
"""Fields on which the bytes do not depend either."""
_Cut = tuple[int, int, int]
"""How a tiling cuts dx and the kernel: kernelSplitMode, columns of a strip, loadB1Condition."""


class _Window(NamedTuple):
    """What a tile holds of gradOutput: rows of the dilated map and their width, rows that are copied there, and bytes of them
    behind one channel block; the strides by which it is dilated.
    """

    rows: int
    width: int
    copied: int
    size: int
    strides: tuple[int, int]


_NOTHING = _Window(0, 0, 0, 0, (1, 1))


class _MapTile(NamedTuple):
    """A tile along the pixels of dx: its rows, those of them that dx has, and what each piece of its part holds for it."""

    rows: int
    pixels: int
    windows: tuple[_Window, ...]


_Maps = tuple[tuple[_MapTile, int], ...]
"""The tiles of a task along the pixels, and how many of each there are."""
_Bands = tuple[tuple[tuple[int, int], int], ...]
"""The bands of a task: channels with padding and those that there are, and how many such bands."""
_Kind = tuple[int, int, int, _Maps, _Bands]
"""What tasks have in common: group, kernel planes, part, tiles and bands."""


class GradInputWork(Prices):
    """What a tiling of `call` gives its blocks to do."""

    cached = (
        *Prices.cached, "_right", "_window", "_load", "_pixels", "_depth_planes", "_parts", "_pieces", "_kinds", "_out",
        "_maps", "_bands", "_tiles", "_least_loads", "_work", "_bytes", "_misses",
    )  # fmt: skip

    def of(self, tiling: GradInputTiling) -> TilingWork:
        """Its tasks, cycles of a block by pipe, and bytes of all blocks."""
        resident = is_resident(tiling, tiling_input(tiling, self.inp))
        work = tiling.but(**_OF_NO_WORK)
        moved = self._bytes(work.but(**_OF_NO_BYTES), resident)
        tasks = task_count(tiling, self.inp)
        missed = 0 if tiling.load_b1 else self._misses(tiling.split_wi)  # pieces may skip rows and columns
        return TilingWork(tasks, lambda block: self._work(work, resident, block), moved, missed)

    def _right(self, k: int, n: int) -> float:
        """The loads of weights of grad_input: one for each C0 of K."""
        c0 = self.inp.c0
        if self.inp.itemsize < 4:
            return k // c0 * self.cycles(LoadData2D("L0B", self.inp.itemsize, ceil_div(n, c0), 1, True))
        return k // c0 * self.load3d("L0B", 1, c0, n, True)

    def _parts(self, cut: _Cut) -> tuple[Part, ...]:
        """The strips, or the parts of a split kernel, or both; the problem itself where nothing is cut."""
        return split_parts(self.problem, *cut[:2])

    def _pieces(self, cut: _Cut, part: int) -> tuple[Part, ...]:
        """What a part is summed of: itself, or pieces of a cut kernel."""
        return kernel_pieces(self.problem, self._parts(cut)[part], cut[2])

    def _work(self, tiling: GradInputTiling, resident: bool, block: int) -> Work:
        """Of a block with a tiling without the fields `_OF_NO_WORK`; `resident`: L1 keeps the weights of a task."""
        work, coupled = Work(), self.inp.family.coupled
        cut = _cut(tiling)
        shape = GradInputTiling(
            FRACTAL,
            FRACTAL,
            FRACTAL,
            single_core_m=tiling.single_core_m,
            single_core_cin=tiling.single_core_cin,
            single_core_din=tiling.single_core_din,
            kernel_split=tiling.kernel_split,
            split_wi=tiling.split_wi,
            block_dim=tiling.block_dim,
        )
        for kind, times in self._tiles(shape, cut, tiling.base_m, tiling.base_n, block).items():
            group, planes, index, maps, bands = kind
            pieces = self._pieces(cut, index)
            read = [sum(count for tile, count in maps if tile.windows[i].rows) for i in range(len(pieces))]
            if resident and any(read):  # once, by the first tile that needs them, if not by an earlier task
                read = [int(i == next(i for i, tiles in enumerate(read) if tiles)) for i in range(len(pieces))]
            if not planes or coupled or (resident and tiling.full_load):
                read = []
            for channels, of_bands in bands:
                for tile, count in maps:
                    self._tile(work, tiling, times * of_bands * count, (index, tile), channels, group, planes)
                for piece, tiles in zip(pieces, read, strict=False):
                    if tiles:
                        each = self._weights(tiling, group, piece, *channels)
                        work.mte2 += times * of_bands * tiles * planes * each
        if coupled:
            work.mte2 += self._least_loads(shape, cut, block)
        return work

    def _least_loads(self, shape: GradInputTiling, cut: _Cut, block: int) -> float:
        """Cycles to load what the tasks of a block load of gradOutput at least, where L1 may keep either operand."""
        cycles = 0.0
        for (group, m_start, m_count, _, _, planes, own), times in self._kinds(shape, block).items():
            window = self._window(cut, own, m_start, m_count)
            cycles += times * planes * self._load(window, ceil_div(self._outputs(group), self.inp.c0))
        return cycles

    def _tiles(self, shape: GradInputTiling, cut: _Cut, base_m: int, base_n: int, block: int) -> Counter[_Kind]:
        """How often a block has tasks that are tiled alike."""
        found: Counter[_Kind] = Counter()
        every = range(len(self._parts(cut)))
        for (group, m_start, m_count, n_start, n_end, planes, own), times in self._kinds(shape, block).items():
            bands = self._bands(group, n_start, n_end, base_n)
            for index in every if shape.kernel_split == SPLIT_HW else (own,):
                found[group, planes, index, self._maps(cut, index, m_start, m_count, base_m), bands] += times
        return found

    def _maps(self, cut: _Cut, part: int, start: int, count: int, base_m: int) -> _Maps:
        """The tiles along the pixels of a task of a part, equal ones together, and how many there are."""
        own = self._parts(cut)[part]
        end, pieces = min(start + count, own.rows * own.problem.w_in), range(len(self._pieces(cut, part)))
        found: Counter[_MapTile] = Counter()
        for m in range(start, end, base_m):
            rows = min(base_m, end - m)
            if pixels := self._pixels(cut, part, m, rows):
                found[_MapTile(rows, pixels, tuple(self._window(cut, part, m, rows, i) for i in pieces))] += 1
        return tuple(found.items())

    def _bands(self, group: int, start: int, end: int, base_n: int) -> _Bands:
        """The bands of channels of a task: channels with padding, those that there are, and how many such bands."""
        channels = self.call.group_channels(group, self.problem.c_in, self.inp.cin_g)
        found = Counter((min(base_n, end - n), min(base_n, end - n, channels - n)) for n in range(start, end, base_n))
        return tuple(found.items())

    def _weights(self, tiling: GradInputTiling, group: int, part: Part, n_count: int, own_count: int) -> float:
        """Cycles to load the weights of a tile, one kernel plane."""
        inp, taps = self.inp, len(part.taps)
        if inp.layout.plain:
            return self.copy(own_count * self._outputs(group) * taps * inp.itemsize)
        row_bytes = ceil_div(n_count, inp.c0) * inp.c0 * inp.itemsize
        spans = lengths(ceil_to(self._k_total(group, taps), k_slice(inp)), tiling.step_kb * tiling.base_k)
        return sum(count * self.copy(row_bytes * span) for span, count in spans)

    def _kinds(self, shape: GradInputTiling, block: int) -> Counter[tuple[int, ...]]:
        """How often a block has a task of each kind: (group, first pixel, pixels, first channel, end, kernel planes, part)."""
        found: Counter[tuple[int, ...]] = Counter()
        for task in grad_input_tasks(shape, self.inp, block):
            n_end = self._channels_end(task.group, task.n_start + task.n_count)
            planes = self._depth_planes(task.depth)
            found[task.group, task.m_start, task.m_count, task.n_start, n_end, planes, task.part] += 1
        return found

    def _tile(
        self,
        work: Work,
        tiling: GradInputTiling,
        times: int,
        place: tuple[int, _MapTile],
        channels: tuple[int, int],
        group: int,
        planes: int,
    ) -> None:
        """`times` tiles of a part, `place` = (part, tile) x `channels` (with padding, without)."""
        (part, tile), cut = place, _cut(tiling)
        total = ceil_div(self._outputs(group), self.inp.c0)
        segments = ceil_div(total, tiling.k_segment // self.inp.c0 or total) if self._parts(cut)[part].taps else 1
        work.tiles += times * segments
        work.out += times * segments * self._out(tile.pixels, *channels)
        for piece, window in zip(self._pieces(cut, part), tile.windows, strict=True):
            if window.rows and planes and piece.taps:
                self._piece_of_tile(
                    work, tiling, times * planes, len(piece.taps), (tile.rows, channels[0]), group, window
                )

    def _piece_of_tile(
        self,
        work: Work,
        tiling: GradInputTiling,
        times: int,
        taps: int,
        sides: tuple[int, int],
        group: int,
        window: _Window,
    ) -> None:
        """Loads and products of a tile of `sides` rows and columns, for `taps` of the kernel."""
        (rows, n), c0 = sides, self.inp.c0
        total = ceil_div(self._outputs(group), c0)
        step_a, step_b = self._l1_blocks(tiling)
        for blocks, segments in lengths(total, tiling.k_segment // c0 or total):
            for span, spans in lengths(blocks, min(step_a, step_b)):
                for step_k, count in lengths(span * taps * c0, tiling.base_k):
                    steps = times * segments * spans * count
                    work.steps += steps
                    work.cube += steps * self.mmad(rows, step_k, n)
                    work.mte1 += steps * (self.left(rows, step_k, False) + self._right(step_k, n))
        if self.inp.family.coupled:
            return
        if self.inp.layout.plain:
            pixels = window.size // BLOCK_BYTES
            work.mte2 += times * self.copy(pixels * self._outputs(group) * self.inp.itemsize)
            return
        work.mte2 += times * sum(count * self._load(window, blocks) for blocks, count in lengths(total, step_a))

    def _out(self, rows: int, count: int, own: int) -> float:
        """The way out of a tile of grad_input, `own` of whose channels are not padding."""
        dtype = "float32" if self.inp.itemsize == 4 else self.call.dtype
        if not self.inp.layout.plain:
            return self.drain(rows, count, dtype)
        item = self.inp.itemsize
        return self.cycles(FixpipeDn(rows, own, ceil_to(rows, FRACTAL), 0, dtype, item, rows * item))

    def _l1_blocks(self, tiling: GradInputTiling) -> tuple[int, int]:
        """C0 blocks of gradOutput channels in one L1 step of A and of B."""
        per_block = tiling_input(tiling, self.inp).taps * self.inp.c0
        return tiling.step_ka * tiling.base_k // per_block, tiling.step_kb * tiling.base_k // per_block

    def _outputs(self, group: int) -> int:
        """Output channels of a real group."""
        return self.call.group_channels(group, self.problem.c_out, self.inp.cout_g)

    def _k_total(self, group: int, taps: int) -> int:
        return ceil_div(self._outputs(group), self.inp.c0) * taps * self.inp.c0

    def _channels_end(self, group: int, end: int) -> int:
        channels = self.call.group_channels(group, self.problem.c_in, self.inp.cin_g)
        return min(end, ceil_div(channels, self.inp.c0) * self.inp.c0)

    def _depth_planes(self, depth: int) -> int:
        return len(list(contributing_planes(self.problem, depth)))

    def _pixels(self, cut: _Cut, part: int, m: int, count: int) -> int:
        """Pixels of dx in a tile: the last strip may end in columns that dx does not have."""
        if not cut[1]:
            return count
        return sum(pixels for _, _, pixels in runs(self._parts(cut)[part], self.problem.w_in, m, count))

    def _window(self, cut: _Cut, part: int, m: int, count: int, piece: int = 0) -> _Window:
        """What a tile of a part holds of gradOutput for a piece of it."""
        p = self._pieces(cut, part)[piece].problem
        window = needed_rows(p, m, count)
        crop = max(-pad_before(p)[1], 0)
        width = (p.w_out - 1) * p.stride_w + 1 - crop
        if not window.rows or width <= 0:
            return _NOTHING
        first = ceil_div(window.first_row, p.stride_h)
        rows = (window.first_row + window.rows - 1) // p.stride_h - first + 1
        columns = p.w_out - ceil_div(crop, p.stride_w)
        return _Window(window.rows, width, rows, max(rows, 0) * max(columns, 0) * BLOCK_BYTES, (p.stride_h, p.stride_w))

    def _load(self, window: _Window, blocks: int) -> float:
        """Cycles to load channel blocks of what a window shows of gradOutput."""
        size, (stride_h, stride_w) = window.size, window.strides
        if not window.rows:
            return 0.0
        if self.inp.family.coupled or stride_h * stride_w == 1:
            return self.copy(size * blocks)
        zeros = self.cycles(Fill("L1", blocks * window.rows * window.width * BLOCK_BYTES))
        copies = blocks * window.copied if stride_w > 1 else blocks
        return zeros + copies * self.copy(size * blocks // copies) if size else zeros

    def _bytes(self, tiling: GradInputTiling, resident: bool) -> Moved:
        """Of a tiling without the fields `_OF_NO_BYTES` too."""
        inp, p, moved, coupled = self.inp, self.problem, Moved(), self.inp.family.coupled
        cut = _cut(tiling)
        images = p.n * sum(self._depth_planes(depth) for depth in range(p.d_in))
        parts = self._parts(cut)
        pieces = [(index, *piece) for index in range(len(parts)) for piece in enumerate(self._pieces(cut, index))]
        for index, number, piece in pieces:
            part = parts[index]
            pixels, taps = part.rows * part.problem.w_in, len(piece.taps)
            sizes, loads = [], 0
            for start in range(0, pixels, tiling.single_core_m):
                end = min(start + tiling.single_core_m, pixels)
                tiles = [(m, min(tiling.base_m, end - m)) for m in range(start, end, tiling.base_m)]
                windows = [self._window(cut, index, *tile, number) for tile in tiles if self._pixels(cut, index, *tile)]
                held = [window.size for window in windows if window.rows]
                sizes += held
                loads += min(len(held), 1) if resident else len(held)
            loads = 0 if tiling.full_load else loads
            for group in range(inp.real_groups if taps else 0):
                k, n = self._k_total(group, taps), self._channels_end(group, inp.cin1 * inp.c0)
                columns = sum(
                    ceil_div(min(tiling.single_core_cin, n - start), tiling.base_n)
                    for start in range(0, n, tiling.single_core_cin)
                )
                if inp.layout.plain:
                    n, outputs = min(n, inp.cin_g), self._outputs(group)
                    moved.read += images * columns * sum(sizes) // BLOCK_BYTES * outputs * inp.itemsize
                    moved.read += images * loads * n * outputs * taps * inp.itemsize
                elif coupled:  # whose L1 may keep either operand: both at least once
                    moved.read += images * self._window(cut, index, 0, pixels).size * (k // (taps * inp.c0))
                    moved.read += (index == 0) * n * ceil_to(k, k_slice(inp)) * inp.itemsize
                else:
                    moved.read += images * columns * sum(sizes) * (k // (taps * inp.c0))
                    moved.read += images * loads * n * ceil_to(k, k_slice(inp)) * inp.itemsize
        if inp.layout.plain:
            moved.written += p.n * p.c_in * p.d_in * p.h_in * p.w_in * inp.itemsize
            return moved
        for group in range(inp.real_groups):
            n = self._channels_end(group, inp.cin1 * inp.c0)
            moved.written += p.n * p.d_in * n // inp.c0 * p.h_in * p.w_in * BLOCK_BYTES
        return moved

    def _misses(self, strip: int) -> int:
        """Bytes of gradOutput and weights that nobody has read before."""
        p, inp = self.problem, self.inp
        planes = {plane for depth in range(p.d_in) for _, plane in contributing_planes(p, depth)}
        held, _, _, size, _ = self._window((SPLIT_NONE, 0, UNCUT), 0, 0, p.h_in * p.w_in)
        if strip:
            # Columns that some strip needs, of those that whole rows have
            read: set[int] = set()
            for part in self._parts((SPLIT_NONE, strip, UNCUT)):
                read.update(range(part.source, part.source + part.problem.w_out) if part.taps else ())
            size = size // max(p.w_out - ceil_div(max(-pad_before(p)[1], 0), p.stride_w), 1) * len(read)
        if inp.layout.plain:
            return p.n * len(planes) * p.c_out * size // BLOCK_BYTES * inp.itemsize if held else 0
        return p.n * len(planes) * ceil_div(p.c_out, inp.c0) * size if held else 0


def _cut(tiling: GradInputTiling) -> _Cut:
    return tiling.kernel_split, tiling.split_wi, tiling.load_b1
