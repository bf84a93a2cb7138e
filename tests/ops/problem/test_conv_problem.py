"""Numbers of a problem against the convolution's own formula."""

from __future__ import annotations

import pytest

from ascend_sim.ops.problem.conv_problem import ConvProblem

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (1, 2), (2, 1)])
def test_products_of_planes_are_those_of_the_dilated_kernel(dilation: int, stride: int, pad: int) -> None:
    """Tap t of output plane o meets input plane o*s - pad + t*d, where there is one."""
    size, taps = 9, 3
    out = (size + 2 * pad - (taps - 1) * dilation - 1) // stride + 1
    problem = ConvProblem(
        2, 16, 32, size, 4, 4, out, 4, 4, taps, 1, 1, stride, dilation_d=dilation, pad_front=pad, pad_back=pad
    )
    met = sum(0 <= o * stride - pad + t * dilation < size for o in range(out) for t in range(taps))
    assert problem.plane_products == met
    assert problem.met_macs == 2 * 16 * 32 * 4 * 4 * met


def test_products_of_planes_beyond_32_bits() -> None:
    """Counted tap by tap or plane by plane, whichever is few, they are the same where the other count is huge."""
    size, many, few = 1 << 40, 1 << 31, 3
    outputs = ConvProblem(1, 1, 1, size, 1, 1, many, 1, 1, few, 1, 1, stride_d=5, dilation_d=7, pad_front=11)
    taps = ConvProblem(1, 1, 1, size, 1, 1, few, 1, 1, many, 1, 1, stride_d=7, dilation_d=5, pad_front=11)
    met = sum(many - max(-(-(11 - tap * 7) // 5), 0) for tap in range(few))
    assert outputs.plane_products == taps.plane_products == met
    both = ConvProblem(1, 1, 1, many, 1, 1, many, 1, 1, many, 1, 1)
    assert both.plane_products == many * (many + 1) // 2
