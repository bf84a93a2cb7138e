"""Figures of the page's text: what rows would be predicted under another rule, plan, chip or version of the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import fmean, median
from typing import Any
from unittest import mock

from ascend_sim import convolution_backward
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.cube.libraries import kernel_of
from ascend_sim.ops.kernels.grad_weight.tbe import program
from ascend_sim.studies.validate.launches import MATMULS
from ascend_sim.studies.validate.rows import MeasuredRow
from ascend_sim.studies.validate.run import RowComparison, compare

V1_CALL = "npu_conv3d_backward"
DTYPES = {"fp16": "float16", "bf16": "bfloat16"}
GIGABYTE = 1e9


def rows_of(
    compared: Sequence[RowComparison], chip: str, op_types: Sequence[str], series: str | None = None
) -> list[MeasuredRow]:
    """The rows of these that were simulated with all of their kernels."""
    return [
        one.row
        for one in compared
        if (one.row.kernel.chip == chip and one.row.kernel.op_type in op_types)
        and (series is None or one.row.series == series)
        and not one.prediction.skipped
    ]


def size_and_bias(errors: Sequence[float]) -> str:
    """Mean of the sizes of errors and bias, percent."""
    return f"{100 * fmean(map(abs, errors)):.1f} | {100 * fmean(errors):+.1f}"


def errors_of(rows: Sequence[MeasuredRow]) -> list[float]:
    """Return the errors of rows as they are predicted now."""
    return [one.error for one in compare(rows) if not one.prediction.skipped]


@contextmanager
def loads_ahead() -> Iterator[None]:
    """The V1 3-D kernel with two buffers of each operand and a unit flag, as the 2-D kernel has them."""

    class WithUnitFlag(program.CubePipeline):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named | {"unit_flag": True})

    with mock.patch.multiple(program, ONE_AFTER_THE_OTHER=2, CubePipeline=WithUnitFlag):
        yield


def by_our_plan(row: MeasuredRow) -> float:
    """Error of a weight gradient's row through aclnnConvolutionBackward: the sum of that call's kernels."""
    size, three = row.kernel, "dhw"
    tensors = (
        (size["N"], size["Co"], size["Do"], size["Ho"], size["Wo"]),
        (size["N"], size["Ci"], size["Di"], size["Hi"], size["Wi"]),
        (size["Co"], size["Ci"] // size["groups"], size["kd"], size["kh"], size["kw"]),
    )
    found = convolution_backward(
        *(TensorSpec(shape, DTYPES[size.dtype]) for shape in tensors), None,
        [size[f"stride_{axis}"] for axis in three], [size[f"pad_{axis}_total"] // 2 for axis in three],
        [size[f"dilation_{axis}"] for axis in three], False, [0, 0, 0], size["groups"], (False, True, False),
        chip=size.chip, mode="timing", conformance="library", l2="warm",
    )  # fmt: skip
    return sum(kernel["task_us"] for kernel in found.report.kernels) / row.duration_us - 1


def plan_and_kernel(compared: Sequence[RowComparison]) -> dict[str, str]:
    """The V1 kernel's calls through our plan, with loads ahead, and as they are."""
    rows = rows_of(compared, "ascend910b2", (V1_CALL,))
    with loads_ahead():
        ahead = errors_of(rows)
    return {
        "by_plan": size_and_bias([by_our_plan(row) for row in rows]),
        "with_loads_ahead": size_and_bias(ahead),
        "as_scheduled": size_and_bias(errors_of(rows)),
        "v1_ahead": f"{100 * fmean(map(abs, ahead)):.0f}",
    }


def kernelbench(compared: Sequence[RowComparison]) -> dict[str, str]:
    """KernelBench's rows as a 910B4's and as a 910B2's."""
    as_b4 = [one for one in compared if one.row.series == "KernelBench" and not one.prediction.skipped]
    as_b2 = compare([replace(one.row, kernel=replace(one.row.kernel, chip="ascend910b2")) for one in as_b4])
    volumes = [one.error for one in as_b2 if one.row.kernel.op_type == "conv_transpose3d"]
    large = [one for one in as_b2 if one.row.kernel.op_type in MATMULS and _written(one.row) > GIGABYTE]
    rate = fmean(_written(one.row) / one.row.duration_us / 1e6 for one in large)
    peaks = [load_chip(chip).memory.hbm_gb_per_s / 1e3 for chip in ("ascend910b4", "ascend910b2")]
    return {
        "b2_3d": f"{100 * fmean(volumes):+.0f}",
        "b2_large": f"{100 * fmean(one.error for one in large):+.0f}",
        "rate": f"{rate:.3f}",
        "of_b4": f"{100 * rate / peaks[0]:.0f} % of the {peaks[0]:.2g}",
        "of_b2": f"{100 * rate / peaks[1]:.0f} % of a 910B2's {peaks[1]:.3g}",
        "b4_median": f"{100 * median(abs(one.error) for one in as_b4):.0f}",
        "b4_bias": f"{100 * fmean(one.error for one in as_b4):+.0f}",
    }


def _written(row: MeasuredRow) -> float:
    """Bytes of a product's fp32 result."""
    return 4.0 * row.kernel.get("batch", 1) * row.kernel["M"] * row.kernel["N"]


def newer_library(compared: Sequence[RowComparison]) -> dict[str, str]:
    """The 950's weight gradients as the version of the library that loads ahead."""
    rows = rows_of(compared, "ascend950pr_9579", (V1_CALL,))
    newer = [replace(row, kernel=replace(row.kernel, labels=(*_but(row, "library"), ("library", "2026-08")))) for row in rows]
    return {"newer": f"{100 * fmean(map(abs, errors_of(newer))):.0f}"}


def without_groups(compared: Sequence[RowComparison]) -> dict[str, str]:
    """The 950's depthwise convolutions without their surrogate."""
    costs = kernel_of("", "Conv3DV2")["group_pixel_cycles"]
    with mock.patch.dict(costs, {"value": 0}):
        errors = errors_of(rows_of(compared, "ascend950pr_9579", ("conv2d",), "depthwise"))
    return {"group_pixel": f"{costs['value']}", "without_groups": f"{100 * fmean(map(abs, errors)):.0f}"}


def _but(row: MeasuredRow, name: str) -> list[tuple[str, str]]:
    return [label for label in row.kernel.labels if label[0] != name]


def figures(compared: Sequence[RowComparison]) -> dict[str, str]:
    """Return the figures that the texts of `words` leave open."""
    return plan_and_kernel(compared) | kernelbench(compared) | newer_library(compared) | without_groups(compared)
