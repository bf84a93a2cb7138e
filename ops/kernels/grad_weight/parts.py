"""Parts of a problem under a tiling of grad_weight: strips of gradOutput columns, or single taps.

Strips, where L1 cannot hold whole rows of the input: dW is a sum over gradOutput pixels, so any cut of them will do. Columns
`column` .. of gradOutput read a run of input columns; together they are an ordinary problem with paddings of its own, whose
rows lie further apart in GM. A task walks over the rows of one strip after the other, as if the strips stood below each other
in one map that is as wide as a strip (`stacked`): the procedures, the capacity formulas and the work list take that map for a
problem. That rows are split, and that the field says into how many columns (splitWo), is the vendor's on dav-3510 (ops-nn
arch35 tiling data: stated). When and how, and that other architectures split them as well, is ours (inferred).

Taps, where load3d cannot express a problem or L1 not hold it, as products without a window: a tap of the kernel pairs
each gradOutput pixel with one input pixel. So dW of that tap is gradOutput transposed times a matrix of those input
pixels, gathered from GM with the stride. Nothing is left of window, stride, dilation and padding: pixels whose input
pixel is padding are left out. Taps are taken for kernel planes of a 1x1 convolution, [kD, kH, kW] for one axis: the
procedures, the capacity formulas, the work list and the layout of dW see that problem. That the kernel is split so on
dav-3510 where L1 or a limit of load3d fails (isSplitKernelHW), and that L1 then holds as many pixels of the input as of
gradOutput: stated (ops-nn arch35 tiling; its bl1Bound). That a base block has one tap: ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.layouts.layout import Lattice
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.walk import TAPS, Windows

# ---- strips ---------------------------------------------------------------------------------------------------------


def boxes(strip: Strip, pixels: Span) -> Iterator[tuple[Span, Span, int]]:
    """Yield (rows, columns, offset in L1 in bytes) of the boxes of gradOutput that the run `pixels` of a strip covers:
    the rest of the first row, whole rows, the beginning of the last row.
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
    """Return the strips of `width` gradOutput columns in order, the last with the rest; unless `is_split` one of whole rows."""
    count = ceil_div(problem.w_out, width) if is_split(problem, width) else 1
    return tuple(_strip(problem, width, index) for index in range(count))


@lru_cache(maxsize=4096)
def _strip(p: ConvProblem, width: int, index: int) -> Strip:
    """Return strip number `index` of `width` gradOutput columns; the whole rows if they are not split."""
    if not is_split(p, width):
        return Strip(p, 0, p.w_out, 0)
    column = index * width
    return piece(p, column, min(width, p.w_out - column))


@lru_cache(maxsize=4096)
def piece(p: ConvProblem, column: int, columns: int) -> Strip:
    """Return the strip of `columns` gradOutput columns from `column` on, with the input and padding it reads. Cached."""
    start = column * p.stride_w - p.pad_left
    end = start + _window(p, columns)
    first, last = max(start, 0), min(end, p.w_in)
    seen = max(last - first, 0)
    part = replace(p, w_out=columns, w_in=seen, pad_left=first - start, pad_right=max(end - p.w_in, 0))
    return Strip(part, column, columns, first)


def _window(p: ConvProblem, columns: int) -> int:
    """Return the columns of the padded input that `columns` gradOutput columns read."""
    return (columns - 1) * p.stride_w + (p.k_w - 1) * p.dilation_w + 1


