"""Measured calls: all kernels of one call together, which a row gives as a sum.

A row names the kernels that ran (column `kernels`); each is simulated as that kernel on the tensors that the ones before it
made, in the order of the plan that launches as many of each: a source may count kernels and give no order. Where it names none,
the kernels are those of our own plan, and the column is empty. The sum of the kernels' times is compared; where the source
gives the time of a kernel, `Name=12.3`, that too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.execute import bind
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan
from ascend_sim.runtime import Device
from ascend_sim.studies.validate.conv_kernel import ConvRow
from ascend_sim.studies.validate.launch import Launched, MeasuredKernel


def named_kernels(kernel: MeasuredKernel) -> list[tuple[str, float | None]]:
    """Return (operator, measured us or None) of each kernel of a call in order; [] if the row names none.

    Raises ValueError for a time that is not a number.
    """
    found = []
    for entry in kernel.label("kernels").split():
        name, _, us = entry.partition("=")
        try:
            found.append((name, float(us) if us else None))
        except ValueError:
            raise ValueError(f"kernels: {entry!r} given; allowed: Name or Name=us, with blanks between kernels") from None
    return found


class ConvCall(ConvRow):
    """Base of the task builders for measured calls of one convolution, which may launch several kernels; code is warm unless
    the row says otherwise.
    """

    launches = "warm"

    def check(self, kernel: MeasuredKernel) -> None:
        super().check(kernel)
        named_kernels(kernel)

    def tasks(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> Launched:
        plan, inputs = self.plan(kernel, chip)
        named, planned = [name for name, _ in named_kernels(kernel)], [step.op_type for step in plan.steps]
        if named and Counter(named) != Counter(planned):
            raise SimError(f"the call ran {', '.join(named)}; the simulated call runs {', '.join(planned)}")
        allocations = {t.name: device.allocate(t.size, t.name) for t in plan.tensors.values() if t.role != "workspace"}
        tasks = bind(plan, chip, allocations, device.allocate(plan.workspace_bytes, "workspace"))
        return tasks, [allocations[name] for name in inputs]

    def plan(self, kernel: MeasuredKernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        """Return (plan of the call's kernels for the row's sizes, names of the tensors that the caller gives)."""
        raise NotImplementedError


class FilterCall(ConvCall):
    """Task builder for calls of torch_npu.npu_conv3d_backward for the weight alone: the graph operator that the row names,
    whose dW is fp32.
    """

    direction = "backward"

    def plan(self, kernel: MeasuredKernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        call = self.accepted(kernel, chip, "grad_weight")
        call = replace(call, outputs={name: replace(one, dtype="float32") for name, one in call.outputs.items()})
        filters = [name for name, _ in named_kernels(kernel) if name.startswith("Conv")]
        if len(filters) != 1:
            raise SimError(f"kernels: {len(filters)} of them make dW; the row must name one")
        return OPERATORS.of_pass(self.direction).graph_plan(call, chip, filters[0]), ("input", "grad_output")


class ForwardConvolution(ConvCall):
    """Task builder for calls of a forward convolution.

    If the row names kernels, the call is our own or that of the graph's operator: the one whose kernels differ less from these.
    A bias of a few hundred bytes is simulated only in a graph's call, and there if the row names a Cast.
    """

    def plan(self, kernel: MeasuredKernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        operator, named = OPERATORS.of_pass(self.direction), [name for name, _ in named_kernels(kernel)]
        plans = [operator.plan(self.accepted(kernel, chip), chip)]
        if cubes := [name for name in named if name.startswith("Conv")]:
            with suppress(SimError):  # a kernel that no graph is known to launch
                plans.append(operator.graph_plan(self.accepted(kernel, chip, bias="Cast" in named), chip, cubes[0]))
        ran, known = Counter(named), [Counter(step.op_type for step in plan.steps) for plan in plans]
        apart = [(ran - own).total() + (own - ran).total() for own in known]  # kernels that only one of the two has
        return plans[apart.index(min(apart))], ("input", "weight")


class TransposedCall(ForwardConvolution):
    """Task builder for calls of a transposed convolution, whose kernel is the one that computes the input's gradient."""

    transposed = True
