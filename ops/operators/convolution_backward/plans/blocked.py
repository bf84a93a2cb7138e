"""Plans on (N)DC1HWC0 and FRACTAL_Z(_3D): dav-2201, and dav-1001 and dav-2002 with the 2-D path alone.

Order and kernels: ops-nn op_api of convolution_backward (stated). The 2-D path (which 1-D takes too) casts and converts
all three inputs even when only the bias gradient is wanted; the 3-D path then stops after the bias. Some calls of lower
rank take the 3-D path (`routes.is_3d`, and where the kernel covers the map). A transposed call is the forward
convolution of gradOutput for grad_input, and the same filter kernel with its two maps exchanged for grad_weight. The
coupled architectures' 1x1 grad_input at low resolution is not written.

Weights and dW with groups take two TransData, by way of FRACTAL_Z of all filters (aclnn's TransData: stated); on
dav-1001 and dav-2002, whose UB copies whole blocks alone, one that is ours. The second tensor of weights, and the first
of dW, is cleared by a MemSet (stated of the graph's kernels, which are the same: inferred).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import TilingError
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.vector.common import Loop
from ascend_sim.ops.kernels.vector.dilation import Spread, dilation_work
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_feature import FeatureShape, feature_work
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape, filter_work
from ascend_sim.ops.kernels.vector.trans_data_groups import ungroup_work, ungrouped_bytes
from ascend_sim.ops.kernels.vector.trans_data_to_groups import group_work
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.operators.convolution_backward.matmul_routes import covers_map
from ascend_sim.ops.operators.convolution_backward.plans.gradients import Gradients
from ascend_sim.ops.operators.convolution_backward.plans.routes import (
    data_op_type,
    dilations,
    filter_op_type,
    is_3d,
    without_stride,
)
from ascend_sim.ops.problem.sizes import ceil_div


class BlockedPlan(Gradients):
    """Plan on blocks of C0 channels: TransData of the inputs, the cube kernels, TransData of the results."""

    def __init__(self, call: ConvolutionCall, chip: ChipSpec) -> None:
        super().__init__(call, chip)
        deep = is_3d(call, self.inp)
        self.lifted = deep or covers_map(call)
        self.blocks = "NDC1HWC0" if deep else "NC1HWC0"
        self.fractal_z = "FRACTAL_Z_3D" if deep else "FRACTAL_Z"
        self.before, self.after = dilations(call)

    def prepared(self, inputs: Mapping[str, str]) -> dict[str, str]:
        """Append TransData of the inputs to blocks; return name -> tensor: maps in (N)DC1HWC0, weights in FRACTAL_Z."""
        ready = {name: self.to_c0(source, name) for name, source in inputs.items() if name != "weight"}
        return ready | {"weight": self.to_fractal_z(inputs["weight"])}

    def data_op_type(self) -> str:
        """Return the name of the library's operator for the data kernel, by `routes.data_op_type`."""
        return data_op_type(self.call)

    def filter_op_type(self) -> str:
        """Return the name of the library's operator for the filter kernel, by `routes.filter_op_type`."""
        return filter_op_type(self.call, self.inp)

    def data_call(self) -> CubeCall:
        """Return the data kernel's call; its problem has no strides where Dilation kernels insert the zeros."""
        inp = replace(self.inp, problem=without_stride(self.p, self.before, self.after), merged=True)
        disarm = self.call.disarm.get(self.maps.made, ())
        return CubeCall(self.chip, inp, self.call.compute_dtype, disarm, macs=self.p.macs)

    def data(self, source: str, weight: str) -> None:
        """Append the data kernel, with a Dilation before or after it where the call has one, TransData of its result, and the
        steps to the caller's tensor (`deliver`).

        There is no TransData after Conv3DBackpropInputV2 with 16-bit results, which it writes in NCDHW itself (stated).
        """
        read, made, like = self.maps.read, self.maps.made, self.maps.like
        if self.data_op_type() == "Conv3DBackpropInputV2" and self.itemsize == 2:
            target = self.landing(made, self.storage)
            self.data_kernel(source, weight, target, turned=True)
            self.deliver(target, made)
            return
        result = self.in_blocks(made)
        if self.before is not None:
            source = self.dilation(read, source, f"{read}.dilated", self.before)
        kernel_result = result
        if self.after is not None:
            kernel_result = self.result.tensor(
                f"{made}.small", self.storage, self.blocks, self.feature_bytes(read, channels=self.p.c_in)
            )
        self.data_kernel(source, weight, kernel_result)
        if self.after is not None:
            self.dilation(like, kernel_result, result, self.after)
        self.from_blocks(result, made)

    def in_blocks(self, made: str) -> str:
        """Add an intermediate tensor to the plan that will hold the data kernel's result `made` in blocks; return its name."""
        size = self.feature_bytes(self.maps.like)
        return self.result.tensor(f"{made}.{self.blocks}", self.storage, self.blocks, size)

    def from_blocks(self, result: str, made: str) -> None:
        """Append TransData of the blocked map `result` and the steps to the caller's tensor `made` (`deliver`)."""
        like, target = self.maps.like, self.landing(made, self.storage)
        work = self.features(like, to_c0=False)
        self.launch("TransData", f"TransData_{made}", [result], [target], work)
        self.deliver(target, made)

    def grad_weight(self, gradient: str, features: str) -> None:
        """Append the filter kernel, the conversion of dW from FRACTAL_Z, and the steps to the caller's tensor (`deliver`).

        Before the conversion, grouped 16-bit calls in the library's profile cast dW to 16 bits, and then, if `regrouped`, dW
        becomes FRACTAL_Z of all filters without merging (`ungrouped`).
        """
        layout = FractalZ.of(self.inp, 4)
        size = layout.total_bytes(self.inp.real_groups)
        source = self.result.tensor(f"grad_weight.{self.fractal_z}", "float32", self.fractal_z, size)
        self.filter_kernel(gradient, features, source, size)
        dtype, itemsize = "float32", 4
        if narrow := self.narrowed_before_trans_data():
            source, dtype, itemsize = self.cast(source, narrow, "grad_weight.narrow"), narrow, 2
        source, shape = self.ungrouped(source, dtype, replace(layout, itemsize=itemsize))
        target, blocks = self.landing("grad_weight", dtype), BlockLayout.of(itemsize, layout.c0)
        work = partial(filter_work, self.chip, shape, blocks, False, dtype)
        self.launch("TransData", "TransData_grad_weight", [source], [target], work)
        self.deliver(target, "grad_weight")

    @property
    def regrouped(self) -> bool:
        """Return True if a second TransData merges the groups of weights, or splits those of dW: for calls with groups,
        on chips whose copies between GM and UB need not move whole 32-byte blocks.
        """
        return self.p.groups > 1 and not copies_whole_blocks(self.chip)

    def ungrouped(self, source: str, dtype: str, layout: FractalZ) -> tuple[str, FilterShape]:
        """Append the conversion of a grouped dW in `layout` to FRACTAL_Z of all filters, a MemSet and a TransData; return (the
        new tensor's name, its shape). Unless `regrouped` nothing is appended and `source` is returned with the grouped shape.
        """
        shape, name = self.filter_shape, "TransData_grad_weight_groups"
        if not self.regrouped:
            return source, shape
        size, extension = ungrouped_bytes(shape, layout), self.inp.group_extension
        target = self.result.tensor(f"grad_weight.{self.fractal_z}.filters", dtype, self.fractal_z, size)
        self.cleared(target, "MemSet_grad_weight_groups")
        self.launch("TransData", name, [source], [target], partial(ungroup_work, self.chip, shape, layout, extension))
        return target, shape._replace(groups=1)

    def narrowed_before_trans_data(self) -> str | None:
        """Return the 16-bit dtype to which dW is cast before TransData, for grouped 16-bit calls in the library's
        profile; else None.

        It is the dtype of the caller's dW, float16 for a float32 one.
        """
        if self.call.conformance != "library" or self.p.groups == 1 or self.inp.c0 != 16:
            return None
        wanted = self.call.outputs["grad_weight"].dtype
        return "float16" if wanted == "float32" else wanted

    @property
    def filter_shape(self) -> FilterShape:
        """Return the weights' shape as TransData takes it: C_out, C_in of a group, kD, kH * kW, groups."""
        p = self.p
        return FilterShape(p.c_out, p.c_in // p.groups, p.k_d, p.k_h * p.k_w, p.groups)

    # -- layouts -------------------------------------------------------------------------------------------------------

    def feature_bytes(self, name: str, channels: int | None = None) -> int:
        """Return the bytes of feature map `name` in (N)DC1HWC0; `channels` replaces the map's own number of channels."""
        n, c, d, hw = self.feature(name)
        c = c if channels is None else channels
        return n * d * ceil_div(c, self.inp.c0) * hw * BLOCK_BYTES

    def to_c0(self, source: str, name: str) -> str:
        """Append TransData of feature map `name` from tensor `source` to blocks of channels; return the new tensor's name."""
        target = self.result.tensor(f"{name}.{self.blocks}", self.storage, self.blocks, self.feature_bytes(name))
        self.launch("TransData", f"TransData_{name}", [source], [target], self.features(name, to_c0=True))
        return target

    def features(self, name: str, to_c0: bool) -> partial[Loop]:
        """Return the work of TransData of feature map `name` to blocks of channels, or back to the plain layout without
        `to_c0`.
        """
        shape, layout = FeatureShape(*self.feature(name)), BlockLayout.of(self.itemsize)
        return partial(feature_work, self.chip, shape, layout, to_c0, self.storage)

    def to_fractal_z(self, source: str) -> str:
        """Append the conversion of the weights to FRACTAL_Z, with groups merged; return the new tensor's name. TilingError if
        groups do not divide C_out.
        """
        p = self.p
        if p.c_out % p.groups:
            raise TilingError(
                f"{self.fractal_z} of weights: {p.c_out} output channels; they must be a multiple of {p.groups} groups"
            )
        weights = FractalZ.of(self.inp, self.itemsize)
        size = weights.total_bytes(self.inp.real_groups)
        target = self.result.tensor(f"weight.{self.fractal_z}", self.storage, self.fractal_z, size)
        self.fill_fractal_z(source, target, weights)
        return target

    def fill_fractal_z(self, source: str, target: str, weights: FractalZ) -> None:
        """Append the conversion of weights from `source` to `target` in layout `weights`.

        It is one TransData. If `regrouped`, it is a TransData without groups, a MemSet of `target`, and a second
        TransData that merges the groups.
        """
        shape, name = self.filter_shape, "TransData_weight_groups"
        if not self.regrouped:
            self.turn_weights(source, target, shape)
            return
        size = ungrouped_bytes(shape, weights)
        filters = self.result.tensor(f"weight.{self.fractal_z}.filters", self.storage, self.fractal_z, size)
        self.turn_weights(source, filters, shape._replace(groups=1))
        self.cleared(target, "MemSet_weight_groups")
        work = partial(group_work, self.chip, shape, weights, self.inp.group_extension)
        self.launch("TransData", name, [filters], [target], work)

    def turn_weights(self, source: str, target: str, shape: FilterShape) -> None:
        """Append TransData of weights of `shape` from `source` to FRACTAL_Z in `target`."""
        work = partial(filter_work, self.chip, shape, BlockLayout.of(self.itemsize), True, self.storage)
        self.launch("TransData", "TransData_weight", [source], [target], work)

    def dilation(self, name: str, source: str, target: str, spread: Spread) -> str:
        """Append a Dilation of feature map `name`, which inserts the zeros that `spread` describes, from `source` to
        `target`; return `target`.

        `target` is added to the plan unless the plan has it.
        """
        n, c, d, _ = self.feature(name)
        planes = n * d * ceil_div(c, self.inp.c0)
        if target not in self.result.tensors:
            size = planes * spread.target_height * spread.target_width * BLOCK_BYTES
            self.result.tensor(target, self.storage, self.blocks, size)
        work = dilation_work(self.chip, planes, spread, self.storage)
        self.launch("Dilation", f"Dilation_{name}", [source], [target], work)
        return target
