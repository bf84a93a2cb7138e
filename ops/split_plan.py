"""The plan of convolution backward on the split architecture (dav-2201): 2-D, not transposed, on NC1HWC0 and FRACTAL_Z.

Order and kernels: ops-nn op_api of convolution_backward (stated). All three inputs are cast and turned even when only the
bias gradient is wanted, as the 2-D path of the library does.
"""

from __future__ import annotations

import math
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.call import INPUTS, AcceptedCall
from ascend_sim.ops.kernels.cast import cast_task
from ascend_sim.ops.kernels.cube_common import CubeCall, WeightLayout
from ascend_sim.ops.kernels.grad_input import grad_input_task
from ascend_sim.ops.kernels.grad_weight import grad_weight_task, workspace_bytes
from ascend_sim.ops.kernels.mem_set import mem_set_task
from ascend_sim.ops.kernels.reduce_sum import reduce_sum_task
from ascend_sim.ops.kernels.trans_data_feature import feature_from_c0_task, feature_to_c0_task
from ascend_sim.ops.kernels.trans_data_filter import filter_from_fractal_z_task, filter_to_fractal_z_task
from ascend_sim.ops.kernels.view_copy import view_copy_task
from ascend_sim.ops.plan import Plan
from ascend_sim.ops.tiling.choose import choose_grad_input, choose_grad_weight
from ascend_sim.ops.tiling.fields import TilingInput, ceil_div

PLAIN = "NCHW"


def plan_split(call: AcceptedCall, chip: ChipSpec) -> Plan:
    """Kernels and intermediates of an accepted call; raises TilingError where no tiling fits."""
    return _Planner(call, chip).plan()


