"""Which part of the gradient each task computes, and which core takes it: the kernels' work list.

Orders and the contiguous deal follow ops-nn arch22 kernels (stated for templates 1, 3, 4 and grad_input; template 2
mirrors template 1: inferred; group order of grad_input and template 0: ours).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ascend_sim.ops.tiling.fields import (
    SPLIT_GRID,
    SPLIT_MN,
    SPLIT_STREAM_K,
    STREAM_IMAGES,
    STREAM_NONE,
    GradInputTiling,
    GradWeightTiling,
    TilingInput,
    ceil_div,
)
from ascend_sim.ops.tiling.grad_weight import gemm
from ascend_sim.ops.tiling.grad_weight_taps import cut_input
from ascend_sim.ops.tiling.parts import task_parts, tiling_input


def core_share(total: int, cores: int, core: int) -> range:
    """Task numbers of one core: a contiguous run, one longer on the first `total % cores` cores."""
    each, more = divmod(total, cores)
    start = core * each + min(core, more)
    return range(start, start + each + (core < more))


def chunk(index: int, size: int, total: int) -> tuple[int, int]:
    """(start, count) of a chunk; the last one may be shorter."""
    return index * size, min(size, total - index * size)


@dataclass(frozen=True)
class GradInputTask:
    """dx pixels `m_start ..` (row-major) x channels `n_start ..` of one real group, image and input depth.

    Where dx is cut into strips or the kernel is split, the pixels are those of a part: of `part`, or (a split of both axes) of
    each part in turn.
    """

    group: int
    batch: int
    depth: int
    m_start: int
    m_count: int
    n_start: int
    n_count: int
    part: int = 0


def grad_input_tasks(tiling: GradInputTiling, inp: TilingInput, core: int) -> list[GradInputTask]:
    """Tasks of one core: real group slowest, then strips, pixels, (batch, depth), channels fastest. Channels are C0-padded.

    With `single_core_batch` a core gets one part of the pixels and channels of that many images: pixels fastest (assumed).
    """
    if inp.direct:
        return _direct_tasks(tiling, inp, core)
    problem = tiling_input(tiling, inp).problem
    pixels, channels = problem.h_in * problem.w_in, inp.cin1 * inp.c0
    strip_parts, n_parts = ceil_div(pixels, tiling.single_core_m), ceil_div(channels, tiling.single_core_cin)
    m_parts = task_parts(tiling, inp) * strip_parts
    outer = problem.n * problem.d_in
    tasks = []
    if tiling.single_core_batch:
        image_parts = ceil_div(outer, tiling.single_core_batch)
        for number in core_share(inp.real_groups * image_parts * n_parts * m_parts, tiling.block_dim, core):
            rest, m_index = divmod(number, m_parts)
            rest, n_index = divmod(rest, n_parts)
            group, image_index = divmod(rest, image_parts)
            part, m_index = divmod(m_index, strip_parts)
            m, n = chunk(m_index, tiling.single_core_m, pixels), chunk(n_index, tiling.single_core_cin, channels)
            first, count = chunk(image_index, tiling.single_core_batch, outer)
            tasks += [
                GradInputTask(group, *divmod(image, problem.d_in), *m, *n, part)
                for image in range(first, first + count)
            ]
        return tasks
    for number in core_share(inp.real_groups * m_parts * outer * n_parts, tiling.block_dim, core):
        rest, n_index = divmod(number, n_parts)
        rest, image = divmod(rest, outer)
        group, m_index = divmod(rest, m_parts)
        part, m_index = divmod(m_index, strip_parts)
        m, n = chunk(m_index, tiling.single_core_m, pixels), chunk(n_index, tiling.single_core_cin, channels)
        tasks.append(GradInputTask(group, *divmod(image, problem.d_in), *m, *n, part))
    return tasks


def _direct_tasks(tiling: GradInputTiling, inp: TilingInput, core: int) -> list[GradInputTask]:
    """Tasks of the kernel that reads NCDHW, those of several depths one by one.

    Order (ops-nn arch35: stated; where images and parts come: ours): several kernel planes: pixels, depth,
    channels fastest; else depth, pixels, channels, for a kernel of one tap the longer side before the shorter one.
    """
    part = tiling_input(tiling, inp).problem
    pixels, channels = part.h_in * part.w_in, inp.cin1 * inp.c0
    sizes = {
        "group": inp.real_groups,
        "image": part.n * ceil_div(part.d_in, tiling.single_core_din),
        "part": task_parts(tiling, inp),
        "m": ceil_div(pixels, tiling.single_core_m),
        "n": ceil_div(channels, tiling.single_core_cin),
    }
    order = ["group", "image", "part", "m", "n"]
    if part.k_d > 1:
        order = ["group", "m", "image", "part", "n"]
    elif inp.taps == 1 and channels > pixels:
        order = ["group", "image", "part", "n", "m"]
    tasks = []
    for number in core_share(math.prod(sizes.values()), tiling.block_dim, core):
        at = {}
        for axis in reversed(order):
            number, at[axis] = divmod(number, sizes[axis])
        batch, piece = divmod(at["image"], sizes["image"] // part.n)
        m, n = chunk(at["m"], tiling.single_core_m, pixels), chunk(at["n"], tiling.single_core_cin, channels)
        first, depths = chunk(piece, tiling.single_core_din, part.d_in)
        tasks += [
            GradInputTask(at["group"], batch, depth, *m, *n, at["part"]) for depth in range(first, first + depths)
        ]
    return tasks


@dataclass(frozen=True)
class GradWeightTask:
    """Rows `m_start ..` and columns `n_start ..` of dW, from images `image_start ..`, rows `row_start ..`.

    Rows are those of gradOutput; with strips those of all strips, which stand below each other (`grad_weight_strips`).
    An image is (batch, output depth) = divmod(image, D_out). `plane` is the kernel depth, None where N holds all planes
    (plane-major). `slot` is the part of a StreamK tail task whose sum other cores add to, None for a task of its own.
    """

    group: int
    plane: int | None
    m_start: int
    m_count: int
    n_start: int
    n_count: int
    image_start: int
    images: int
    row_start: int
    rows: int
    slot: int | None = None


def grad_weight_tasks(tiling: GradWeightTiling, inp: TilingInput, core: int) -> list[GradWeightTask]:
    """Tasks of one core, in order; a StreamK part comes last. A core beyond the work has none."""
    total = _Axes(tiling, inp).total
    if tiling.stream_k_type == STREAM_NONE:
        return [_Axes(tiling, inp).task(i) for i in core_share(total, tiling.block_dim, core)]
    rounds, tail = divmod(total, tiling.block_dim)
    axes = _Axes(tiling, inp)
    tasks = [axes.task(i) for i in range(core * rounds, (core + 1) * rounds)]
    owner, slot = divmod(core, tiling.core_stream_k)
    if owner < tail:
        tasks += axes.part(rounds * tiling.block_dim + owner, slot)
    return tasks


class _Axes:
    """The task axes of a grad_weight tiling, and the decoding of a task number."""

    def __init__(self, tiling: GradWeightTiling, inp: TilingInput) -> None:
        inp = cut_input(inp, tiling)
        self.tiling, self.inp = tiling, inp
        self.m, _, self.n = gemm(inp, tiling.split_kd)
        self.height = inp.problem.h_out
        self.rows = min(max(tiling.single_core_k // inp.problem.w_out, 1), self.height)
        self.batch = inp.images if tiling.template == SPLIT_STREAM_K else tiling.single_core_batch
        self.m_parts, self.n_parts = ceil_div(self.m, tiling.single_core_m), ceil_div(self.n, tiling.single_core_n)
        self.row_parts, self.image_parts = ceil_div(self.height, self.rows), ceil_div(inp.images, self.batch)
        self.planes = inp.problem.k_d if tiling.split_kd else 1
        self.groups = inp.real_groups
        sizes = (self.m_parts, self.n_parts, self.row_parts, self.image_parts, self.planes, self.groups)
        self.total = 1
        for size in sizes:
            self.total *= size

    def task(self, number: int) -> GradWeightTask:
        """Plane slowest, group, then the order of the template, whose last axis is fastest."""
        lane, number = divmod(number, self.total // (self.planes * self.groups))
        plane, group = divmod(lane, self.groups)
        template = self.tiling.template
        if template in (SPLIT_MN, SPLIT_STREAM_K):  # rows are not split: M slowest, images, N fastest
            number, n_index = divmod(number, self.n_parts)
            number, image_index = divmod(number, self.image_parts)
            row_index, m_index = divmod(number, self.m_parts)
        else:  # rows slowest, images, then M and N, of which one is not split unless the template is the grid
            number, n_index = divmod(number, self.n_parts)
            number, m_index = divmod(number, self.m_parts)
            row_index, image_index = divmod(number, self.image_parts)
        return GradWeightTask(
            group,
            plane if self.tiling.split_kd else None,
            *chunk(m_index, self.tiling.single_core_m, self.m),
            *chunk(n_index, self.tiling.single_core_n, self.n),
            *chunk(image_index, self.batch, self.inp.images),
            *chunk(row_index, self.rows, self.height),
        )

    def part(self, number: int, slot: int) -> list[GradWeightTask]:
        """Part `slot` of a tail task; empty where the rounding up of parts left nothing."""
        task = self.task(number)
        by_images = self.tiling.stream_k_type == STREAM_IMAGES
        total = self.inp.images if by_images else self.height
        start, count = chunk(slot, ceil_div(total, self.tiling.core_stream_k), total)
        if count <= 0:
            return []
        images = (start, count) if by_images else (task.image_start, task.images)
        rows = (task.row_start, task.rows) if by_images else (start, count)
        corner = (task.group, task.plane, task.m_start, task.m_count, task.n_start, task.n_count)
        return [GradWeightTask(*corner, *images, *rows, slot)]


def adds_once_per_task(tiling: GradWeightTiling) -> bool:
    """Whether a task keeps a tile of dW in L0C over all its images (template 0), not adding it after each image."""
    return tiling.template == SPLIT_GRID
