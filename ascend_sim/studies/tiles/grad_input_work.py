"""Work of grad_input for tilings: their steps of K for all of them at once, and the bytes that they move."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.isa.direct import FixpipeDn
from ascend_sim.isa.load import LoadData2D
from ascend_sim.ops.kernels.grad_input.capacity import is_resident
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, k_slice
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_NONE, UNCUT, part_input, tiling_input
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import task_count
from ascend_sim.ops.kernels.grad_input.tiles import contributing_planes
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.window import pad_before, read_width
from ascend_sim.studies.tiles.grad_input_tiles import Cut, GradInputTiles, Tiles, cut_of
from ascend_sim.studies.tiles.prices import Ints, LeastCycles, Ragged, TilingWork, lengths, numbered, priced

_TASKS = ("single_core_m", "single_core_cin", "single_core_din", "kernel_split", "split_wi", "load_b1", "block_dim")
_SHAPE = attrgetter(*_TASKS)
"""Fields that say which part of dx a task is and whose it is."""
_STEPS = attrgetter("base_m", "base_k", "base_n", "step_ka", "step_kb", "k_segment", "full_load")
"""The others on which the work depends; many tilings differ in neither."""


class _Steps(NamedTuple):
    """Numbers that decide a kernel's steps along K: arrays with one element for each tiling.

    `base_k`: baseK; `blocks_a` and `blocks_b`: C0 blocks in an L1 step of A and of B; `segment`: C0 blocks summed at a time (0:
    all); `span_b`: elements along K of an L1 step of B; `resident`: 1 if weights stay in L1 during a task; `full_load`: 1 if
    they stay from task to task.
    """

    base_k: Ints
    blocks_a: Ints
    blocks_b: Ints
    segment: Ints
    span_b: Ints
    resident: Ints
    full_load: Ints


class GradInputWork(GradInputTiles):
    """Computation of the least work of grad_input's blocks in `call`, for many tilings at once."""

    cached = (*GradInputTiles.cached, "_right", "_out", "_bytes", "_misses", "_shape", "_task_count", "_taps")

    def of(self, tilings: Sequence[GradInputTiling]) -> TilingWork:
        """Return the work of `tilings`: tasks, the cycles of a block by pipe, and the bytes of all blocks."""
        keys, place = numbered(
            (_SHAPE(tiling), _STEPS(tiling), is_resident(tiling, tiling_input(tiling, self.inp))) for tiling in tilings
        )
        shapes, of_shape = numbered(shape for shape, _, _ in keys)
        fields = [self._shape(*shape) for shape in shapes]
        base_m, base_k, base_n, step_ka, step_kb, segment, full_load = np.array([own for _, own, _ in keys]).T
        resident = np.array([kept for _, _, kept in keys], np.int64)
        per_block = np.array([self._taps(cut_of(shape)) * self.inp.c0 for shape in fields])[of_shape]
        span_b, blocks_a = step_kb * base_k, step_ka * base_k // per_block
        steps = _Steps(base_k, blocks_a, span_b // per_block, segment // self.inp.c0, span_b, resident, full_load)
        moved, of_moved = numbered(
            zip(of_shape.tolist(), base_m.tolist(), base_n.tolist(), resident.tolist(), full_load.tolist(), strict=True)
        )
        bytes_of = [self._bytes(fields[shape].but(block_dim=1), *rest) for shape, *rest in moved]
        read, written = np.array(bytes_of, np.int64).T

        def of_blocks(blocks: Ints) -> LeastCycles:
            corners = zip(of_shape.tolist(), base_m.tolist(), base_n.tolist(), blocks.tolist(), strict=True)
            kinds, of_kind = numbered(corners)
            return self._work([self._tiles(fields[shape], *rest) for shape, *rest in kinds], of_kind, steps)

        tasks = np.array([self._task_count(shape) for shape in fields])[of_shape]
        # pieces may skip rows and columns
        missed = np.array([0 if one.load_b1 else self._misses(one.split_wi) for one in fields])[of_shape]
        return TilingWork(place, tasks, of_blocks, read[of_moved], written[of_moved], missed)

    def _shape(self, *fields: int) -> GradInputTiling:
        """Return a tiling with these values of the fields of `_TASKS`, which decide how dx is divided into tasks; its base
        blocks and steps are placeholders.
        """
        return GradInputTiling(FRACTAL, FRACTAL, FRACTAL, **dict(zip(_TASKS, fields, strict=True)))  # type: ignore[arg-type]

    def _task_count(self, shape: GradInputTiling) -> int:
        return task_count(shape, self.inp)

    def _taps(self, cut: Cut) -> int:
        """Return the number of kernel taps that stand along K for each C0 block of output channels under this cut."""
        return part_input(self.inp, *cut).taps

    def _right(self, k: int, n: int) -> float:
        """Return the least cycles of loading a `k` x `n` block of weights from L1 into L0B, one load for each C0 rows of K."""
        c0 = self.inp.c0
        if self.inp.itemsize < 4:
            return k // c0 * self.cycles(LoadData2D("L0B", self.inp.itemsize, ceil_div(n, c0), 1, True, 2))
        return k // c0 * self.load3d("L0B", 1, c0, n, True)

    def _work(self, tiles: Sequence[Tiles], which: Ints, steps: _Steps) -> LeastCycles:
        """Return the least cycles of one block of each tiling: tiling i has the tiles `tiles[which[i]]` and element i of
        `steps`.
        """
        work = LeastCycles.none(len(which))
        self._drains(work, Ragged([one.drains for one in tiles], 5).of(which), steps)
        self._products(work, Ragged([one.products for one in tiles], 5).of(which), steps)
        self._loads(work, Ragged([one.maps for one in tiles], 3).of(which), steps)
        self._weights(work, Ragged([one.weights for one in tiles], 6).of(which), steps)
        work.load += np.array([one.least for one in tiles])[which]
        work.first, work.firsts = (work.mte1 + work.cube) / 2, work.steps / 2
        return work

    def _drains(self, work: LeastCycles, rows: tuple[Ints, Ints], steps: _Steps) -> None:
        """Add to `work` the number of tiles and the cycles of their stores from L0C, once for every segment of K.

        `rows` is (index of the tiling of each row, columns of `Tiles.drains`).
        """
        owner, (pixels, channels, own, blocks, times) = rows
        segments = -(-blocks // np.maximum(_or_all(steps.segment[owner], blocks), 1))
        times = times * np.maximum(segments, 1)
        work.add("tiles", owner, times)
        work.add("out", owner, times * priced(self._out, pixels, channels, own))

    def _products(self, work: LeastCycles, rows: tuple[Ints, Ints], steps: _Steps) -> None:
        """Add to `work` the steps along K, with the cycles of their loads into L0 and of their products.

        `rows` is (index of the tiling of each row, columns of `Tiles.products`).
        """
        owner, (pixels, channels, taps, total, times) = rows
        step = np.minimum(steps.blocks_a, steps.blocks_b)[owner]
        for of_total, blocks, segments in lengths(total, _or_all(steps.segment[owner], total)):
            for of_blocks, span, spans in lengths(blocks, step[of_total]):
                at = of_total[of_blocks]
                for of_span, k, each in lengths(span * taps[at] * self.inp.c0, steps.base_k[owner[at]]):
                    row = at[of_span]
                    m, n, of = pixels[row], channels[row], owner[row]
                    count = times[row] * segments[of_blocks][of_span] * spans[of_span] * each
                    work.add("steps", of, count)
                    work.add("cube", of, count * priced(self.mmad, m, k, n))
                    work.add("mte1", of, count * (priced(self._left, m, k) + priced(self._right, k, n)))

    def _left(self, m: int, k: int) -> float:
        return self.left(m, k, False)

    def _loads(self, work: LeastCycles, rows: tuple[Ints, Ints], steps: _Steps) -> None:
        """Add to `work` the loads of gradOutput into L1: all of K at once if tensors are NCDHW, else one L1 step at a time.

        `rows` is (index of the tiling of each row, columns of `Tiles.maps`).
        """
        owner, (window, outputs, times) = rows
        windows = list(self._windows)

        def load(number: int, blocks: int) -> float:
            return self._load(windows[number], blocks)

        size = np.array([one.size for one in windows], np.int64)[window]
        if self.inp.layout.plain:
            pixels = size // BLOCK_BYTES
            work.loaded("a", owner, times, priced(self.copy, pixels * outputs * self.inp.itemsize))
            return
        for at, blocks, count in lengths(-(-outputs // self.inp.c0), steps.blocks_a[owner]):
            work.loaded("a", owner[at], times[at] * count, priced(load, window[at], blocks), size[at] > 0)

    def _weights(self, work: LeastCycles, rows: tuple[Ints, Ints], steps: _Steps) -> None:
        """Add to `work` the loads of the weights into L1: all of a kernel plane's K at once if tensors are plain, else one L1
        step at a time. Weights that stay in L1 during a task are loaded for its first tile alone; those that stay from task to
        task count as no load.

        `rows` is (index of the tiling of each row, columns of `Tiles.weights`).
        """
        inp, (owner, (stay, channels, own, taps, outputs, times)) = self.inp, rows
        loaded = (steps.resident[owner] == stay) & ~((stay == 1) & (steps.full_load[owner] == 1))
        times = times * loaded
        if inp.layout.plain:
            work.loaded("b", owner, times, priced(self.copy, own * outputs * taps * inp.itemsize))
            return
        row_bytes = -(-channels // inp.c0) * inp.c0 * inp.itemsize
        slices = k_slice(inp)
        total = -(-(-(-outputs // inp.c0) * taps * inp.c0) // slices) * slices
        for at, span, count in lengths(total, steps.span_b[owner]):
            work.loaded("b", owner[at], times[at] * count, priced(self.copy, row_bytes[at] * span))

    def _out(self, rows: int, count: int, own: int) -> float:
        """Return the least cycles of storing a tile of grad_input, `rows` pixels x `count` channels, of which `own` are not
        padding.
        """
        dtype = "float32" if self.inp.itemsize == 4 else self.call.dtype
        if not self.inp.layout.plain:
            return self.drain(rows, count, dtype)
        item = self.inp.itemsize
        return self.cycles(FixpipeDn(rows, own, ceil_to(rows, FRACTAL), 0, dtype, item, rows * item))

    def _bytes(self, shape: GradInputTiling, base_m: int, base_n: int, resident: int, full_load: int) -> tuple[int, int]:
        """Return (bytes read, bytes written) through the L2 by all blocks together; on a coupled chip the bytes read are a
        lower bound.

        `resident` is 1 if weights stay in L1 during a task, `full_load` 1 if they stay from task to task and count as no load.
        """
        inp, p, coupled, moved = self.inp, self.problem, self.inp.family.coupled, 0
        cut = cut_of(shape)
        images = p.n * sum(self._depth_planes(depth) for depth in range(p.d_in))
        parts = self._parts(cut)
        pieces = [(index, *piece) for index in range(len(parts)) for piece in enumerate(self._pieces(cut, index))]
        for index, number, piece in pieces:
            part = parts[index]
            pixels, taps = part.rows * part.problem.w_in, len(piece.taps)
            sizes, loads = [], 0
            for start in range(0, pixels, shape.single_core_m):
                end = min(start + shape.single_core_m, pixels)
                tiles = [(m, min(base_m, end - m)) for m in range(start, end, base_m)]
                windows = [self._window(cut, index, *tile, number) for tile in tiles if self._pixels(cut, index, *tile)]
                held = [window.size for window in windows if window.rows]
                sizes += held
                loads += min(len(held), 1) if resident else len(held)
            loads = 0 if full_load else loads
            for group in range(inp.real_groups if taps else 0):
                k, n = ceil_div(self._outputs(group), inp.c0) * taps * inp.c0, self._channels_end(group, inp.cin1 * inp.c0)
                columns = sum(
                    ceil_div(min(shape.single_core_cin, n - start), base_n) for start in range(0, n, shape.single_core_cin)
                )
                if inp.layout.plain:
                    n, outputs = min(n, inp.cin_g), self._outputs(group)
                    moved += images * columns * sum(sizes) // BLOCK_BYTES * outputs * inp.itemsize
                    moved += images * loads * n * outputs * taps * inp.itemsize
                elif coupled:  # its L1 may keep either operand: both are loaded at least once
                    moved += images * self._window(cut, index, 0, pixels).size * (k // (taps * inp.c0))
                    moved += (index == 0) * n * ceil_to(k, k_slice(inp)) * inp.itemsize
                else:
                    moved += images * columns * sum(sizes) * (k // (taps * inp.c0))
                    moved += images * loads * n * ceil_to(k, k_slice(inp)) * inp.itemsize
        if inp.layout.plain:
            return moved, p.n * p.c_in * p.d_in * p.h_in * p.w_in * inp.itemsize
        channels = sum(self._channels_end(group, inp.cin1 * inp.c0) for group in range(inp.real_groups))
        return moved, p.n * p.d_in * channels // inp.c0 * p.h_in * p.w_in * BLOCK_BYTES

    def _misses(self, strip: int) -> int:
        """Return the number of distinct bytes of gradOutput that are read, which a cold L2 takes from HBM once; `strip` is a
        strip's columns, 0 for none.
        """
        p, inp = self.problem, self.inp
        planes = {plane for depth in range(p.d_in) for _, plane in contributing_planes(p, depth)}
        held, _, _, size, _ = self._window((SPLIT_NONE, 0, UNCUT), 0, 0, p.h_in * p.w_in)
        if strip:
            # Columns that some strip needs, of those that whole rows have
            read: set[int] = set()
            for part in self._parts((SPLIT_NONE, strip, UNCUT)):
                read.update(range(part.source, part.source + part.problem.w_out) if part.taps else ())
            whole = (read_width(p) - 1) // p.stride_w + 1 - ceil_div(max(-pad_before(p)[1], 0), p.stride_w)
            size = size // max(whole, 1) * len(read)
        if inp.layout.plain:
            return p.n * len(planes) * p.c_out * size // BLOCK_BYTES * inp.itemsize if held else 0
        return p.n * len(planes) * ceil_div(p.c_out, inp.c0) * size if held else 0


def _or_all(size: Ints, total: Ints) -> Ints:
    """Return the array `size`, with the element of `total` in place of each 0."""
    return np.where(size > 0, size, total)
