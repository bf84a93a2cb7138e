"""Problems and chips for the tiling tests."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import PLAIN_SPLIT
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput

BUFFERS = {"L1": 524288, "L0A": 65536, "L0B": 65536, "L0C": 131072}  # Ascend 910B, CANN 8.1.RC1 platform files
L2_BYTES = 192 * 2**20
LOAD3D = load_chip("ascend910b3").load3d.limits


def conv2d(
    n: int, c_in: int, c_out: int, size: int, kernel: int, stride: int = 1, pad: int = 0, groups: int = 1
) -> ConvProblem:
    """A square 2-D convolution."""
    out = (size + 2 * pad - kernel) // stride + 1
    return ConvProblem(
        n,
        c_in,
        c_out,
        1,
        size,
        size,
        1,
        out,
        out,
        1,
        kernel,
        kernel,
        1,
        stride,
        stride,
        pad_up=pad,
        pad_down=pad,
        pad_left=pad,
        pad_right=pad,
        groups=groups,
    )


def on_910b(problem: ConvProblem, itemsize: int = 2, cores: int = 20, deterministic: bool = False) -> TilingInput:
    """The problem on a 910B."""
    return TilingInput(problem, itemsize, cores, BUFFERS, L2_BYTES, deterministic, load3d=LOAD3D)


def on_950(problem: ConvProblem, itemsize: int = 2) -> TilingInput:
    """The problem on the kernels that read NCDHW."""
    chip = load_chip("ascend950pr_9589")
    buffers = {str(name): size for name, size in chip.buffers.items()}
    plain = {"layout": PLANAR, "family": PLAIN_SPLIT}
    return replace(on_910b(problem, itemsize), buffers=buffers, load3d=chip.load3d.limits, **plain)


RESNET = conv2d(32, 64, 64, 56, 3, pad=1)


@st.composite
def problems(draw: st.DrawFn, largest: int = 40, channels: tuple[int, ...] = (1, 3, 8, 16, 40)) -> ConvProblem:
    """Random problems; pads may exceed the kernel's reach and some input rows may go unused."""
    groups = draw(st.sampled_from((1, 1, 1, 2, 3, 16)))
    deep = draw(st.booleans())
    kernel, stride, dilation, before, after, size, out = [], [], [], [], [], [], []
    for axis in range(3):
        flat = axis == 0 and not deep
        k = 1 if flat else draw(st.integers(1, 5))
        s = 1 if flat else draw(st.integers(1, 3))
        d = 1 if flat else draw(st.integers(1, 3))
        o = 1 if flat else draw(st.integers(1, 3 if axis == 0 else largest))
        span = (o - 1) * s + (k - 1) * d + 1 + draw(st.integers(0, s - 1))
        b, a = (0, 0) if flat else (draw(st.integers(0, 3)), draw(st.integers(0, 3)))
        if span - a - b < 1:
            a = b = 0
        for values, value in zip(
            (kernel, stride, dilation, before, after, size, out), (k, s, d, b, a, span - a - b, o), strict=True
        ):
            values.append(value)
    pads = [p for pair in zip(before, after, strict=True) for p in pair]
    n = draw(st.integers(1, 5))
    c_in, c_out = groups * draw(st.sampled_from(channels)), groups * draw(st.sampled_from(channels))
    return ConvProblem(n, c_in, c_out, *size, *out, *kernel, *stride, *dilation, *pads, groups)


@st.composite
def inputs(draw: st.DrawFn, largest: int = 40, channels: tuple[int, ...] = (1, 3, 8, 16, 40)) -> TilingInput:
    """Random problems on chips of several core counts."""
    return on_910b(
        draw(problems(largest, channels)),
        itemsize=draw(st.sampled_from((2, 4))),
        cores=draw(st.sampled_from((1, 7, 20, 24))),
        deterministic=draw(st.booleans()),
    )
