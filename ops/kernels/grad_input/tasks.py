"""The work list of grad_input: the part of dx of each task, and its core.

Orders follow the ops-nn arch22 and arch35 kernels (stated; the order of groups: ours).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, product
from operator import itemgetter
from typing import Any, NamedTuple

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
    """Return the tasks of one core, a contiguous share of all, with channels padded to C0; `_order` has the axes that number
    them.

    A task of several images (`single_core_batch`) or, on dav-3510, depths (`single_core_din`) is listed as one for each.
    """
    axes = _axes(tiling, inp)
    own = core_share(math.prod(map(len, axes.values())), tiling.block_dim, core)
    in_order = islice(product(*axes.values()), own.start, own.stop)
    tasks = []
    for group, image, part, m, n in map(itemgetter(*map([*axes].index, ("group", "image", "part", "m", "n"))), in_order):
        tasks += [GradInputTask._make((group, *plane, *m, *n, part)) for plane in image]
    return tasks


@lru_cache(16)
def _axes(tiling: GradInputTiling, inp: TilingInput) -> dict[str, Sequence[Any]]:
    """Return {axis: its parts}, slowest first, cached for all cores; each part of "image" lists its (image, depth) planes."""
    problem = tiling_input(tiling, inp).problem
    pixels, channels = problem.h_in * problem.w_in, inp.cin1 * inp.c0
    together = 0 if variant_of(inp).tile_tasks else tiling.single_core_batch
    depths = tiling.single_core_din if variant_of(inp).tile_tasks else 1
    if together:
        planes = [*product(range(problem.n), range(problem.d_in))]
        images = [planes[first : first + together] for first in range(0, len(planes), together)]
    else:
        pieces = [range(first, min(first + depths, problem.d_in)) for first in range(0, problem.d_in, depths)]
        images = [[(batch, depth) for depth in piece] for batch in range(problem.n) for piece in pieces]
    axes: dict[str, Sequence[Any]] = {
        "group": range(inp.real_groups),
        "image": images,
        "part": range(task_parts(tiling, inp)),
        "m": [chunk(i, tiling.single_core_m, pixels) for i in range(ceil_div(pixels, tiling.single_core_m))],
        "n": [chunk(i, tiling.single_core_cin, channels) for i in range(ceil_div(channels, tiling.single_core_cin))],
    }
    return {axis: axes[axis] for axis in _order(tiling, inp)}


def _order(tiling: GradInputTiling, inp: TilingInput) -> tuple[str, ...]:
    """Return the axes by which tasks are numbered, slowest first: real groups, images with depths, parts, pixels, channels.

    On dav-3510 (ops-nn arch35: stated; where images and parts come: ours) with several kernel planes pixels, depth, channels
    fastest; else depth, pixels, channels, but pixels fastest for a kernel of one tap with fewer pixels than channels. On
    others parts, pixels, images, channels; with `single_core_batch` images, channels, parts, pixels (assumed).
    """
    if not variant_of(inp).tile_tasks:
        return ("group", "image", "n", "part", "m") if tiling.single_core_batch else ("group", "part", "m", "image", "n")
    part = tiling_input(tiling, inp).problem
    if part.k_d > 1:
        return "group", "m", "image", "part", "n"
    if inp.taps == 1 and inp.cin1 * inp.c0 > part.h_in * part.w_in:
        return "group", "image", "part", "n", "m"
    return "group", "image", "part", "m", "n"
