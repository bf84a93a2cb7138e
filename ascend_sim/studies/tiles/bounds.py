"""Cycles that a tiling cannot go below, from its numbers alone: no program is built.

For the core with the most work: the cycles of each pipe with the shortest heads, transfers at the speed of their port; and
the cube together with whatever cannot overlap it, where L0 or L0C have one buffer. For the chip: the bytes through the L2,
and over HBM when the L2 is cold. All of them count from the launch of the kernel to its end, like the simulated cycles.

What the kernels do with a tiling is told here a second time, tile by tile. Tests hold it against their programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.isa.cube import Fixpipe, Mmad
from ascend_sim.isa.direct import FixpipeDn
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.transfer import DataCopy, Fill
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.capacity import is_resident, k_slice
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import tiling_input
from ascend_sim.ops.kernels.grad_input.pieces import UNCUT, kernel_pieces
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import task_count
from ascend_sim.ops.kernels.grad_input.split import SPLIT_HW, SPLIT_NONE, Part, split_parts
from ascend_sim.ops.kernels.grad_input.tasks import grad_input_tasks
from ascend_sim.ops.kernels.grad_input.tiles import contributing_planes, runs
from ascend_sim.ops.kernels.grad_input.window import needed_rows, pad_before
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, SPLIT_STREAM_K, STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import gemm
from ascend_sim.ops.kernels.grad_weight.strips import input_rows
from ascend_sim.ops.kernels.grad_weight.taps import cut_input, cut_sections
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

Tiling = GradInputTiling | GradWeightTiling


@dataclass
class _Work:
    """Cycles of one block by pipe."""

    cube: float = 0
    mte1: float = 0
    mte2: float = 0
    out: float = 0
    tiles: int = 0
    steps: int = 0


@dataclass
class _Moved:
    """Bytes that all blocks move through the L2."""

    read: int = 0
    written: int = 0


_Cut = tuple[int, int, int]
"""How a tiling cuts dx and the kernel: kernelSplitMode, columns of a strip, loadB1Condition."""
_Parts = tuple[int, Callable[[int], _Work], _Moved, int]
"""Tasks of a tiling, the work of a block, what all blocks move, and how much of it the L2 cannot have."""


def _candidates(tiling: Tiling, tasks: int) -> set[int]:
    """Blocks one of which has the most to do: the first, and the last of those with the most tasks.

    The tasks of the last blocks are often the short ones at the edges.
    """
    if isinstance(tiling, GradWeightTiling) and tiling.stream_k_type != STREAM_NONE:
        return {0, max(tasks % tiling.block_dim * tiling.core_stream_k, 1) - 1}
    return {0, (tasks % tiling.block_dim or min(tiling.block_dim, tasks)) - 1}


_CACHED = (
    "_mmad", "_copy", "_drain", "_left", "_right", "_image", "_window", "_pixels", "_depth_planes", "_parts", "_pieces",
    "_pixel_spans", "_images", "_grad_input_kinds", "_grad_weight_kinds", "start",
)  # fmt: skip
"""What many tilings ask for with the same numbers."""


class Bounds:
    """Bounds for all tilings of one kernel; `cold` says that nothing is in the L2 when it starts."""

    def __init__(self, call: CubeCall, *, cold: bool) -> None:
        self._call, self._cold = call, cold
        self.inp, self.chip = call.inp, call.chip
        self._p = call.inp.problem
        for name in _CACHED:
            setattr(self, name, cache(getattr(self, name)))

    def of(self, tiling: Tiling) -> dict[str, int]:
        """Least cycles by what bounds the tiling: "cube", "mte1", "mte2", the way out of L0C, "L2 read", "L2 write", "HBM"."""
        return self.with_block(tiling)[0]

    def with_block(self, tiling: Tiling) -> tuple[dict[str, int], int]:
        """The bounds, and the block whose work is the most."""
        if isinstance(tiling, GradInputTiling):
            tasks, work_of, moved, missed = self._grad_input(tiling)
        else:
            tasks, work_of, moved, missed = self._grad_weight(tiling)
        chip = self.chip
        per_block = {
            block: self._of_block(tiling, block, work_of(block)) for block in sorted(_candidates(tiling, tasks))
        }
        block = max(per_block, key=lambda block: max(per_block[block].values()))
        bounds, start = dict(per_block[block]), self.start(0)
        bounds["L2 read"] = start + int(moved.read / chip.l2_read_bytes_per_cycle())
        bounds["L2 write"] = start + int(moved.written / chip.l2_write_bytes_per_cycle())
        if self._cold:
            bounds["HBM"] = start + int(missed / chip.hbm_bytes_per_cycle())
        return bounds, block

    def start(self, block: int) -> int:
        """The earliest cycle after the launch at which a block can issue its first instruction."""
        chip, launch = self.chip, self.chip.launch
        kind: Any = self._call.core_kind
        start = chip.cycles(launch.task_overhead_us[kind]) + chip.cycles(launch.core_start_us[kind])
        return start + block % chip.cores.aic * chip.cycles(launch.block_us.get(kind, 0.0))

    def _of_block(self, tiling: Tiling, block: int, work: _Work) -> dict[str, int]:
        found = {"cube": work.cube + self._serial(tiling, work), "mte1": work.mte1, "mte2": work.mte2, "out": work.out}
        return {name: self.start(block) + int(cycles) for name, cycles in found.items()}

    def _serial(self, tiling: Tiling, work: _Work) -> float:
        """What the cube waits for: the way out of every tile with one buffer of L0C, the loads of each step with one of L0."""
        flag, cycles = self.chip.sync.flag_latency, 0.0
        if tiling.cl0_buffers == 1:
            cycles = work.out + 2 * flag * max(work.tiles - 1, 0)
        if tiling.al0_buffers == 1:
            cycles = max(cycles, work.mte1 + 2 * flag * max(work.steps - 1, 0))
        return cycles

    # -- instructions --------------------------------------------------------------------------------------------------

    def _cycles(self, instruction: Any) -> float:
        """Occupancy of its pipe with the shorter head."""
        cost, access = instruction.cost(self.chip), instruction.gm_access(self.chip)
        moved = access.region.total / access.rate if access is not None else 0.0
        return float(min(cost.head_first, cost.head_stream) + cost.work + moved)

    def _mmad(self, m: int, k: int, n: int) -> float:
        return self._cycles(Mmad(m, k, n, self._call.dtype, False))

    def _copy(self, row_bytes: int, rows: int = 1) -> float:
        """GM to L1."""
        return self._cycles(DataCopy("GM", "L1", row_bytes, rows)) if row_bytes and rows else 0.0

    def _drain(self, m: int, n: int, dtype: str, atomic: bool = False) -> float:
        """The way out of L0C: the Fixpipe, or the vector unit of a coupled core."""
        if self.chip.cores.coupled:
            return self._cycles(L0cToUb(m, ceil_div(n, FRACTAL), ceil_to(m, FRACTAL), dtype))
        return self._cycles(Fixpipe(m, n, ceil_to(m, FRACTAL), dtype, self.inp.c0, 0, atomic))

    def _left(self, m: int, k: int, turned: bool) -> float:
        """img2col to L0A: `m` x `k`, or with `turned` rows of K."""
        rows, columns = (k, m) if turned else (m, k)
        return self._load3d("L0A", 1, rows, columns, turned)

    def _load3d(self, to: str, stride_w: int, rows: int, columns: int, turned: bool) -> float:
        fields = (1, 1, 1, 1, 1, stride_w, 1, 1, 0, 0, 1, 1, 0, rows, 0, columns)
        return self._cycles(LoadData3D(to, self.inp.itemsize, *fields, turned))

    def _right(self, k: int, n: int) -> float:
        """The loads of weights of grad_input: one for each C0 of K."""
        c0 = self.inp.c0
        if self.inp.itemsize < 4:
            return k // c0 * self._cycles(LoadData2D("L0B", self.inp.itemsize, ceil_div(n, c0), 1, True))
        return k // c0 * self._load3d("L0B", 1, c0, n, True)

    def _image(self, k: int, n: int, stride_w: int) -> float:
        """img2col of the input to L0B in grad_weight."""
        return self._load3d("L0B", stride_w, k, n, False)

    # -- grad_input ----------------------------------------------------------------------------------------------------

    def _grad_input(self, tiling: GradInputTiling) -> _Parts:
        moved = self._grad_input_bytes(tiling)
        tasks = task_count(tiling, self.inp)
        missed = 0 if tiling.load_b1 else self._grad_input_misses(tiling.split_wi)  # pieces may skip rows and columns
        return tasks, lambda block: self._grad_input_work(tiling, block), moved, missed

    def _parts(self, cut: _Cut) -> tuple[Part, ...]:
        """The strips, or the parts of a split kernel, or both; the problem itself where nothing is cut."""
        return split_parts(self._p, *cut[:2])

    def _pieces(self, cut: _Cut, part: int) -> tuple[Part, ...]:
        """What a part is summed of: itself, or pieces of a cut kernel."""
        return kernel_pieces(self._p, self._parts(cut)[part], cut[2])

    def _grad_input_work(self, tiling: GradInputTiling, block: int) -> _Work:
        inp, work, coupled = self.inp, _Work(), self.chip.cores.coupled
        cut = _cut(tiling)
        parts = self._parts(cut)
        resident = is_resident(tiling, tiling_input(tiling, inp))
        shape = GradInputTiling(
            FRACTAL, FRACTAL, FRACTAL, single_core_m=tiling.single_core_m, single_core_cin=tiling.single_core_cin,
            single_core_din=tiling.single_core_din, kernel_split=tiling.kernel_split,
            split_wi=tiling.split_wi, block_dim=tiling.block_dim,
        )  # fmt: skip
        for (group, m_start, m_count, n_start, n_end, planes, own), times in self._grad_input_kinds(
            shape, block
        ).items():
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
                        self._grad_input_tile(work, tiling, times, (index, m, rows), (n, n_count), group, planes)
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
        if inp.direct:
            channels = min(n_count, self._call.group_channels(group, self._p.c_in, inp.cin_g) - n)
            return self._copy(channels * self._outputs(group) * taps * inp.itemsize)
        row_bytes = ceil_div(n_count, inp.c0) * inp.c0 * inp.itemsize
        spans = _cuts(ceil_to(self._k_total(group, taps), k_slice(inp)), tiling.step_kb * tiling.base_k)
        return sum(self._copy(row_bytes * span) for span in spans)

    def _grad_input_kinds(self, shape: GradInputTiling, block: int) -> Counter[tuple[int, ...]]:
        """How often a block has a task of each kind: (group, first pixel, pixels, first channel, end, kernel planes, part)."""
        found: Counter[tuple[int, ...]] = Counter()
        for task in grad_input_tasks(shape, self.inp, block):
            n_end = self._channels_end(task.group, task.n_start + task.n_count)
            planes = self._depth_planes(task.depth)
            found[task.group, task.m_start, task.m_count, task.n_start, n_end, planes, task.part] += 1
        return found

    def _grad_input_tile(
        self, work: _Work, tiling: GradInputTiling, times: int, place: tuple[int, int, int], channels: tuple[int, int],
        group: int, planes: int,
    ) -> None:  # fmt: skip
        """One tile, `place` = (part, first pixel, pixels) x `channels` (first, count)."""
        (part, m, rows), cut = place, _cut(tiling)
        total = ceil_div(self._outputs(group), self.inp.c0)
        segments = _cuts(total, tiling.k_segment // self.inp.c0 or total) if self._parts(cut)[part].taps else [0]
        work.tiles += times * len(segments)
        work.out += times * len(segments) * self._out(self._pixels(cut, part, m, rows), group, *channels)
        for number, piece in enumerate(self._pieces(cut, part)):
            window = self._window(cut, part, m, rows, number)
            if window[0] and planes and piece.taps:
                self._piece_of_tile(work, tiling, times * planes, len(piece.taps), (rows, channels[1]), group, window)

    def _piece_of_tile(
        self, work: _Work, tiling: GradInputTiling, times: int, taps: int, sides: tuple[int, int], group: int,
        window: tuple[int, int, Callable[[int], float]],
    ) -> None:  # fmt: skip
        """Loads and products of a tile of `sides` rows and columns, for `taps` of the kernel."""
        (rows, n), (_, size, load), c0 = sides, window, self.inp.c0
        total = ceil_div(self._outputs(group), c0)
        step_a, step_b = self._l1_blocks(tiling)
        for blocks in _cuts(total, tiling.k_segment // c0 or total):
            for span in _cuts(blocks, min(step_a, step_b)):
                length = span * taps * c0
                for step_k, count in ((tiling.base_k, length // tiling.base_k), (length % tiling.base_k, 1)):
                    if step_k and count:
                        steps = times * count
                        work.steps += steps
                        work.cube += steps * self._mmad(rows, step_k, n)
                        work.mte1 += steps * (self._left(rows, step_k, False) + self._right(step_k, n))
        if self.chip.cores.coupled:
            return
        if self.inp.direct:
            pixels = size // BLOCK_BYTES
            work.mte2 += times * self._copy(pixels * self._outputs(group) * self.inp.itemsize)
            return
        work.mte2 += times * sum(load(blocks) for blocks in _cuts(total, step_a))

    def _out(self, rows: int, group: int, first: int, count: int) -> float:
        """The way out of a tile of grad_input."""
        dtype = "float32" if self.inp.itemsize == 4 else self._call.dtype
        if not self.inp.direct:
            return self._drain(rows, count, dtype)
        own = min(count, self._call.group_channels(group, self._p.c_in, self.inp.cin_g) - first)
        item = self.inp.itemsize
        return self._cycles(FixpipeDn(rows, own, ceil_to(rows, FRACTAL), 0, dtype, item, rows * item))

    def _l1_blocks(self, tiling: GradInputTiling) -> tuple[int, int]:
        """C0 blocks of gradOutput channels in one L1 step of A and of B."""
        per_block = tiling_input(tiling, self.inp).taps * self.inp.c0
        return tiling.step_ka * tiling.base_k // per_block, tiling.step_kb * tiling.base_k // per_block

    def _outputs(self, group: int) -> int:
        """Output channels of a real group."""
        return self._call.group_channels(group, self._p.c_out, self.inp.cout_g)

    def _k_total(self, group: int, taps: int) -> int:
        return ceil_div(self._outputs(group), self.inp.c0) * taps * self.inp.c0

    def _channels_end(self, group: int, end: int) -> int:
        channels = self._call.group_channels(group, self._p.c_in, self.inp.cin_g)
        return min(end, ceil_div(channels, self.inp.c0) * self.inp.c0)

    def _depth_planes(self, depth: int) -> int:
        return len(list(contributing_planes(self._p, depth)))

    def _pixels(self, cut: _Cut, part: int, m: int, count: int) -> int:
        """Pixels of dx in a tile: the last strip may end in columns that dx does not have."""
        if not cut[1]:
            return count
        return sum(pixels for _, _, pixels in runs(self._parts(cut)[part], self._p.w_in, m, count))

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
            if self.chip.cores.coupled or p.stride_h * p.stride_w == 1:
                return self._copy(size * blocks)
            zeros = self._cycles(Fill("L1", blocks * window.rows * width * BLOCK_BYTES))
            copies = blocks * rows if p.stride_w > 1 else blocks
            return zeros + copies * self._copy(size * blocks // copies) if size else zeros

        return window.rows, size, cache(load)

    def _grad_input_bytes(self, tiling: GradInputTiling) -> _Moved:
        inp, p, moved, coupled = self.inp, self._p, _Moved(), self.chip.cores.coupled
        resident, cut = is_resident(tiling, tiling_input(tiling, inp)), _cut(tiling)
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
                if inp.direct:
                    n, outputs = min(n, inp.cin_g), self._outputs(group)
                    moved.read += images * columns * sum(sizes) // BLOCK_BYTES * outputs * inp.itemsize
                    moved.read += images * loads * n * outputs * taps * inp.itemsize
                elif coupled:  # whose L1 may keep either operand: both at least once
                    moved.read += images * self._window(cut, index, 0, pixels)[1] * (k // (taps * inp.c0))
                    moved.read += (index == 0) * n * ceil_to(k, k_slice(inp)) * inp.itemsize
                else:
                    moved.read += images * columns * sum(sizes) * (k // (taps * inp.c0))
                    moved.read += images * loads * n * ceil_to(k, k_slice(inp)) * inp.itemsize
        if inp.direct:
            moved.written += p.n * p.c_in * p.d_in * p.h_in * p.w_in * inp.itemsize
            return moved
        for group in range(inp.real_groups):
            n = self._channels_end(group, inp.cin1 * inp.c0)
            moved.written += p.n * p.d_in * n // inp.c0 * p.h_in * p.w_in * BLOCK_BYTES
        return moved

    def _grad_input_misses(self, strip: int) -> int:
        """Bytes of gradOutput and weights that nobody has read before."""
        p, inp = self._p, self.inp
        planes = {plane for depth in range(p.d_in) for _, plane in contributing_planes(p, depth)}
        held, size, _ = self._window((SPLIT_NONE, 0, UNCUT), 0, 0, p.h_in * p.w_in)
        if strip:
            # Columns that some strip needs, of those that whole rows have
            read: set[int] = set()
            for part in self._parts((SPLIT_NONE, strip, UNCUT)):
                read.update(range(part.source, part.source + part.problem.w_out) if part.taps else ())
            size = size // max(p.w_out - ceil_div(max(-pad_before(p)[1], 0), p.stride_w), 1) * len(read)
        if inp.direct:
            return p.n * len(planes) * p.c_out * size // BLOCK_BYTES * inp.itemsize if held else 0
        return p.n * len(planes) * ceil_div(p.c_out, inp.c0) * size if held else 0

    # -- grad_weight ---------------------------------------------------------------------------------------------------

    def _grad_weight(self, tiling: GradWeightTiling) -> _Parts:
        inp = cut_input(self.inp, tiling)
        m, _, n = gemm(inp, tiling.split_kd)
        rows, images = self._rows(tiling), self._batch(tiling)
        lanes = inp.real_groups * (inp.problem.k_d if tiling.split_kd else 1)
        tasks = lanes * ceil_div(m, tiling.single_core_m) * ceil_div(n, tiling.single_core_n)
        tasks *= ceil_div(inp.problem.h_out, rows) * ceil_div(inp.images, images)

        def work_of(block: int) -> _Work:
            work = _Work()
            shape = tiling.but(
                base_m=FRACTAL, base_k=FRACTAL, base_n=FRACTAL, step_m=1, step_n=1, step_ka=1, step_kb=1, al1_buffers=1,
                bl1_buffers=1, cl0_buffers=1, iterate_order=0, bl1_bound=0,
            )  # fmt: skip
            for task, times in self._grad_weight_kinds(shape, block).items():
                self._grad_weight_work(work, tiling, task, times)
            return work

        return tasks, work_of, self._grad_weight_bytes(tiling, rows, images), 0

    def _rows(self, tiling: GradWeightTiling) -> int:
        p = cut_input(self.inp, tiling).problem
        return min(max(tiling.single_core_k // p.w_out, 1), p.h_out)

    def _batch(self, tiling: GradWeightTiling) -> int:
        return self.inp.images if tiling.template == SPLIT_STREAM_K else tiling.single_core_batch

    def _grad_weight_kinds(self, shape: GradWeightTiling, block: int) -> Counter[GradWeightTask]:
        """How often a block has a task of each kind; which image it begins with matters only by its depth."""
        tasks = grad_weight_tasks(shape, self.inp, block)
        return Counter(replace(task, image_start=task.image_start % self._p.d_out) for task in tasks)

    def _grad_weight_work(self, work: _Work, tiling: GradWeightTiling, task: GradWeightTask, times: int) -> None:
        inp = cut_input(self.inp, tiling)
        whole = tiling.template in (SPLIT_GRID, SPLIT_STREAM_K)
        columns, rows = self._tiles(tiling, task)
        cuts = GradWeightTiling(
            FRACTAL, tiling.base_k, FRACTAL, step_ka=tiling.step_ka, step_kb=tiling.step_kb, split_wo=tiling.split_wo,
            split_kernel=tiling.split_kernel,
        )  # fmt: skip
        atomic = tiling.template != SPLIT_STREAM_K and task.slot is None
        parts = times * (1 if whole else task.images)
        many = whole and task.images > 1  # then L1 holds nothing from one tile to the next
        for plane, n_first, n_count in columns:
            kernel_depth, tap = divmod(plane, self.inp.taps) if tiling.split_kernel else (plane, 0)
            images = times * self._images(task.image_start, task.images, kernel_depth)
            steps, spans_a, spans_b = self._pixel_spans(task.row_start, task.rows, tap, cuts)
            for channels in rows:
                work.tiles += parts
                work.out += parts * self._drain(ceil_to(channels, FRACTAL), n_count, "float32", atomic)
                for length, count in steps:
                    work.steps += images * count
                    work.cube += images * count * self._mmad(channels, length, n_count)
                    left = self._left(ceil_to(channels, inp.c0), length, True)
                    right = self._image(length, n_count, inp.problem.stride_w)
                    work.mte1 += images * count * (left + right)
                if many or len(spans_a) > 1:
                    work.mte2 += images * sum(self._copy(self._loaded(size, channels)) for size in spans_a)
                if many or len(spans_b) > 1:
                    blocks = self._blocks(inp, n_first, n_count)
                    held = min(blocks * inp.c0, inp.cin_g)
                    work.mte2 += images * sum(self._copy(self._loaded(size, held)) for size in spans_b)

    def _loaded(self, size: int, channels: int) -> int:
        """Bytes in GM of pixels that take `size` for each channel block."""
        if self.inp.direct:
            return size // BLOCK_BYTES * channels * self.inp.itemsize
        return size * ceil_div(channels, self.inp.c0)

    def _blocks(self, inp: TilingInput, first: int, count: int) -> int:
        """C0 blocks of input behind columns `first` .. of a plane."""
        per_block = inp.taps * inp.c0
        return (first + count - 1) // per_block - first // per_block + 1

    def _tiles(self, tiling: GradWeightTiling, task: GradWeightTask) -> tuple[list[tuple[int, int, int]], list[int]]:
        """(plane, first column, columns) of a task's tiles along N, channels of its tiles along M."""
        inp, p = cut_input(self.inp, tiling), self._p
        per_plane = inp.cin1 * inp.taps * inp.c0
        blocks = ceil_div(self._call.group_channels(task.group, p.c_in, inp.cin_g), inp.c0)
        present = blocks * inp.taps * inp.c0
        columns, n, end = [], task.n_start, task.n_start + task.n_count
        while n < end:
            plane, column = divmod(n, per_plane)
            count = min(tiling.base_n, end - n, present - column)
            if count > 0:
                columns.append((plane if task.plane is None else task.plane, column, count))
            n += count if count > 0 else min(end - n, per_plane - column)
        stop = min(task.m_start + task.m_count, self._call.group_channels(task.group, p.c_out, inp.cout_g))
        return columns, [min(tiling.base_m, stop - m) for m in range(task.m_start, stop, tiling.base_m)]

    def _images(self, start: int, count: int, plane: int) -> int:
        """Images of a task that a kernel plane sees."""
        p = self._p
        depths = (
            image % p.d_out * p.stride_d - p.pad_front + plane * p.dilation_d for image in range(start, start + count)
        )
        return sum(0 <= depth < p.d_in for depth in depths)

    def _pixel_spans(
        self, row: int, rows: int, tap: int, tiling: GradWeightTiling
    ) -> tuple[list[tuple[int, int]], list[int], list[int]]:
        """Of one image: (pixels, times) of its steps, bytes per channel block of each A load and of each B load.

        `tap` matters where taps are split. Of the tiling only base_k, the steps of K and the cuts count.
        """
        base_k = tiling.base_k
        steps: Counter[int] = Counter()
        spans_a: list[int] = []
        spans_b: list[int] = []
        for strip, start, count in cut_sections(self._p, tiling, tap, row, rows):
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
            spans_a += [min(span_a, last - begin) * BLOCK_BYTES for begin in range(first, last, span_a)]
            if tiling.split_kernel:
                spans_b += [min(span_b, last - begin) * BLOCK_BYTES for begin in range(first, last, span_b)]
                continue
            for begin in range(first, last, span_b):
                window = input_rows(p, begin, min(begin + span_b, last))
                if not tiling.split_wo or window != held:  # rows of a strip stay while its pixels need them
                    spans_b.append(window.rows * p.w_in * BLOCK_BYTES)
                held = window
        return list(steps.items()), spans_a, spans_b

    def _grad_weight_bytes(self, tiling: GradWeightTiling, rows: int, images: int) -> _Moved:
        """Reads where L1 holds nothing between tiles, and writes: dW for each part of the sum."""
        inp, p, moved = self.inp, self._p, _Moved()
        parts, height = 1, cut_input(inp, tiling).problem.h_out
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
            _, spans_a, spans_b = self._pixel_spans(start, min(rows, height - start), 0, tiling)
            size_a, size_b = size_a + sum(spans_a), size_b + sum(spans_b)
        rows_m = [cut for task in _cuts(m, tiling.single_core_m) for cut in _cuts(task, tiling.base_m)]
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


def _cut(tiling: GradInputTiling) -> _Cut:
    return tiling.kernel_split, tiling.split_wi, tiling.load_b1


def _cuts(total: int, size: int) -> list[int]:
    """Pieces of `size`, the last one what is left."""
    return [min(size, total - start) for start in range(0, total, size)]
