"""The work list of grad_input: the part of dx of each task, and its core.

Orders follow the ops-nn arch22 and arch35 kernels (stated; the order of groups: ours).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ascend_sim.ops.kernels.cube.tasks import chunk, core_share
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, variant_of
from ascend_sim.ops.kernels.grad_input.parts import task_parts, tiling_input
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput


class GradInputTask(NamedTuple):
    """Task of grad_input: `m_count` dx pixels from `m_start` on (row by row) x `n_count` channels from `n_start` on, of
    one real group, image and input depth.

    Where dx is cut into strips or the kernel is split, the pixels are those of part `part`; with a split of both axes,
    of each part in turn.
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
    """Return the tasks of one core, with channels padded to C0. Tasks are numbered with real groups slowest, then
    strips, pixels, (batch, depth), channels fastest.

    With `single_core_batch` a core gets one part of pixels and channels for that number of images, and pixels count
    fastest (assumed). dav-3510 has the order of `_tile_tasks`.
    """
    if variant_of(inp).tile_tasks:
        return _tile_tasks(tiling, inp, core)
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
            tasks += [GradInputTask(group, *divmod(image, problem.d_in), *m, *n, part) for image in range(first, first + count)]
        return tasks
    for number in core_share(inp.real_groups * m_parts * outer * n_parts, tiling.block_dim, core):
        rest, n_index = divmod(number, n_parts)
        rest, image = divmod(rest, outer)
        group, m_index = divmod(rest, m_parts)
        part, m_index = divmod(m_index, strip_parts)
        m, n = chunk(m_index, tiling.single_core_m, pixels), chunk(n_index, tiling.single_core_cin, channels)
        tasks.append(GradInputTask(group, *divmod(image, problem.d_in), *m, *n, part))
    return tasks


def _tile_tasks(tiling: GradInputTiling, inp: TilingInput, core: int) -> list[GradInputTask]:
    """Return one core's tasks for the kernel that reads NCDHW; a task of several depths is listed depth by depth.

    Order (ops-nn arch35: stated; where images and parts come: ours): with several kernel planes pixels, depth, channels
    fastest; else depth, pixels, channels, but pixels fastest for a kernel of one tap with fewer pixels than channels.
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
        tasks += [GradInputTask(at["group"], batch, depth, *m, *n, at["part"]) for depth in range(first, first + depths)]
    return tasks
