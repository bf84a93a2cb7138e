"""What grad_weight has to do with a tiling, tile by tile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, SPLIT_STREAM_K, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import gemm
from ascend_sim.ops.kernels.grad_weight.strips import input_rows
from ascend_sim.ops.kernels.grad_weight.taps import walk, walked_input
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.studies.tiles.prices import Moved, Prices, TilingWork, Work, cuts, lengths

_OF_NO_WORK: dict[str, Any] = {
    "al0_buffers": 1, "bl0_buffers": 1, "cl0_buffers": 1, "al1_buffers": 1, "bl1_buffers": 1, "iterate_order": 0,
    "step_m": 1, "step_n": 1, "bl1_bound": 0, "source": "",
}  # fmt: skip
"""Fields on which neither the work of a block nor the bytes depend; many tilings differ in them alone."""


class GradWeightWork(Prices):
    """What a tiling of `call` gives its blocks to do."""

    cached = (*Prices.cached, "_image", "_pixel_spans", "_images", "_kinds", "_block_work", "_bytes")

    def of(self, tiling: GradWeightTiling) -> TilingWork:
        """Its tasks, cycles of a block by pipe, and bytes of all blocks."""
        inp = walked_input(self.inp, tiling)
        m, _, n = gemm(inp, tiling.split_kd)
        rows, images = self._rows(tiling), self._batch(tiling)
        lanes = inp.real_groups * (inp.problem.k_d if tiling.split_kd else 1)
        tasks = lanes * ceil_div(m, tiling.single_core_m) * ceil_div(n, tiling.single_core_n)
        tasks *= ceil_div(inp.problem.h_out, rows) * ceil_div(inp.images, images)

        work = tiling.but(**_OF_NO_WORK)
        return TilingWork(tasks, lambda block: self._block_work(work, block), self._bytes(work, rows, images), 0)

    def _block_work(self, tiling: GradWeightTiling, block: int) -> Work:
        """Of a block with a tiling without the fields `_OF_NO_WORK`."""
        work = Work()
        shape = tiling.but(base_m=FRACTAL, base_k=FRACTAL, base_n=FRACTAL, step_ka=1, step_kb=1)
        for task, times in self._kinds(shape, block).items():
            self._work(work, tiling, task, times)
        return work

    def _image(self, k: int, n: int, stride_w: int) -> float:
        """img2col of the input to L0B in grad_weight."""
        return self.load3d("L0B", stride_w, k, n, False)

    def _rows(self, tiling: GradWeightTiling) -> int:
        p = walked_input(self.inp, tiling).problem
        return min(max(tiling.single_core_k // p.w_out, 1), p.h_out)

    def _batch(self, tiling: GradWeightTiling) -> int:
        return self.inp.images if tiling.template == SPLIT_STREAM_K else tiling.single_core_batch

    def _kinds(self, shape: GradWeightTiling, block: int) -> Counter[GradWeightTask]:
        """How often a block has a task of each kind; which image it begins with matters only by its depth."""
        tasks = grad_weight_tasks(shape, self.inp, block)
        return Counter(replace(task, image_start=task.image_start % self.problem.d_out) for task in tasks)

    def _work(self, work: Work, tiling: GradWeightTiling, task: GradWeightTask, times: int) -> None:
        inp = walked_input(self.inp, tiling)
        whole = tiling.template in (SPLIT_GRID, SPLIT_STREAM_K)
        columns, rows = self._tiles(tiling, task)
        of_pixels = _of_pixels(tiling)
        atomic = tiling.template != SPLIT_STREAM_K and task.slot is None
        parts = times * (1 if whole else task.images)
        many = whole and task.images > 1  # then L1 holds nothing from one tile to the next
        for (plane, n_count, blocks), bands in columns.items():
            kernel_depth, tap = divmod(plane, self.inp.taps) if tiling.split_kernel else (plane, 0)
            images = times * bands * self._images(task.image_start, task.images, kernel_depth)
            steps, spans_a, spans_b = self._pixel_spans(task.row_start, task.rows, tap, of_pixels)
            held = min(blocks * inp.c0, inp.cin_g)
            for channels, count in rows:
                tiles, seen = parts * bands * count, images * count
                work.tiles += tiles
                work.out += tiles * self.drain(ceil_to(channels, FRACTAL), n_count, "float32", atomic)
                for length, times_a in steps:
                    work.steps += seen * times_a
                    work.cube += seen * times_a * self.mmad(channels, length, n_count)
                    left = self.left(ceil_to(channels, inp.c0), length, True)
                    right = self._image(length, n_count, inp.problem.stride_w)
                    work.mte1 += seen * times_a * (left + right)
                if many or spans_a.total() > 1:
                    work.mte2 += seen * self._copies(spans_a, channels)
                if many or spans_b.total() > 1:
                    work.mte2 += seen * self._copies(spans_b, held)

    def _copies(self, spans: Counter[int], channels: int) -> float:
        """Cycles to load pixels that take so many bytes for each channel block, each so often."""
        return sum(count * self.copy(self._loaded(size, channels)) for size, count in spans.items())

    def _loaded(self, size: int, channels: int) -> int:
        """Bytes in GM of pixels that take `size` for each channel block."""
        if self.inp.layout.plain:
            return size // BLOCK_BYTES * channels * self.inp.itemsize
        return size * ceil_div(channels, self.inp.c0)

    def _blocks(self, inp: TilingInput, first: int, count: int) -> int:
        """C0 blocks of input behind columns `first` .. of a plane."""
        per_block = inp.taps * inp.c0
        return (first + count - 1) // per_block - first // per_block + 1

    def _tiles(
        self, tiling: GradWeightTiling, task: GradWeightTask
    ) -> tuple[Counter[tuple[int, int, int]], list[tuple[int, int]]]:
        """How often a task has a tile of (plane, columns, C0 blocks of input) along N; channels of its tiles along M, and how
        often.
        """
        inp, p = walked_input(self.inp, tiling), self.problem
        per_plane = inp.cin1 * inp.taps * inp.c0
        blocks = ceil_div(self.call.group_channels(task.group, p.c_in, inp.cin_g), inp.c0)
        present = blocks * inp.taps * inp.c0
        columns: Counter[tuple[int, int, int]] = Counter()
        n, end = task.n_start, task.n_start + task.n_count
        while n < end:
            plane, column = divmod(n, per_plane)
            count = min(tiling.base_n, end - n, present - column)
            if count > 0:
                columns[plane if task.plane is None else task.plane, count, self._blocks(inp, column, count)] += 1
            n += count if count > 0 else min(end - n, per_plane - column)
        stop = min(task.m_start + task.m_count, self.call.group_channels(task.group, p.c_out, inp.cout_g))
        return columns, lengths(max(stop - task.m_start, 0), tiling.base_m)

    def _images(self, start: int, count: int, plane: int) -> int:
        """Images of a task that a kernel plane sees."""
        p = self.problem
        depths = (
            image % p.d_out * p.stride_d - p.pad_front + plane * p.dilation_d for image in range(start, start + count)
        )
        return sum(0 <= depth < p.d_in for depth in depths)

    def _pixel_spans(
        self, row: int, rows: int, tap: int, tiling: GradWeightTiling
    ) -> tuple[list[tuple[int, int]], Counter[int], Counter[int]]:
        """Of one image: (pixels, times) of its steps; how often an A load and a B load has so many bytes per channel block.

        `tap` matters where taps are split. Of the tiling only base_k, the steps of K and the cuts count.
        """
        base_k = tiling.base_k
        steps: Counter[int] = Counter()
        spans_a: Counter[int] = Counter()
        spans_b: Counter[int] = Counter()
        for strip, start, count in walk(self.problem, tiling, tap, row, rows):
            p, held = strip.problem, None
            first, last = start * p.w_out, (start + count) * p.w_out
            seen = 0
            for pixel in range(first, last, base_k):
                if p.w_in and input_rows(p, pixel, min(pixel + base_k, last)).rows > 0:
                    steps[min(base_k, last - pixel)] += 1
                    seen += base_k
            if seen < last - first:  # some loads are left out: count none
                continue
            span_a, span_b = tiling.step_ka * base_k, tiling.step_kb * base_k
            spans_a.update(min(span_a, last - begin) * BLOCK_BYTES for begin in range(first, last, span_a))
            if tiling.split_kernel:
                spans_b.update(min(span_b, last - begin) * BLOCK_BYTES for begin in range(first, last, span_b))
                continue
            for begin in range(first, last, span_b):
                window = input_rows(p, begin, min(begin + span_b, last))
                if not tiling.split_wo or window != held:  # rows of a strip stay while its pixels need them
                    spans_b[window.rows * p.w_in * BLOCK_BYTES] += 1
                held = window
        return list(steps.items()), spans_a, spans_b

    def _bytes(self, tiling: GradWeightTiling, rows: int, images: int) -> Moved:
        """Reads where L1 holds nothing between tiles, and writes: dW for each part of the sum."""
        inp, p, moved = self.inp, self.problem, Moved()
        parts, height = 1, walked_input(inp, tiling).problem.h_out
        if tiling.template != SPLIT_STREAM_K:
            parts = ceil_div(height, rows) * (
                ceil_div(inp.images, images) if tiling.template == SPLIT_GRID else inp.images
            )
        moved.written += parts * p.c_out * (p.c_in // p.groups) * inp.taps * p.k_d * 4
        if tiling.split_kernel:  # what a tap reads is not counted
            return moved
        if tiling.template not in (SPLIT_GRID, SPLIT_STREAM_K) or images == 1 or inp.real_groups > 1 or p.k_d > 1:
            return moved
        m, _, n = gemm(inp, tiling.split_kd)
        m, n = min(m, p.c_out), min(n, ceil_div(p.c_in, inp.c0) * inp.taps * inp.c0)
        size_a = size_b = 0
        for start in range(0, height, rows):
            _, spans_a, spans_b = self._pixel_spans(start, min(rows, height - start), 0, _of_pixels(tiling))
            size_a += sum(size * count for size, count in spans_a.items())
            size_b += sum(size * count for size, count in spans_b.items())
        rows_m = [cut for task in cuts(m, tiling.single_core_m) for cut in cuts(task, tiling.base_m)]
        tiles_n = 0
        blocks_n = 0
        for begin in range(0, n, tiling.single_core_n):
            end = min(begin + tiling.single_core_n, n)
            for column in range(begin, end, tiling.base_n):
                tiles_n += 1
                blocks_n += self._blocks(inp, column, min(tiling.base_n, end - column))
        tail = inp.images % images == 1  # a last task of one image may find its tile's rows in L1
        seen = inp.images - tail
        moved.read += seen * size_a * tiles_n * sum(ceil_div(count, inp.c0) for count in rows_m)
        moved.read += seen * size_b * blocks_n * len(rows_m)
        return moved


def _of_pixels(tiling: GradWeightTiling) -> GradWeightTiling:
    """A tiling as far as the steps and loads along the pixels depend on it."""
    return GradWeightTiling(
        FRACTAL,
        tiling.base_k,
        FRACTAL,
        step_ka=tiling.step_ka,
        step_kb=tiling.step_kb,
        split_wo=tiling.split_wo,
        split_kernel=tiling.split_kernel,
    )
