"""Strips: a map in runs of columns, each a convolution of its own."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to


@frozen
class Strip:
    """Strip of a map: `columns` columns from `column`, and the `problem` of these columns and the columns of the other map that
    belong to them.

    That map's columns begin with `source`; the problem has none of them where these columns meet padding only. Its own map may
    be wider than `columns`: what is beyond them does not exist.
    """

    problem: ConvProblem
    column: int
    columns: int
    source: int

    def adjoining(self, width: int, pixel: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (pixels before, row, column, pixels) of the adjoining runs of `count` pixels from `pixel`, row by row.

        The strip's map is `width` columns wide; pixels beyond its `columns` are left out.
        """
        done = 0
        while done < count:
            row, column = divmod(pixel + done, width)
            pixels = min(width - column, count - done)
            if column < self.columns:
                yield done, row, column, min(pixels, self.columns - column)
            done += pixels


@frozen
class Reach:
    """Source columns that a run of result columns reads: `count` from `first`, behind `pad` columns of zeros.

    `count` is 0 where it reads nothing but padding.
    """

    first: int
    count: int
    pad: int


def reach(first: int, count: int, step: int, pad: int, extent: int, size: int) -> Reach:
    """Return the source columns (of `size`) that result columns `first` .. `first` + `count` - 1 read.

    Result column x reads source columns x * `step` - `pad` .. x * `step` - `pad` + `extent` - 1.
    """
    start = first * step - pad
    end = (first + count - 1) * step - pad + extent
    inside = max(start, 0)
    return Reach(inside, max(min(end, size) - inside, 0), inside - start)


def widest_reach(count: int, step: int, extent: int, size: int) -> int:
    """Return the most source columns that `count` adjoining result columns read, at any place."""
    return min((count - 1) * step + extent, size)


def strip_count(width: int, strip: int) -> int:
    """Return how many strips of `strip` columns cover `width`; a `strip` of 0 cuts nothing."""
    return ceil_div(width, strip) if strip else 1


def even_strip(width: int, most: int, spare: int) -> int:
    """Return the columns, in whole fractals, of the fewest strips of about `most` or less that cover `width`, all equally wide.

    The last one has at most `spare` columns beyond `width`, as far as that goes: load3d takes them for padding.
    """
    strip = ceil_to(ceil_div(width, ceil_div(width, most)), FRACTAL)
    while strip > FRACTAL and -width % strip > spare:
        strip -= FRACTAL
    return strip