def _most_seen(problem: ConvProblem, width: int) -> int:
    """Return the input columns that the widest strip reads, without making all strips: rows may have millions of columns.

    Strips read the more the less padding they reach into, so the widest is the first that reads none on the left, the last that
    reads none on the right, or one beside them; the very last may be narrower and reads less than its neighbour.
    """
    p = problem
    step = width * p.stride_w
    reach = _window(p, width)
    near = (ceil_div(p.pad_left, step), (p.w_in + p.pad_left - reach) // step)
    last = ceil_div(p.w_out, width) - 1
    indices = {min(max(index + shift, 0), last - edge) for index in near for shift in (-1, 0, 1) for edge in (0, 1)}
    return max(_strip(p, width, index).problem.w_in for index in indices)


def is_split(problem: ConvProblem, width: int) -> bool:
    """Return True if strips of `width` columns are less than whole rows; 0 stands for whole rows."""
    return 0 < width < problem.w_out


def stacked(inp: TilingInput, width: int) -> TilingInput:
    """Return the problem that a tiling with strips of `width` columns counts: one map, in which the strips lie below
    each other.

    All its rows are as wide as the widest strip; `walk` keeps the width of a narrower last strip. A map that is no
    wider than a strip, or a `width` of 0, leaves the problem as it is.
    """
    p = inp.problem
    if not is_split(p, width):
        return inp
    seen, rows = max(_most_seen(p, width), 1), p.h_out * ceil_div(p.w_out, width)
    return replace(inp, problem=replace(p, h_out=rows, w_out=width, w_in=seen), walk=Windows(p.w_out % width))


def sections(problem: ConvProblem, width: int, first: int, count: int) -> list[tuple[Strip, int, int]]:
    """Return (strip of `width` columns, first row in it, rows) for `count` rows from `first` on, counted through the strips."""
    found, height = [], problem.h_out
    for index in range(first // height, ceil_div(first + count, height)):
        start, end = max(first - index * height, 0), min(first + count - index * height, height)
        found.append((_strip(problem, width, index), start, end - start))
    return found


# ---- taps -----------------------------------------------------------------------------------------------------------


def by_tap(inp: TilingInput) -> TilingInput:
    """Return the problem as a 1x1 convolution with one kernel plane for each tap (`_planes_of_taps`); one that is walked tap by
    tap already is returned itself.
    """
    return inp if inp.walk == TAPS else replace(inp, problem=_planes_of_taps(inp.problem), walk=TAPS)


def walked_input(inp: TilingInput, tiling: GradWeightTiling) -> TilingInput:
    """Return the problem whose sizes a tiling's fields count: in stacked strips, tap by tap, or the given one."""
    return stacked(by_tap(inp) if tiling.split_kernel else inp, tiling.split_wo)


def walk(problem: ConvProblem, tiling: GradWeightTiling, tap: int, first: int, count: int) -> list[tuple[Strip, int, int]]:
    """Return (strip, first row in it, rows) for `count` rows of a task from row `first` on.

    `tap`, counted row by row, matters only where the kernel is split into taps: then rows that read padding are left out.
    """
    if not tiling.split_kernel:
        return sections(problem, tiling.split_wo, first, count)
    strip, rows = _strip_of_tap(problem, tap)
    start, end = max(first, rows.start), min(first + count, rows.stop)
    return [(strip, start, end - start)] if start < end and strip.problem.w_out else []


@lru_cache(maxsize=4096)
def _strip_of_tap(p: ConvProblem, tap: int) -> tuple[Strip, range]:
    """Return (gradOutput columns for which a tap reads input and not padding, as a strip; range of such rows)."""
    down, right = tap_offset(p, tap)
    rows = inside(range(p.h_out), p.stride_h, down, p.h_in)
    columns = inside(range(p.w_out), p.stride_w, right, p.w_in)
    part = replace(_planes_of_taps(p), w_out=len(columns), w_in=len(columns))
    return Strip(part, columns.start, len(columns), columns.start * p.stride_w + right), rows


def met(p: ConvProblem, tap: int, rows: Span, columns: Span) -> Lattice:
    """Return the input pixels that a tap reads for these rows and columns of gradOutput; none may lie in padding."""
    down, right = tap_offset(p, tap)
    first = (rows.start * p.stride_h + down) * p.w_in + columns.start * p.stride_w + right
    return Lattice(first, rows.length, p.stride_h * p.w_in, columns.length, p.stride_w)


def tap_offset(p: ConvProblem, tap: int) -> tuple[int, int]:
    """Return (row, column) of the input that a tap reads for gradOutput pixel (0, 0); negative in the padding."""
    row, column = divmod(tap, p.k_w)
    return row * p.dilation_h - p.pad_up, column * p.dilation_w - p.pad_left


def inside(indices: range, stride: int, offset: int, size: int) -> range:
    """Return the `indices` for which index * stride + offset lies in 0 .. size - 1."""
    first = max(indices.start, ceil_div(-offset, stride))
    last = min(indices.stop, (size - 1 - offset) // stride + 1)
    return range(first, max(last, first))


def _planes_of_taps(p: ConvProblem) -> ConvProblem:
    """Return the problem as a 1x1 convolution of maps as large as gradOutput's, whose H and W have stride 1 and no padding,
    with one kernel plane for each tap of each plane; sizes, stride, dilation and padding along D stay, but for k_d.
    """
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
