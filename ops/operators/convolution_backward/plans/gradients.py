"""Common part of the plans of all architectures: the order of the gradients, their MatMul routes, and the cube kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.ladder import LadderAnswer
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.program import grad_input_task
from ascend_sim.ops.kernels.grad_input.program import workspace_bytes as grad_input_workspace
from ascend_sim.ops.kernels.grad_input.turn import slots_bytes
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion, OlderKernel
from ascend_sim.ops.kernels.grad_weight.program import clears_itself, grad_weight_task, workspace_bytes
from ascend_sim.ops.kernels.grad_weight.tbe.program import tbe_grad_weight_task
from ascend_sim.ops.kernels.vector.merge import merged_bytes
from ascend_sim.ops.kernels.vector.view_copy import StridedCopy
from ascend_sim.ops.operators.convolution_backward.arguments import INPUTS
from ascend_sim.ops.operators.convolution_backward.matmul_routes import PATCHES, PIXELS, MatMulRoute, matmul_routes
from ascend_sim.ops.operators.convolution_backward.plans.routes import check_limits
from ascend_sim.ops.operators.convolution_backward.plans.steps import PlanDraft, contiguous_strides
from ascend_sim.ops.plan import Plan
from ascend_sim.runtime import Allocation, Task

ANY_ORDER = (
    "gradWeight is not deterministic: L1 has no room for the input's whole rows, or load3d no field for a stride; the "
    "library's Conv2DBackpropFilter then takes pieces of rows or gathers, and its blocks add to dW in any order (ops-nn "
    "routing and the schedule of CANN 8.1: stated)"
)


def explained(task: Task, found: LadderAnswer[Any]) -> Task:
    """Return a copy of the launch whose report also lists the rungs of the ladder that chose its tiling (`info["ladder"]`)."""
    return replace(task, info=task.info | {"ladder": found.rows()})


class Gradients(PlanDraft, ABC):
    """Base of the plans of convolution backward: bias first, then MatMul routes, then conversions of the inputs and the
    cube kernels.

    A subclass decides how inputs are converted, which operators take them, and how results are converted back. The data
    kernel computes a map (grad_input), the filter kernel dW.
    """

    lifted: bool
    """True if the call takes the library's 3-D path, which converts nothing for the bias gradient alone, and not `input` for
    grad_input of a transposed call alone.
    """

    @abstractmethod
    def prepared(self, inputs: Mapping[str, str]) -> dict[str, str]:
        """Append conversions of the inputs for the cube kernels; return name -> converted tensor."""

    @abstractmethod
    def data(self, source: str, weight: str) -> None:
        """Append the data kernel on the prepared `source` (a map) and `weight`, and the conversion of its result."""

    @abstractmethod
    def grad_weight(self, gradient: str, features: str) -> None:
        """Append the filter kernel on the prepared maps y (`gradient`) and x (`features`), and the conversion of dW."""

    @abstractmethod
    def data_call(self) -> CubeCall:
        """Return the data kernel's call: problem, dtype and options."""

    @abstractmethod
    def data_op_type(self) -> str:
        """Return the name of the library's operator for the data kernel."""

    @abstractmethod
    def filter_op_type(self) -> str:
        """Return the name of the library's operator for grad_weight."""

    def plan(self) -> Plan:
        """Append all launches and return the call's plan with its workspace placed; to be called once. For an empty call only
        results are filled. TilingError where no tiling fits.
        """
        if self.call.empty:
            self.zeros()
        else:
            self.launches()
        self.result.place(copies_whole_blocks(self.chip))
        return self.result

    def launches(self) -> None:
        """Append all launches of a call that is not empty: copies, bias gradient, MatMul routes, conversions, cube kernels."""
        call = self.call
        for name in call.unread:
            self.unread_copy(name)
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
        if self.lifted and call.forward and cube == ["grad_input"]:
            needed = ("grad_output", "weight")
        ready = self.prepared({name: self.cast_input(plain[name], name, self.storage) for name in needed})
        if "grad_input" in cube:
            self.data(ready["grad_output"], ready["weight"])
        if "grad_weight" in cube:
            self.grad_weight(ready[call.y], ready[call.x])

    def matmul(self, gradient: str, route: MatMulRoute, plain: Mapping[str, str]) -> None:
        """Append a MatMul of contiguous inputs, which are its matrices without a copy, with Casts of operands and result where
        dtypes differ; for route PATCHES also the Transpose that moves patches to their pixels.
        """
        from ascend_sim.ops.kernels.matmul.program import matmul_task
        from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, answer_matmul

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
        found = answer_matmul(problem, self.chip, self.call.tiling.get(gradient))
        tiling = found.tiling.but(block_dim=self.call.block_dim.get(gradient, found.tiling.block_dim))
        op_type = "BatchMatMul" if batch > 1 else "MatMul"
        self.result.add(
            op_type,
            gradient,
            operands,
            [result],
            lambda chip, t: explained(
                matmul_task(
                    chip,
                    problem,
                    tiling,
                    [t[name] for name in (*operands, result)],
                    gradient,
                    op_type,
                    self.call.disarm.get(gradient, ()),
                ),
                found,
            ),
        )
        if route.kind == PATCHES:
            self.patches_to_map(result, target, problem.out_itemsize)
        self.deliver(target, gradient)

    def patches_to_map(self, source: str, target: str, itemsize: int) -> None:
        """Append the library's Transpose of eight axes, [N, D_out, H_out, W_out, C, kD, kH, kW] to [N, C, D, H, W]."""
        p = self.p
        shape = (p.n, p.c_in, p.d_out, p.k_d, p.h_out, p.k_h, p.w_out, p.k_w)
        steps = contiguous_strides((p.n, p.d_out, p.h_out, p.w_out, p.c_in, p.k_d, p.k_h, p.k_w))
        strides = tuple(steps[axis] for axis in (0, 4, 1, 5, 2, 6, 3, 7))
        copy = StridedCopy(shape, strides, contiguous_strides(shape), itemsize)
        self.strided_copy("Transpose", source, target, copy)

    # -- the cube kernels ----------------------------------------------------------------------------------------------

    def bias_of_sums(self) -> list[str]:
        """Return [name of the bias tensor that the data kernel's sums begin with]; [] here, as gradients have none."""
        return []

    def filter_call(self) -> CubeCall:
        """Return the filter kernel's call: problem, dtype and options."""
        return CubeCall(self.chip, self.inp, self.call.compute_dtype, self.call.disarm.get("grad_weight", ()))

    def data_kernel(self, source: str, weight: str, result: str, *, turned: bool = False) -> None:
        """Append the data kernel, which computes one map in tensor `result` from the other (`source`) and `weight`: grad_input
        or, where the call is `forward`, a forward convolution.

        With `turned` vector cores write grad_input as NCDHW; else the cube writes it in the plan's layout. TilingError where no
        tiling fits, and beyond the operator's limits.
        """
        call, op_type, names, made = self.data_call(), self.data_op_type(), [source, weight, result], self.maps.made
        if self.call.forward:
            from ascend_sim.ops.kernels.conv_forward.ladder import answer_conv_forward
            from ascend_sim.ops.kernels.conv_forward.program import conv_forward_task

            chosen, scratch, bias = answer_conv_forward(call.inp), [], self.bias_of_sums()
            forward = chosen.tiling
            if size := merged_bytes(call.inp):
                scratch = [self.result.tensor(f"{made}.workspace", self.storage, "FRACTAL_Z", size)]
            self.result.add(
                op_type,
                made,
                names[:2] + bias,
                names[2:],
                lambda chip, t: explained(
                    conv_forward_task(call, forward, [t[n] for n in (*names, *scratch, *bias)], made, op_type), chosen
                ),
                scratch,
            )
            return
        check_limits(self.call, op_type)
        blocks = self.call.block_dim.get(made)
        found = GradInputQuestion(call.inp, self.call.tiling.get(made), self.chip, call.dtype, op_type, blocks).answer()
        tiling = found.tiling
        scratch = []
        placed = tiling if blocks is None else tiling.but(block_dim=blocks)
        if turned:
            size = slots_bytes(placed, self.chip)
            scratch = [self.result.tensor(f"{made}.slots", self.storage, "ND", size)]
        elif size := grad_input_workspace(call, placed):
            scratch = [self.result.tensor(f"{made}.workspace", self.storage, "ND", size)]
        self.result.add(
            op_type,
            made,
            names[:2],
            names[2:],
            lambda chip, t: explained(
                grad_input_task(call, tiling, [t[n] for n in (*names, *scratch)], made, op_type, blocks), found
            ),
            scratch,
        )

    def filter_kernel(self, gradient: str, features: str, result: str, size: int) -> None:
        """Append the filter kernel that computes dW in tensor `result`, with its workspace slots. TilingError where no tiling
        fits.

        The ladder chooses its tiling, and between the kernel whose source is open and the library's older one; its warnings go
        to the plan. A MemSet of dW, the first `size` bytes of `result`, comes first unless the kernel stores or clears it
        itself.
        """
        call, op_type, names = self.filter_call(), self.filter_op_type(), [gradient, features, result]
        check_limits(self.call, op_type)
        blocks = self.call.block_dim.get("grad_weight")
        fields = self.call.tiling.get("grad_weight")
        found = GradWeightQuestion(call.inp, fields, self.chip, call.dtype, op_type, blocks).answer()
        self.result.warnings += found.warnings
        chosen, scratch = found.tiling, []
        if isinstance(chosen, OlderKernel):
            if self.call.deterministic and chosen.any_order:
                self.result.warnings.append(ANY_ORDER)
            self.cleared(result, "MemSet_grad_weight", size)
        else:
            placed = chosen if blocks is None else chosen.but(block_dim=blocks)
            if slots := workspace_bytes(placed, call.inp):
                scratch = [self.result.tensor("grad_weight.slots", "float32", "ND", slots)]
            if not self.call.deterministic and not clears_itself(chosen, call.inp):
                self.cleared(result, "MemSet_grad_weight", size)

        def make(chip: ChipSpec, tensors: Mapping[str, Allocation]) -> Task:
            held = [tensors[name] for name in (*names, *scratch)]
            if isinstance(chosen, OlderKernel):
                problem, tiling = chosen.problem, chosen.tiling
                task = tbe_grad_weight_task(call, problem, tiling, held, "grad_weight", op_type, blocks)
            else:
                task = grad_weight_task(call, chosen, held, size, "grad_weight", op_type, blocks)
            return explained(task, found)

        self.result.add(op_type, "grad_weight", names[:2], names[2:], make, scratch)
