"""Calls of any rank whose sums are exact, so that one answer is right whatever the order of K, and torch's answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascend_sim import AclnnError, Result, convolution_backward
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from ascend_sim.numerics import numpy_dtype

Array = NDArray[Any]
ONLY_DX = (True, False, False)
QUICK = settings(
    max_examples=8,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@dataclass(frozen=True)
class RankedCall:
    """One call of any rank; `x` is the map that the kernel slides over, the result's unless `transposed`."""

    x: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    n: int = 1
    c_in: int = 16
    c_out: int = 16
    groups: int = 1
    transposed: bool = False
    dtype: str = "float16"

    @property
    def y(self) -> tuple[int, ...]:
        axes = zip(self.x, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((x + 2 * p - d * (k - 1) - 1) // s + 1 for x, k, s, p, d in axes)

    @property
    def attributes(self) -> tuple[Any, ...]:
        over = tuple(
            x - ((y - 1) * s - 2 * p + d * (k - 1) + 1)
            for x, y, k, s, p, d in zip(self.x, self.y, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        )
        rest = over if self.transposed else (0,) * len(self.x)
        return None, self.stride, self.padding, self.dilation, self.transposed, rest, self.groups, ONLY_DX

    def tensors(self) -> list[Array]:
        rng = np.random.default_rng(0)
        x, y = (self.n, self.c_in, *self.x), (self.n, self.c_out, *self.y)
        shapes = [*((x, y) if self.transposed else (y, x)), (self.c_out, self.c_in // self.groups, *self.kernel)]
        return [rng.integers(-2, 3, shape).astype(numpy_dtype(self.dtype)) for shape in shapes]

    def wanted(self) -> Array:
        torch = pytest.importorskip("torch")
        tensors = [torch.from_numpy(array.astype(np.float64)) for array in self.tensors()]
        found = torch.ops.aten.convolution_backward(*tensors, *self.attributes[:-1], list(ONLY_DX))
        return found[0].numpy().astype(numpy_dtype(self.dtype))

    def run(self, chip: str | ChipSpec, mode: str = "full", tiling: dict[str, int] | None = None, **options: Any) -> Result:
        chosen = {"grad_input": tiling} if tiling else None
        return convolution_backward(
            *self.tensors(), *self.attributes, chip=chip, mode=mode, tiling=chosen, deterministic=True, **options
        )

    def check(self, chip: str | ChipSpec, tiling: dict[str, int] | None = None, **options: Any) -> dict[str, Any]:
        """Right in both modes, nothing found; the fields of the data kernel's tiling."""
        for mode in ("functional", "full"):
            result = self.run(chip, mode, tiling, **options)
            np.testing.assert_array_equal(result.outputs["grad_input"], self.wanted())
            assert result.report.findings == ()
        return fields_of(result)


def fields_of(result: Result) -> dict[str, Any]:
    kernels = {kernel["name"]: kernel for kernel in result.report.kernels}
    found: dict[str, Any] = kernels["grad_input"]["tiling"]
    return found


@cache
def with_l1(chip: str, size: int) -> ChipSpec:
    spec = load_chip(chip)
    return spec.model_copy(update={"buffers": spec.buffers | {"L1": size}})


@st.composite
def calls(draw: st.DrawFn, transposed: bool = False) -> RankedCall:
    rank, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 3]))
    kernel, stride, dilation = (
        tuple(draw(st.integers(1, high)) for _ in range(rank)) for high in ((3, 2, 2) if rank == 3 else (4, 3, 3))
    )
    padding = tuple(draw(st.integers(0, min(3, k - 1))) for k in kernel)
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    x = tuple(
        max(draw(st.integers(17, 44)) if axis == rank - 1 else draw(st.integers(1, 5)), extents[axis]) for axis in range(rank)
    )
    return RankedCall(
        x,
        kernel,
        stride,
        padding,
        dilation,
        draw(st.integers(1, 2)),
        groups * draw(st.sampled_from([1, 3, 16, 20])),
        groups * draw(st.sampled_from([1, 5, 16, 24])),
        groups,
        transposed,
        draw(st.sampled_from(["float16", "bfloat16", "float32"])),
    )


OTHER_WAYS = ("MatMul", "only", "W_in", "groups", "load3d", "D > 1", "not supported", "161002", "561103")
"""Reasons for which a random call may be refused: its product has not got it, or computes it in another way."""


def checked(call: RankedCall, chip: str | ChipSpec, tiling: dict[str, int] | None) -> dict[str, Any] | None:
    try:
        return call.check(chip, tiling)
    except (SimError, AclnnError) as error:
        assert any(word in str(error) for word in OTHER_WAYS), error
        return None
