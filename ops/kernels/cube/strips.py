"""Strips: a map too wide for L1 in runs of columns that are convolutions of their own. Index math, free of any kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to

WIDEST = 1024
"""Columns of a strip at most: the longest side of a base block."""


class Tiled(Protocol):
    """A tiling whose tiles are `base_m` pixels."""

    @property
    def base_m(self) -> int:
        """Pixels."""


T = TypeVar("T", bound=Tiled)


@frozen
class Strip:
    """Columns of a map, `columns` from `column` on, and the `problem` that they make with what is behind them of the other map.

    That map's columns begin with `source`; the problem has none of them where these columns meet padding only. Its own map
    may be wider than `columns`: what is beyond them does not exist.
    """

    problem: ConvProblem
    column: int
    columns: int
    source: int

    def adjoining(self, width: int, pixel: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """(pixels before, row, column, pixels) of what adjoins of `count` pixels from `pixel` on, row by row.

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
    """What a run of result columns reads: `count` source columns from `first`, behind `pad` columns of zeros.

    `count` is 0 where it reads nothing but padding.
    """

    first: int
    count: int
    pad: int


def reach(first: int, count: int, step: int, pad: int, extent: int, size: int) -> Reach:
    """Source columns of `size` that result columns `first` .. `first` + `count` - 1 read.

    Result column x reads source columns x * `step` - `pad` .. x * `step` - `pad` + `extent` - 1.
    """
    start = first * step - pad
    end = (first + count - 1) * step - pad + extent
    inside = max(start, 0)
    return Reach(inside, max(min(end, size) - inside, 0), inside - start)


def widest_reach(count: int, step: int, extent: int, size: int) -> int:
    """The most source columns that `count` adjoining result columns read, wherever they begin."""
    return min((count - 1) * step + extent, size)


def strip_count(width: int, strip: int) -> int:
    """How many strips of `strip` columns cover `width`; a `strip` of 0 cuts nothing."""
    return ceil_div(width, strip) if strip else 1


def beyond(width: int, strip: int) -> int:
    """Columns of the last strip that `width` has no more of; load3d takes them for padding."""
    return strip_count(width, strip) * strip - width if strip else 0


def even_strip(width: int, most: int, spare: int) -> int:
    """Columns, in whole fractals, of the fewest strips of about `most` or less that cover `width`, all equally wide.

    The last one has at most `spare` columns beyond `width`, as far as that goes.
    """
    strip = ceil_to(ceil_div(width, ceil_div(width, most)), FRACTAL)
    while strip > FRACTAL and beyond(width, strip) > spare:
        strip -= FRACTAL
    return strip


def widest_that_fits(
    width: int, may_fit: Callable[[int], bool], cut: Callable[[int], T], spare: int, widest: int = WIDEST
) -> T:
    """The tiling that `cut` makes of strips as wide as the tile that it finds for wide ones: a tile uses all that is loaded.

    Wide ones are `widest` columns, or half of that, a quarter ... where `cut` finds nothing that fits (TilingError); `may_fit`
    says quickly where it need not be asked, and `spare` is as for `even_strip`. Raises what the narrowest strip is refused for.
    """
    refusal = TilingError(f"{width} columns are not cut: a strip has at least {FRACTAL}")
    most = min(widest // FRACTAL * FRACTAL, ceil_to(width, FRACTAL) // 2)
    while most >= FRACTAL:
        strip = even_strip(width, most, spare)
        narrowest = most < 2 * FRACTAL
        if strip < width and (may_fit(strip) or narrowest):
            try:
                tiling = cut(strip)
                own = even_strip(width, tiling.base_m, spare)
                return cut(own) if own < strip else tiling
            except TilingError as error:
                refusal = error
        most = most // 2 // FRACTAL * FRACTAL
    raise refusal
