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
