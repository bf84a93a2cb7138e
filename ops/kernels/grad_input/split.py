"""Parts of grad_input that are problems of their own: strips of columns, and kernels split by stride.

Strips: dx columns that are not cut need whole rows of gradOutput in L1. A strip needs a part of each row; its map is as wide
as all strips', so the last one may end in columns that dx does not have.

Kernel split: grad_input with stride > 1 as convolutions of stride 1, one for each residue of a dx pixel's place.

A dx row y gets tap t from gradOutput row (y + pad_up - t) / stride_h, so only from taps t = (y + pad_up) mod stride_h,
+ stride_h, ...: no zero is multiplied. Rows y0, y0 + stride_h, ... make a part, whose kernel is those taps; the same for
columns with mode SPLIT_HW, while SPLIT_H leaves them to zero insertion. A part without taps is zero.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.strips import Strip, reach, widest_reach
from ascend_sim.ops.kernels.grad_input.window import dilated_width, pad_before
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput

SPLIT_NONE, SPLIT_HW, SPLIT_H = 0, 1, 2
"""The vendor's kernelSplitMode (ops-nn, arch35 tiling key: stated)."""


@frozen
class Part(Strip):
    """dx pixels (`row` + i * row_step, `column` + j * column_step), i < `rows`, j < `columns`, and what makes them.

    `problem` has stride 1 along the axes that are split. Its map is as large as the largest part's, so a tile may end in
    rows or columns that this part does not have. `taps` are indices of the whole kernel, in the order of the part's.
    """

    row: int
    rows: int
    taps: tuple[int, ...]
    row_step: int = 1
    column_step: int = 1


@frozen
class _Axis:
    """One residue along an axis: first place, places, taps and the padding of the convolution of stride 1."""

    first: int
    count: int
    taps: tuple[int, ...]
    pad: int


def _axis(stride: int, kernel: int, pad: int, size: int) -> list[_Axis]:
    found = []
    for first in range(min(stride, size)):
        above, residue = divmod(first + pad, stride)
        found.append(_Axis(first, ceil_div(size - first, stride), tuple(range(residue, kernel, stride)), above))
    return found


@lru_cache(maxsize=64)
def split_parts(problem: ConvProblem, mode: int, strip: int = 0) -> tuple[Part, ...]:
    """The parts, strips slowest, then rows; without a split or strips the problem itself.

    TilingError with dilation, whose taps are not in a row.
    """
    if not strip:
        return _split(problem, mode)
    found = []
    for first in range(0, problem.w_in, strip):
        own, source = strip_problem(problem, first, strip)
        for part in _split(own, mode):
            taps = part.taps if own.w_out else ()
            columns = min(strip, problem.w_in - first)
            found.append(replace(part, column=first, columns=columns, taps=taps, source=source))
    return tuple(found)


def strip_problem(p: ConvProblem, first: int, width: int) -> tuple[ConvProblem, int]:
    """dx columns `first` .. as a problem, whose `w_out` is 0 where nothing reaches them; the gradOutput column it begins at."""
    extent = (p.k_w - 1) * p.dilation_w
    _, pad = pad_before(p)
    found = reach(first, width, 1, pad, extent + 1, dilated_width(p))
    # Zeros that were inserted before the first gradOutput column, or behind the last one, are padding here.
    source = ceil_div(found.first, p.stride_w)
    columns = max((found.first + found.count - 1) // p.stride_w - source + 1, 0) if found.count else 0
    before = found.pad + source * p.stride_w - found.first
    return replace(p, w_in=width, w_out=columns, pad_left=extent - before), source


def _split(problem: ConvProblem, mode: int) -> tuple[Part, ...]:
    p = problem
    whole = (Part(p, 0, p.w_in, 0, 0, p.h_in, tuple(range(p.k_h * p.k_w))),)
    if mode == SPLIT_NONE:
        return whole
    if (p.dilation_h, p.dilation_w) != (1, 1):
        raise TilingError(f"kernelSplitMode = {mode} needs dilation 1, given {p.dilation_h} and {p.dilation_w}")
    height = ceil_div(p.h_in, p.stride_h)
    width = ceil_div(p.w_in, p.stride_w) if mode == SPLIT_HW else p.w_in
    across = [_Axis(0, p.w_in, tuple(range(p.k_w)), p.pad_left)]
    if mode == SPLIT_HW:
        across = _axis(p.stride_w, p.k_w, p.pad_left, p.w_in)
    found = []
    for y in _axis(p.stride_h, p.k_h, p.pad_up, p.h_in):
        for x in across:
            part = replace(
                p,
                h_in=height,
                w_in=width,
                k_h=max(len(y.taps), 1),
                k_w=max(len(x.taps), 1),
                stride_h=1,
                stride_w=1 if mode == SPLIT_HW else p.stride_w,
                pad_up=y.pad,
                pad_down=0,
                pad_left=x.pad,
                pad_right=0,
            )
            taps = tuple(row * p.k_w + column for row in y.taps for column in x.taps)
            steps = (p.stride_h, p.stride_w if mode == SPLIT_HW else 1)
            found.append(Part(part, x.first, x.count, 0, y.first, y.count, taps, *steps))
    return tuple(found)


def split_products(problem: ConvProblem, mode: int) -> int:
    """Products of gradOutput with its inserted zeros and the weights: every dx pixel with the taps of its part."""
    p = problem
    pixels = sum(part.rows * part.columns * len(part.taps) for part in split_parts(p, mode))
    return p.n * p.plane_products * p.c_out * (p.c_in // p.groups) * pixels


def split_input(inp: TilingInput, mode: int, strip: int = 0) -> TilingInput:
    """What a tiling is made for: of a split kernel the part with the most taps (the first of these), of strips the widest."""
    if strip:
        p = inp.problem
        widest = widest_reach(strip, 1, (p.k_w - 1) * p.dilation_w + 1, dilated_width(p))
        inp = replace(inp, problem=replace(p, w_in=strip, w_out=ceil_div(widest, p.stride_w)))
    if mode == SPLIT_NONE:
        return inp
    return replace(inp, problem=max(split_parts(inp.problem, mode), key=lambda part: len(part.taps)).problem)
