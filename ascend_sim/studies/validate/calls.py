"""Measured calls: all kernels of one call together, which a row gives as a sum.

A row names the kernels that ran, in their order (column `kernels`); each is simulated as that kernel on the tensors that the
ones before it made. Where a source names none, the kernels are those of our own plan, and the column is empty. The sum of the
kernels' times is compared; where the source gives the time of a kernel, `Name=12.3`, that too. A list that differs from ours
only by kernels which no source assigns a tensor to (`TENSOR_UNKNOWN`), or by its order, is compared on the kernels that are
known, apart from the other rows: `difference` says by what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.execute import bind
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan
from ascend_sim.runtime import Device
from ascend_sim.studies.validate.conv_row import ConvRow
from ascend_sim.studies.validate.kernel import Kernel
from ascend_sim.studies.validate.launch import Launched


def named_kernels(kernel: Kernel) -> list[tuple[str, float | None]]:
    """The kernels of a call in their order, with their measured times in us where the row has them; none for our own plan."""
    found = []
    for entry in kernel.label("kernels").split():
        name, _, us = entry.partition("=")
        try:
            found.append((name, float(us) if us else None))
        except ValueError:
            raise ValueError(
                f"kernels: {entry!r} given; allowed: Name or Name=us, with blanks between kernels"
            ) from None
    return found


TENSOR_UNKNOWN = {"MemSet": 2, "Cast": 1, "TransData": 1}
"""Kernels of measured calls that no source assigns a tensor to, and how many more or fewer a list may have of them: as many as
the measured lists have. With more in doubt too little would be left of a call to compare."""


def difference(ran: Sequence[str], known: Sequence[str]) -> str | None:
    """By which kernels a call's list differs from what is known of it, in words, "" by none; None where it is another call.

    A source may count kernels and give no order, so the same kernels in another order are no other call.
    """
    more, fewer = Counter(ran) - Counter(known), Counter(known) - Counter(ran)
    rest = [[name for name in names if name not in TENSOR_UNKNOWN] for names in (ran, known)]
    apart = [(name, count) for counts in (more, fewer) for name, count in counts.items()]
    if rest[0] != rest[1] or any(count > TENSOR_UNKNOWN.get(name, 0) for name, count in apart):
        return None
    if not apart:
        return "" if list(ran) == list(known) else "the call's list is in another order"
    words = (
        (text, ", ".join(sorted(counts.elements()))) for text, counts in (("also ran", more), ("ran without", fewer))
    )
    return "the call " + " and ".join(f"{text} {names}" for text, names in words if names)


class ConvCall(ConvRow):
    """A call that is made of one convolution."""

    def check(self, kernel: Kernel) -> None:
        super().check(kernel)
        named_kernels(kernel)

    def tasks(self, kernel: Kernel, chip: ChipSpec, device: Device) -> Launched:
        plan, inputs = self.plan(kernel, chip)
        named = [name for name, _ in named_kernels(kernel)]
        planned = [step.op_type for step in plan.steps]
        if named and difference(named, planned) is None:
            raise SimError(f"the call ran {', '.join(named)}; known here is what {', '.join(planned)} do")
        allocations = {t.name: device.allocate(t.size, t.name) for t in plan.tensors.values() if t.role != "workspace"}
        tasks = bind(plan, chip, allocations, device.allocate(plan.workspace_bytes, "workspace"))
        return tasks, [allocations[name] for name in inputs]

    def plan(self, kernel: Kernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        """The kernels of the call on tensors of the row's sizes, and which tensors the caller gives."""
        raise NotImplementedError


class FilterCall(ConvCall):
    """torch_npu.npu_conv3d_backward for the weight alone: the graph operator, whose dW is fp32."""

    direction = "backward"

    def plan(self, kernel: Kernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        call = self.accepted(kernel, chip, "grad_weight")
        call = replace(call, outputs={name: replace(one, dtype="float32") for name, one in call.outputs.items()})
        filters = [name for name, _ in named_kernels(kernel) if name.startswith("Conv")]
        if len(filters) != 1:
            raise SimError(f"kernels: {len(filters)} that make dW; one is needed")
        return OPERATORS.of_pass(self.direction).graph_plan(call, chip, filters[0]), ("input", "grad_output")


class ForwardCall(ConvCall):
    """A forward convolution, whose bias the cube adds on its way (not simulated: a few hundred bytes)."""

    def plan(self, kernel: Kernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        call = self.accepted(kernel, chip)
        return OPERATORS.of_pass(self.direction).plan(call, chip), ("input", "weight")


class TransposedCall(ForwardCall):
    """A transposed convolution, whose kernel is the one that makes dX."""

    transposed = True
