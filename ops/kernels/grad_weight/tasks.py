"""Work list of grad_weight: the tasks of dW and the core that has each.

Orders follow the ops-nn arch22 kernels (stated for templates 1, 3, 4; template 2 mirrors template 1: inferred; template
0: ours).
"""

from __future__ import annotations

import math

from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.tasks import axes_of, chunk, core_share
from ascend_sim.ops.kernels.grad_weight.fields import (
    SPLIT_MN,
    SPLIT_STREAM_K,
    STREAM_IMAGES,
    STREAM_NONE,
    GradWeightTiling,
    gemm,
)
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput


@frozen
class GradWeightTask:
    """Task: `m_count` rows from `m_start` and `n_count` columns from `n_start` of dW, summed over `images` images from
    `image_start` and `rows` rows of gradOutput from `row_start` on.

    With strips the rows are those of all strips, which stand below each other (`grad_weight.parts`). An image is (batch, output
    depth) = divmod(image, D_out). `plane` is the kernel depth, None where N holds all planes (plane-major). `slot` is the
    number of a StreamK part of a task that several cores share, None for a task that one core has.
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

    @property
    def part(self) -> tuple[int | None, ...]:
        """Return the task without its images: (group, plane, rows and columns of dW, rows of gradOutput), as a cache key."""
        corner = (self.group, self.plane, self.m_start, self.m_count, self.n_start, self.n_count)
        return (*corner, self.row_start, self.rows)


def grad_weight_tasks(tiling: GradWeightTiling, inp: TilingInput, core: int) -> list[GradWeightTask]:
    """Return the tasks of `core`, which is below `block_dim`, in order; a StreamK part comes last. Returns [] for a core for
    which no task is left.
    """
    axes = _Axes(tiling, inp)
    if tiling.stream_k_type == STREAM_NONE:
        return [axes.task(i) for i in core_share(axes.total, tiling.block_dim, core)]
    rounds, tail = divmod(axes.total, tiling.block_dim)
    tasks = [axes.task(i) for i in range(core * rounds, (core + 1) * rounds)]
    owner, slot = divmod(core, tiling.core_stream_k)
    if owner < tail:
        tasks += axes.part(rounds * tiling.block_dim + owner, slot)
    return tasks


class _Axes:
    """Number of parts of each axis into which a tiling cuts dW and its sums; finds the task with a given number."""

    def __init__(self, tiling: GradWeightTiling, inp: TilingInput) -> None:
        inp = walked_input(inp, tiling)
        self.tiling, self.inp = tiling, inp
        self.m, _, self.n = gemm(inp, tiling.split_kd)
        self.height = inp.problem.h_out
        self.rows = min(max(tiling.single_core_k // inp.problem.w_out, 1), self.height)
        self.batch = inp.images if tiling.template == SPLIT_STREAM_K else tiling.single_core_batch
        self.sizes = {
            "plane": inp.problem.k_d if tiling.split_kd else 1,
            "group": inp.real_groups,
            "row": ceil_div(self.height, self.rows),
            "image": ceil_div(inp.images, self.batch),
            "m": ceil_div(self.m, tiling.single_core_m),
            "n": ceil_div(self.n, tiling.single_core_n),
        }
        self.total = math.prod(self.sizes.values())

    def task(self, number: int) -> GradWeightTask:
        """Return task `number`. Numbers count through planes slowest, then groups, then the axes in the template's order."""
        if self.tiling.template in (SPLIT_MN, SPLIT_STREAM_K):  # rows are not split
            order = ("plane", "group", "row", "m", "image", "n")
        else:  # of M and N one is not split unless the template is the grid
            order = ("plane", "group", "row", "image", "m", "n")
        at = axes_of(number, self.sizes, order)
        return GradWeightTask(
            at["group"],
            at["plane"] if self.tiling.split_kd else None,
            *chunk(at["m"], self.tiling.single_core_m, self.m),
            *chunk(at["n"], self.tiling.single_core_n, self.n),
            *chunk(at["image"], self.batch, self.inp.images),
            *chunk(at["row"], self.rows, self.height),
        )

    def part(self, number: int, slot: int) -> list[GradWeightTask]:
        """Return [part `slot` of the shared task `number`]; [] where parts, rounded up, left nothing for this slot."""
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
