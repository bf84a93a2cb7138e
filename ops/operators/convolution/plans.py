"""The plan of a forward convolution: the data path of convolution backward, and behind it the bias.

Not transposed, the kernel is the one that makes grad_input of a transposed call; transposed, the one that makes grad_input
of any other. No document says which operators the library launches here: what stands around the kernel is taken over from
convolution backward, and the bias is a kernel of its own, because the cube kernels begin their sums with zeros (assumed).
"""

from __future__ import annotations

import math

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kernels.vector.bias_add import bias_add_work
from ascend_sim.ops.operators.convolution_backward.plans.blocked import BlockedPlan
from ascend_sim.ops.operators.convolution_backward.plans.direct import DirectPlan
from ascend_sim.ops.operators.convolution_backward.plans.gradients import Gradients
from ascend_sim.ops.plan import Plan

OUTPUT = "output"


def plan_convolution(call: ConvolutionCall, chip: ChipSpec) -> Plan:
    """The placed plan; TilingError where no tiling fits, SimError for a tiling of the forward kernel, which has no fields."""
    if call.forward and (call.tiling or call.block_dim):
        what = "tiling" if call.tiling else "block_dim"
        raise SimError(f"{what} of {OUTPUT}: the kernel of a convolution that is not transposed has no fields to set")
    planner: Gradients = _DirectPlan(call, chip) if call.family.layout.plain else _BlockedPlan(call, chip)
    return planner.plan()


class _Forward(Gradients):
    """Input and weight made ready, the data kernel, and the bias on the way to the caller's tensor."""

    def launches(self) -> None:
        names = ("input", "weight")
        plain = {name: self.contiguous(name) for name in names}
        ready = self.prepared({name: self.cast_input(plain[name], name, self.storage) for name in names})
        self.data(ready["input"], ready["weight"])

    def landing(self, output: str, dtype: str) -> str:
        """With a bias the kernel's result is an intermediate."""
        if "bias" not in self.call.inputs:
            return super().landing(output, dtype)
        return self.result.tensor(f"{output}.{self.plain}", dtype, self.plain, self._bytes(dtype))

    def deliver(self, source: str, output: str) -> None:
        """The bias is added in the caller's dtype."""
        if "bias" not in self.call.inputs:
            super().deliver(source, output)
            return
        tensor = self.call.outputs[output]
        source, bias = self.cast(source, tensor.dtype, f"{output}.cast"), self.contiguous("bias")
        in_place = tensor.is_contiguous and not tensor.offset
        target = output
        if not in_place:
            target = self.result.tensor(f"{output}.biased", tensor.dtype, self.plain, self._bytes(tensor.dtype))
        n, c, *size = self.call.volume(output)
        name, names = f"BiasAdd_{output}", (source, bias, target)
        work = bias_add_work(self.chip, n, c, math.prod(size), tensor.dtype, name)
        self.launch("BiasAdd", name, names[:2], names[2:], work)
        if not in_place:
            self.view_copy(target, TensorArg(tensor.shape, tensor.dtype), output, tensor, tensor.dtype)

    def _bytes(self, dtype: str) -> int:
        return math.prod(self.call.volume(OUTPUT)) * int(numpy_dtype(dtype).itemsize)


class _BlockedPlan(_Forward, BlockedPlan):
    """On blocks of channels, with TransData."""


class _DirectPlan(_Forward, DirectPlan):
    """On NCDHW."""
