"""Kernel split: grad_input with stride > 1 as convolutions of stride 1, one for each residue of a dx pixel's place.

A dx row y gets tap t from gradOutput row (y + pad_up - t) / stride_h, so only from taps t = (y + pad_up) mod stride_h,
+ stride_h, ...: no zero is multiplied. Rows y0, y0 + stride_h, ... make a part, whose kernel is those taps; the same for
columns with mode SPLIT_HW, while SPLIT_H leaves them to zero insertion. A part without taps is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ascend_sim.errors import TilingError
from ascend_sim.ops.params import ConvProblem
from ascend_sim.ops.tiling.fields import TilingInput, ceil_div

SPLIT_NONE, SPLIT_HW, SPLIT_H = 0, 1, 2
"""The vendor's kernelSplitMode (ops-nn, arch35 tiling key: stated)."""


@dataclass(frozen=True)
class Part:
    """dx pixels (`row` + i * row_step, `column` + j * column_step), i < `rows`, j < `columns`, and what makes them.

    `problem` has stride 1 along the axes that are split. Its map is as large as the largest part's, so a tile may end in
    rows or columns that this part does not have. `taps` are indices of the whole kernel, in the order of the part's.
    """

    problem: ConvProblem
    row: int
    column: int
    row_step: int
    column_step: int
    rows: int
    columns: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
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


def split_parts(problem: ConvProblem, mode: int) -> tuple[Part, ...]:
    """The parts, rows slowest; without a split the problem itself. TilingError with dilation, whose taps are not in a row."""
    p = problem
    whole = (Part(p, 0, 0, 1, 1, p.h_in, p.w_in, tuple(range(p.k_h * p.k_w))),)
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
                p, h_in=height, w_in=width, k_h=max(len(y.taps), 1), k_w=max(len(x.taps), 1), stride_h=1,
                stride_w=1 if mode == SPLIT_HW else p.stride_w, pad_up=y.pad, pad_down=0, pad_left=x.pad, pad_right=0,
            )  # fmt: skip
            taps = tuple(row * p.k_w + column for row in y.taps for column in x.taps)
            steps = (p.stride_h, p.stride_w if mode == SPLIT_HW else 1)
            found.append(Part(part, y.first, x.first, *steps, y.count, x.count, taps))
    return tuple(found)


def split_input(inp: TilingInput, mode: int) -> TilingInput:
    """What the tiling of a split kernel is made for: the part with the most taps (the first of these)."""
    if mode == SPLIT_NONE:
        return inp
    return replace(inp, problem=max(split_parts(inp.problem, mode), key=lambda part: len(part.taps)).problem)
