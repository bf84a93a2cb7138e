"""grad_weight tap by tap: what load3d cannot express or L1 not hold, as products without a window.

A tap of the kernel meets each gradOutput pixel with one input pixel. So dW of that tap is gradOutput turned times a matrix of
input pixels: those that a run of gradOutput pixels meets, gathered from GM with the stride. Nothing is left of window, stride,
dilation and padding: pixels that meet the padding are left out. Taps are taken for kernel planes of a 1x1 convolution,
[kD, kH, kW] for one axis: the procedures, the capacity formulas, the work list and the layout of dW see that problem.

That the kernel is split so on dav-3510 where L1 or a limit of load3d fails (isSplitKernelHW), and that L1 then holds as many
pixels of the input as of gradOutput: stated (ops-nn arch35 tiling; its bl1Bound). That a base block has one tap: ours.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.cube.strips import Strip
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.strips import sections, stacked
from ascend_sim.ops.layouts.layout import Lattice
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.walk import TAPS


def by_tap(inp: TilingInput) -> TilingInput:
    """The problem whose kernel planes are the taps; such a problem itself stays as it is."""
    return inp if inp.walk == TAPS else replace(inp, problem=_planes_of_taps(inp.problem), walk=TAPS)


def walked_input(inp: TilingInput, tiling: GradWeightTiling) -> TilingInput:
    """What the fields of a tiling count: the problem in strips or tap by tap, else itself."""
    return stacked(by_tap(inp) if tiling.split_kernel else inp, tiling.split_wo)


def walk(
    problem: ConvProblem, tiling: GradWeightTiling, tap: int, first: int, count: int
) -> list[tuple[Strip, int, int]]:
    """(strip, its first row, rows) of rows `first` .. as a task counts them; `tap` (row-major) matters where taps are split."""
    if not tiling.split_kernel:
        return sections(problem, tiling.split_wo, first, count)
    strip, rows = _strip_of_tap(problem, tap)
    start, end = max(first, rows.start), min(first + count, rows.stop)
    return [(strip, start, end - start)] if start < end and strip.problem.w_out else []


@lru_cache(maxsize=4096)
def _strip_of_tap(p: ConvProblem, tap: int) -> tuple[Strip, range]:
    """What a tap meets: the gradOutput columns as a strip, the rows."""
    down, right = _shift(p, tap)
    rows = _inside(p.h_out, p.stride_h, down, p.h_in)
    columns = _inside(p.w_out, p.stride_w, right, p.w_in)
    part = replace(_planes_of_taps(p), w_out=len(columns), w_in=len(columns))
    return Strip(part, columns.start, len(columns), columns.start * p.stride_w + right), rows


def met(p: ConvProblem, tap: int, rows: Span, columns: Span) -> Lattice:
    """Pixels of an input plane that a tap meets from rows and columns of gradOutput, none of them padding."""
    down, right = _shift(p, tap)
    first = (rows.start * p.stride_h + down) * p.w_in + columns.start * p.stride_w + right
    return Lattice(first, rows.length, p.stride_h * p.w_in, columns.length, p.stride_w)


def _shift(p: ConvProblem, tap: int) -> tuple[int, int]:
    """Row and column of the input that a tap meets from gradOutput pixel (0, 0)."""
    row, column = divmod(tap, p.k_w)
    return row * p.dilation_h - p.pad_up, column * p.dilation_w - p.pad_left


def _inside(count: int, stride: int, offset: int, size: int) -> range:
    """Indices below `count` whose place, index * stride + offset, lies in 0 .. size - 1."""
    start = max(ceil_div(-offset, stride), 0)
    return range(start, max(min(count, (size - 1 - offset) // stride + 1), start))


def _planes_of_taps(p: ConvProblem) -> ConvProblem:
    return replace(
        p,
        h_in=p.h_out,
        w_in=p.w_out,
        k_d=p.k_d * p.k_h * p.k_w,
        k_h=1,
        k_w=1,
        stride_h=1,
        stride_w=1,
        dilation_h=1,
        dilation_w=1,
        pad_up=0,
        pad_down=0,
        pad_left=0,
        pad_right=0,
    )
