"""Plan of a gradient that is called as an operator of the graph, not through aclnnConvolutionBackward.

torch_npu.npu_conv3d_backward does so (op-plugin: stated): both maps are converted to blocks where the architecture
needs them, the weights are not read, and dW stays in the fp32 of its sums, so that there is no Cast. Which of the two
operators runs is the graph's choice: Conv3DBackpropFilter, or the operator that a fusion pass makes of it,
Conv3DBackpropFilterV2. For the operators of grad_input only the kernel is known; that both inputs are converted before
it is inferred from those of the weight. A grouped dW is converted back in two steps, as through aclnn: the calls that
were measured on a 910B2 launched a MemSet and a TransData more.
"""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.operators.convolution_backward.plans.blocked import BlockedPlan
from ascend_sim.ops.operators.convolution_backward.plans.direct import DirectPlan
from ascend_sim.ops.plan import Plan

FILTERS = ("Conv3DBackpropFilter", "Conv3DBackpropFilterV2")
DATA = ("Conv3DBackpropInput", "Conv3DBackpropInputV2")


def plan_gradient_operator(call: ConvolutionCall, chip: ChipSpec, op_type: str) -> Plan:
    """Return the plan of graph operator `op_type` for an accepted call that wants one gradient, dW in fp32.

    Raises SimError for an operator other than those that the chip has for that gradient, and in blocked layouts for a call
    that is not 3-D.
    """
    plain, known = call.family.layout.plain, FILTERS if "grad_weight" in call.outputs else DATA
    if op_type not in known[plain:]:
        raise SimError(f"{op_type} on {chip.name}: allowed {', '.join(known[plain:])}")
    if not plain and call.rank != 5:
        raise SimError(f"{op_type} on {chip.name} takes 3-D convolutions; this one has no depth")
    return (_Direct(call, chip) if plain else _Blocked(call, chip, op_type)).plan()


class _Blocked(BlockedPlan):
    """Plan of a graph operator on blocks: TransData of its inputs, MemSet of dW, the operator, TransData of the result."""

    def __init__(self, call: ConvolutionCall, chip: ChipSpec, op_type: str) -> None:
        super().__init__(call, chip)
        self._op_type = op_type

    def filter_op_type(self) -> str:
        return self._op_type

    def data_op_type(self) -> str:
        return self._op_type

    def launches(self) -> None:
        if "grad_weight" in self.call.outputs:
            maps = {name: self.to_c0(name, name) for name in ("input", "grad_output")}
            self.grad_weight(maps[self.call.y], maps[self.call.x])
            return
        ready = self.prepared({name: name for name in (self.maps.read, "weight")})
        self.data(ready[self.maps.read], ready["weight"])

    def narrowed_before_trans_data(self) -> None:
        """Return None: dW is fp32 to the end in a graph's call, so no Cast stands before TransData."""


class _Direct(DirectPlan):
    """Plan of a graph operator on plain layouts: the operator alone."""

    def launches(self) -> None:
        if "grad_weight" in self.call.outputs:
            self.grad_weight(self.call.y, self.call.x)
        else:
            self.data(self.maps.read, "weight")
