"""The state of one simulated device that outlives a kernel: chip, global memory and L2."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.task import Task
from ascend_sim.memory.gm import Allocation, GlobalMemory

Moved = tuple[Hashable, int, bool]
"""A tensor that a kernel moves: (key of its buffer, bytes, True if it is written)."""
KernelMoves = tuple[Moved, ...]
"""The tensors that one kernel moves."""
_PARTS = 64
"""Parts in which a kernel that is not simulated moves each tensor (assumed)."""
_NO_LINES = np.empty(0, np.int64)


class Cached(NamedTuple):
    """Bytes of GM that the L2 holds; `dirty` if they are written and not yet in HBM."""

    base: int
    size: int
    dirty: bool


class Device:
    """A chip with its memory, L2 and launch history. `with_values` False reserves GM addresses without bytes (timing mode)."""

    def __init__(self, chip: ChipSpec, *, with_values: bool = True) -> None:
        self.chip = chip
        self.with_values = with_values
        self.gm = GlobalMemory(chip.memory.hbm_bytes, chip.memory.l2_line_bytes)
        self.l2 = L2Cache(chip.memory.l2_bytes // chip.memory.l2_line_bytes)
        self._launched: dict[str, list[object]] = {}
        self.clock = 0

    def launch(self, task: Task) -> bool:
        """Record a task's launch; return True if the cores must fetch its code.

        Code is warm if it is among the last launches on that kind of core (chip file, launch.kept_launches).
        """
        launched = self._launched.setdefault(task.main_kind, [])
        cold = task.binary not in launched
        launched.append(task.binary)
        del launched[: -self.chip.launch.kept_launches or len(launched)]
        return cold

    def repeat(self, tasks: Iterable[Task]) -> None:
        """Record the launches of those `tasks` that have blocks, so that their code is warm; nothing is run."""
        for task in tasks:
            if task.block_dim:
                self.launch(task)

    def priced_fetches(self, tasks: Sequence[Task]) -> list[int]:
        """Return the indices of the tasks that would pay for cold code if all were launched now, in order; records nothing."""
        launched, costs = {kind: [*code] for kind, code in self._launched.items()}, self.chip.launch
        priced = {*costs.cold_us, *costs.cold_per_block_us}
        cold = [index for index, task in enumerate(tasks) if task.block_dim and self.launch(task)]
        self._launched = launched
        return [index for index in cold if priced & {kind for _, kind, _ in tasks[index].cores(self.chip, 0)}]

    def allocate(self, size: int, name: str) -> Allocation:
        """Reserve `size` bytes of GM and return the allocation, with bytes only if the device has values.

        Raises as `GlobalMemory.allocate`.
        """
        return self.gm.allocate(size, name, with_data=self.with_values)

    def pass_over(self, tensors: Sequence[tuple[Allocation, bool]]) -> int:
        """Change the L2 as a kernel does that moves each tensor once, and return the number of dirty lines that this evicts.

        `tensors` are pairs (tensor, True if it is written). They are moved in turns, part by part, as the blocks of a kernel
        do.
        """
        line, driven_out = self.chip.memory.l2_line_bytes, 0
        self.l2.know(max((-(-(tensor.base + tensor.size) // line) for tensor, _ in tensors), default=0))
        for part in range(_PARTS):
            for tensor, written in tensors:
                first, end = tensor.base // line, -(-(tensor.base + tensor.size) // line)
                lines = slice(*(first + (end - first) * edge // _PARTS for edge in (part, part + 1)))
                if lines.start < lines.stop:
                    moved = self.l2.write(lines, _NO_LINES) if written else self.l2.read(lines, _NO_LINES)
                    driven_out += moved[1]
        return driven_out

    def replay(self, kernels: Iterable[KernelMoves], held: Mapping[Any, Allocation]) -> None:
        """Change the L2 as `kernels`, run in turn, would; their buffers are those of `held` by key.

        Others are allocated here and never freed.
        """
        buffers: dict[Hashable, Allocation] = dict(held)
        for moved in kernels:
            for buffer, nbytes, _ in moved:
                if buffer not in buffers:
                    buffers[buffer] = self.allocate(nbytes, f"earlier {buffer}")
            self.pass_over([(buffers[buffer], written) for buffer, _, written in moved])

    def cached(self) -> list[Cached]:
        """Return the ranges of bytes that the L2 holds, oldest first."""
        size = self.chip.memory.l2_line_bytes
        return [Cached(lines.start * size, (lines.stop - lines.start) * size, dirty) for lines, dirty in self.l2.contents()]

    def cache(self, held: Iterable[Cached]) -> None:
        """Bring `held` into the L2, one after the other; where not all fit, the first ones are evicted."""
        line = self.chip.memory.l2_line_bytes
        for base, size, dirty in held:
            lines = slice(base // line, -(-(base + size) // line))
            if dirty:
                self.l2.write(lines, _NO_LINES)
            else:
                self.l2.read(lines, _NO_LINES)

    def warm(self, allocation: Allocation) -> None:
        """Bring a tensor's absent lines into the L2, clean; where not all fit, the oldest lines leave, which may be this
        tensor's own. Resident lines keep their age and stay dirty or clean.
        """
        line = self.chip.memory.l2_line_bytes
        self.l2.warm(allocation.base // line, -(-(allocation.base + allocation.size) // line))
