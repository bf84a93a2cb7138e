"""One measured kernel of a convolution: the launch of a call that has the row's operator, alone.

The kernels are those of `calls`: of forward convolutions those of their plan, of gradients the operator as a graph launches it,
whatever aclnnConvolutionBackward would have chosen for the problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.numerics import canonical
from ascend_sim.ops.kernels.cube.libraries import known_library
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan, PlanStep
from ascend_sim.runtime import Device, Task
from ascend_sim.studies.validate.launch import MeasuredKernel, MeasuredLaunch, cube_dtype

AXES = ("d", "h", "w")


class ConvRow(MeasuredLaunch):
    """Base of the task builders for rows with the sizes of a convolution in columns; columns of the depth (Di, Do, kd ...)
    make it 3-D.
    """

    columns = (
        "N", "Ci", "Hi", "Wi", "Co", "Ho", "Wo", "kh", "kw", "stride_h", "stride_w", "pad_h_total", "pad_w_total",
    )  # fmt: skip
    deep = ("Di", "Do", "kd", "stride_d", "pad_d_total")
    optional: ClassVar[tuple[str, ...]] = (*deep, "dilation_d", "dilation_h", "dilation_w", "groups")
    direction: str = "forward"
    transposed: ClassVar[bool] = False
    graph: ClassVar[bool] = True
    """False for the kernel of an aclnn call, which is not deterministic and may have other padding before than behind."""

    def check(self, kernel: MeasuredKernel) -> None:
        super().check(kernel)
        if "Di" in dict(kernel.sizes):
            self._require(kernel, self.deep)
        try:
            known_library(kernel.label("library") or None)
        except SimError as error:
            raise ValueError(str(error)) from None
        ends = ("o", "i") if self.transposed else ("i", "o")
        for axis in self._axes(kernel):
            large, small = (f"{axis.upper()}{end}" for end in ends)
            room = kernel[large] + kernel[f"pad_{axis}_total"] - reach(kernel, axis)
            follows = room // kernel[f"stride_{axis}"] + 1
            if kernel[small] != follows:
                raise ValueError(f"{small}: {kernel[small]} given; {large}, kernel, stride and padding give {follows}")

    def accepted(
        self,
        kernel: MeasuredKernel,
        chip: ChipSpec,
        gradient: str = "",
        blocks: Mapping[str, int] | None = None,
        *,
        bias: bool = False,
    ) -> Any:
        """Return the accepted call for the row's sizes.

        `gradient` is the only output that the call computes ("" for a forward call), `blocks` maps an output to the number of
        blocks of its kernel; with `bias` the call has one. Raises SimError where the chip computes in another dtype than the
        row's, and for an odd total padding unless it is of an aclnn call; ValidationError for sizes that no layer has.
        """
        operator = OPERATORS.of_pass(self.direction)
        case = operator.of_layer(self._layer(kernel, gradient, bias=bias))
        deterministic = operator.product(chip).profile("library").deterministic_default.value if self.graph else False
        accepted = accept_case(
            case,
            chip,
            conformance="documented",
            deterministic=deterministic,
            library=kernel.label("library") or None,
            block_dim=blocks,
        )
        if accepted.compute_dtype != canonical(kernel.dtype):
            raise SimError(f"{chip.name} computes {kernel.dtype} convolutions in {accepted.compute_dtype}")
        return accepted

    @staticmethod
    def _axes(kernel: MeasuredKernel) -> Sequence[str]:
        return AXES if "Di" in dict(kernel.sizes) else AXES[1:]

    def _layer(self, kernel: MeasuredKernel, gradient: str, *, bias: bool) -> Layer:
        dtype, cube_math_type = cube_dtype(kernel)
        axes = self._axes(kernel)
        groups, window = kernel.get("groups", 1), [kernel[f"k{axis}"] for axis in axes]
        ends = (kernel["Ci"], kernel["Co"] // groups) if self.transposed else (kernel["Co"], kernel["Ci"] // groups)
        shapes = {
            "input": [kernel["N"], kernel["Ci"], *(kernel[f"{axis.upper()}i"] for axis in axes)],
            "weight": [*ends, *window],
        }
        pads = [kernel[f"pad_{axis}_total"] for axis in axes]
        even = not any(pad % 2 for pad in pads)
        if self.graph and not even:
            raise SimError(f"pads of {pads}: padding before and behind must be equal, so totals are even")
        entries: dict[str, Any] = {
            "name": kernel.op_type,
            "dtype": dtype,
            "bias": bias,
            "stride": [kernel[f"stride_{axis}"] for axis in axes],
            "padding": [pad // 2 for pad in pads] if even else [part for pad in pads for part in (pad // 2, pad - pad // 2)],
            "dilation": [kernel.get(f"dilation_{axis}", 1) for axis in axes],
            "groups": groups,
            "cube_math_type": cube_math_type,
            **{name: {"shape": shape, "requires_grad": gradient == f"grad_{name}"} for name, shape in shapes.items()},
        }
        if self.transposed:
            steps = [(kernel[f"{axis.upper()}i"] - 1) * kernel[f"stride_{axis}"] for axis in axes]
            least = [n + reach(kernel, axis) - pad for n, axis, pad in zip(steps, axes, pads, strict=True)]
            # What the strides leave open of the result's size; the sizes of the row say it.
            left = [kernel[f"{axis.upper()}o"] - size for axis, size in zip(axes, least, strict=True)]
            entries |= {"transposed": True, "output_padding": left}
        return Layer.model_validate(entries)


def reach(kernel: MeasuredKernel, axis: str) -> int:
    """Return the number of elements from the first to the last tap of the kernel along an axis, dilation included."""
    return (kernel[f"k{axis}"] - 1) * kernel.get(f"dilation_{axis}", 1) + 1


SAME_FORMATS = {"ND": "NCHW", "NCDHW": "NCHW", "NDC1HWC0": "NC1HWC0", "FRACTAL_Z_3D": "FRACTAL_Z"}
"""Formats that differ in the axis of the depth alone, which a profiler writes of one kernel either way."""


class ConvKernel(ConvRow):
    """Task builder for measured rows of one cube kernel of a convolution, launched alone; `gradient` is its output, "" for
    the forward kernel.
    """

    optional = (*ConvRow.optional, "block_dim")
    helps: ClassVar[Mapping[str, tuple[str, ...]]] = {"block_dim": ("block_dim",)}

    def __init__(self, gradient: str = "") -> None:
        self.gradient = gradient
        self.direction = "backward" if gradient else "forward"

    def check(self, kernel: MeasuredKernel) -> None:
        """Raise ValueError for sizes that contradict each other and an unknown `library`. A graph's row that lacks sizes
        passes, and `task` gives the reason why it is skipped; a row of an aclnn call that lacks them does not.
        """
        if not (self.graph and self._missing(kernel)):
            super().check(kernel)

    def task(self, kernel: MeasuredKernel, chip: ChipSpec, device: Device) -> tuple[Task, list[Allocation]]:
        if missing := self._missing(kernel):
            raise SimError(f"{', '.join(missing)} missing; {kernel.op_type} needs {', '.join(self.columns)}")
        plan = self._plan(kernel, chip)
        step = next((step for step in plan.steps if step.op_type == kernel.op_type), None)
        if step is None:
            launched = ", ".join(step.op_type for step in plan.steps)
            raise SimError(f"{chip.name} has no {kernel.op_type} for this problem; it launches {launched}")
        if self.graph:
            _check_tensors(kernel, plan, step)
        allocations = {name: device.allocate(plan.tensors[name].size, name) for name in step.tensors}
        return step.make(chip, allocations), [allocations[name] for name in step.inputs]

    def _missing(self, kernel: MeasuredKernel) -> list[str]:
        """Return the size columns that the row needs and lacks; a row with Di needs those of the depth too."""
        given = dict(kernel.sizes)
        needed = (*self.columns, *(self.deep if "Di" in given else ()))
        return [name for name in needed if name not in given]

    def _plan(self, kernel: MeasuredKernel, chip: ChipSpec) -> Plan:
        operator = OPERATORS.of_pass(self.direction)
        if not self.gradient:
            return operator.plan(self.accepted(kernel, chip), chip)
        told = kernel.get("block_dim", 0)
        call = self.accepted(kernel, chip, self.gradient, {self.gradient: told} if told else None)
        if not self.graph:
            return operator.plan(call, chip)
        if self.gradient == "grad_weight":  # its sums are fp32; a cast of them is another kernel
            call = replace(call, outputs={name: replace(one, dtype="float32") for name, one in call.outputs.items()})
        return operator.graph_plan(call, chip, kernel.op_type)


class ConvGradient(ConvKernel):
    """Task builder for the 2-D cube kernel of a convolution backward that computes `gradient` alone, with the row's number
    of blocks if given.
    """

    optional = ("block_dim", "groups", "dilation_h", "dilation_w")
    graph = False


def _check_tensors(kernel: MeasuredKernel, plan: Plan, step: PlanStep) -> None:
    """Raise SimError if the row says another format of the first input or output, or another dtype of the output, than the
    simulated kernel has.

    Empty entries pass, and formats that differ in the depth axis alone are equal.
    """
    for does, label, name in (("reads", "format_in", step.inputs[0]), ("writes", "format_out", step.outputs[0])):
        given, known = kernel.label(label), plan.tensors[name].format
        if given and SAME_FORMATS.get(given, given) != SAME_FORMATS.get(known, known):
            raise SimError(f"{label} {given!r}: {kernel.op_type} here {does} {known}")
    given, known = kernel.label("dtype_out"), plan.tensors[step.outputs[0]].dtype
    if given and canonical(given) != known:
        raise SimError(f"dtype_out {given!r}: {kernel.op_type} here writes {known}")
