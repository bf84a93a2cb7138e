"""A measured row with the sizes of a convolution: a whole call, or one of its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.numerics import canonical
from ascend_sim.ops.kernels.cube.libraries import known_library
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.studies.validate.kernel import MeasuredKernel, cube_dtype
from ascend_sim.studies.validate.launch import MeasuredLaunch

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
        """Return the accepted call for the row's sizes; deterministic if that is the library's default.

        `gradient` is the only output that the call computes ("" for a forward call), `blocks` maps an output to the number of
        blocks of its kernel; with `bias` the call has one. Raises SimError where the chip computes in another dtype than the
        row's.
        """
        operator = OPERATORS.of_pass(self.direction)
        case = operator.of_layer(self._layer(kernel, gradient, bias=bias))
        deterministic = operator.product(chip).profile("library").deterministic_default.value
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
        if any(pad % 2 for pad in pads):
            raise SimError(f"pads of {pads}: padding before and behind must be equal, so totals are even")
        entries: dict[str, Any] = {
            "name": kernel.op_type,
            "dtype": dtype,
            "bias": bias,
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
    def _open(kernel: MeasuredKernel, axis: str) -> int:
        steps = (kernel[f"{axis.upper()}i"] - 1) * kernel[f"stride_{axis}"]
        least = steps + reach(kernel, axis) - kernel[f"pad_{axis}_total"]
        return kernel[f"{axis.upper()}o"] - least


def reach(kernel: MeasuredKernel, axis: str) -> int:
    """Return the number of elements from the first to the last tap of the kernel along an axis, dilation included."""
    return (kernel[f"k{axis}"] - 1) * kernel.get(f"dilation_{axis}", 1) + 1
