"""Lower bounds of a tiling's cycles, from its numbers alone: no program is built.

For the core with the most work: the cycles of each pipe with the shortest heads, transfers at the speed of their port; and the
cycles for each kind of buffer to be filled, handed over, emptied and handed back (`_turns`). For the chip: the bytes through
the L2, and over HBM when the L2 is cold. All of them count from the launch of the kernel to its end, like the simulated cycles.

`grad_input_work` and `grad_weight_work` describe the kernels' work with a tiling a second time, for many tilings at once.
Tests hold it against their programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.program import has_unit_flag
from ascend_sim.ops.kernels.grad_weight.fields import STREAM_NONE, GradWeightTiling
from ascend_sim.studies.tiles.grad_input_work import GradInputWork
from ascend_sim.studies.tiles.grad_weight_work import GradWeightWork
from ascend_sim.studies.tiles.prices import Floats, Ints, LeastCycles, TilingWork

Tiling = GradInputTiling | GradWeightTiling


def _last_with_most(tiling: Tiling, tasks: int) -> int:
    """Return the number of the last of the blocks that have the most tasks, when `tasks` tasks are dealt to the blocks in turn.

    Its tasks are often the short ones at the edges. With StreamK it is the last block that shares one of the last tasks,
    or block 0 if none is shared.
    """
    if isinstance(tiling, GradWeightTiling) and tiling.stream_k_type != STREAM_NONE:
        return max(tasks % tiling.block_dim * tiling.core_stream_k, 1) - 1
    return (tasks % tiling.block_dim or min(tiling.block_dim, tasks)) - 1


class Bounds:
    """Lower bounds on the cycles of one kernel's tilings, from its launch to its end; `cold`: the L2 is empty at the launch."""

    def __init__(self, call: CubeCall, op_type: str, *, cold: bool) -> None:
        self._call, self._op_type, self._cold = call, op_type, cold
        self.inp, self.chip = call.inp, call.chip
        self._grad_input, self._grad_weight = GradInputWork(call), GradWeightWork(call)

    def work(self, tilings: Sequence[Any]) -> TilingWork:
        """Return the `TilingWork` of the tilings, which must all be of one kernel: tasks, least cycles of a block, bytes
        through the L2.
        """
        return self._kernel(tilings[0]).of(tilings)  # type: ignore[arg-type]

    def _kernel(self, tiling: Tiling) -> GradInputWork | GradWeightWork:
        return self._grad_input if isinstance(tiling, GradInputTiling) else self._grad_weight

    def of(self, tiling: Tiling) -> dict[str, int]:
        """Return {what bounds the tiling: its least cycles}.

        Keys are the pipes "cube", "mte1", "mte2" and "out" (stores from L0C), the buffers "L1-A", "L1-B", "L0" and "L0C", and
        "L2 read", "L2 write", "HBM" (with a cold L2).
        """
        return self.with_block(tiling)[0]

    def with_block(self, tiling: Tiling) -> tuple[dict[str, int], int]:
        """Return ({what bounds the tiling: its least cycles}, number of the block with the most work)."""
        bounds, blocks = self._all([tiling])
        return {name: int(cycles[0]) for name, cycles in bounds.items()}, int(blocks[0])

    def least(self, tilings: Sequence[Tiling]) -> tuple[Ints, Ints]:
        """Return two arrays with a number for each of one or more tilings of one kernel: its least cycles, the largest of its
        bounds; and the busier of two blocks, the first and the last with the most tasks.
        """
        bounds, blocks = self._all(tilings)
        return np.max(list(bounds.values()), axis=0), blocks

    def _all(self, tilings: Sequence[Tiling]) -> tuple[dict[str, Ints], Ints]:
        """Return ({what bounds: array of the least cycles of each tiling}, array of each tiling's block with the most work).

        Two blocks of each tiling are compared, the first and the last with the most tasks; the bounds are those of the busier
        one.
        """
        chip, work = self.chip, self.work(tilings)
        first = np.zeros(len(work.tasks), np.int64)
        last = first.copy()
        last[work.place] = [
            _last_with_most(tiling, tasks) for tiling, tasks in zip(tilings, work.tasks[work.place].tolist(), strict=True)
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
        """Return the earliest cycle after the launch at which `block` can issue its first instruction."""
        chip, launch = self.chip, self.chip.launch
        kind: Any = self._call.core_kind
        start = chip.cycles(launch.task_overhead_us[kind]) + chip.cycles(launch.core_start_us[kind])
        return start + block % chip.cores.aic * chip.cycles(launch.block_us.get(kind, 0.0))

    def _of_blocks(self, tilings: Sequence[Tiling], work: TilingWork, blocks: Ints) -> dict[str, Ints]:
        """Return {pipe or buffer: array of the least cycles of each tiling}, counted from the launch to the end of one block.

        `blocks[i]` is the number of that block for the tilings that share entry i of `work`.
        """
        own, place = work.of_blocks(blocks), work.place
        starts = {block: self.start(block) for block in np.unique(blocks).tolist()}
        start = np.array([starts[block] for block in blocks.tolist()])[place]
        found = {"cube": own.cube, "mte1": own.mte1, "mte2": own.mte2, "out": own.out}
        by_pipe = {name: cycles[place] for name, cycles in found.items()}
        found = by_pipe | self._turns(tilings, LeastCycles(*(getattr(own, one.name)[place] for one in fields(own))))
        return {name: start + cycles.astype(np.int64) for name, cycles in found.items()}

    def _turns(self, tilings: Sequence[Tiling], work: LeastCycles) -> dict[str, Floats]:
        """Return {"L1-A", "L1-B", "L0" or "L0C": least cycles of each tiling for all turns of that buffer}. In a turn it is
        filled, handed over by a flag, emptied and handed back.

        Of several buffers of a kind the busiest takes at least the mean of them all; of the two halves of L0 the busier counts
        where `work` knows which steps take the first. L0C is 0 where a unit flag hands its tiles over, since their turns are
        unknown.
        """
        flag, latency = self.chip.sync.flag_latency, self._kernel(tilings[0]).latencies()
        names = "al1_buffers", "bl1_buffers", "al0_buffers", "cl0_buffers"
        a1, b1, l0, l0c = (np.array([getattr(tiling, name) for tiling in tilings]) for name in names)
        to_l1, to_l0, cube, out = (cycles + flag for cycles in latency)

        def turns(cycles: Floats, times: Floats, buffers: Ints, there: int, back: int) -> Floats:
            """Return the least cycles in which `buffers` buffers of a kind, if they share the work evenly, make `times` turns
            whose fills and drains take `cycles` in all.

            Each turn adds `there` cycles for handing the buffer over, and `back` for handing it back, except the last turn of
            each buffer (no buffer is handed back if turns are no more than buffers).
            """
            return (cycles + times * there + np.maximum(times - buffers, 0) * back) / buffers

        halves = ((work.first, work.firsts), (work.mte1 + work.cube - work.first, work.steps - work.firsts))
        busiest = np.maximum(*(turns(*half, np.ones_like(l0), to_l0, cube) for half in halves))
        whole = turns(work.mte1 + work.cube, work.steps, l0, to_l0, cube)
        tiles = turns(work.cube + work.out, work.tiles, l0c, cube, out)
        early = [isinstance(one, GradInputTiling) and has_unit_flag(self._call, one, self._op_type) for one in tilings]
        return {
            "L1-A": turns(work.load_a + work.mte1, work.loads_a, a1, to_l1, to_l0),
            "L1-B": turns(work.load_b + work.mte1, work.loads_b, b1, to_l1, to_l0),
            "L0": np.where(l0 == 2, np.maximum(whole, busiest), whole),
            "L0C": np.where(early, 0, tiles),
        }
