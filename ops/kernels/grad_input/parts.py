"""Parts of a problem under a tiling of grad_input: strips of columns, parts of a kernel split by stride, pieces of a cut one.

Strips: dx columns that are not cut need whole rows of gradOutput in L1. A strip needs a part of each row; its map is as wide
as all strips', so the last one may end in columns that dx does not have.

Kernel split: grad_input with stride > 1 as convolutions of stride 1, one for each residue of a dx pixel's place.

A dx row y gets tap t from gradOutput row (y + pad_up - t) / stride_h, so only from taps t = (y + pad_up) mod stride_h,
+ stride_h, ...: no zero is multiplied. Rows y0, y0 + stride_h, ... make a part, whose kernel is those taps; the same for
columns with mode SPLIT_HW, while SPLIT_H leaves them to zero insertion. A part without taps is zero.

Pieces: grad_input as a sum of convolutions with one kernel row, or one tap, each. A kernel whose window or weights L1 does not
hold, or that has larger numbers than load3d, is taken piece by piece, as a 3-D kernel is taken plane by plane: each piece loads
the gradOutput that it alone sees and adds to the same tile of L0C. (That the library cuts such kernels so on dav-3510: stated.
That it has a way for them on dav-2201, whose tiling is not open: assumed. That smaller blocks and strips are tried first, and
what is loaded: ours.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.strips import Strip, reach, strip_count, widest_reach
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import dilated_width, pad_before

SPLIT_NONE, SPLIT_HW, SPLIT_H = 0, 1, 2
"""The vendor's kernelSplitMode (ops-nn, arch35 tiling key: stated)."""
UNCUT, NO_HK, NO_HK_WK = 0, 2, 3
"""The vendor's numbers (loadB1: stated) of kernels that are whole, and cut by rows and by taps."""


def tiling_parts(tiling: GradInputTiling, inp: TilingInput) -> tuple[MapPart, ...]:
    """Return the parts of dx that a tiling computes; a single one, the whole problem, without strips or a split."""
    return split_parts(inp.problem, tiling.kernel_split, tiling.split_wi)


def tiling_input(tiling: GradInputTiling, inp: TilingInput) -> TilingInput:
    """Return the problem that a tiling's sizes refer to: the whole one, or a strip, part or piece, by the tiling's fields."""
    return part_input(inp, tiling.kernel_split, tiling.split_wi, tiling.load_b1)


def part_input(inp: TilingInput, split: int, strip: int, cut: int) -> TilingInput:
    """Return the problem that a tiling's sizes refer to: the part of a `split` with the most taps, in the strip of `strip`
    columns (0: no strips) that reads the most of gradOutput, and one piece of a `cut` kernel.
    """
    if cut:
        inp = replace(inp, problem=cut_problem(inp.problem, cut))
    return split_input(inp, split, strip)


def task_parts(tiling: GradInputTiling, inp: TilingInput) -> int:
    """Return the number of parts of dx with own tasks: strips, times the row parts of SPLIT_H; those of SPLIT_HW share them."""
    rows = min(inp.problem.stride_h, inp.problem.h_in) if tiling.kernel_split == SPLIT_H else 1
    return rows * strip_count(inp.problem.w_in, tiling.split_wi)


# ---- strips, and parts of a split kernel ------------------------------------------------------------------------------


@frozen
class MapPart(Strip):
    """Part of dx and the `problem` that computes it: pixels (`row` + i * row_step, `column` + j * column_step) of dx, i
    < `rows`, j < `columns`.

    `problem` has stride 1 along the axes that are split. Its map is as large as the largest part's, so a tile may end in rows
    or columns that this part does not have. `taps` are the numbers, in the whole kernel, of the taps of the part's kernel.
    """

    row: int
    rows: int
    taps: tuple[int, ...]
    row_step: int = 1
    column_step: int = 1


@frozen
class _Axis:
    """One residue class of dx positions along an axis: first pixel, count, taps, padding of its convolution of stride 1."""

    first: int
    count: int
    taps: tuple[int, ...]
    pad: int


def _axis(stride: int, kernel: int, pad: int, size: int) -> list[_Axis]:
    """Return the residue classes of `size` dx positions modulo `stride`, each with the kernel taps that reach it, if any."""
    found = []
    for first in range(min(stride, size)):
        above, residue = divmod(first + pad, stride)
        found.append(_Axis(first, ceil_div(size - first, stride), tuple(range(residue, kernel, stride)), above))
    return found


