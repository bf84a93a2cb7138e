"""Cycles that a tiling cannot go below, from its numbers alone: no program is built.

For the core with the most work: the cycles of each pipe with the shortest heads, transfers at the speed of their port; and
the cube together with whatever cannot overlap it, where L0 or L0C have one buffer. For the chip: the bytes through the L2,
and over HBM when the L2 is cold. All of them count from the launch of the kernel to its end, like the simulated cycles.

What the kernels do with a tiling is told a second time in `grad_input_work` and `grad_weight_work`, tile by tile. Tests hold
it against their programs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_weight.fields import STREAM_NONE, GradWeightTiling
from ascend_sim.studies.tiles.grad_input_work import GradInputWork
from ascend_sim.studies.tiles.grad_weight_work import GradWeightWork
from ascend_sim.studies.tiles.prices import TilingWork, Work

Tiling = GradInputTiling | GradWeightTiling


def _candidates(tiling: Tiling, tasks: int) -> set[int]:
    """Blocks one of which has the most to do: the first, and the last of those with the most tasks.

    The tasks of the last blocks are often the short ones at the edges.
    """
    if isinstance(tiling, GradWeightTiling) and tiling.stream_k_type != STREAM_NONE:
        return {0, max(tasks % tiling.block_dim * tiling.core_stream_k, 1) - 1}
    return {0, (tasks % tiling.block_dim or min(tiling.block_dim, tasks)) - 1}


class Bounds:
    """Bounds for all tilings of one kernel; `cold` says that nothing is in the L2 when it starts."""

    def __init__(self, call: CubeCall, *, cold: bool) -> None:
        self._call, self._cold = call, cold
        self.inp, self.chip = call.inp, call.chip
        self._grad_input, self._grad_weight = GradInputWork(call), GradWeightWork(call)
        self._start = cache(self.start)

    def work(self, tiling: Tiling) -> TilingWork:
        """What the tiling gives the kernel to do."""
        if isinstance(tiling, GradInputTiling):
            return self._grad_input.of(tiling)
        return self._grad_weight.of(tiling)

    def of(self, tiling: Tiling) -> dict[str, int]:
        """Least cycles by what bounds the tiling: "cube", "mte1", "mte2", the way out of L0C, "L2 read", "L2 write", "HBM"."""
        return self.with_block(tiling)[0]

    def with_block(self, tiling: Tiling) -> tuple[dict[str, int], int]:
        """The bounds, and the block whose work is the most."""
        chip = self.chip
        tasks, of_block, moved, missed = self.work(tiling)
        per_block = {
            block: self._of_block(tiling, block, of_block(block)) for block in sorted(_candidates(tiling, tasks))
        }
        block = max(per_block, key=lambda block: max(per_block[block].values()))
        bounds, start = dict(per_block[block]), self._start(0)
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

    def _of_block(self, tiling: Tiling, block: int, work: Work) -> dict[str, int]:
        found = {"cube": work.cube + self._serial(tiling, work), "mte1": work.mte1, "mte2": work.mte2, "out": work.out}
        return {name: self._start(block) + int(cycles) for name, cycles in found.items()}

    def _serial(self, tiling: Tiling, work: Work) -> float:
        """What the cube waits for: the way out of every tile with one buffer of L0C, the loads of each step with one of L0."""
        flag, cycles = self.chip.sync.flag_latency, 0.0
        if tiling.cl0_buffers == 1:
            cycles = work.out + 2 * flag * max(work.tiles - 1, 0)
        if tiling.al0_buffers == 1:
            cycles = max(cycles, work.mte1 + 2 * flag * max(work.steps - 1, 0))
        return cycles
