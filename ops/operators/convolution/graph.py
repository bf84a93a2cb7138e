"""Plan of a forward convolution that is called as an operator of the graph, without aclnn's conversions.

torch_npu.npu_conv2d does so (op-plugin: stated). Input and weights are converted to blocks; of 16-bit weights TransData
leaves the padding to a MemSet, and groups are merged in a step of their own, into a tensor that is cleared as well
(CANN 8.1.RC1, tbe, trans_data_positive_source_ntc and trans_data_groups: stated). The cube adds the bias. Beside bf16
inputs Conv2D wants it in fp32 (its documents name fp16, fp32 and int32 alone: stated), so that there is a Cast. An fp16
result stays in NC1HWC0, because npu_conv2d asks for it there; others are converted back (stated).

On dav-1001 and dav-2002 the operator adds the bias in UB, which is not simulated: the values lack it, of which the plan warns.
"""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape
from ascend_sim.ops.operators.convolution.plans import BiasInSums, begins_with_bias
from ascend_sim.ops.operators.convolution_backward.plans.blocked import BlockedPlan
from ascend_sim.ops.plan import Plan

CONV2D = "Conv2D"
NO_BIAS = "the operator adds the bias in UB on the way of its results, which is not simulated: the values lack it"


def plan_forward_operator(call: ConvolutionCall, chip: ChipSpec, op_type: str) -> Plan:
    """Return the plan of graph operator `op_type` for an accepted call; SimError for all but Conv2D of 2-D convolutions
    that are not transposed, in blocked layouts.
    """
    if op_type != CONV2D or call.family.layout.plain or not call.forward or call.rank != 4:
        kind = f"{call.rank - 2}-D{'' if call.forward else ' transposed'} convolution"
        known = f"{CONV2D} of 2-D convolutions, where maps are in blocks of channels"
        raise SimError(f"{op_type} of a {kind} on {chip.name} is not simulated; known graph calls are {known}")
    return _Operator(call, chip).plan()


class _Operator(BiasInSums, BlockedPlan):
    """Plan of a forward convolution as a graph operator: Casts, TransData before the kernel, and after it unless the input is
    fp16. On coupled chips the bias is left out, with a warning.
    """

    def launches(self) -> None:
        if "bias" in self.call.inputs and not begins_with_bias(self.call):
            self.result.warnings.append(NO_BIAS)
        self.bias_of_sums()
        ready = self.prepared(
            {name: self.cast_input(self.contiguous(name), name, self.storage) for name in ("input", "weight")}
        )
        self.data(ready["input"], ready["weight"])

    def turn_weights(self, source: str, target: str, shape: FilterShape) -> None:
        if self.itemsize == 2:
            self.cleared(target, "MemSet_weight")
        super().turn_weights(source, target, shape)

    def in_blocks(self, made: str) -> str:
        if self.call.inputs["input"].dtype != "float16":
            return super().in_blocks(made)
        return self.result.tensor(made, self.storage, self.blocks, self.feature_bytes(self.maps.like), "output")

    def from_blocks(self, result: str, made: str) -> None:
        if result != made:
            super().from_blocks(result, made)
