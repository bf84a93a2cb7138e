"""Plan of a forward convolution: the kernels of convolution backward that compute a feature map, and behind them the bias.

Not transposed, the kernel is the one that makes grad_input of a transposed call; transposed, the one that makes
grad_input of any other. No document says which operators the library launches here: the conversions around the kernel
are taken over from convolution backward.

Where the bias is added (ops-nn, aclnn_convolution.cpp and Conv3DV2; public sources of the older TBE operators: stated):

Not transposed, on dav-2201 and dav-3510: by the cube. Sums begin with it in float32, out of BT, and are rounded once.
It comes as float16 where the cube computes in that, else as float32 (bfloat16 is cast first).

Not transposed, on dav-1001 and dav-2002: in UB, to results that were rounded already, which are rounded again.

Transposed, 3-D, and of any rank on dav-3510: by an Add behind the operator, which rounds again.

Transposed, 1-D and 2-D, elsewhere: by the operator itself, with a bias out of BT on dav-2201. Here an own kernel adds
it, so that the result is rounded twice there (ours).
"""

from __future__ import annotations

import math
from dataclasses import replace

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kernels.conv_forward.tiling import beside_bias
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.vector.bias_add import bias_add_work
from ascend_sim.ops.operators.convolution_backward.plans.blocked import BlockedPlan
from ascend_sim.ops.operators.convolution_backward.plans.direct import DirectPlan
from ascend_sim.ops.operators.convolution_backward.plans.gradients import Gradients
from ascend_sim.ops.plan import Plan

OUTPUT = "output"


def plan_convolution(call: ConvolutionCall, chip: ChipSpec) -> Plan:
    """Return the plan of a convolution, transposed or not, with its workspace placed.

    Raises TilingError where no tiling fits. A tiling or a number of blocks given for a convolution that is not transposed is a
    SimError: its kernel has no fields.
    """
    if call.forward and (call.tiling or call.block_dim):
        what = "tiling" if call.tiling else "block_dim"
        raise SimError(f"{what} of {OUTPUT}: the kernel of a convolution that is not transposed has no fields to set")
    planner: Gradients = _DirectPlan(call, chip) if call.family.layout.plain else _BlockedPlan(call, chip)
    return planner.plan()


def begins_with_bias(call: ConvolutionCall) -> bool:
    """Return True if the cube's sums begin with the call's bias, rounded once: the call has a bias, is not transposed and not
    empty, and the chip is a split one.
    """
    return "bias" in call.inputs and call.forward and not call.family.coupled and not call.empty


def bias_dtype(call: ConvolutionCall) -> str:
    """Return the dtype in which the cube takes the bias: float16 where it computes in that, else float32."""
    return "float16" if call.storage_dtype == "float16" else "float32"


class BiasInSums(Gradients):
    """Mixin for plans whose data kernel begins its sums with the bias, where the cube adds it."""

    _bias: list[str] | None = None

    def data_call(self) -> CubeCall:
        """Return the data kernel's call; where sums begin with the bias, with the bias's dtype, and L1 without its room."""
        call = super().data_call()  # type: ignore[safe-super]
        if not begins_with_bias(self.call):
            return call
        return replace(call, bias=bias_dtype(self.call), inp=beside_bias(call.inp))

    def bias_of_sums(self) -> list[str]:
        """Return [name of the bias tensor that the cube's sums begin with], [] if they do not. The first call appends a
        contiguous copy of a strided bias, and a Cast if the cube takes another dtype.
        """
        if self._bias is None:
            dtype = bias_dtype(self.call)
            asked = begins_with_bias(self.call)
            self._bias = [self.cast(self.contiguous("bias"), dtype, f"bias.{dtype}")] if asked else []
        return self._bias


class _Forward(BiasInSums):
    """Plan of a forward convolution: conversions of the inputs, the data kernel, and a BiasAdd if the cube does not add it."""

    def launches(self) -> None:
        names = ("input", "weight")
        plain = {name: self.contiguous(name) for name in names}
        ready = self.prepared({name: self.cast_input(plain[name], name, self.storage) for name in names})
        self.data(ready["input"], ready["weight"])

    def landing(self, output: str, dtype: str) -> str:
        """Return the name of the tensor for the kernel's result: a new intermediate if a BiasAdd follows or the
        caller's output cannot take the result as it is, else the caller's output.
        """
        if not self._adds:
            return super().landing(output, dtype)
        return self.result.tensor(f"{output}.{self.plain}", dtype, self.plain, self._bytes(dtype))

    def deliver(self, source: str, output: str) -> None:
        """Append the steps from the kernel's result `source` to the caller's tensor `output`.

        If a kernel adds the bias, they are a Cast where the caller's dtype is another, BiasAdd, and a ViewCopy for a
        strided tensor; else those of `PlanDraft.deliver`.
        """
        if not self._adds:
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

    @property
    def _adds(self) -> bool:
        """Return True if a kernel after the cube's adds the bias; False without a bias, or if the cube's sums begin with it."""
        return "bias" in self.call.inputs and not begins_with_bias(self.call)

    def _bytes(self, dtype: str) -> int:
        return math.prod(self.call.volume(OUTPUT)) * int(numpy_dtype(dtype).itemsize)


class _BlockedPlan(_Forward, BlockedPlan):
    """Plan of a forward convolution on blocks of channels, with TransData."""


class _DirectPlan(_Forward, DirectPlan):
    """Plan of a forward convolution on NCDHW."""
