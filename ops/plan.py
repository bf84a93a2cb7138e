"""The plan of a call: the kernels it launches, in order, and the tensors between them in one workspace.

The order follows the released library on the split architecture (ops-nn, op_api of convolution_backward: stated): bias
first, then Cast and TransData of all three inputs, grad_input, grad_weight; each result is converted back and cast once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen, mutable
from ascend_sim.memory.gm import Allocation, room_of
from ascend_sim.ops.kernels.vector.common import KernelWork, Loop, TaskWords, work_task
from ascend_sim.runtime import Task

WORKSPACE_ALIGNMENT = 512
"""Bytes; the operator documents ask for 512-byte aligned workspace (stated), and an L2 line is as long."""

Make = Callable[[ChipSpec, Mapping[str, Allocation]], Task]


@frozen
class PlanTensor:
    """A tensor of the plan, of `size` bytes.

    `role` is "input" or "output" (the caller's), "workspace", or "spare" for an input on which no result depends.
    """

    name: str
    dtype: str
    format: str
    size: int
    role: str = "workspace"


@frozen
class PlanStep:
    """One kernel launch; `make(chip, name -> allocation)` returns its Task once its tensors have addresses. `scratch` are
    workspace tensors of this kernel alone.
    """

    op_type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    make: Make
    scratch: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """Return the names of all tensors that the kernel touches: inputs, then outputs, then scratch."""
        return (*self.inputs, *self.outputs, *self.scratch)


@mutable
class Plan:
    """Steps in launch order and their tensors; `place` gives every intermediate its offset in the workspace (`offsets` and
    `workspace_bytes`, empty before).

    `warnings` name the parts of the request that the plan does not carry out.
    """

    tensors: dict[str, PlanTensor] = field(default_factory=dict)
    steps: list[PlanStep] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    workspace_bytes: int = 0
    warnings: list[str] = field(default_factory=list)

    def tensor(self, name: str, dtype: str, format: str, size: int, role: str = "workspace") -> str:
        """Add a tensor to the plan, by default an intermediate one in the workspace, and return its name; it replaces one of
        the same name.
        """
        self.tensors[name] = PlanTensor(name, dtype, format, size, role)
        return name

    def add(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        make: Make | KernelWork | partial[Loop],
        scratch: Sequence[str] = (),
        disarm: Collection[str] = (),
    ) -> None:
        """Append a launch: a kernel function with its work, a loop that is made when the launch is built (as a partial: its
        pieces may be many), or a function that makes the task once tensors have addresses.

        A kernel function or loop gets inputs, outputs and scratch tensors in this order, and its waits on flags in `disarm`
        are ignored; SimError if a kernel function takes another number of tensors. A function that makes the task disarms
        flags itself: `disarm` does not reach it.
        """
        if isinstance(make, KernelWork | partial):
            make = self._task_of(make, TaskWords(op_type, name, disarm), (*inputs, *outputs, *scratch))
        self.steps.append(PlanStep(op_type, name, tuple(inputs), tuple(outputs), make, tuple(scratch)))

    def _task_of(self, work: KernelWork | partial[Loop], launch: TaskWords, names: tuple[str, ...]) -> Make:
        if isinstance(work, partial):
            return lambda chip, t: work_task(chip, launch, work(), [t[name] for name in names])
        if len(names) != len(work.tensors):
            raise SimError(f"plan: {launch.name} has tensors {', '.join(names)}; its kernel takes {len(work.tensors)}")
        tensors = [self.tensors[name] for name in names]
        facts = {
            "dtypes": {one.name: one.dtype for one in tensors},
            "formats": {one.name: one.format for one in tensors},
            "shapes": {name: list(one.shape) for name, one in zip(names, work.tensors, strict=True)},
        }
        told = work if work.info else replace(work, info=facts)
        return lambda chip, t: work_task(chip, launch, told, [t[name] for name in names])

    def place(self, slack: bool = False) -> None:
        """Place each workspace tensor at the first free offset, from its first use to its last; sets `offsets` and
        `workspace_bytes`. A tensor that no step uses gets no place.

        Sizes are rounded up to `WORKSPACE_ALIGNMENT`, at least one unit; `slack` leaves the spare bytes of an allocation
        (`room_of`) behind each.
        """
        last = {name: index for index, step in enumerate(self.steps) for name in step.tensors}
        live: dict[str, tuple[int, int]] = {}
        for index, step in enumerate(self.steps):
            for name in step.tensors:
                if self.tensors[name].role == "workspace" and name not in self.offsets:
                    size = self.tensors[name].size
                    size = max(-(-(room_of(size) if slack else size) // WORKSPACE_ALIGNMENT), 1) * WORKSPACE_ALIGNMENT
                    start = _first_fit(sorted(live.values()), size)
                    self.offsets[name] = start
                    live[name] = (start, start + size)
                    self.workspace_bytes = max(self.workspace_bytes, start + size)
            for name in [name for name in live if last[name] == index]:
                del live[name]

    def rows(self) -> list[dict[str, Any]]:
        """Return the launches for the report and for printing: dicts of "op_type", "name", and "inputs" and "outputs" as lists
        of texts "name dtype format". Scratch tensors are left out.
        """
        return [
            {
                "op_type": step.op_type,
                "name": step.name,
                "inputs": [self._describe(name) for name in step.inputs],
                "outputs": [self._describe(name) for name in step.outputs],
            }
            for step in self.steps
        ]

    def _describe(self, name: str) -> str:
        tensor = self.tensors[name]
        return f"{name} {tensor.dtype} {tensor.format}"


def _first_fit(taken: Sequence[tuple[int, int]], size: int) -> int:
    start = 0
    for low, high in taken:
        if low - start >= size:
            break
        start = max(start, high)
    return start
