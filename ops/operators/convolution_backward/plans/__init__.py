"""Plans of convolution backward: the choice of the planner for a chip's layouts."""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.operators.convolution_backward.matmul_routes import matmul_routes
from ascend_sim.ops.operators.convolution_backward.plans.blocked import BlockedPlan
from ascend_sim.ops.operators.convolution_backward.plans.direct import DirectPlan
from ascend_sim.ops.operators.convolution_backward.plans.gradients import Gradients
from ascend_sim.ops.plan import Plan


def plan_call(call: ConvolutionCall, chip: ChipSpec) -> Plan:
    """Return the plan of an accepted call: its launches and tensors, with the workspace placed. Raises TilingError where no
    tiling fits.
    """
    return _planner(call, chip).plan()


def cube_call(call: ConvolutionCall, chip: ChipSpec, kernel: str) -> CubeCall:
    """Return the cube call (problem, dtype, options) of kernel "grad_input" or "grad_weight" of an accepted call, without a
    tiling.

    Raises SimError where the call has no such kernel (an empty call has none), for a MatMul, whose tilings are not searched,
    and for grad_input of a transposed call, whose tiling has no fields.
    """
    if kernel not in call.outputs or call.empty:
        there = ", ".join(name for name in ("grad_input", "grad_weight") if name in call.outputs and not call.empty)
        raise SimError(f"this call has no cube kernel {kernel!r}; it has {there or 'none'}")
    if kernel in matmul_routes(call):
        raise SimError(f"{kernel} of this call is a MatMul on {chip.name}, whose tilings are not searched")
    if kernel == "grad_weight":
        return _planner(call, chip).filter_call()
    if call.forward:
        raise SimError("grad_input of a transposed convolution is a forward convolution, whose tiling has no fields to set")
    return _planner(call, chip).data_call()


def _planner(call: ConvolutionCall, chip: ChipSpec) -> Gradients:
    return DirectPlan(call, chip) if call.family.layout.plain else BlockedPlan(call, chip)
