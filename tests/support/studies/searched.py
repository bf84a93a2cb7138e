"""Small convolutions and their cube kernels, for the tests of this directory."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.studies.tiles.kernel import CubeKernel


def case(
    n: int = 2,
    c_in: int = 16,
    c_out: int = 16,
    size: int = 6,
    k: int = 3,
    *,
    stride: int = 1,
    pad: int = 1,
    dilation: int = 1,
    groups: int = 1,
    dtype: str = "float16",
    depth: int = 0,
    **rest: Any,
) -> Case:
    """A square 2-D problem, or a 3-D one of so many planes."""
    axes, planes = (3, (depth,)) if depth else (2, ())
    return ConvolutionBackwardCase.model_validate(
        {
            "operator": "convolution_backward",
            "input": {"shape": (n, c_in, *planes, size, size), "dtype": dtype},
            "weight": {"shape": (c_out, c_in // groups, *[k] * axes), "dtype": dtype},
            "stride": (stride,) * axes,
            "padding": (pad,) * axes,
            "dilation": (dilation,) * axes,
            "groups": groups,
            **rest,
        }
    )


def kernel(name: str, chip: str = "ascend910b3", l2: str = "warm", **problem: Any) -> CubeKernel:
    """A cube kernel of a square problem."""
    spec = load_chip(chip)
    return CubeKernel.of(accept_case(case(**problem), spec), spec, name, l2)


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Problems whose kernels run in some hundredths of a second."""
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    k = draw(st.integers(1, 3))
    return {
        "n": draw(st.integers(1, 3)),
        "c_in": groups * draw(st.sampled_from([3, 16, 20])),
        "c_out": groups * draw(st.sampled_from([5, 16, 32])),
        "size": draw(st.integers(3, 7)),
        "k": k,
        "stride": draw(st.integers(1, 2)),
        "pad": draw(st.integers(0, k)),
        "groups": groups,
        "dtype": draw(st.sampled_from(["float16", "float32"])),
        "deterministic": draw(st.booleans()),
    }


KERNELS = st.sampled_from(["grad_input", "grad_weight"])
CHIPS = st.sampled_from(["ascend910b3", "ascend910b3", "ascend910a", "ascend950pr_9589"])
