"""Work of grad_weight for tilings: the tiles of a block one by one, their steps of K for all tilings at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, SPLIT_STREAM_K, GradWeightTiling, gemm
from ascend_sim.ops.kernels.grad_weight.parts import stacked, walk, walked_input
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import input_rows
from ascend_sim.studies.tiles.prices import Ints, LeastCycles, Prices, Ragged, TilingWork, cuts, numbered, priced

_TASKS = (
    "single_core_m", "single_core_n", "single_core_k", "single_core_batch", "template", "core_bind_order", "stream_k_type",
    "core_stream_k", "split_kd", "split_wo", "split_kernel", "block_dim",
)  # fmt: skip
_SHAPE = attrgetter(*_TASKS)
"""Fields that say which part of dW a task is and whose it is."""
_STEPS = attrgetter("base_m", "base_k", "base_n", "step_ka", "step_kb")
"""The others on which the work depends; many tilings differ in neither."""


class _Pixels(NamedTuple):
    """Steps and loads over the pixels of one image.

    `steps`: (pixels of a step, number of such steps, how many of these have an even index among all steps, from 0); `spans_a`
    and `spans_b`, loads of A and B into L1: (bytes per channel block, number of loads).
    """

    steps: tuple[tuple[int, int, int], ...]
    spans_a: tuple[tuple[int, int], ...]
    spans_b: tuple[tuple[int, int], ...]


class GradWeightWork(Prices):
    """Computation of the least work of grad_weight's blocks in `call`, for many tilings at once."""

    cached = (
        *Prices.cached, "_image", "_pixel_spans", "_images", "_kinds", "_tiles", "_columns", "_loads_of_map", "_written",
        "_columns_of_tasks", "_rows_of_tasks", "_shape", "_task_count",
    )  # fmt: skip

    def __init__(self, call: CubeCall) -> None:
        super().__init__(call)
        self._places: dict[tuple[int, int, int], int] = {}
        """(first row, rows, tap) of pixels that were asked for, by number."""

    def of(self, tilings: Sequence[GradWeightTiling]) -> TilingWork:
        """Return the `TilingWork` of `tilings`: numbers of tasks, a function for the least cycles of chosen blocks, and the
        bytes of all blocks. `missed` is 0.
        """
        keys, place = numbered((_SHAPE(tiling), _STEPS(tiling)) for tiling in tilings)
        shapes, of_shape = numbered(shape for shape, _ in keys)
        fields = [self._shape(*shape) for shape in shapes]
        entries = [(fields[shape], *own) for shape, (_, own) in zip(of_shape.tolist(), keys, strict=True)]
        walks, of_walk = numbered(
            (base_k, step_ka, step_kb, shape.split_wo, shape.split_kernel) for shape, _, base_k, _, step_ka, step_kb in entries
        )

        def of_blocks(blocks: Ints) -> LeastCycles:
            kinds, of_kind = numbered(
                (shape, base_m, base_n, block)
                for (shape, base_m, _, base_n, _, _), block in zip(entries, blocks.tolist(), strict=True)
            )
            return self._work(Ragged([self._tiles(*kind) for kind in kinds], 9).of(of_kind), walks, of_walk)

        tasks = np.array([self._task_count(shape) for shape in fields])[of_shape]
        written = np.array([self._written(shape) for shape in fields], np.int64)[of_shape]
        read = np.array([self._read(*entry) for entry in entries], np.int64)
        return TilingWork(place, tasks, of_blocks, read, written, np.zeros(len(keys), np.int64))

    def _shape(self, *fields: int) -> GradWeightTiling:
        """Return a tiling with these values of the fields of `_TASKS`, which decide how the work is divided into tasks; its
        base blocks and steps are placeholders.
        """
        return GradWeightTiling(FRACTAL, FRACTAL, FRACTAL, **dict(zip(_TASKS, fields, strict=True)))  # type: ignore[arg-type]

    def _task_count(self, shape: GradWeightTiling) -> int:
        inp = walked_input(self.inp, shape)
        m, _, n = gemm(inp, shape.split_kd)
        lanes = inp.real_groups * (inp.problem.k_d if shape.split_kd else 1)
        tasks = lanes * ceil_div(m, shape.single_core_m) * ceil_div(n, shape.single_core_n)
        return tasks * ceil_div(inp.problem.h_out, self._rows(shape)) * ceil_div(inp.images, self._batch(shape))

    def _work(self, rows: tuple[Ints, Ints], walks: Sequence[tuple[int, ...]], of_walk: Ints) -> LeastCycles:
        """Return the least cycles of one block of each tiling, as arrays.

        `rows` is (index of the tiling of each row, columns of `_tiles`). Tiling i cuts its pixels by `walks[of_walk[i]]`: the
        arguments `base_k` to `taps` of `_pixel_spans`.
        """
        owner, (channels, columns, held, stride, atomic, many, pixels, tiles, seen) = rows
        work = LeastCycles.none(len(of_walk))
        work.add("tiles", owner, tiles)
        work.add("out", owner, tiles * priced(self._drain, channels, columns, atomic))

        places = list(self._places)
        # The part of an image that a tile reads depends on its rows of pixels and on the steps of its tiling along them.
        pairs, number = numbered(zip(pixels.tolist(), of_walk[owner].tolist(), strict=True))
        found = [self._pixel_spans(*places[which], *walks[walk]) for which, walk in pairs]
        of, (length, times, even) = Ragged([one.steps for one in found], 3).of(number)
        times, even = times * seen[of], even * seen[of]
        m, n = channels[of], columns[of]
        products = priced(self.mmad, m, length, n)
        loads = priced(self._left, m, length) + priced(self._image, length, n, stride[of])
        work.add("steps", owner[of], times)
        work.add("cube", owner[of], times * products)
        work.add("mte1", owner[of], times * loads)
        # Steps take the halves of L0 in turn: where all tiles have an even number of them, those at even places take the first.
        # A tile without any, all of it in padding, is zeros times zeros: one step.
        evenly = np.array([bool(one.steps) and sum(step[1] for step in one.steps) % 2 == 0 for one in found])[number]
        known = np.full(len(of_walk), self.problem.plane_products == self.problem.d_out * self.problem.k_d)
        known[owner[~evenly]] = False
        even = np.where(known[owner[of]], even, times / 2)
        work.add("first", owner[of], even * (products + loads))
        work.add("firsts", owner[of], even)
        spans_of = {"a": ([one.spans_a for one in found], channels), "b": ([one.spans_b for one in found], held)}
        for operand, (spans, width) in spans_of.items():
            of, (size, times) = Ragged(spans, 2).of(number)
            loads_of_image = np.array([sum(count for _, count in one) for one in spans], np.int64)[number]
            again = (many[of] == 1) | (loads_of_image[of] > 1)  # else L1 may hold it from one tile to the next
            times = times * seen[of] * again
            work.loaded(operand, owner[of], times, priced(self.copy, self._loaded(size, width[of])))
        return work

    def _drain(self, channels: int, columns: int, atomic: int) -> float:
        return self.drain(ceil_to(channels, FRACTAL), columns, "float32", bool(atomic))

    def _left(self, channels: int, pixels: int) -> float:
        return self.left(ceil_to(channels, self.inp.c0), pixels, True)

    def _image(self, k: int, n: int, stride_w: int) -> float:
        """Return the least cycles of loading `k` pixels x `n` columns of the input by img2col from L1 into L0B."""
        return self.load3d("L0B", stride_w, k, n, False)

    def _rows(self, tiling: GradWeightTiling) -> int:
        p = walked_input(self.inp, tiling).problem
        return min(max(tiling.single_core_k // p.w_out, 1), p.h_out)

    def _batch(self, tiling: GradWeightTiling) -> int:
        return self.inp.images if tiling.template == SPLIT_STREAM_K else tiling.single_core_batch

    def _kinds(self, shape: GradWeightTiling, block: int) -> Counter[GradWeightTask]:
        """Return a Counter {task: number of the block's tasks like it}; tasks are alike if they differ only in images of the
        same depth.
        """
        tasks = grad_weight_tasks(shape, self.inp, block)
        return Counter(replace(task, image_start=task.image_start % self.problem.d_out) for task in tasks)

    def _tiles(self, shape: GradWeightTiling, base_m: int, base_n: int, block: int) -> tuple[tuple[int, ...], ...]:
        """Return the distinct tiles of a block as rows of nine numbers.

        Channels of M, columns of N, input channels loaded for them, stride along the width, 1 if sums are added in GM, 1 if L1
        keeps nothing from tile to tile, index in `_places` of its rows of pixels; then how many such tiles there are, and how
        many images they sum over in all.
        """
        found: dict[tuple[int, ...], list[int]] = {}
        inp = walked_input(self.inp, shape)
        whole = shape.template in (SPLIT_GRID, SPLIT_STREAM_K)
        for task, times in self._kinds(shape, block).items():
            columns, rows = self._columns(shape, task, base_m, base_n)
            atomic = shape.template != SPLIT_STREAM_K and task.slot is None
            parts = times * (1 if whole else task.images)
            many = whole and task.images > 1
            for (plane, n_count, blocks), bands in columns:
                kernel_depth, tap = divmod(plane, self.inp.taps) if shape.split_kernel else (plane, 0)
                images = times * bands * self._images(task.image_start, task.images, kernel_depth)
                pixels = self._places.setdefault((task.row_start, task.rows, tap), len(self._places))
                held = min(blocks * inp.n0, inp.cin_g)
                for channels, count in rows:
                    key = (channels, n_count, held, inp.problem.stride_w, int(atomic), int(many), pixels)
                    sums = found.setdefault(key, [0, 0])
                    sums[0] += parts * bands * count
                    sums[1] += images * count
        return tuple((*key, *sums) for key, sums in found.items())

    def _loaded(self, size: Ints, channels: Ints) -> Ints:
        """Return the bytes loaded from GM for `channels` channels of pixels that take `size` bytes in each channel block."""
        if self.inp.layout.plain:
            return size // BLOCK_BYTES * channels * self.inp.itemsize
        return size * -(-channels // self.inp.c0)

    def _blocks(self, inp: TilingInput, first: int, count: int) -> int:
        """Return the number of blocks of input channels that `count` columns of a kernel plane, from `first` on, need."""
        per_block = inp.taps * inp.n0
        return (first + count - 1) // per_block - first // per_block + 1

    def _columns(
        self, shape: GradWeightTiling, task: GradWeightTask, base_m: int, base_n: int
    ) -> tuple[list[tuple[tuple[int, int, int], int]], list[tuple[int, int]]]:
        """Return two lists of a task's distinct tiles, each with how often it occurs.

        Along N they are (kernel plane, columns, blocks of input channels), along M their numbers of channels.
        """
        inp, p = walked_input(self.inp, shape), self.problem
        per_plane = inp.n1 * inp.taps * inp.n0
        blocks = ceil_div(self.call.group_channels(task.group, p.c_in, inp.cin_g), inp.n0)
        present = blocks * inp.taps * inp.n0
        columns: Counter[tuple[int, int, int]] = Counter()
        n, end = task.n_start, task.n_start + task.n_count
        while n < end:
            plane, column = divmod(n, per_plane)
            count = min(base_n, end - n, present - column)
            if count > 0:
                columns[plane if task.plane is None else task.plane, count, self._blocks(inp, column, count)] += 1
            n += count if count > 0 else min(end - n, per_plane - column)
        stop = min(task.m_start + task.m_count, self.call.group_channels(task.group, p.c_out, inp.cout_g))
        rows = Counter(cuts(max(stop - task.m_start, 0), base_m))
        return list(columns.items()), list(rows.items())

    def _images(self, start: int, count: int, plane: int) -> int:
        """Return the number of a task's images, `count` from `start` on, in which a kernel plane meets the input and not its
        padding in depth.
        """
        p = self.problem
        depths = (image % p.d_out * p.stride_d - p.pad_front + plane * p.dilation_d for image in range(start, start + count))
        return sum(0 <= depth < p.d_in for depth in depths)

    def _pixel_spans(
        self, row: int, rows: int, tap: int, base_k: int, step_ka: int, step_kb: int, strips: int, taps: int
    ) -> _Pixels:
        """Return the steps and loads over the pixels of `rows` rows of gradOutput in one image, from `row` on.

        `taps` above 0: taps are split, and this is tap `tap`. `strips` are the columns of a strip, 0 for whole rows. A step
        that meets padding alone is left out; if one is, no load of its strip (of all rows if `strips` is 0) is counted. Loads
        are in bytes per channel block.
        """
        steps: Counter[int] = Counter()
        even: Counter[int] = Counter()
        place = 0
        spans_a: Counter[int] = Counter()
        spans_b: Counter[int] = Counter()
        cut = GradWeightTiling(FRACTAL, FRACTAL, FRACTAL, split_wo=strips, split_kernel=taps)
        for strip, start, count in walk(self.problem, cut, tap, row, rows):
            p, held = strip.problem, None
            first, last = start * p.w_out, (start + count) * p.w_out
            seen = 0
            for pixel in range(first, last, base_k):
                if p.w_in and input_rows(p, pixel, min(pixel + base_k, last)).rows > 0:
                    steps[min(base_k, last - pixel)] += 1
                    even[min(base_k, last - pixel)] += place % 2 == 0
                    place += 1
                    seen += base_k
            if seen < last - first:  # some loads are left out: count none
                continue
            span_a, span_b = step_ka * base_k, step_kb * base_k
            spans_a.update(min(span_a, last - begin) * BLOCK_BYTES for begin in range(first, last, span_a))
            if taps:
                spans_b.update(min(span_b, last - begin) * BLOCK_BYTES for begin in range(first, last, span_b))
                continue
            for begin in range(first, last, span_b):
                window = input_rows(p, begin, min(begin + span_b, last))
                if not strips or window != held:  # rows of a strip stay while its pixels need them
                    spans_b[window.rows * p.w_in * BLOCK_BYTES] += 1
                held = window
        of_steps = tuple((pixels, times, even[pixels]) for pixels, times in steps.items())
        return _Pixels(of_steps, tuple(spans_a.items()), tuple(spans_b.items()))

    def _written(self, shape: GradWeightTiling) -> int:
        """Return the bytes of dW that all parts of the sum write together, in fp32."""
        inp, p = self.inp, self.problem
        parts = 1
        if shape.template != SPLIT_STREAM_K:
            parts = ceil_div(walked_input(inp, shape).problem.h_out, self._rows(shape))
            parts *= ceil_div(inp.images, self._batch(shape)) if shape.template == SPLIT_GRID else inp.images
        return parts * p.c_out * (p.c_in // p.groups) * inp.taps * p.k_d * 4

    def _read(self, shape: GradWeightTiling, base_m: int, base_k: int, base_n: int, step_ka: int, step_kb: int) -> int:
        """Return the least bytes that all blocks read; 0 where taps are split, L1 may keep operands from tile to tile, tasks
        have one image, or there are several real groups or kernel planes.
        """
        inp, images = self.inp, self._batch(shape)
        if shape.split_kernel or shape.template not in (SPLIT_GRID, SPLIT_STREAM_K):
            return 0
        if images == 1 or inp.real_groups > 1 or self.problem.k_d > 1:
            return 0
        size_a, size_b = self._loads_of_map(self._rows(shape), shape.split_wo, base_k, step_ka, step_kb)
        blocks_m, tiles_m = self._rows_of_tasks(shape.single_core_m, base_m, shape.split_kd)
        blocks_n, tiles_n = self._columns_of_tasks(shape.single_core_n, base_n, shape.split_kd)
        tail = inp.images % images == 1  # a last task of one image may find its tile's rows in L1
        return (inp.images - tail) * (size_a * tiles_n * blocks_m + size_b * blocks_n * tiles_m)

    def _loads_of_map(self, rows: int, strips: int, base_k: int, step_ka: int, step_kb: int) -> tuple[int, int]:
        """Return (bytes of A, bytes of B) that all loads of one image take per channel block, when a task has `rows` rows of
        pixels.

        `strips` are the columns of a strip, 0 for whole rows.
        """
        height = stacked(self.inp, strips).problem.h_out
        sizes = [0, 0]
        for start in range(0, height, rows):
            _, *spans = self._pixel_spans(start, min(rows, height - start), 0, base_k, step_ka, step_kb, strips, 0)
            for i, one in enumerate(spans):
                sizes[i] += sum(size * count for size, count in one)
        return sizes[0], sizes[1]

    def _rows_of_tasks(self, single_m: int, base_m: int, planes: bool) -> tuple[int, int]:
        """Return (C0 blocks of output channels, summed over all tiles along M; number of these tiles).

        A task has `single_m` rows of M, a tile `base_m` of them; `planes`: True if each kernel plane (kd) is a matrix product
        of its own.
        """
        m = min(gemm(self.inp, planes)[0], self.problem.c_out)
        rows = [cut for task in cuts(m, single_m) for cut in cuts(task, base_m)]
        return sum(ceil_div(count, self.inp.c0) for count in rows), len(rows)

    def _columns_of_tasks(self, single_n: int, base_n: int, planes: bool) -> tuple[int, int]:
        """Return (C0 blocks of input channels that the tiles along N need, summed over all of them; number of these tiles).

        A task has `single_n` columns of N, a tile `base_n` of them; `planes`: True if each kernel plane (kd) is a matrix
        product of its own.
        """
        inp = self.inp
        n = min(gemm(self.inp, planes)[2], ceil_div(self.problem.c_in, inp.n0) * inp.taps * inp.n0)
        blocks, tiles = 0, 0
        for begin in range(0, n, single_n):
            end = min(begin + single_n, n)
            for column in range(begin, end, base_n):
                tiles += 1
                channels = self._blocks(inp, column, min(base_n, end - column)) * inp.n0
                blocks += ceil_div(min(channels, inp.cin_g), inp.c0)
        return blocks, tiles
