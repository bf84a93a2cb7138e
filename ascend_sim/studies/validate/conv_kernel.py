"""One measured kernel of a convolution: the launch of a call that has the row's operator, alone.

The kernels are those of `calls`: of forward convolutions those of their plan, of gradients the operator as a graph launches it,
whatever aclnnConvolutionBackward would have chosen for the problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.numerics import canonical
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan, PlanStep
from ascend_sim.runtime import Device, Task
from ascend_sim.studies.validate.conv_row import ConvRow
from ascend_sim.studies.validate.kernel import MeasuredKernel

SAME_FORMATS = {"ND": "NCHW", "NCDHW": "NCHW", "NDC1HWC0": "NC1HWC0", "FRACTAL_Z_3D": "FRACTAL_Z"}
"""Formats that differ in the axis of the depth alone, which a profiler writes of one kernel either way."""


class ConvKernel(ConvRow):
    """Task builder for measured rows of one cube kernel of a convolution, launched alone; `gradient` is its output, "" for
    the forward kernel.
    """

    optional = (*ConvRow.optional, "block_dim")
    helps: ClassVar[Mapping[str, tuple[str, ...]]] = {"block_dim": ("block_dim",)}

    def __init__(self, gradient: str = "") -> None:
        self.gradient = gradient
        self.direction = "backward" if gradient else "forward"

    def check(self, kernel: MeasuredKernel) -> None:
        """Raise ValueError for sizes that contradict each other; a row that lacks sizes passes, and `task` gives the reason
        why it is skipped.
        """
        if not self._missing(kernel):
            super().check(kernel)

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> tuple[Task, list[Allocation]]:
        if missing := self._missing(kernel):
            raise SimError(f"{', '.join(missing)} missing; {kernel.op_type} needs {', '.join(self.columns)}")
        plan = self._plan(kernel, chip)
        step = next((step for step in plan.steps if step.op_type == kernel.op_type), None)
        if step is None:
            launched = ", ".join(step.op_type for step in plan.steps)
            raise SimError(f"{chip.name} has no {kernel.op_type} for this problem; it launches {launched}")
        _check_tensors(kernel, plan, step)
        allocations = {name: device.allocate(plan.tensors[name].size, name) for name in step.tensors}
        return step.make(chip, allocations), [allocations[name] for name in step.inputs]

    def _missing(self, kernel: MeasuredKernel) -> list[str]:
        """Return the size columns that the row needs and lacks; a row with Di needs those of the depth too."""
        given = dict(kernel.sizes)
        needed = (*self.columns, *(self.deep if "Di" in given else ()))
        return [name for name in needed if name not in given]

    def _plan(self, kernel: MeasuredKernel, chip: ChipSpec) -> Plan:
        operator = OPERATORS.of_pass(self.direction)
        if not self.gradient:
            return operator.plan(self.accepted(kernel, chip), chip)
        told = kernel.get("block_dim", 0)
        call = self.accepted(kernel, chip, self.gradient, {self.gradient: told} if told else None)
        if self.gradient == "grad_weight":  # its sums are fp32; a cast of them is another kernel
            call = replace(call, outputs={name: replace(one, dtype="float32") for name, one in call.outputs.items()})
        return operator.graph_plan(call, chip, kernel.op_type)


def _check_tensors(kernel: MeasuredKernel, plan: Plan, step: PlanStep) -> None:
    """Raise SimError if the row says another format of the first input or output, or another dtype of the output, than the
    simulated kernel has.

    Empty entries pass, and formats that differ in the depth axis alone are equal.
    """
    for does, label, name in (("reads", "format_in", step.inputs[0]), ("writes", "format_out", step.outputs[0])):
        given, known = kernel.label(label), plan.tensors[name].format
        if given and SAME_FORMATS.get(given, given) != SAME_FORMATS.get(known, known):
            raise SimError(f"{label} {given!r}: {kernel.op_type} here {does} {known}")
    given, known = kernel.label("dtype_out"), plan.tensors[step.outputs[0]].dtype
    if given and canonical(given) != known:
        raise SimError(f"dtype_out {given!r}: {kernel.op_type} here writes {known}")
