"""What grad_input has to do with a tiling, tile by tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

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
from ascend_sim.studies.tiles.prices import Moved, Prices, TilingWork, Work, cuts

_OF_NO_WORK: dict[str, Any] = {
    "al0_buffers": 1, "bl0_buffers": 1, "cl0_buffers": 1, "al1_buffers": 1, "bl1_buffers": 1, "iterate_order": 0,
    "step_m": 1, "step_n": 1, "source": "",
}  # fmt: skip
"""Fields on which the work of a block does not depend, but for whether weights are resident; many tilings differ only there."""
_OF_NO_BYTES = {"base_k": FRACTAL, "step_ka": 1, "step_kb": 1, "block_dim": 1}
"""Fields on which the bytes do not depend either."""
_Cut = tuple[int, int, int]
"""How a tiling cuts dx and the kernel: kernelSplitMode, columns of a strip, loadB1Condition."""


class GradInputWork(Prices):
    """What a tiling of `call` gives its blocks to do."""

    cached = (
        *Prices.cached, "_right", "_window", "_pixels", "_depth_planes", "_parts", "_pieces", "_kinds", "_work", "_bytes",
        "_misses",
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
        inp, work, coupled = self.inp, Work(), self.inp.family.coupled
        cut = _cut(tiling)
        parts = self._parts(cut)
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
        for (group, m_start, m_count, n_start, n_end, planes, own), times in self._kinds(shape, block).items():
            for index in range(len(parts)) if tiling.kernel_split == SPLIT_HW else (own,):
                part = parts[index]
                end = min(m_start + m_count, part.rows * part.problem.w_in)
                for n in range(n_start, n_end, tiling.base_n):
                    n_count = min(tiling.base_n, n_end - n)
                    loaded = bool(tiling.full_load) or coupled  # by an earlier task, or perhaps
                    for m in range(m_start, end, tiling.base_m):
                        rows = min(tiling.base_m, end - m)
                        if not self._pixels(cut, index, m, rows):
                            continue
                        self._tile(work, tiling, times, (index, m, rows), (n, n_count), group, planes)
                        for number, piece in enumerate(self._pieces(cut, index)):
                            held = self._window(cut, index, m, rows, number)[0]
                            if planes and held and not ((resident or coupled) and loaded):
                                work.mte2 += times * planes * self._weights(tiling, group, piece, n, n_count)
                                loaded = True
            if coupled:  # whose L1 may keep either operand: what a task loads at least
                load = self._window(cut, own, m_start, m_count)[2]
                work.mte2 += times * planes * load(ceil_div(self._outputs(group), inp.c0))
        return work

    def _weights(self, tiling: GradInputTiling, group: int, part: Part, n: int, n_count: int) -> float:
        """Cycles to load the weights of a tile, one kernel plane."""
        inp, taps = self.inp, len(part.taps)
        if inp.layout.plain:
            channels = min(n_count, self.call.group_channels(group, self.problem.c_in, inp.cin_g) - n)
            return self.copy(channels * self._outputs(group) * taps * inp.itemsize)
        row_bytes = ceil_div(n_count, inp.c0) * inp.c0 * inp.itemsize
        spans = cuts(ceil_to(self._k_total(group, taps), k_slice(inp)), tiling.step_kb * tiling.base_k)
        return sum(self.copy(row_bytes * span) for span in spans)

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
        place: tuple[int, int, int],
        channels: tuple[int, int],
        group: int,
        planes: int,
    ) -> None:
        """One tile, `place` = (part, first pixel, pixels) x `channels` (first, count)."""
        (part, m, rows), cut = place, _cut(tiling)
        total = ceil_div(self._outputs(group), self.inp.c0)
        segments = cuts(total, tiling.k_segment // self.inp.c0 or total) if self._parts(cut)[part].taps else [0]
        work.tiles += times * len(segments)
        work.out += times * len(segments) * self._out(self._pixels(cut, part, m, rows), group, *channels)
        for number, piece in enumerate(self._pieces(cut, part)):
            window = self._window(cut, part, m, rows, number)
            if window[0] and planes and piece.taps:
                self._piece_of_tile(work, tiling, times * planes, len(piece.taps), (rows, channels[1]), group, window)

    def _piece_of_tile(
        self,
        work: Work,
        tiling: GradInputTiling,
        times: int,
        taps: int,
        sides: tuple[int, int],
        group: int,
        window: tuple[int, int, Callable[[int], float]],
    ) -> None:
        """Loads and products of a tile of `sides` rows and columns, for `taps` of the kernel."""
        (rows, n), (_, size, load), c0 = sides, window, self.inp.c0
        total = ceil_div(self._outputs(group), c0)
        step_a, step_b = self._l1_blocks(tiling)
        for blocks in cuts(total, tiling.k_segment // c0 or total):
            for span in cuts(blocks, min(step_a, step_b)):
                length = span * taps * c0
                for step_k, count in ((tiling.base_k, length // tiling.base_k), (length % tiling.base_k, 1)):
                    if step_k and count:
                        steps = times * count
                        work.steps += steps
                        work.cube += steps * self.mmad(rows, step_k, n)
                        work.mte1 += steps * (self.left(rows, step_k, False) + self._right(step_k, n))
        if self.inp.family.coupled:
            return
        if self.inp.layout.plain:
            pixels = size // BLOCK_BYTES
            work.mte2 += times * self.copy(pixels * self._outputs(group) * self.inp.itemsize)
            return
        work.mte2 += times * sum(load(blocks) for blocks in cuts(total, step_a))

    def _out(self, rows: int, group: int, first: int, count: int) -> float:
        """The way out of a tile of grad_input."""
        dtype = "float32" if self.inp.itemsize == 4 else self.call.dtype
        if not self.inp.layout.plain:
            return self.drain(rows, count, dtype)
        own = min(count, self.call.group_channels(group, self.problem.c_in, self.inp.cin_g) - first)
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

    def _window(
        self, cut: _Cut, part: int, m: int, count: int, piece: int = 0
    ) -> tuple[int, int, Callable[[int], float]]:
        """Rows of the dilated map that a tile holds, bytes of gradOutput behind one channel block, cycles to load some."""
        p = self._pieces(cut, part)[piece].problem
        window = needed_rows(p, m, count)
        crop = max(-pad_before(p)[1], 0)
        width = (p.w_out - 1) * p.stride_w + 1 - crop
        if not window.rows or width <= 0:
            return 0, 0, lambda blocks: 0.0
        first = ceil_div(window.first_row, p.stride_h)
        rows = (window.first_row + window.rows - 1) // p.stride_h - first + 1
        columns = p.w_out - ceil_div(crop, p.stride_w)
        size = max(rows, 0) * max(columns, 0) * BLOCK_BYTES

        def load(blocks: int) -> float:
            if self.inp.family.coupled or p.stride_h * p.stride_w == 1:
                return self.copy(size * blocks)
            zeros = self.cycles(Fill("L1", blocks * window.rows * width * BLOCK_BYTES))
            copies = blocks * rows if p.stride_w > 1 else blocks
            return zeros + copies * self.copy(size * blocks // copies) if size else zeros

        return window.rows, size, cache(load)

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
                held = [size for rows, size, _ in windows if rows]
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
                    moved.read += images * self._window(cut, index, 0, pixels)[1] * (k // (taps * inp.c0))
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
        held, size, _ = self._window((SPLIT_NONE, 0, UNCUT), 0, 0, p.h_in * p.w_in)
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
