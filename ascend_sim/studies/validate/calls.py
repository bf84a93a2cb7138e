"""Measured calls: all kernels of one call together, which a row gives as a sum.

A row names the kernels that ran, in their order (column `kernels`); each is simulated as that kernel on the tensors that the
ones before it made. Where a source names none, the kernels are those of our own plan, and the column is empty. The sum of the
kernels' times is compared; where the source gives the time of a kernel, `Name=12.3`, that too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.numerics import canonical
from ascend_sim.ops.execute import bind
from ascend_sim.ops.kernels.cube.libraries import known_library
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan
from ascend_sim.runtime import Device
from ascend_sim.studies.validate.kernel import Kernel, cube_dtype
from ascend_sim.studies.validate.launch import Launch, Launched

AXES = ("d", "h", "w")


def named_kernels(kernel: Kernel) -> list[tuple[str, float | None]]:
    """The kernels of a call in their order, with their measured times in us where the row has them; none for our own plan."""
    found = []
    for entry in kernel.label("kernels").split():
        name, _, us = entry.partition("=")
        try:
            found.append((name, float(us) if us else None))
        except ValueError:
            raise ValueError(
                f"kernels: {entry!r} given; allowed: Name or Name=us, with blanks between kernels"
            ) from None
    return found


class ConvCall(Launch):
    """A call that is made of one convolution; depth columns (Di, Do, kd ...) make it a 3-D one."""

    columns = (
        "N", "Ci", "Hi", "Wi", "Co", "Ho", "Wo", "kh", "kw", "stride_h", "stride_w", "pad_h_total", "pad_w_total",
    )  # fmt: skip
    deep = ("Di", "Do", "kd", "stride_d", "pad_d_total")
    optional = (*deep, "dilation_d", "dilation_h", "dilation_w", "groups")
    direction: ClassVar[str] = "forward"
    transposed: ClassVar[bool] = False

    def check(self, kernel: Kernel) -> None:
        super().check(kernel)
        if "Di" in dict(kernel.sizes):
            self._require(kernel, self.deep)
        named_kernels(kernel)
        try:
            known_library(kernel.label("library") or None)
        except SimError as error:
            raise ValueError(str(error)) from None
        ends = ("o", "i") if self.transposed else ("i", "o")
        for axis in self._axes(kernel):
            large, small = (f"{axis.upper()}{end}" for end in ends)
            room = kernel[large] + kernel[f"pad_{axis}_total"] - _reach(kernel, axis)
            follows = room // kernel[f"stride_{axis}"] + 1
            if kernel[small] != follows:
                raise ValueError(f"{small}: {kernel[small]} given; {large}, kernel, stride and padding give {follows}")

    def tasks(self, kernel: Kernel, chip: ChipSpec, device: Device) -> Launched:
        plan, inputs = self.plan(kernel, chip)
        named = [name for name, _ in named_kernels(kernel)]
        planned = [step.op_type for step in plan.steps]
        if named and named != planned:
            raise SimError(f"the call ran {', '.join(named)}; known here is what {', '.join(planned)} do")
        allocations = {t.name: device.allocate(t.size, t.name) for t in plan.tensors.values() if t.role != "workspace"}
        tasks = bind(plan, chip, allocations, device.allocate(plan.workspace_bytes, "workspace"))
        return tasks, [allocations[name] for name in inputs]

    def plan(self, kernel: Kernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        """The kernels of the call on tensors of the row's sizes, and which tensors the caller gives."""
        raise NotImplementedError

    def accepted(self, kernel: Kernel, chip: ChipSpec, gradient: str = "") -> Any:
        """The call, as the operator of this direction accepts it; deterministic where the library is."""
        operator = OPERATORS.of_pass(self.direction)
        case = operator.of_layer(self._layer(kernel, gradient))
        deterministic = operator.product(chip).profile("library").deterministic_default.value
        accepted = accept_case(
            case,
            chip,
            conformance="documented",
            deterministic=deterministic,
            library=kernel.label("library") or None,
        )
        if accepted.compute_dtype != canonical(kernel.dtype):
            raise SimError(f"{chip.name} computes {kernel.dtype} convolutions in {accepted.compute_dtype}")
        return accepted

    @staticmethod
    def _axes(kernel: Kernel) -> Sequence[str]:
        return AXES if "Di" in dict(kernel.sizes) else AXES[1:]

    def _layer(self, kernel: Kernel, gradient: str) -> Layer:
        dtype, cube_math_type = cube_dtype(kernel)
        axes = self._axes(kernel)
        groups, window = kernel.get("groups", 1), [kernel[f"k{axis}"] for axis in axes]
        ends = (kernel["Ci"], kernel["Co"] // groups) if self.transposed else (kernel["Co"], kernel["Ci"] // groups)
        shapes = {
            "input": [kernel["N"], kernel["Ci"], *(kernel[f"{axis.upper()}i"] for axis in axes)],
            "weight": [*ends, *window],
        }
        pads = [kernel[f"pad_{axis}_total"] for axis in axes]
        if any(pad % 2 for pad in pads):
            raise SimError(f"pads of {pads}: a call has as many before as behind")
        entries: dict[str, Any] = {
            "name": kernel.op_type,
            "dtype": dtype,
            "bias": False,
            "stride": [kernel[f"stride_{axis}"] for axis in axes],
            "padding": [pad // 2 for pad in pads],
            "dilation": [kernel.get(f"dilation_{axis}", 1) for axis in axes],
            "groups": groups,
            "cube_math_type": cube_math_type,
            **{name: {"shape": shape, "requires_grad": gradient == f"grad_{name}"} for name, shape in shapes.items()},
        }
        if self.transposed:
            # What the strides leave open of the result's size; the sizes of the row say it.
            entries |= {"transposed": True, "output_padding": [self._open(kernel, axis) for axis in axes]}
        return Layer.model_validate(entries)

    @staticmethod
    def _open(kernel: Kernel, axis: str) -> int:
        steps = (kernel[f"{axis.upper()}i"] - 1) * kernel[f"stride_{axis}"]
        least = steps + _reach(kernel, axis) - kernel[f"pad_{axis}_total"]
        return kernel[f"{axis.upper()}o"] - least


def _reach(kernel: Kernel, axis: str) -> int:
    """Elements from the first to the last tap."""
    return (kernel[f"k{axis}"] - 1) * kernel.get(f"dilation_{axis}", 1) + 1


class FilterCall(ConvCall):
    """torch_npu.npu_conv3d_backward for the weight alone: the graph operator, whose dW is fp32."""

    direction = "backward"

    def plan(self, kernel: Kernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        call = self.accepted(kernel, chip, "grad_weight")
        call = replace(call, outputs={name: replace(one, dtype="float32") for name, one in call.outputs.items()})
        filters = [name for name, _ in named_kernels(kernel) if name.startswith("Conv")]
        if len(filters) != 1:
            raise SimError(f"kernels: {len(filters)} that make dW; one is needed")
        return OPERATORS.of_pass(self.direction).graph_plan(call, chip, filters[0]), ("input", "grad_output")


class ForwardCall(ConvCall):
    """A forward convolution, whose bias the cube adds on its way (not simulated: a few hundred bytes)."""

    def plan(self, kernel: Kernel, chip: ChipSpec) -> tuple[Plan, Sequence[str]]:
        call = self.accepted(kernel, chip)
        return OPERATORS.of_pass(self.direction).plan(call, chip), ("input", "weight")


class TransposedCall(ForwardCall):
    """A transposed convolution, whose kernel is the one that makes dX."""

    transposed = True
