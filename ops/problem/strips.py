"""Strips: runs of a map's columns, each computed as a convolution of its own, and the source columns that they read."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to


@frozen
class Strip:
    """Strip of a result map: its columns `column` to `column + columns - 1`, and the `problem` that computes them from
    some columns of the other (source) map.

    `source` is the first of those source columns; a strip that reads only padding has a problem without source columns.
    The problem's result may be wider than `columns`: columns beyond are padding and not stored.
    """

    problem: ConvProblem
    column: int
    columns: int
    source: int

    def adjoining(self, width: int, pixel: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (pixels skipped or done before it, row, column, pixels) for each run of adjoining pixels in one row, of
        `count` row-major pixels from `pixel` on.

        The map is `width` columns wide; pixels beyond the strip's `columns` are left out.
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
    """Source columns that a run of result columns reads: `count` from column `first` on, after `pad` columns of zeros.

    `count` is 0 where the run reads nothing but padding. Zeros behind the columns are not counted.
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
    """Return the most source columns that `count` adjoining result columns read, by `step` and `extent` of `reach`: their span,
    at most the map's `size`.
    """
    return min((count - 1) * step + extent, size)


def strip_count(width: int, strip: int) -> int:
    """Return how many strips of `strip` columns cover `width` columns; 1 for a `strip` of 0, which cuts nothing."""
    return ceil_div(width, strip) if strip else 1


def even_strip(width: int, most: int, spare: int) -> int:
    """Return a width, a multiple of FRACTAL, of equal strips that cover `width`: that of the fewest strips of at most `most`
    columns, rounded up.

    It is then lowered until the last strip has at most `spare` columns beyond `width`, which load3d takes for padding, or is
    one fractal.
    """
    strip = ceil_to(ceil_div(width, ceil_div(width, most)), FRACTAL)
    while strip > FRACTAL and -width % strip > spare:
        strip -= FRACTAL
    return strip
