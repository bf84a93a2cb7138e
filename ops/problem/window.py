"""Rows of one map that a run of pixels of the other reads: of the input, or of gradOutput with the zero rows that a stride
inserts.
"""

from __future__ import annotations

from typing import NamedTuple

from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div


class InputRows(NamedTuple):
    """Input rows that gradOutput pixels read: `rows` rows from row `first` on, below `pad_top` rows of padding; padding below
    them is not counted.
    """

    first: int
    rows: int
    pad_top: int


def input_rows(problem: ConvProblem, first_pixel: int, end_pixel: int) -> InputRows:
    """Return the input rows, from the first to the last, that gradOutput pixels first_pixel .. end_pixel - 1 of one plane read;
    `rows` is 0 or negative if they read only padding.
    """
    p = problem
    top = first_pixel // p.w_out * p.stride_h - p.pad_up
    bottom = (end_pixel - 1) // p.w_out * p.stride_h - p.pad_up + (p.k_h - 1) * p.dilation_h
    start = max(top, 0)
    return InputRows(start, min(bottom, p.h_in - 1) - start + 1, start - top)


class RowWindow(NamedTuple):
    """Rows of the dilated map (gradOutput with zeros inserted) that a tile reads: `rows` rows from `first_row` on,
    below `pad_top` zero rows and above `pad_bottom` zero rows.

    `rows` is 0 (and `first_row` 0) when the tile reads only padding.
    """

    first_row: int
    rows: int
    pad_top: int
    pad_bottom: int


def dilated_height(problem: ConvProblem) -> int:
    """Return the rows of the dilated map: gradOutput with `stride_h - 1` zero rows between its rows."""
    return (problem.h_out - 1) * problem.stride_h + 1


def dilated_width(problem: ConvProblem) -> int:
    """Return the columns of the dilated map: gradOutput with `stride_w - 1` zeros between its columns."""
    return (problem.w_out - 1) * problem.stride_w + 1


def read_width(problem: ConvProblem) -> int:
    """Return how many columns of the dilated map, from column 0, dx reads: all, unless the last ones are cropped. Columns that
    are cropped on the left count.
    """
    _, left = pad_before(problem)
    return min(dilated_width(problem), problem.w_in + (problem.k_w - 1) * problem.dilation_w - left)


def pad_before(problem: ConvProblem) -> tuple[int, int]:
    """Return the padding (up, left) of the dilated map; a negative number crops as many rows or columns."""
    return ((problem.k_h - 1) * problem.dilation_h - problem.pad_up, (problem.k_w - 1) * problem.dilation_w - problem.pad_left)


def pad_after(problem: ConvProblem) -> tuple[int, int]:
    """Return the padding (down, right) of the dilated map; a negative number is as many rows or columns that are never read."""
    up, left = pad_before(problem)
    return (
        problem.h_in - dilated_height(problem) + (problem.k_h - 1) * problem.dilation_h - up,
        problem.w_in - dilated_width(problem) + (problem.k_w - 1) * problem.dilation_w - left,
    )


def needed_rows(problem: ConvProblem, m_start: int, m_count: int) -> RowWindow:
    """Return the rows of the dilated map that dx pixels `m_start .. m_start + m_count - 1` (row-major in H_in x W_in) read.

    A dx pixel of row y reads the dilated rows y - up + t * dilation_h, t = 0 .. k_h - 1, with up = (k_h - 1) * dilation_h -
    pad_up. So a tile of rows y0..y1 needs y0 - up .. y1 - up + (k_h - 1) * dilation_h: what lies above row 0 is `pad_top`,
    below the last row `pad_bottom`. A negative `up` (pad_up beyond the kernel's reach) needs no case of its own: the window
    then begins below row 0 and the rows above it are never read, a crop.

    The sum pad_top + rows + pad_bottom is always y1 - y0 + (k_h - 1) * dilation_h + 1, and a load3d over exactly this window,
    padded so, at height offset 0, gives row y0 first. Rows between those that are read, and inserted zero rows, count.
    """
    up, _ = pad_before(problem)
    height = dilated_height(problem)
    first = m_start // problem.w_in - up
    last = (m_start + m_count - 1) // problem.w_in - up + (problem.k_h - 1) * problem.dilation_h
    inside = max(0, min(last, height - 1) - max(first, 0) + 1)
    if inside == 0:
        above = last - first + 1 if last < 0 else 0
        return RowWindow(0, 0, above, last - first + 1 - above)
    return RowWindow(max(first, 0), inside, max(0, -first), max(0, last - height + 1))


def listed_rows(problem: ConvProblem, m_start: int, base_m: int) -> RowWindow:
    """Return the rows of the dilated map that the library's kernel loads for the tile of `base_m` dx pixels from `m_start` on:
    as many as the neediest of such tiles reads.

    So it may load rows that this tile does not need, but none outside the map (ops-nn arch22, Conv3DBackpropInputV2: stated).
    `rows` is 0 where `needed_rows` has none.
    """
    needed = needed_rows(problem, m_start, base_m)
    if not needed.rows:
        return needed
    first = m_start // problem.w_in - pad_before(problem)[0]
    rows = spanned_rows(base_m, problem.w_in) + (problem.k_h - 1) * problem.dilation_h
    above, height = max(-first, 0), dilated_height(problem)
    inside = min(rows - above, height - max(first, 0))
    return RowWindow(max(first, 0), inside, above, rows - above - inside)


def dilated_rows(problem: ConvProblem, pixels: int, whole_rows: bool = True) -> int:
    """Return an upper bound of the rows of the dilated map that `pixels` adjoining dx pixels read, at most the map's height.

    `whole_rows` as in `spanned_rows`: True if tiles begin only at multiples of `pixels`.
    """
    rows = spanned_rows(pixels, problem.w_in, whole_rows)
    return min(rows + (problem.k_h - 1) * problem.dilation_h, dilated_height(problem))


def spanned_rows(pixels: int, width: int, whole_rows: bool = True) -> int:
    """Return an upper bound of the rows of `width` pixels that a tile of `pixels` adjoining pixels touches: 2 for at most one
    row of pixels, else two more than the whole rows in `pixels`.

    With `whole_rows` tiles begin only at multiples of `pixels`; if then one of `pixels` and `width` divides the other, no tile
    touches an extra row.
    """
    if whole_rows and (pixels % width == 0 or width % pixels == 0):
        return ceil_div(pixels, width)
    return pixels // width + 2 if pixels > width else 2
