"""Strips: a map in runs of columns, each a convolution of its own."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to


@frozen
class Strip:
    """Strip of a map: `columns` columns from `column` on, and the `problem` that computes them from the other map's
    columns.

    Those begin with `source`; the problem has none of them if the strip meets padding only. Its own map may be wider
    than `columns`: columns beyond them do not exist.
    """

    problem: ConvProblem
    column: int
    columns: int
    source: int

    def adjoining(self, width: int, pixel: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (pixels before, row, column, pixels) for each run of adjoining pixels among `count` from `pixel` on,
        row by row.

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
    """Source columns that a run of result columns reads: `count` from `first` on, after `pad` columns of zeros.

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
    """Return the most source columns that `count` adjoining result columns read, wherever they are."""
    return min((count - 1) * step + extent, size)


def strip_count(width: int, strip: int) -> int:
    """Return how many strips of `strip` columns cover `width` columns; 1 for a `strip` of 0, which cuts nothing."""
    return ceil_div(width, strip) if strip else 1


def even_strip(width: int, most: int, spare: int) -> int:
    """Return the width of equal strips, in whole fractals and about `most` at most, of which the fewest cover `width`.

    The last one has at most `spare` columns beyond `width` if that is possible: load3d takes them for padding.
    """
    strip = ceil_to(ceil_div(width, ceil_div(width, most)), FRACTAL)
    while strip > FRACTAL and -width % strip > spare:
        strip -= FRACTAL
    return strip
