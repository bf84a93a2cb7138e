"""The tiles of grad_input with a tiling, block by block, without the tiling of K."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.isa.transfer import Fill
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_HW, MapPart, kernel_pieces, split_parts
from ascend_sim.ops.kernels.grad_input.tasks import grad_input_tasks
from ascend_sim.ops.kernels.grad_input.tiles import contributing_planes, runs
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.window import needed_rows, pad_before, read_width
from ascend_sim.studies.tiles.prices import Prices

Cut = tuple[int, int, int]
"""Cut of dx and the kernel by a tiling: kernelSplitMode, columns of a strip, loadB1Condition."""


class _Window(NamedTuple):
    """Window of gradOutput that L1 holds for a tile: `rows` x `width` of the map with the zeros of the stride inserted.

    `copied` of the rows hold data and are loaded; `size` is the bytes loaded for each channel block; `strides` are the strides
    (h, w).
    """

    rows: int
    width: int
    copied: int
    size: int
    strides: tuple[int, int]


_NOTHING = _Window(0, 0, 0, 0, (1, 1))


class _MapTile(NamedTuple):
    """A tile along the pixels of a part of dx: its number of pixels (`rows`, not rounded up to fractals), how many of them lie
    inside dx (`pixels`), and in `windows` what it reads of gradOutput for each piece of the kernel.
    """

    rows: int
    pixels: int
    windows: tuple[_Window, ...]


_Maps = tuple[tuple[_MapTile, int], ...]
"""The tiles of a task along the pixels, and how many of each there are."""
_Bands = tuple[tuple[tuple[int, int], int], ...]
"""The bands of a task: channels with padding and those that there are, and how many such bands."""
_Kind = tuple[int, int, int, _Maps, _Bands]
"""Key of tasks with equal tiles: group, kernel planes, part, tiles and bands."""


class Tiles(NamedTuple):
    """The distinct tiles of one block as tuples of numbers, which do not depend on the tiling of K; the last number of each is
    how often it occurs.

    `drains`: pixels, channels with padding and without, C0 blocks of K (0: the sum is empty). `products`: rows, channels, taps,
    C0 blocks of K. `maps`, loads of gradOutput: number of the window, output channels. `weights`, loads of weights: 1 for
    tilings that keep them in L1 (0: others), channels with padding and without, taps, output channels. On a coupled chip, where
    L1 may keep either operand, `maps` and `weights` are empty and `least` has the least cycles of the loads of gradOutput;
    elsewhere it is 0.
    """

    drains: tuple[tuple[int, ...], ...]
    products: tuple[tuple[int, ...], ...]
    maps: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, ...], ...]
    least: float


class GradInputTiles(Prices):
    """Tiles of the blocks of grad_input in `call` for a tiling, and the least cycles of their loads."""

    cached = (
        *Prices.cached, "_window", "_load", "_pixels", "_depth_planes", "_parts", "_pieces", "_kinds", "_maps", "_bands",
        "_tiles", "_least_loads",
    )  # fmt: skip

    def __init__(self, call: CubeCall) -> None:
        super().__init__(call)
        self._windows: dict[_Window, int] = {}
        """Every one that was asked for, by number."""

    def _parts(self, cut: Cut) -> tuple[MapPart, ...]:
        """Return the parts into which `cut` divides dx: strips, parts of a split kernel, or both; the whole problem where
        nothing is cut.
        """
        return split_parts(self.problem, *cut[:2])

    def _pieces(self, cut: Cut, part: int) -> tuple[MapPart, ...]:
        """Return the pieces of the kernel (its taps) whose sums add up to part number `part` of dx: one piece, the part itself,
        or several where `cut` takes the kernel in pieces.
        """
        return kernel_pieces(self.problem, self._parts(cut)[part], cut[2])

    def _least_loads(self, shape: GradInputTiling, cut: Cut, block: int) -> float:
        """Return the least cycles of a block's loads of gradOutput on a coupled chip, where L1 may keep either operand.

        Each task is counted as loading the window of all its pixels once for every kernel plane.
        """
        cycles = 0.0
        for (group, m_start, m_count, _, _, planes, own), times in self._kinds(shape, block).items():
            window = self._window(cut, own, m_start, m_count)
            cycles += times * planes * self._load(window, ceil_div(self._outputs(group), self.inp.c0))
        return cycles

    def _tiles(self, shape: GradInputTiling, base_m: int, base_n: int, block: int) -> Tiles:
        """Return the distinct tiles of a block, each with the number of times that it occurs, for a tiling with the tasks of
        `shape`, but these base_m and base_n. On a coupled chip the loads are one number, `least`.
        """
        cut, coupled, c0 = cut_of(shape), self.inp.family.coupled, self.inp.c0
        drains: Counter[tuple[int, ...]] = Counter()
        products: Counter[tuple[int, ...]] = Counter()
        loads: Counter[tuple[int, ...]] = Counter()
        weights: Counter[tuple[int, ...]] = Counter()
        for (group, planes, part, maps, bands), kinds in self._task_tiles(shape, cut, base_m, base_n, block).items():
            pieces, outputs = self._pieces(cut, part), self._outputs(group)
            total = ceil_div(outputs, c0)
            summed = total if self._parts(cut)[part].taps else 0
            used = [i for i, piece in enumerate(pieces) if planes and piece.taps]
            read = [sum(count for tile, count in maps if tile.windows[i].rows) for i in range(len(pieces))]
            for (channels, own), of_bands in bands:
                for tile, count in maps:
                    times = kinds * of_bands * count
                    drains[tile.pixels, channels, own, summed] += times
                    for i in used:
                        if tile.windows[i].rows:
                            number = self._windows.setdefault(tile.windows[i], len(self._windows))
                            products[tile.rows, channels, len(pieces[i].taps), total] += times * planes
                            loads[number, outputs] += times * planes
                first = next((i for i, tiles in enumerate(read) if tiles), 0)
                for i, tiles in enumerate(read if planes and not coupled else []):
                    times, taps = kinds * of_bands * planes, len(pieces[i].taps)
                    if tiles:
                        weights[0, channels, own, taps, outputs] += times * tiles
                    if tiles and i == first:  # what stays is loaded once, by the first tile that needs it
                        weights[1, channels, own, taps, outputs] += times
        return Tiles(
            _rows(drains),
            _rows(products),
            () if coupled else _rows(loads),
            _rows(weights),
            self._least_loads(shape, cut, block) if coupled else 0.0,
        )

    def _task_tiles(self, shape: GradInputTiling, cut: Cut, base_m: int, base_n: int, block: int) -> Counter[_Kind]:
        """Return a Counter {(group, kernel planes, part of dx, tiles along pixels, bands of channels): number of the block's
        tasks with these tiles}.
        """
        found: Counter[_Kind] = Counter()
        every = range(len(self._parts(cut)))
        for (group, m_start, m_count, n_start, n_end, planes, own), times in self._kinds(shape, block).items():
            bands = self._bands(group, n_start, n_end, base_n)
            for index in every if shape.kernel_split == SPLIT_HW else (own,):
                found[group, planes, index, self._maps(cut, index, m_start, m_count, base_m), bands] += times
        return found

    def _maps(self, cut: Cut, part: int, start: int, count: int, base_m: int) -> _Maps:
        """Return (tile, how often it occurs) for the distinct tiles of at most `base_m` pixels into which the pixels `start` to
        `start + count` of a part of dx are cut.

        Pixels behind the end of the part, and tiles that lie outside dx, are left out.
        """
        own = self._parts(cut)[part]
        end, pieces = min(start + count, own.rows * own.problem.w_in), range(len(self._pieces(cut, part)))
        found: Counter[_MapTile] = Counter()
        for m in range(start, end, base_m):
            rows = min(base_m, end - m)
            if pixels := self._pixels(cut, part, m, rows):
                found[_MapTile(rows, pixels, tuple(self._window(cut, part, m, rows, i) for i in pieces))] += 1
        return tuple(found.items())

    def _bands(self, group: int, start: int, end: int, base_n: int) -> _Bands:
        """Return ((channels with padding, channels without), how often it occurs) for the distinct bands of at most `base_n`
        channels into which the channels `start` to `end` of a group are cut.
        """
        channels = self.call.group_channels(group, self.problem.c_in, self.inp.cin_g)
        found = Counter((min(base_n, end - n), min(base_n, end - n, channels - n)) for n in range(start, end, base_n))
        return tuple(found.items())

    def _kinds(self, shape: GradInputTiling, block: int) -> Counter[tuple[int, ...]]:
        """Return a Counter {kind: number of the block's tasks of it}.

        A kind is (group, first pixel, pixels, first channel, end of the channels within whole C0 of the group, kernel planes
        that meet gradOutput, part).
        """
        found: Counter[tuple[int, ...]] = Counter()
        for task in grad_input_tasks(shape, self.inp, block):
            n_end = self._channels_end(task.group, task.n_start + task.n_count)
            planes = self._depth_planes(task.depth)
            found[task.group, task.m_start, task.m_count, task.n_start, n_end, planes, task.part] += 1
        return found

    def _outputs(self, group: int) -> int:
        """Return the number of output channels of a group of the convolution, without padding."""
        return self.call.group_channels(group, self.problem.c_out, self.inp.cout_g)

    def _channels_end(self, group: int, end: int) -> int:
        channels = self.call.group_channels(group, self.problem.c_in, self.inp.cin_g)
        return min(end, ceil_div(channels, self.inp.c0) * self.inp.c0)

    def _depth_planes(self, depth: int) -> int:
        return len(list(contributing_planes(self.problem, depth)))

    def _pixels(self, cut: Cut, part: int, m: int, count: int) -> int:
        """Return the number of pixels of a tile that lie in dx; the last strip may have columns that dx does not have."""
        if not cut[1]:
            return count
        return sum(pixels for _, _, pixels in runs(self._parts(cut)[part], self.problem.w_in, m, count))

    def _window(self, cut: Cut, part: int, m: int, count: int, piece: int = 0) -> _Window:
        """Return the window of gradOutput that a tile, `count` pixels from pixel `m` of a part of dx, reads for one piece of
        the kernel; _NOTHING if it reads padding alone.
        """
        p = self._pieces(cut, part)[piece].problem
        window = needed_rows(p, m, count)
        crop, end = max(-pad_before(p)[1], 0), read_width(p)
        width = end - crop
        if not window.rows or width <= 0:
            return _NOTHING
        first = ceil_div(window.first_row, p.stride_h)
        rows = (window.first_row + window.rows - 1) // p.stride_h - first + 1
        columns = (end - 1) // p.stride_w + 1 - ceil_div(crop, p.stride_w)
        return _Window(window.rows, width, rows, max(rows, 0) * max(columns, 0) * BLOCK_BYTES, (p.stride_h, p.stride_w))

    def _load(self, window: _Window, blocks: int) -> float:
        """Return the least cycles of loading `blocks` channel blocks of a window into L1; 0 for a window of padding.

        With stride they include the zeros between, except on a coupled chip.
        """
        size, (stride_h, stride_w) = window.size, window.strides
        if not window.rows:
            return 0.0
        if self.inp.family.coupled or stride_h * stride_w == 1:
            return self.copy(size * blocks)
        zeros = self.cycles(Fill("L1", blocks * window.rows * window.width * BLOCK_BYTES))
        copies = blocks * window.copied if stride_w > 1 else blocks
        return zeros + copies * self.copy(size * blocks // copies) if size else zeros


def cut_of(tiling: GradInputTiling) -> Cut:
    return tiling.kernel_split, tiling.split_wi, tiling.load_b1


def _rows(counted: Counter[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple((*row, times) for row, times in counted.items())