class _Planner:
    def __init__(self, call: AcceptedCall, chip: ChipSpec) -> None:
        self.call, self.chip, self.p = call, chip, call.problem
        self.result = Plan()
        self.storage = call.storage_dtype
        self.itemsize = int(numpy_dtype(self.storage).itemsize)
        self.inp = TilingInput(
            self.p, self.itemsize, chip.cores.aic, dict(chip.buffers), chip.memory.l2_bytes, call.deterministic
        )
        for name, tensor in call.inputs.items():
            self.result.tensor(name, tensor.dtype, tensor.format, _storage_bytes(tensor), "input")
        for name, tensor in call.outputs.items():
            self.result.tensor(name, tensor.dtype, tensor.format, _storage_bytes(tensor), "output")

    def plan(self) -> Plan:
        plain = {name: self.contiguous(name) for name in INPUTS}
        if "grad_bias" in self.call.outputs:
            self.bias(plain["grad_output"])
        cast = {name: self.cast(plain[name], self.storage, f"{name}.cast") for name in INPUTS}
        features = {name: self.to_c0(cast[name], name) for name in ("grad_output", "input")}
        weight = self.to_fractal_z(cast["weight"])
        if "grad_input" in self.call.outputs:
            self.grad_input(features["grad_output"], weight)
        if "grad_weight" in self.call.outputs:
            self.grad_weight(features["grad_output"], features["input"])
        self.result.place()
        return self.result

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
            self.result.tensor(target, dtype, PLAIN, math.prod(view.shape) * itemsize)
        src = view.strides or contiguous
        dst = contiguous if target_view is None else (target_view.strides or contiguous)
        offsets = (view.offset, 0) if target_view is None else (0, target_view.offset)
        self.result.add(
            "ViewCopy", f"ViewCopy_{target}", [source], [target],
            lambda chip, t: view_copy_task(
                chip, t[source], t[target], view.shape, src, dst, itemsize, *offsets, **self.named(f"ViewCopy_{target}")
            ),
        )  # fmt: skip
        return target

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

    def feature(self, name: str) -> tuple[int, int, int, int]:
        """(N, C, D, H*W) of a feature map."""
        p = self.p
        if name in ("grad_output", "y"):
            return p.n, p.c_out, p.d_out, p.h_out * p.w_out
        return p.n, p.c_in, p.d_in, p.h_in * p.w_in

    def feature_bytes(self, name: str) -> int:
        """Bytes of a feature map in NC1HWC0."""
        n, c, d, hw = self.feature(name)
        return n * d * ceil_div(c, self.inp.c0) * hw * 32

    def to_c0(self, source: str, name: str) -> str:
        """TransData of a feature map to NC1HWC0."""
        target = self.result.tensor(f"{name}.NC1HWC0", self.storage, "NC1HWC0", self.feature_bytes(name))
        sizes = self.feature(name)
        self.result.add(
            "TransData", f"TransData_{name}", [source], [target],
            lambda chip, t: feature_to_c0_task(
                chip, t[source], t[target], *sizes, self.itemsize, dtype=self.storage, **self.named(f"TransData_{name}")
            ),
        )  # fmt: skip
        return target

    def to_fractal_z(self, source: str) -> str:
        """TransData of the weights to FRACTAL_Z."""
        p = self.p
        size = WeightLayout.of(self.inp, self.itemsize).total_bytes(self.inp.real_groups)
        target = self.result.tensor("weight.FRACTAL_Z", self.storage, "FRACTAL_Z", size)
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
        return self.result.tensor(f"{output}.{PLAIN}", dtype, PLAIN, size)

    # -- the three gradients -------------------------------------------------------------------------------------------

    def bias(self, grad_output: str) -> None:
        """ReduceSum over all but the channels, in gradOutput's own dtype."""
        p = self.p
        dtype = self.result.tensors[grad_output].dtype
        target = self.landing("grad_bias", dtype)
        self.result.add(
            "ReduceSum", "ReduceSum_grad_bias", [grad_output], [target],
            lambda chip, t: reduce_sum_task(
                chip, t[grad_output], t[target], p.n, p.c_out, p.d_out * p.h_out * p.w_out, dtype,
                **self.named("ReduceSum_grad_bias"),
            ),
        )  # fmt: skip
        if target != "grad_bias":
            self.deliver(target, "grad_bias")

    def grad_input(self, grad_output: str, weight: str) -> None:
        """Conv2DBackpropInput, then back to NCHW."""
        call = CubeCall(self.chip, self.inp, self.call.compute_dtype, self.call.disarm.get("grad_input", ()))
        tiling = choose_grad_input(self.inp, self.call.tiling.get("grad_input"), stand_in=True)
        block_dim = self.call.block_dim.get("grad_input")
        result = self.result.tensor("grad_input.NC1HWC0", self.storage, "NC1HWC0", self.feature_bytes("input"))
        names = [grad_output, weight, result]
        op_type = "Conv2DBackpropInput"
        self.result.add(
            op_type, "grad_input", names[:2], names[2:],
            lambda chip, t: grad_input_task(call, tiling, [t[name] for name in names], "grad_input", op_type, block_dim),
        )  # fmt: skip
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

    def grad_weight(self, grad_output: str, features: str) -> None:
        """MemSet and Conv2DBackpropFilter, or the deterministic Conv3DBackpropFilter; then back to NCHW."""
        p, deterministic = self.p, self.call.deterministic
        call = CubeCall(self.chip, self.inp, self.call.compute_dtype, self.call.disarm.get("grad_weight", ()))
        tiling = choose_grad_weight(self.inp, self.call.tiling.get("grad_weight"), stand_in=not deterministic)
        block_dim = self.call.block_dim.get("grad_weight")
        layout = WeightLayout.of(self.inp, 4)
        size = layout.total_bytes(self.inp.real_groups)
        result = self.result.tensor("grad_weight.FRACTAL_Z", "float32", "FRACTAL_Z", size)
        names = [grad_output, features, result]
        cleared = result
        scratch = []
        if workspace_bytes(tiling):
            scratch = [self.result.tensor("grad_weight.slots", "float32", "ND", workspace_bytes(tiling))]
        if not deterministic:
            self.result.add(
                "MemSet", "MemSet_grad_weight", [], [result],
                lambda chip, t: mem_set_task(chip, t[cleared], size, **self.named("MemSet_grad_weight")),
            )  # fmt: skip
        op_type = "Conv3DBackpropFilter" if deterministic else "Conv2DBackpropFilter"
        self.result.add(
            op_type, "grad_weight", names[:2], names[2:],
            lambda chip, t: grad_weight_task(
                call, tiling, [t[name] for name in (*names, *scratch)], "grad_weight", op_type, block_dim
            ),
            scratch,
        )  # fmt: skip
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
