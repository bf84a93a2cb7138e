"""Strips of a map that is too wide for L1: as wide as fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.ops.problem.strips import even_strip

WIDEST = 1024
"""Columns of a strip at most: the longest side of a base block."""


class Tiled(Protocol):
    """A tiling whose tiles are `base_m` pixels."""

    @property
    def base_m(self) -> int:
        """Pixels."""


T = TypeVar("T", bound=Tiled)


def widest_that_fits(width: int, may_fit: Callable[[int], bool], cut: Callable[[int], T], widest: int = WIDEST) -> T:
    """The tiling that `cut` makes of strips as wide as the tile that it finds for wide ones: a tile uses all that is loaded.

    Wide ones are `widest` columns, or half of that, a quarter ... where `cut` finds nothing that fits (TilingError); `may_fit`
    says quickly where it need not be asked. Raises what the narrowest strip is refused for.
    """
    refusal = TilingError(f"{width} columns are not cut: a strip has at least {FRACTAL}")
    most = min(widest // FRACTAL * FRACTAL, ceil_to(width, FRACTAL) // 2)
    while most >= FRACTAL:
        strip = even_strip(width, most)
        narrowest = most < 2 * FRACTAL
        if strip < width and (may_fit(strip) or narrowest):
            try:
                tiling = cut(strip)
                own = even_strip(width, tiling.base_m)
                return cut(own) if own < strip else tiling
            except TilingError as error:
                refusal = error
        most = most // 2 // FRACTAL * FRACTAL
    raise refusal
