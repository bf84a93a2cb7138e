"""Execution of a plan: give its tensors addresses, make its steps tasks, run them, read the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import mutable
from ascend_sim.memory.gm import Allocation, room_of
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.plan import Plan
from ascend_sim.options.description import check_choices
from ascend_sim.options.run_options import STEP, CacheOptions, TaskOptions
from ascend_sim.runtime import Device, KernelMoves, Outcome, Task, Timeline, ValueModel, run_tasks, run_values

Array = NDArray[Any]


@mutable
class Execution:
    """A plan that ran: `outcome`, its `tasks`, output name -> device tensor, and inputs that the L2 held before (`warm`)."""

    outcome: Outcome
    tasks: list[Task]
    outputs: dict[str, Allocation]
    warm: list[Allocation]


def execute(
    plan: Plan,
    chip: ChipSpec,
    inputs: Mapping[str, Array | None],
    options: TaskOptions,
    *,
    l2: str = "cold",
    launches: str = "cold",
    before: Sequence[KernelMoves] = (),
    model: ValueModel | None = None,
) -> Execution:
    """Run a placed plan on a fresh device; return its tasks, outcome and outputs.

    `inputs` are flat storages by tensor name (None in timing mode). `l2` and `launches` are those of `CacheOptions`: `l2`
    "warm" brings the inputs into the L2 before, "step" replays the kernels `before` (earlier launches of the training step,
    whose buffers have the names of the plan's tensors; not used otherwise); `launches` "warm" means that the same tasks ran
    just before. SimError for other values of the two.
    """
    check_choices(CacheOptions, {"l2": l2, "launches": launches})
    device = Device(chip, with_values=options.get("mode") != "timing")
    tasks, allocations = place(plan, device, inputs)
    warm = [allocations[name] for name in inputs] if l2 == "warm" else []
    for allocation in warm:
        device.warm(allocation)
    device.replay(before if l2 == STEP else (), allocations)
    device.repeat(tasks if launches == "warm" else ())
    return Execution(run_tasks(device, tasks, options, model=model), tasks, outputs_of(plan, allocations), warm)


def place(plan: Plan, device: Device, inputs: Mapping[str, Array | None]) -> tuple[list[Task], dict[str, Allocation]]:
    """Allocate the plan's tensors and workspace on `device` and copy `inputs` in (None: nothing is copied); return (launches,
    name -> tensor without those of the workspace).
    """
    tensors = [tensor for tensor in plan.tensors.values() if tensor.role != "workspace"]
    allocations = {tensor.name: device.allocate(tensor.size, tensor.name) for tensor in tensors}
    fill(allocations, inputs)
    return bind(plan, device.chip, allocations, device.allocate(plan.workspace_bytes, "workspace")), allocations


def fill(allocations: Mapping[str, Allocation], inputs: Mapping[str, Array | None]) -> None:
    """Copy the bytes of flat storages into the allocations of their names, which must be as large; None and allocations without
    bytes are skipped.
    """
    for name, storage in inputs.items():
        data = allocations[name].data
        if storage is not None and data is not None:
            data[:] = storage.view(np.uint8).ravel()


def values_again(
    plan: Plan, chip: ChipSpec, model: ValueModel, timeline: Timeline | None, inputs: Mapping[str, Array]
) -> dict[str, Allocation]:
    """Compute only the values of a plan's tasks, without timing, on a fresh device with `inputs`; return output name -> device
    tensor.

    Instructions run in the order of `timeline`; None means block by block.
    """
    device = Device(chip, with_values=True)
    tasks, allocations = place(plan, device, inputs)
    run_values(device, tasks, timeline, model)
    return outputs_of(plan, allocations)


def outputs_of(plan: Plan, allocations: Mapping[str, Allocation]) -> dict[str, Allocation]:
    """Return output name -> device tensor, from the tensors that `place` returns."""
    return {t.name: allocations[t.name] for t in plan.tensors.values() if t.role == "output"}


def bind(plan: Plan, chip: ChipSpec, tensors: Mapping[str, Allocation], workspace: Allocation) -> list[Task]:
    """Return the launches of a placed plan on the caller's `tensors` (by their names in the plan) and workspace, which must
    hold `workspace_bytes`; nothing is copied.
    """
    parts = {name: _part(workspace, offset, plan.tensors[name].size, name) for name, offset in plan.offsets.items()}
    allocations = {**tensors, **parts}
    return [step.make(chip, allocations) for step in plan.steps]


def tasks_without_values(plan: Plan, chip: ChipSpec) -> tuple[Device, list[Task]]:
    """Return (a fresh device, the launches of a plan on it); the tensors have addresses and no values."""
    device = Device(chip, with_values=False)
    return device, place(plan, device, {})[0]


def roles_of(plan: Plan) -> dict[str, str]:
    """Return tensor -> its role in the memory check: the plan's role, but "given" for "input".

    A "given" tensor holds values and need not be read whole, since a layer need not read all of its inputs.
    """
    return {name: "given" if one.role == "input" else one.role for name, one in plan.tensors.items()}


def _part(whole: Allocation, offset: int, size: int, name: str) -> Allocation:
    memory = None if whole.memory is None else whole.memory[offset : offset + room_of(size)]
    return Allocation(whole.base + offset, size, name, memory)


def output_of(call: AcceptedCall, allocation: Allocation, name: str) -> Array:
    """Return a copy of an output as an array in the caller's shape and dtype; 8-bit formats as uint8 codes. The device must
    hold values.
    """
    tensor = call.returned.get(name, call.outputs[name])
    assert allocation.data is not None
    dtype = numpy_dtype(tensor.dtype)
    flat = allocation.data.view(dtype if dtype.itemsize > 1 else np.uint8)
    return view_of(flat, tensor).copy()


def view_of(storage: Array, tensor: TensorArg) -> Array:
    """Return a tensor's elements, in its shape, as a view of flat `storage`, by its offset and strides (None: contiguous).
    Strides are not checked against the storage's end.
    """
    if tensor.strides is None:
        count = int(np.prod(tensor.shape, dtype=np.int64))
        return storage[tensor.offset : tensor.offset + count].reshape(tensor.shape)
    strides = tuple(stride * storage.itemsize for stride in tensor.strides)
    return np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, strides)
