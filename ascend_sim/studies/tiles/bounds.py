"""Cycles that tilings cannot go below, from their numbers alone: no program is built.

For the core with the most work: the cycles of each pipe with the shortest heads, transfers at the speed of their port; and
the cube together with whatever cannot overlap it, where L0 or L0C have one buffer. For the chip: the bytes through the L2,
and over HBM when the L2 is cold. All of them count from the launch of the kernel to its end, like the simulated cycles.

What the kernels do with a tiling is told a second time in `grad_input_work` and `grad_weight_work`, for many tilings at once.
Tests hold it against their programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_weight.fields import STREAM_NONE, GradWeightTiling
from ascend_sim.studies.tiles.grad_input_work import GradInputWork
from ascend_sim.studies.tiles.grad_weight_work import GradWeightWork
from ascend_sim.studies.tiles.prices import Ints, TilingWork, Work

Tiling = GradInputTiling | GradWeightTiling


def _last_with_most(tiling: Tiling, tasks: int) -> int:
    """The last of the blocks with the most tasks, which are often the short ones at the edges."""
    if isinstance(tiling, GradWeightTiling) and tiling.stream_k_type != STREAM_NONE:
        return max(tasks % tiling.block_dim * tiling.core_stream_k, 1) - 1
    return (tasks % tiling.block_dim or min(tiling.block_dim, tasks)) - 1


class Bounds:
    """Bounds for all tilings of one kernel; `cold` says that nothing is in the L2 when it starts."""

    def __init__(self, call: CubeCall, *, cold: bool) -> None:
        self._call, self._cold = call, cold
        self.inp, self.chip = call.inp, call.chip
        self._grad_input, self._grad_weight = GradInputWork(call), GradWeightWork(call)

    def work(self, tilings: Sequence[Any]) -> TilingWork:
        """What tilings, all of the same kernel, give it to do."""
        if isinstance(tilings[0], GradInputTiling):
            return self._grad_input.of(tilings)
        return self._grad_weight.of(tilings)

    def of(self, tiling: Tiling) -> dict[str, int]:
        """Least cycles by what bounds the tiling: "cube", "mte1", "mte2", the way out of L0C, "L2 read", "L2 write", "HBM"."""
        return self.with_block(tiling)[0]

    def with_block(self, tiling: Tiling) -> tuple[dict[str, int], int]:
        """The bounds, and the block whose work is the most."""
        bounds, blocks = self._all([tiling])
        return {name: int(cycles[0]) for name, cycles in bounds.items()}, int(blocks[0])

    def least(self, tilings: Sequence[Tiling]) -> tuple[Ints, Ints]:
        """Least cycles of each of many tilings, and their blocks with the most work."""
        bounds, blocks = self._all(tilings)
        return np.max(list(bounds.values()), axis=0), blocks

    def _all(self, tilings: Sequence[Tiling]) -> tuple[dict[str, Ints], Ints]:
        """By what bounds them the least cycles of each of the tilings, and the blocks with the most work."""
        chip, work = self.chip, self.work(tilings)
        first = np.zeros(len(work.tasks), np.int64)
        last = first.copy()
        last[work.place] = [
            _last_with_most(tiling, tasks)
            for tiling, tasks in zip(tilings, work.tasks[work.place].tolist(), strict=True)
        ]
        of_first, of_last = (self._of_blocks(tilings, work, blocks) for blocks in (first, last))
        more = np.max(list(of_last.values()), axis=0) > np.max(list(of_first.values()), axis=0)
        bounds = {name: np.where(more, of_last[name], of_first[name]) for name in of_first}
        start, place = self.start(0), work.place
        bounds["L2 read"] = start + (work.read / chip.l2_read_bytes_per_cycle()).astype(np.int64)[place]
        bounds["L2 write"] = start + (work.written / chip.l2_write_bytes_per_cycle()).astype(np.int64)[place]
        if self._cold:
            bounds["HBM"] = start + (work.missed / chip.hbm_bytes_per_cycle()).astype(np.int64)[place]
        return bounds, np.where(more, last[place], 0)

    def start(self, block: int) -> int:
        """The earliest cycle after the launch at which a block can issue its first instruction."""
        chip, launch = self.chip, self.chip.launch
        kind: Any = self._call.core_kind
        start = chip.cycles(launch.task_overhead_us[kind]) + chip.cycles(launch.core_start_us[kind])
        return start + block % chip.cores.aic * chip.cycles(launch.block_us.get(kind, 0.0))

    def _of_blocks(self, tilings: Sequence[Tiling], work: TilingWork, blocks: Ints) -> dict[str, Ints]:
        """The cycles of one block of each tiling by pipe."""
        own, place = work.of_blocks(blocks), work.place
        starts = {block: self.start(block) for block in np.unique(blocks).tolist()}
        start = np.array([starts[block] for block in blocks.tolist()])[place]
        found = {
            "cube": own.cube[place] + self._serial(tilings, own, place),
            "mte1": own.mte1[place],
            "mte2": own.mte2[place],
            "out": own.out[place],
        }
        return {name: start + cycles.astype(np.int64) for name, cycles in found.items()}

    def _serial(self, tilings: Sequence[Tiling], work: Work, place: Ints) -> Any:
        """What the cube waits for: the way out of every tile with one buffer of L0C, the loads of each step with one of L0."""
        flag = 2 * self.chip.sync.flag_latency
        cl0, al0 = np.array([(tiling.cl0_buffers, tiling.al0_buffers) for tiling in tilings]).T
        out = np.where(cl0 == 1, (work.out + flag * np.maximum(work.tiles - 1, 0))[place], 0.0)
        loads = np.where(al0 == 1, (work.mte1 + flag * np.maximum(work.steps - 1, 0))[place], 0.0)
        return np.maximum(out, loads)
