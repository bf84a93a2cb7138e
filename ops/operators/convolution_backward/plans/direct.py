"""Plans on NCDHW of dav-3510: every call is lifted to 3-D, and V2 kernels read and write NCDHW without TransData
(ops-nn: stated).

How the kernels do it is ours in part (`grad_input.exchange`). TBC is one image in NDHWC, with weights in DHWCN, which
the same kernels read and write (stated). The library's detours that only change layouts are not written: Transposes of
the weights to NDHWC, and of 1500 to 4096 images to the height, before its data kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ascend_sim.ops.kernels.conv_forward.tiling import with_groups_merged as forward_merged
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import with_groups_merged
from ascend_sim.ops.kernels.grad_weight.procedures.dav_3510 import with_groups_merged as filters_merged
from ascend_sim.ops.kernels.vector.view_copy import StridedCopy
from ascend_sim.ops.operators.convolution_backward.plans.gradients import Gradients
from ascend_sim.ops.operators.convolution_backward.plans.routes import filter_as_1x1, on_windows
from ascend_sim.ops.operators.convolution_backward.plans.steps import contiguous_strides


class DirectPlan(Gradients):
    """Plan of dav-3510: kernels read and write the caller's layouts (NCDHW, or NDHWC for TBC) without TransData."""

    lifted = True

    def prepared(self, inputs: Mapping[str, str]) -> dict[str, str]:
        """Return the inputs unchanged, since the kernels read the caller's layouts."""
        return dict(inputs)

    def data(self, source: str, weight: str) -> None:
        """Append the data kernel, a Cast if the caller's tensor has another dtype, and a ViewCopy if it is strided."""
        target = self.landing(self.maps.made, self.storage)
        self.data_kernel(source, weight, target)
        self.deliver(target, self.maps.made)

    def grad_weight(self, gradient: str, features: str) -> None:
        """Append the filter kernel, whose sums are float32, a Cast if the caller's tensor has another dtype, and a ViewCopy if
        it is strided.

        If dW is computed as that of a 1x1 kernel (`filter_as_1x1`), the input is first rearranged to windows.
        """
        if filter_as_1x1(self.call):
            features = self.windows(features)
        target = self.landing("grad_weight", "float32")
        self.filter_kernel(gradient, features, target, math.prod(self.call.outputs["grad_weight"].shape) * 4)
        self.deliver(target, "grad_weight")

    def data_call(self) -> CubeCall:
        """Return the data kernel's call on the whole problem, with groups merged as the library does."""
        inp = forward_merged(self.inp) if self.call.forward else with_groups_merged(self.inp)
        disarm = self.call.disarm.get(self.maps.made, ())
        return CubeCall(self.chip, inp, self.call.compute_dtype, disarm, macs=self.p.macs)

    def filter_call(self) -> CubeCall:
        """Return the filter kernel's call: on the whole problem, or on a 1x1 one with windows as channels (`filter_as_1x1`).

        Its tiling is always chosen as for a deterministic call. If the call is not deterministic, the tiling is made for as
        many cores as the user gave blocks (none given: all).
        """
        call = super().filter_call()
        cores = call.inp.cores if self.call.deterministic else self.call.block_dim.get("grad_weight", call.inp.cores)
        problem = on_windows(self.p) if filter_as_1x1(self.call) else self.p
        inp = filters_merged(replace(call.inp, problem=problem, deterministic=True, cores=cores))
        return replace(call, inp=inp, library=self.call.library)

    def windows(self, source: str) -> str:
        """Append a Transpose of the input [N, C, D, H, W] so that each window's pixels are channels; return the new
        tensor's name.

        Its shape is [N, C, kD, kH, kW, D_out, H_out, W_out].
        """
        p = self.p
        steps = contiguous_strides((p.n, p.c_in, p.d_out, p.k_d, p.h_out, p.k_h, p.w_out, p.k_w))
        shape = (p.n, p.c_in, p.k_d, p.k_h, p.k_w, p.d_out, p.h_out, p.w_out)
        strides = tuple(steps[axis] for axis in (0, 1, 3, 5, 7, 2, 4, 6))
        target = self.result.tensor("input.windows", self.storage, "NCDHW", math.prod(shape) * self.itemsize)
        copy = StridedCopy(shape, strides, contiguous_strides(shape), self.itemsize)
        self.strided_copy("Transpose", source, target, copy)
        return target

    def data_op_type(self) -> str:
        """Return the name of the library's operator for the data kernel: Conv3DV2 for a forward convolution (assumed),
        else Conv3DBackpropInputV2.
        """
        return "Conv3DV2" if self.call.forward else "Conv3DBackpropInputV2"

    def filter_op_type(self) -> str:
        """Return the name of the library's operator for the filter kernel, the same for every call (stated)."""
        return "Conv3DBackpropFilterV2"
