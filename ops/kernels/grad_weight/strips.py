"""Strips of grad_weight: gradOutput columns that are multiplied together where L1 cannot hold whole rows of the input.

dW is a sum over gradOutput pixels, so any cut of them will do. Columns `column` .. of gradOutput see a run of input columns;
together they are an ordinary problem with paddings of its own, whose rows lie further apart in GM. A task walks over the rows
of one strip after the other, as if the strips stood below each other in one map that is as wide as a strip (`stacked`): the
procedures, the capacity formulas and the work list take that map for a problem.

That rows are split, and that the field says into how many columns (splitWo), is the vendor's on dav-3510 (ops-nn arch35 tiling
data: stated). When and how, and that other architectures split them as well, is ours (inferred).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.cube.strips import Strip
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.walk import Windows


def boxes(strip: Strip, pixels: Span) -> Iterator[tuple[Span, Span, int]]:
    """Rows and columns of gradOutput that a run of a strip's pixels consists of, and the places of these boxes in L1 (bytes).

    They are what the first row has left, whole rows, and the beginning of the last one.
    """
    if strip.problem.h_out == 1:
        yield Span(0, 1), Span(strip.column + pixels.start, pixels.length), 0
        return
    width, pixel, end = strip.problem.w_out, pixels.start, pixels.start + pixels.length
    while pixel < end:
        row, column = divmod(pixel, width)
        rows, columns = 1, min(width - column, end - pixel)
        if columns == width:
            rows = (end - pixel) // width
        yield Span(row, rows), Span(strip.column + column, columns), (pixel - pixels.start) * BLOCK_BYTES
        pixel += rows * columns


def strips(problem: ConvProblem, width: int) -> tuple[Strip, ...]:
    """Strips of `width` gradOutput columns, the last one with what is left; with 0 the problem itself."""
    count = ceil_div(problem.w_out, width) if is_split(problem, width) else 1
    return tuple(_strip(problem, width, index) for index in range(count))


@lru_cache(maxsize=4096)
def _strip(p: ConvProblem, width: int, index: int) -> Strip:
    if not is_split(p, width):
        return Strip(p, 0, p.w_out, 0)
    column = index * width
    return piece(p, column, min(width, p.w_out - column))


@lru_cache(maxsize=4096)
def piece(p: ConvProblem, column: int, columns: int) -> Strip:
    """`columns` gradOutput columns from `column` on, as a problem of their own."""
    start = column * p.stride_w - p.pad_left
    end = start + _window(p, columns)
    first, last = max(start, 0), min(end, p.w_in)
    seen = max(last - first, 0)
    part = replace(p, w_out=columns, w_in=seen, pad_left=first - start, pad_right=max(end - p.w_in, 0))
    return Strip(part, column, columns, first)


def _window(p: ConvProblem, columns: int) -> int:
    """Columns of the padded input that gradOutput columns span."""
    return (columns - 1) * p.stride_w + (p.k_w - 1) * p.dilation_w + 1


def _most_seen(problem: ConvProblem, width: int) -> int:
    """Input columns of the widest strip, without making them all: rows may have millions.

    Strips see the more the less padding they reach into, so the widest is the first that sees none on the left, the last that
    sees none on the right, or one beside them; the very last may be narrower and sees less than its neighbour.
    """
    p = problem
    step = width * p.stride_w
    reach = _window(p, width)
    near = (ceil_div(p.pad_left, step), (p.w_in + p.pad_left - reach) // step)
    last = ceil_div(p.w_out, width) - 1
    indices = {min(max(index + shift, 0), last - edge) for index in near for shift in (-1, 0, 1) for edge in (0, 1)}
    return max(_strip(p, width, index).problem.w_in for index in indices)


def is_split(problem: ConvProblem, width: int) -> bool:
    """Whether strips of `width` columns are less than whole rows; 0 stands for whole rows."""
    return 0 < width < problem.w_out


def stacked(inp: TilingInput, width: int) -> TilingInput:
    """What a tiling with strips of `width` columns is made for: one map with the strips below each other.

    Its rows are the widest strip's, also those of a last strip that is narrower, which its `walk` tells. A map
    that is no wider than a strip stays as it is.
    """
    p = inp.problem
    if not is_split(p, width):
        return inp
    seen, rows = max(_most_seen(p, width), 1), p.h_out * ceil_div(p.w_out, width)
    return replace(inp, problem=replace(p, h_out=rows, w_out=width, w_in=seen), walk=Windows(p.w_out % width))


def sections(problem: ConvProblem, width: int, first: int, count: int) -> list[tuple[Strip, int, int]]:
    """(strip, its first row, rows) of rows `first` .. of the strips below each other, one strip after the other."""
    found, height = [], problem.h_out
    for index in range(first // height, ceil_div(first + count, height)):
        start, end = max(first - index * height, 0), min(first + count - index * height, height)
        found.append((_strip(problem, width, index), start, end - start))
    return found


class InputRows(NamedTuple):
    """`rows` rows of the input from `first` on, below `pad_top` rows of padding."""

    first: int
    rows: int
    pad_top: int


def input_rows(problem: ConvProblem, first_pixel: int, end_pixel: int) -> InputRows:
    """What gradOutput pixels first .. end - 1 see; `rows` is below 1 where that is padding only."""
    p = problem
    top = first_pixel // p.w_out * p.stride_h - p.pad_up
    bottom = (end_pixel - 1) // p.w_out * p.stride_h - p.pad_up + (p.k_h - 1) * p.dilation_h
    start = max(top, 0)
    return InputRows(start, min(bottom, p.h_in - 1) - start + 1, start - top)
