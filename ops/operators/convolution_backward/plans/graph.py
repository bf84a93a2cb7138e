"""The plan of a weight gradient that is called as an operator of the graph, not through aclnnConvolutionBackward.

torch_npu.npu_conv3d_backward does so (op-plugin: stated): both maps are turned to blocks where the architecture needs them,
the weights are not read, and dW stays in the fp32 of its sums, so that there is no Cast. Which of the two operators runs is
the graph's choice: Conv3DBackpropFilter, or what a fusion pass makes of it, Conv3DBackpropFilterV2.
"""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.operators.convolution_backward.plans.blocked import BlockedPlan
from ascend_sim.ops.operators.convolution_backward.plans.direct import DirectPlan
from ascend_sim.ops.plan import Plan

FILTERS = ("Conv3DBackpropFilter", "Conv3DBackpropFilterV2")


def plan_filter_operator(call: ConvolutionCall, chip: ChipSpec, op_type: str) -> Plan:
    """What launching `op_type` takes, for an accepted 3-D call with an fp32 dW; SimError for an operator that is not there."""
    plain = call.family.layout.plain
    if op_type not in FILTERS[plain:]:
        raise SimError(f"{op_type} on {chip.name}: allowed {', '.join(FILTERS[plain:])}")
    return (_Direct(call, chip) if plain else _Blocked(call, chip, op_type)).plan()


class _Blocked(BlockedPlan):
    """TransData of both maps, MemSet, the operator, TransData of dW."""

    def __init__(self, call: ConvolutionCall, chip: ChipSpec, op_type: str) -> None:
        super().__init__(call, chip)
        self._op_type = op_type

    def filter_op_type(self) -> str:
        return self._op_type

    def launches(self) -> None:
        maps = {name: self.to_c0(name, name) for name in ("input", "grad_output")}
        self.grad_weight(maps[self.call.y], maps[self.call.x])


class _Direct(DirectPlan):
    """The operator alone."""

    def launches(self) -> None:
        self.grad_weight(self.call.y, self.call.x)
