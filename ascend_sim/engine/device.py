"""The state of one simulated device that outlives a kernel: chip, global memory and L2."""

from __future__ import annotations

from collections.abc import Iterable

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.task import Task
from ascend_sim.memory.gm import Allocation, GlobalMemory


class Device:
    """A chip with its memory. `with_values` false reserves GM addresses without bytes (timing mode)."""

    def __init__(self, chip: ChipSpec, *, with_values: bool = True) -> None:
        self.chip = chip
        self.with_values = with_values
        self.gm = GlobalMemory(chip.memory.hbm_bytes, chip.memory.l2_line_bytes)
        self.l2 = L2Cache(chip.memory.l2_bytes // chip.memory.l2_line_bytes)
        self._launched: dict[str, list[object]] = {}
        self.clock = 0

    def launch(self, task: Task) -> bool:
        """Note a launch; returns whether the cores of its kind must fetch its code (chip file, launch.kept_launches)."""
        launched = self._launched.setdefault(task.main_kind, [])
        cold = task.binary not in launched
        launched.append(task.binary)
        del launched[: -self.chip.launch.kept_launches or len(launched)]
        return cold

    def repeat(self, tasks: Iterable[Task]) -> None:
        """Leave the code that a run of `tasks` leaves."""
        for task in tasks:
            if task.block_dim:
                self.launch(task)

    def allocate(self, size: int, name: str) -> Allocation:
        """Reserve `size` bytes of GM."""
        return self.gm.allocate(size, name, with_data=self.with_values)

    def warm(self, allocation: Allocation) -> None:
        """Make a tensor resident in the L2, as far as it fits."""
        line = self.chip.memory.l2_line_bytes
        self.l2.warm(allocation.base // line, -(-(allocation.base + allocation.size) // line))
