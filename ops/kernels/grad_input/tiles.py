"""Tiles of grad_input's kernels: the L0C tiles of a block in order, the operands that L1 holds with them, and the runs
of their pixels in dx.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, variant_of
from ascend_sim.ops.kernels.grad_input.parts import MapPart, tiling_input, tiling_parts
from ascend_sim.ops.kernels.grad_input.tasks import GradInputTask, grad_input_tasks
from ascend_sim.ops.layouts.layout import TileRun
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_to


class DataTile(NamedTuple):
    """An L0C tile of a task: `m_count` pixels from `m` on, by `n_count` channels from `n` on of the real group, in whole C0."""

    task: GradInputTask
    m: int
    m_count: int
    n: int
    n_count: int

    def of(self, batch: int) -> DataTile:
        """Return the tile with image `batch` in its task."""
        return self._replace(task=self.task._replace(batch=batch))


def numbered(tiles: Sequence[DataTile], turns: int = 0) -> Iterator[tuple[tuple[int, DataTile], int]]:
    """Yield ((number, tile with image 0 in its task), image) for each tile, in order: the piece and the place of a
    stamped loop.

    `number` is the tile's position, reduced by `turn_of` with `turns`, so that equal tiles share a stamp.
    """
    for number, tile in enumerate(tiles):
        if not number or tile.task is not tiles[number - 1].task:
            task = tile.task._replace(batch=0)
        yield (turn_of(number, turns), DataTile(task, *tile[1:])), tile.task.batch


def turn_of(number: int, turns: int) -> int:
    """Return `number` below 2 * `turns`: itself below `turns`, else `turns` + `number` % `turns`; 0 if `turns` is 0."""
    return min(number, turns + number % turns) if turns else 0


def grad_input_tiles(call: CubeCall, tiling: GradInputTiling, block: int) -> list[DataTile]:
    """Return the tiles of a block, in the order in which the cube computes them; strips' tiles beyond the columns of dx, and
    channels that the last real group lacks, are left out.

    On coupled chips L1 keeps an operand as long as its tiles follow each other. Their order is the one that loads less: all
    tasks for one band of base_n channels, or all bands for one tile of pixels.
    """
    found: list[DataTile] = []
    inp, parts = call.inp, tiling_parts(tiling, call.inp)

    def places(task: GradInputTask) -> Iterator[tuple[int, int, int, int]]:
        bands = pieces(task.n_start, task.n_start + task.n_count, tiling.step_n * tiling.base_n)
        maps = pieces(task.m_start, task.m_start + task.m_count, tiling.step_m * tiling.base_m)
        for band, held in product(bands, maps):
            for n in pieces(band[0], sum(band), tiling.base_n):
                for m in pieces(held[0], sum(held), tiling.base_m):
                    if not tiling.split_wi or any(runs(parts[task.part], inp.problem.w_in, *m)):
                        yield *m, *n

    known: dict[tuple[int, ...], list[tuple[int, int, int, int]]] = {}  # the same in every plane
    for given in grad_input_tasks(tiling, inp, block):
        # The last real group may lack channels: what it does not have is not computed.
        channels = ceil_to(call.group_channels(given.group, inp.problem.c_in, inp.cin_g), inp.c0)
        task = given._replace(n_count=min(given.n_count, channels - given.n_start))
        group, _, _, *rest = task
        plane = (group, *rest)
        if plane not in known:
            known[plane] = list(places(task))
        found += [DataTile(task, *place) for place in known[plane]]
    if variant_of(call.inp).keeps_operands and found:
        held_at = {
            tile: (held_pixels(tiling, tile.task, tile.m)[0], held_channels(tiling, tile.task, tile.n)[0]) for tile in found
        }
        bands_count = len({n for _, n in held_at.values()})
        maps_count = len({(tile.task, m) for tile, (m, _) in held_at.items()})
        k_total = inp.cout_padded * inp.taps
        weights = inp.cin1 * inp.c0 * k_total  # elements of all bands
        p = tiling_input(tiling, inp).problem
        pixels = p.h_out * p.w_out * inp.cout_padded * len({tile.task for tile in found})
        keeps_pixels = tiling.step_ka * tiling.base_k >= k_total
        keeps_weights = tiling.step_kb * tiling.base_k >= k_total
        # Weights stay in the L2, which all cores read them from; a map that is read again may have left it.
        by_bands = 2 * pixels * bands_count + weights * (1 if keeps_weights else maps_count)
        by_pixels = 2 * pixels * (1 if keeps_pixels else bands_count) + weights * maps_count
        if by_bands <= by_pixels:
            found.sort(key=lambda tile: (tile.task.group, held_at[tile][1]))
        else:
            found.sort(key=lambda tile: (tile.task.group, tile.task.batch, tile.task.depth, tile.task.part, *held_at[tile]))
    return found


def held_pixels(tiling: GradInputTiling, task: GradInputTask, m: int) -> tuple[int, int]:
    """Return (first, number) of the pixels, `step_m` tiles, whose gradOutput rows L1 holds together with pixel `m`."""
    held = tiling.step_m * tiling.base_m
    start = task.m_start + (m - task.m_start) // held * held
    return start, min(held, task.m_start + task.m_count - start)


def held_channels(tiling: GradInputTiling, task: GradInputTask, n: int) -> tuple[int, int]:
    """Return (first, number) of the channels, `step_n` tiles, whose weights L1 holds together with channel `n`."""
    held = tiling.step_n * tiling.base_n
    start = task.n_start + (n - task.n_start) // held * held
    return start, min(held, task.n_start + task.n_count - start)


def contributing_planes(problem: ConvProblem, depth: int) -> Iterator[tuple[int, int]]:
    """Yield the (kernel plane, gradOutput plane) pairs that contribute to input plane `depth`."""
    for plane in range(problem.k_d):
        position = depth + problem.pad_front - plane * problem.dilation_d
        if position % problem.stride_d == 0 and 0 <= position // problem.stride_d < problem.d_out:
            yield plane, position // problem.stride_d


def pieces(start: int, end: int, size: int) -> list[tuple[int, int]]:
    """Return (first, number) of each piece of `size` from `start` to `end`; the last one may be shorter."""
    return [(first, min(size, end - first)) for first in range(start, end, size)]


def runs(part: MapPart, width: int, m: int, m_count: int) -> Iterator[TileRun]:
    """Yield the runs of a tile's `m_count` pixels from `m` on that adjoin in dx: one run if the part has all rows and columns
    of dx, else one for each row of the part.

    `width` is the number of columns of dx. Pixels in columns that the part lacks are skipped; the caller makes sure that the
    part has all rows of the tile.
    """
    own = part.problem.w_in
    if part.row_step == 1 and own == width:
        yield TileRun(0, m, m_count)
        return
    for done, row, column, pixels in part.adjoining(own, m, m_count):
        yield TileRun(done, (part.row + row * part.row_step) * width + part.column + column, pixels)
