"""The plan of convolution backward, on (N)DC1HWC0 and FRACTAL_Z(_3D).

Order and kernels: ops-nn op_api of convolution_backward (stated). The 2-D path (1-D is turned into it) casts and turns all
three inputs even when only the bias gradient is wanted; the 3-D path then stops after the bias. A transposed call is the
forward convolution of gradOutput for grad_input, and the same filter kernel with its two maps exchanged for grad_weight.

That is the plan of dav-2201, and the 2-D path that of dav-1001 and dav-2002 (TransData of all inputs, TBE kernels: stated;
their 1x1 grad_input at low resolution is not written). On dav-3510 every call is lifted to 3-D and its V2 kernels, which read
and write NCDHW without TransData (stated); how they do it is ours: they insert zeros where the library splits the kernel, and
TBC goes through Transposes as elsewhere.

Gradients that are matrix products (`matmul_routes`) are made first, from the contiguous inputs; where nothing else is wanted
of the cube, no input is turned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.call import INPUTS, AcceptedCall
from ascend_sim.ops.kernels.cast import cast_task
from ascend_sim.ops.kernels.conv_forward import conv_forward_task
from ascend_sim.ops.kernels.cube_common import CubeCall, WeightLayout
from ascend_sim.ops.kernels.dilation import Spread, dilation_task
from ascend_sim.ops.kernels.grad_input import grad_input_task
from ascend_sim.ops.kernels.grad_weight import grad_weight_task, workspace_bytes
from ascend_sim.ops.kernels.matmul import matmul_task
from ascend_sim.ops.kernels.mem_set import mem_set_task
from ascend_sim.ops.kernels.reduce_sum import reduce_sum_task
from ascend_sim.ops.kernels.trans_data_feature import feature_from_c0_task, feature_to_c0_task
from ascend_sim.ops.kernels.trans_data_filter import filter_from_fractal_z_task, filter_to_fractal_z_task
from ascend_sim.ops.kernels.transpose import as_turn, transpose_task
from ascend_sim.ops.kernels.view_copy import view_copy_task
from ascend_sim.ops.matmul_routes import PATCHES, PIXELS, MatMulRoute, matmul_routes
from ascend_sim.ops.params import ConvProblem
from ascend_sim.ops.plan import Make, Plan
from ascend_sim.ops.tiling.choose import choose_grad_input, choose_grad_weight
from ascend_sim.ops.tiling.conv_forward import choose_conv_forward
from ascend_sim.ops.tiling.fields import TilingInput, ceil_div
from ascend_sim.ops.tiling.matmul import MatMulProblem, choose_matmul
from ascend_sim.runtime import Allocation, Task

V2_ROW_LIMIT, V2_PIXELS, V2_DEPTH = 4096, 5500, 85
"""Elements of the rows of a tile, pixels of dx and depth that decide between the two 3-D data kernels (ops-nn: stated)."""

PLAIN = {3: "NCL", 4: "NCHW", 5: "NCDHW"}


def plan_split(call: AcceptedCall, chip: ChipSpec) -> Plan:
    """Kernels and intermediates of an accepted call; raises TilingError where no tiling fits."""
    return _Planner(call, chip).plan()


def cube_call(call: AcceptedCall, chip: ChipSpec, kernel: str) -> CubeCall:
    """What the cube kernel "grad_input" or "grad_weight" of an accepted call computes, before it has a tiling.

    Raises SimError where the call has no such kernel, or one whose tiling has no fields.
    """
    if kernel not in call.outputs or call.empty:
        there = ", ".join(name for name in ("grad_input", "grad_weight") if name in call.outputs and not call.empty)
        raise SimError(f"this call has no cube kernel {kernel!r}; it has {there or 'none'}")
    if kernel in matmul_routes(call):
        raise SimError(f"{kernel} of this call is a MatMul on {chip.name}, whose tilings are not searched")
    planner = _Planner(call, chip)
    if kernel == "grad_weight":
        return planner.filter_call()
    if call.transposed:
        raise SimError(
            "grad_input of a transposed convolution is a forward convolution, whose tiling has no fields to set"
        )
    return planner.data_call(*planner.dilations())


class _Planner:
    def __init__(self, call: AcceptedCall, chip: ChipSpec) -> None:
        self.call, self.chip, self.p = call, chip, call.problem
        self.result = Plan()
        self.storage = call.storage_dtype
        self.itemsize = int(numpy_dtype(self.storage).itemsize)
        self.inp = TilingInput(
            self.p,
            self.itemsize,
            chip.cores.aic,
            {str(b): size for b, size in chip.buffers.items()},
            chip.memory.l2_bytes,
            call.deterministic,
            "ncdhw_direct" in call.routes,
        )
        self.lifted = call.rank == 5 or self.inp.direct  # 1-D and 2-D calls go the way of 3-D ones
        self.plain = PLAIN[call.rank]
        self.blocks = "NDC1HWC0" if call.rank == 5 else "NC1HWC0"
        self.fractal_z = "FRACTAL_Z_3D" if call.rank == 5 else "FRACTAL_Z"
        for name, tensor in call.inputs.items():
            self.result.tensor(name, tensor.dtype, tensor.format, _storage_bytes(tensor), "input")
        for name, tensor in call.outputs.items():
            self.result.tensor(name, tensor.dtype, tensor.format, _storage_bytes(tensor), "output")

    def plan(self) -> Plan:
        if self.call.empty:
            self.zeros()
        else:
            self.gradients()
        self.result.place()
        return self.result

    def gradients(self) -> None:
        """Bias first, then the preparation of the inputs and the cube kernels."""
        call = self.call
        plain = {name: self.contiguous(name) for name in INPUTS}
        if "grad_bias" in call.outputs:
            self.bias(plain["grad_output"])
        products = matmul_routes(call)
        for gradient, route in products.items():
            self.matmul(gradient, route, plain)
        cube = [name for name in ("grad_input", "grad_weight") if name in call.outputs and name not in products]
        if (self.lifted or products) and not cube:
            return
        needed: tuple[str, ...] = INPUTS
        if self.lifted and call.transposed and cube == ["grad_input"]:
            needed = ("grad_output", "weight")
        cast = {name: self.cast_input(plain[name], name, self.storage) for name in needed}
        features: dict[str, str] = {
            name: self.to_c0(cast[name], name) for name in ("grad_output", "input") if name in needed
        }
        weight = self.to_fractal_z(cast["weight"])
        if "grad_input" in cube:
            self.grad_input(features["grad_output"], weight)
        if "grad_weight" in cube:
            self.grad_weight(features[call.y], features[call.x])

    def zeros(self) -> None:
        """An empty problem: the gradients that are not empty become zeros (TBC: the bias gradient B * T_out)."""
        for output, tensor in self.call.outputs.items():
            size = self.result.tensors[output].size
            if size and not tensor.is_empty:
                self.filled(output, tensor.dtype, size, self.call.bias_when_empty if output == "grad_bias" else 0.0)

    def filled(self, output: str, dtype: str, size: int, value: float) -> None:
        """One value all over an output."""
        op_type = "Fill" if value else "ZerosLike"
        name = f"{op_type}_{output}"
        self.result.add(
            op_type, name, [], [output],
            lambda chip, t: mem_set_task(
                chip, t[output], size, op_type=op_type, dtype=dtype, value=value, **self.named(name)
            ),
        )  # fmt: skip

    def named(self, name: str) -> dict[str, Any]:
        """Name of a vector kernel's launch and the flags disarmed in it."""
        return {"name": name, "disarm": self.call.disarm.get(name, ())}

    # -- around the kernels --------------------------------------------------------------------------------------------

    def contiguous(self, name: str) -> str:
        """The tensor itself, or a contiguous copy of a strided one."""
        tensor = self.call.inputs[name]
        if tensor.is_contiguous and not tensor.offset:
            return name
        return self.view_copy(name, tensor, f"{name}.contiguous", None, self.result.tensors[name].dtype)

    def view_copy(self, source: str, view: TensorArg, target: str, target_view: TensorArg | None, dtype: str) -> str:
        """Strided copy: `view` of `source` to a contiguous intermediate, or a contiguous `source` to `target_view`."""
        itemsize = int(numpy_dtype(dtype).itemsize)
        contiguous = _contiguous_strides(view.shape)
        if target_view is None:
            self.result.tensor(target, dtype, self.plain, math.prod(view.shape) * itemsize)
        src = view.strides or contiguous
        dst = contiguous if target_view is None else (target_view.strides or contiguous)
        offsets = (view.offset, 0) if target_view is None else (0, target_view.offset)
        op_type = "Transpose" if self.call.axes else "ViewCopy"
        self.strided_copy(op_type, source, target, view.shape, (src, dst), offsets, itemsize)
        return target

    def strided_copy(
        self, op_type: str, source: str, target: str, shape: tuple[int, ...], strides: tuple[tuple[int, ...], tuple[int, ...]],
        offsets: tuple[int, int], itemsize: int,
    ) -> None:  # fmt: skip
        """Elements of `source` to other places of `target`; strides and offsets of both, in elements."""
        name = f"{op_type}_{target}"
        turn = as_turn(shape, *strides, *offsets) if itemsize > 1 else None

        def make(chip: ChipSpec, t: Mapping[str, Allocation]) -> Task:
            shared = {"op_type": op_type, **self.named(name)}
            if turn is not None:
                return transpose_task(chip, t[source], t[target], turn, itemsize, **shared)
            return view_copy_task(chip, t[source], t[target], shape, *strides, itemsize, *offsets, **shared)

        self.result.add(op_type, name, [source], [target], make)

    def cast(self, source: str, dtype: str, target: str, count: int | None = None) -> str:
        """The tensor in another dtype (the tensor itself when it has it)."""
        before = self.result.tensors[source]
        if before.dtype == dtype:
            return source
        count = before.size // int(numpy_dtype(before.dtype).itemsize) if count is None else count
        if target not in self.result.tensors:
            self.result.tensor(target, dtype, before.format, count * int(numpy_dtype(dtype).itemsize))
        self.result.add(
            "Cast", f"Cast_{target}", [source], [target],
            lambda chip, t: cast_task(
                chip, t[source], t[target], count, before.dtype, dtype, **self.named(f"Cast_{target}")
            ),
        )  # fmt: skip
        return target

    def cast_input(self, source: str, name: str, dtype: str) -> str:
        """Input `name`, which lies contiguous in `source`, in the dtype of a cube kernel; made once for each dtype."""
        target = f"{name}.cast" if dtype == self.storage else f"{name}.{dtype}"
        return target if target in self.result.tensors else self.cast(source, dtype, target)

    def feature(self, name: str) -> tuple[int, int, int, int]:
        """(N, C, D, H*W) of a feature map."""
        n, c, d, h, w = self.call.volume(name)
        return n, c, d, h * w

    def feature_bytes(self, name: str, channels: int | None = None) -> int:
        """Bytes of a feature map in (N)DC1HWC0, with another number of channels if given."""
        n, c, d, hw = self.feature(name)
        c = c if channels is None else channels
        return n * d * ceil_div(c, self.inp.c0) * hw * 32

    def to_c0(self, source: str, name: str) -> str:
        """TransData of a feature map to NC1HWC0; kernels that read NCDHW take it as it is."""
        if self.inp.direct:
            return source
        target = self.result.tensor(f"{name}.{self.blocks}", self.storage, self.blocks, self.feature_bytes(name))
        sizes = self.feature(name)
        self.result.add(
            "TransData", f"TransData_{name}", [source], [target],
            lambda chip, t: feature_to_c0_task(
                chip, t[source], t[target], *sizes, self.itemsize, dtype=self.storage, **self.named(f"TransData_{name}")
            ),
        )  # fmt: skip
        return target

    def to_fractal_z(self, source: str) -> str:
        """TransData of the weights to FRACTAL_Z; kernels that read NCDHW take them as they are."""
        if self.inp.direct:
            return source
        p = self.p
        size = WeightLayout.of(self.inp, self.itemsize).total_bytes(self.inp.real_groups)
        target = self.result.tensor(f"weight.{self.fractal_z}", self.storage, self.fractal_z, size)
        self.result.add(
            "TransData", "TransData_weight", [source], [target],
            lambda chip, t: filter_to_fractal_z_task(
                chip, t[source], t[target], p.c_out, p.c_in // p.groups, p.k_d, p.k_h * p.k_w, p.groups, self.itemsize,
                dtype=self.storage, **self.named("TransData_weight"),
            ),
        )  # fmt: skip
        return target

    def deliver(self, source: str, output: str) -> None:
        """The contiguous result `source` to the caller's tensor: Cast and, where that is strided, ViewCopy."""
        tensor = self.call.outputs[output]
        if tensor.is_contiguous and not tensor.offset:
            self.cast(source, tensor.dtype, output)
            return
        source = self.cast(source, tensor.dtype, f"{output}.cast")
        self.view_copy(source, TensorArg(tensor.shape, tensor.dtype), output, tensor, tensor.dtype)

    def landing(self, output: str, dtype: str) -> str:
        """Where a kernel puts a contiguous result of `dtype`: the caller's tensor if it can, else an intermediate."""
        tensor = self.call.outputs[output]
        if tensor.dtype == dtype and tensor.is_contiguous and not tensor.offset:
            return output
        size = math.prod(tensor.shape) * int(numpy_dtype(dtype).itemsize)
        return self.result.tensor(f"{output}.{self.plain}", dtype, self.plain, size)

    # -- gradients as matrix products ----------------------------------------------------------------------------------

    def matmul(self, gradient: str, route: MatMulRoute, plain: Mapping[str, str]) -> None:
        """MatMul of contiguous inputs, whose layouts are those of the matrices; patches are put into their places after."""
        p, other = self.p, "weight" if gradient == "grad_input" else "input"
        row, pixels = p.c_in * p.k_d * p.k_h * p.k_w, p.d_out * p.h_out * p.w_out
        names = ["grad_output", other]
        turned = (gradient == "grad_weight", False)
        if route.kind == PATCHES:
            sizes, batch, turned = (pixels, row, p.c_out), p.n, (True, False)
        elif route.kind == PIXELS:
            batch = 1
            if gradient == "grad_input":
                sizes, names, turned = (p.c_in, pixels, p.c_out), ["weight", "grad_output"], (True, False)
            else:
                sizes, turned = (p.c_out, p.c_in, pixels), (False, True)
        else:
            batch, sizes = 1, (p.n, row, p.c_out) if gradient == "grad_input" else (p.c_out, row, p.n)
        problem = MatMulProblem(*sizes, route.dtype, route.out_dtype, batch, *turned)
        operands = [self.cast_input(plain[name], name, problem.storage) for name in names]
        target = result = self.landing(gradient, route.out_dtype)
        if route.kind == PATCHES:
            result = self.result.tensor(f"{gradient}.patches", route.out_dtype, "ND", problem.sizes[2])
        tiling = choose_matmul(problem, self.chip, self.call.tiling.get(gradient))
        tiling = replace(tiling, block_dim=self.call.block_dim.get(gradient, tiling.block_dim))
        op_type = "BatchMatMul" if batch > 1 else "MatMul"
        self.result.add(
            op_type, gradient, operands, [result],
            lambda chip, t: matmul_task(
                chip, problem, tiling, [t[name] for name in (*operands, result)], gradient, op_type,
                self.call.disarm.get(gradient, ()),
            ),
        )  # fmt: skip
        if route.kind == PATCHES:
            self.patches_to_map(result, target, problem.out_itemsize)
        if target != gradient:
            self.deliver(target, gradient)

    def patches_to_map(self, source: str, target: str, itemsize: int) -> None:
        """[N, D_out, H_out, W_out, C, kD, kH, kW] to [N, C, D, H, W]: the library's Transpose of eight axes."""
        p = self.p
        shape = (p.n, p.c_in, p.d_out, p.k_d, p.h_out, p.k_h, p.w_out, p.k_w)
        steps = _contiguous_strides((p.n, p.d_out, p.h_out, p.w_out, p.c_in, p.k_d, p.k_h, p.k_w))
        strides = tuple(steps[axis] for axis in (0, 4, 1, 5, 2, 6, 3, 7))
        self.strided_copy("Transpose", source, target, shape, (strides, _contiguous_strides(shape)), (0, 0), itemsize)

    # -- the three gradients -------------------------------------------------------------------------------------------

    def bias(self, grad_output: str) -> None:
        """ReduceSum over all but the channels, in gradOutput's own dtype."""
        n, c, d, hw = self.feature("grad_output")
        dtype = self.result.tensors[grad_output].dtype
        target = self.landing("grad_bias", dtype)
        self.result.add(
            "ReduceSum", "ReduceSum_grad_bias", [grad_output], [target],
            lambda chip, t: reduce_sum_task(
                chip, t[grad_output], t[target], n, c, d * hw, dtype, **self.named("ReduceSum_grad_bias")
            ),
        )  # fmt: skip
        if target != "grad_bias":
            self.deliver(target, "grad_bias")

    def grad_input(self, grad_output: str, weight: str) -> None:
        """The data kernel (a forward convolution when transposed), then back to the caller's layout."""
        if self.inp.direct:
            target = self.landing("grad_input", self.storage)
            op_type, make = self.data_kernel(self.data_call(None, None), [grad_output, weight, target])
            self.result.add(op_type, "grad_input", [grad_output, weight], [target], make)
            if target != "grad_input":
                self.deliver(target, "grad_input")
            return
        result = self.result.tensor(f"grad_input.{self.blocks}", self.storage, self.blocks, self.feature_bytes("input"))
        before, after = self.dilations()
        if before is not None:
            grad_output = self.dilation("grad_output", grad_output, "grad_output.dilated", before)
        kernel_result = result
        if after is not None:
            kernel_result = self.result.tensor(
                "grad_input.small", self.storage, self.blocks, self.feature_bytes("grad_output", channels=self.p.c_in)
            )
        names = [grad_output, weight, kernel_result]
        op_type, make = self.data_kernel(self.data_call(before, after), names)
        self.result.add(op_type, "grad_input", names[:2], names[2:], make)
        if after is not None:
            self.dilation("input", kernel_result, result, after)
        target = self.landing("grad_input", self.storage)
        sizes = self.feature("input")
        self.result.add(
            "TransData", "TransData_grad_input", [result], [target],
            lambda chip, t: feature_from_c0_task(
                chip, t[result], t[target], *sizes, self.itemsize, dtype=self.storage, **self.named("TransData_grad_input")
            ),
        )  # fmt: skip
        if target != "grad_input":
            self.deliver(target, "grad_input")

    def dilations(self) -> tuple[Spread | None, Spread | None]:
        """What the library's Dilation kernels do before and after the data kernel: strides above 2, and 1x1 kernels."""
        p, call = self.p, self.call
        if "dilation_kernel" not in call.routes or call.transposed or call.rank == 5 or self.storage == "bfloat16":
            return None, None
        stride = max(p.stride_h, p.stride_w)
        if p.k_h * p.k_w == 1 and stride > 1:
            # Without padding the small result has gradOutput's size; padding crops where its pixels would go.
            return None, Spread(p.h_out, p.w_out, p.h_in, p.w_in, p.stride_h, p.stride_w, -p.pad_up, -p.pad_left)
        if p.k_h * p.k_w > 1 and stride > 2:
            height, width = (p.h_out - 1) * p.stride_h + 1, (p.w_out - 1) * p.stride_w + 1
            return Spread(p.h_out, p.w_out, height, width, p.stride_h, p.stride_w), None
        return None, None

    def without_stride(self, before: Spread | None, after: Spread | None) -> ConvProblem:
        """The problem that is left to the data kernel beside the Dilations."""
        p = self.p
        if before is not None:
            return replace(p, h_out=before.target_height, w_out=before.target_width, stride_h=1, stride_w=1)
        if after is not None:
            flat = {"pad_up": 0, "pad_down": 0, "pad_left": 0, "pad_right": 0, "stride_h": 1, "stride_w": 1}
            return replace(p, h_in=p.h_out, w_in=p.w_out, **flat)
        return p

    def dilation(self, name: str, source: str, target: str, spread: Spread) -> str:
        """Dilation of feature map `name` (its channels and images) to a new tensor, or to the one named `target`."""
        n, c, d, _ = self.feature(name)
        planes = n * d * ceil_div(c, self.inp.c0)
        if target not in self.result.tensors:
            size = planes * spread.target_height * spread.target_width * 32
            self.result.tensor(target, self.storage, self.blocks, size)
        self.result.add(
            "Dilation", f"Dilation_{name}", [source], [target],
            lambda chip, t: dilation_task(
                chip, t[source], t[target], planes, spread, dtype=self.storage, **self.named(f"Dilation_{name}")
            ),
        )  # fmt: skip
        return target

    def data_call(self, before: Spread | None, after: Spread | None) -> CubeCall:
        """What the data kernel computes beside the Dilations."""
        inp = replace(self.inp, problem=self.without_stride(before, after), merged=not self.inp.direct)
        disarm = self.call.disarm.get("grad_input", ())
        return CubeCall(self.chip, inp, self.call.compute_dtype, disarm, macs=self.p.macs)

    def filter_call(self) -> CubeCall:
        """What the filter kernel computes."""
        return CubeCall(self.chip, self.inp, self.call.compute_dtype, self.call.disarm.get("grad_weight", ()))

    def data_kernel(self, call: CubeCall, names: list[str]) -> tuple[str, Make]:
        """op_type and launch of the kernel that makes grad_input from tensors `names`."""
        if self.call.transposed:
            op_type = "Conv3DV2" if self.inp.direct else "Conv3D" if self.call.rank == 5 else "Conv2D"
            forward = choose_conv_forward(call.inp)
            return op_type, lambda chip, t: conv_forward_task(
                call, forward, [t[n] for n in names], "grad_input", op_type
            )
        op_type = self.data_op_type()
        stand_in = op_type != "Conv3DBackpropInputV2"
        tiling = choose_grad_input(
            self.cut_for(call.inp, "grad_input"), self.call.tiling.get("grad_input"), stand_in=stand_in, chip=self.chip
        )
        blocks = self.call.block_dim.get("grad_input")
        return op_type, lambda chip, t: grad_input_task(
            call, tiling, [t[n] for n in names], "grad_input", op_type, blocks
        )

    def cut_for(self, inp: TilingInput, kernel: str) -> TilingInput:
        """The problem as the tiling sees it: on coupled chips cut for the number of blocks that the call asks for.

        Published rows of the 910 have 32 blocks on 30 cores, so their tiler took the number from elsewhere than the chip.
        """
        blocks = self.call.block_dim.get(kernel)
        return replace(inp, cores=blocks) if blocks and self.chip.cores.coupled else inp

    def data_op_type(self) -> str:
        """Which operator the library takes for grad_input (ops-nn routing: stated; its shape lists are not included)."""
        p = self.p
        if self.inp.direct:
            return "Conv3DBackpropInputV2"
        if self.call.rank != 5:
            return "Conv2DBackpropInput"
        sizes_fit = (
            p.stride_d <= p.k_d
            and max(p.pad_front, p.pad_up, p.pad_left) < max(p.k_d, p.k_h, p.k_w)
            and min((p.h_out - 1) * p.stride_h + 1, 2 + (p.k_h - 1) * p.dilation_h) * p.w_out * p.stride_w
            <= V2_ROW_LIMIT
        )
        dilated = max(p.dilation_d, p.dilation_h, p.dilation_w) > 1
        worth_it = (
            max(p.stride_d, p.stride_h, p.stride_w) <= 2
            and max(p.pad_front, p.pad_up, p.pad_left) <= 2
            and max(p.k_d, p.k_h, p.k_w) <= 4
            and p.h_in * p.w_in >= V2_PIXELS
            and p.d_in <= V2_DEPTH
        )
        second = p.groups > 1 or self.storage == "float32" or (sizes_fit and (dilated or worth_it))
        return "Conv3DBackpropInputV2" if second else "Conv3DBackpropInput"

    def filter_op_type(self) -> str:
        """Which operator the library takes for grad_weight (ops-nn routing: stated; its shape lists are not included)."""
        p = self.p
        if self.inp.direct:
            return "Conv3DBackpropFilterV2"
        if self.call.rank != 5:
            # A 2-D call never goes to a 3-D kernel on coupled chips, which have none.
            deterministic_3d = self.call.deterministic and not self.chip.cores.coupled
            return "Conv3DBackpropFilter" if deterministic_3d else "Conv2DBackpropFilter"
        taps = p.k_h * p.k_w
        channels = self.inp.cout_padded >= 128 and p.k_d * taps * self.inp.cin1 * self.inp.c0 >= 128
        basic = self.itemsize == 2 and (taps == 1 or (taps in (4, 9, 16) and channels))
        dilated = max(p.dilation_d, p.dilation_h, p.dilation_w) > 1
        second = self.storage == "float32" or dilated or p.groups > 1 or self.call.deterministic or basic
        return "Conv3DBackpropFilterV2" if second else "Conv3DBackpropFilter"

    def grad_weight(self, gradient: str, features: str) -> None:
        """MemSet and Conv2DBackpropFilter, or the deterministic Conv3DBackpropFilter; then back to NCHW."""
        p, deterministic = self.p, self.call.deterministic
        call = self.filter_call()
        stand_in = not (deterministic or self.filter_op_type() == "Conv3DBackpropFilterV2")
        tiling = choose_grad_weight(
            self.cut_for(self.inp, "grad_weight"),
            self.call.tiling.get("grad_weight"),
            stand_in=stand_in,
            chip=self.chip,
        )
        block_dim = self.call.block_dim.get("grad_weight")
        layout = WeightLayout.of(self.inp, 4)
        size = layout.total_bytes(self.inp.real_groups)
        if self.inp.direct:
            result, size = self.landing("grad_weight", "float32"), math.prod(self.call.outputs["grad_weight"].shape) * 4
        else:
            result = self.result.tensor(f"grad_weight.{self.fractal_z}", "float32", self.fractal_z, size)
        names = [gradient, features, result]
        cleared = result
        scratch = []
        if slots := workspace_bytes(tiling, self.inp):
            scratch = [self.result.tensor("grad_weight.slots", "float32", "ND", slots)]
        if not deterministic:
            self.result.add(
                "MemSet", "MemSet_grad_weight", [], [result],
                lambda chip, t: mem_set_task(chip, t[cleared], size, **self.named("MemSet_grad_weight")),
            )  # fmt: skip
        op_type = self.filter_op_type()
        self.result.add(
            op_type, "grad_weight", names[:2], names[2:],
            lambda chip, t: grad_weight_task(
                call, tiling, [t[name] for name in (*names, *scratch)], "grad_weight", op_type, block_dim
            ),
            scratch,
        )  # fmt: skip
        if self.inp.direct:
            if result != "grad_weight":
                self.deliver(result, "grad_weight")
            return
        dtype, itemsize = "float32", 4
        narrow = self.narrowed_before_trans_data()
        if narrow:
            result = self.cast(result, narrow, "grad_weight.narrow")
            dtype, itemsize = narrow, 2
        target = self.landing("grad_weight", dtype)
        source = result
        self.result.add(
            "TransData", "TransData_grad_weight", [source], [target],
            lambda chip, t: filter_from_fractal_z_task(
                chip, t[source], t[target], p.c_out, p.c_in // p.groups, p.k_d, p.k_h * p.k_w, p.groups, itemsize,
                c0=layout.c0, dtype=dtype, **self.named("TransData_grad_weight"),
            ),
        )  # fmt: skip
        if target != "grad_weight":
            self.deliver(target, "grad_weight")

    def narrowed_before_trans_data(self) -> str | None:
        """The dtype that the released library casts a grouped dW of 16-bit inputs to before TransData, or None."""
        if self.call.conformance != "library" or self.p.groups == 1 or self.inp.c0 != 16:
            return None
        wanted = self.call.outputs["grad_weight"].dtype
        return "float16" if wanted == "float32" else wanted


def _storage_bytes(tensor: TensorArg) -> int:
    shape = tensor.shape if tensor.storage_shape is None else tensor.storage_shape
    return math.prod(shape) * int(numpy_dtype(tensor.dtype).itemsize)


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
