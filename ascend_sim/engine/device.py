"""The state of one simulated device that outlives a kernel: chip, global memory and L2."""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.memory.gm import Allocation, GlobalMemory


class Device:
    """A chip with its memory. `with_values` false reserves GM addresses without bytes (timing mode)."""

    def __init__(self, chip: ChipSpec, *, with_values: bool = True) -> None:
        self.chip = chip
        self.with_values = with_values
        self.gm = GlobalMemory(chip.memory.hbm_bytes, chip.memory.l2_line_bytes)
        self.l2 = L2Cache(chip.memory.l2_bytes // chip.memory.l2_line_bytes)
        self.clock = 0

    def allocate(self, size: int, name: str) -> Allocation:
        """Reserve `size` bytes of GM."""
        return self.gm.allocate(size, name, with_data=self.with_values)

    def warm(self, allocation: Allocation) -> None:
        """Make a tensor resident in the L2, as far as it fits."""
        line = self.chip.memory.l2_line_bytes
        self.l2.warm(allocation.base // line, -(-(allocation.base + allocation.size) // line))
