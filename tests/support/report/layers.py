"""A layer that was run, for its waterfall and what that suggests."""

from __future__ import annotations

from typing import Any

import ascend_sim
from ascend_sim import TensorSpec


def layer(
    chip: str = "ascend910b3",
    stride: int = 1,
    channels: tuple[int, int] = (64, 64),
    batch: int = 20,
    size: int = 28,
    kernel: int = 3,
    groups: int = 1,
    mask: tuple[bool, bool, bool] = (True, True, False),
    tiling: Any = None,
    dtype: str = "float16",
) -> Any:
    c_in, c_out = channels
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1
    shapes = (batch, c_out, out, out), (batch, c_in, size, size), (c_out, c_in // groups, kernel, kernel)
    return ascend_sim.convolution_backward(
        *(TensorSpec(shape, dtype) for shape in shapes),
        None,
        (stride, stride),
        (kernel // 2,) * 2,
        (1, 1),
        False,
        (0, 0),
        groups,
        mask,
        chip=chip,
        mode="timing",
        tiling=tiling,
    )


def kernels(result: Any) -> dict[str, dict[str, Any]]:
    return {kernel["name"]: kernel for kernel in result.report.kernels if "waterfall" in kernel}