@lru_cache(maxsize=64)
def split_parts(problem: ConvProblem, mode: int, strip: int = 0) -> tuple[MapPart, ...]:
    """Return the parts of dx in order: all of one strip before the next, in a strip by row, then column. Cached.

    `mode` is the kernelSplitMode, `strip` the columns of a strip (0: whole rows, as SPLIT_HW needs, unchecked); without both
    there is one part, the whole problem. TilingError for a split with dilation: the taps of a part are not evenly apart then.
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
    """Return (problem of `width` dx columns from `first` on, first gradOutput column that it reads).

    Its `w_out` is 0 where no gradOutput column reaches them.
    """
    extent = (p.k_w - 1) * p.dilation_w
    _, pad = pad_before(p)
    found = reach(first, width, 1, pad, extent + 1, dilated_width(p))
    # Zeros that were inserted before the first gradOutput column, or behind the last one, are padding here.
    source = ceil_div(found.first, p.stride_w)
    columns = max((found.first + found.count - 1) // p.stride_w - source + 1, 0) if found.count else 0
    before = found.pad + source * p.stride_w - found.first
    return replace(p, w_in=width, w_out=columns, pad_left=extent - before), source


def _split(problem: ConvProblem, mode: int) -> tuple[MapPart, ...]:
    """Return the parts of dx without strips: the whole problem for SPLIT_NONE, else one for each residue class of rows, or of
    rows and columns, of the stride. A part that no tap reaches has no `taps`, and a problem with one.

    TilingError for a split with dilation.
    """
    p = problem
    whole = (MapPart(p, 0, p.w_in, 0, 0, p.h_in, tuple(range(p.k_h * p.k_w))),)
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
            found.append(MapPart(part, x.first, x.count, 0, y.first, y.count, taps, *steps))
    return tuple(found)


def split_products(problem: ConvProblem, mode: int) -> int:
    """Return how many products a kernel split by `mode` computes: every dx pixel with the taps of its part (all if not split),
    inserted zeros included, kernel planes in padding not.
    """
    p = problem
    pixels = sum(part.rows * part.columns * len(part.taps) for part in split_parts(p, mode))
    return p.n * p.plane_products * p.c_out * (p.c_in // p.groups) * pixels


def split_input(inp: TilingInput, mode: int, strip: int = 0) -> TilingInput:
    """Return the problem that tilings of a split kernel are made for: the part with the most taps (the first of these),
    `strip` columns of dx wide, with as many columns of gradOutput as any such strip reads.

    Without strips (0) or a split it is the whole width, or the whole kernel.
    """
    if strip:
        p = inp.problem
        widest = widest_reach(strip, 1, (p.k_w - 1) * p.dilation_w + 1, dilated_width(p))
        inp = replace(inp, problem=replace(p, w_in=strip, w_out=ceil_div(widest, p.stride_w)))
    if mode == SPLIT_NONE:
        return inp
    return replace(inp, problem=max(split_parts(inp.problem, mode), key=lambda part: len(part.taps)).problem)


# ---- pieces of a cut kernel -------------------------------------------------------------------------------------------


def cut_problem(problem: ConvProblem, cut: int) -> ConvProblem:
    """Return the problem that tilings of a kernel cut by `cut` are made for: one piece, with the most gradOutput rows and
    columns that any piece needs; `problem` if uncut.

    Its rows reach the last row of dx, so that no padding below counts: a stride may leave more of it than load3d has a
    field for, and a tile takes only the rows that it reads.
    """
    p = problem
    if cut == UNCUT:
        return p
    tall = max(p.h_out, ceil_div(p.h_in - 1, p.stride_h) + 1)
    p = replace(p, k_h=1, dilation_h=1, h_out=tall, pad_up=0, pad_down=0)
    if cut == NO_HK_WK:
        columns = ceil_div(min(p.w_in, dilated_width(p)), p.stride_w)
        p = replace(p, k_w=1, dilation_w=1, w_out=columns, pad_left=0, pad_right=0)
    return p


@lru_cache(maxsize=1024)
def kernel_pieces(problem: ConvProblem, part: MapPart, cut: int) -> tuple[MapPart, ...]:
    """Return the pieces of a cut kernel whose sum is `part`, without those that reach no column; (part,) if uncut. Cached."""
    if cut == UNCUT:
        return (part,)
    p = problem
    up, left = pad_before(p)
    width = 1 if cut == NO_HK_WK else p.k_w
    found = []
    for row in range(p.k_h):
        for column in range(0, p.k_w, width):
            # img2col takes the taps in reverse; this piece's window begins so many rows and columns further
            piece = replace(
                p,
                k_h=1,
                dilation_h=1,
                pad_up=row * p.dilation_h - up,
                pad_down=0,
                k_w=width,
                dilation_w=p.dilation_w if width > 1 else 1,
                pad_right=0,
                pad_left=(width - 1) * p.dilation_w - left + column * p.dilation_w,
            )
            own, source = strip_problem(piece, part.column, part.problem.w_in)
            first = (p.k_h - 1 - row) * p.k_w + p.k_w - column - width
            if own.w_out:
                found.append(replace(part, problem=own, taps=tuple(range(first, first + width)), source=source))
    return tuple(found)
