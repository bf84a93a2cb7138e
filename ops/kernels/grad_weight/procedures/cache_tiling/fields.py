"""Fields of the cache tiling: cuts over cores, a core's share, the tile in L0 and L1; the vendor's names beside ours."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, NamedTuple

from ascend_sim.frozen import frozen


class Attach(IntEnum):
    """Loop level at which an operand is loaded to L1; the numbers are those of the vendor's tiling key."""

    FULL = 0
    """Once for the block."""
    WHOLE_K = 1
    """Once for a tile: all of its K."""
    PART = 2
    """Inside the loop over K."""


class Cuts(NamedTuple):
    """Number of parts into which each axis is cut over the cores; `blocks` is their product.

    The 3-D operator also cuts the kernel `planes` and the `depth` of gradOutput.
    """

    batch: int = 1
    m: int = 1
    k: int = 1
    n: int = 1
    group: int = 1
    depth: int = 1
    planes: int = 1

    @property
    def blocks(self) -> int:
        """Return the number of blocks to launch."""
        return math.prod(self)


class Share(NamedTuple):
    """Share of one core: images (with 3-D, planes of gradOutput), blocks of M and N, K units (rows where a row is cut), groups.

    A tile's N in L0 is a divisor of `n_tile`, its N in L1 of `n_held`. Both are the N of one kernel plane where tiles
    may not cross planes.
    """

    batch: int
    m: int
    n: int
    k: int
    group: int
    n_tile: int
    n_held: int


class Tile(NamedTuple):
    """Tile in blocks of 16 and K units: its sides in L0, the number of L0 tiles that L1 holds along M and N, K of A and
    of B in L1, and the number of buffers (`db_`) of L0C, A and B.
    """

    m_l0: int = 1
    k_l0: int = 1
    n_l0: int = 1
    m_al1: int = 1
    k_al1: int = 1
    k_bl1: int = 1
    n_bl1: int = 1
    db_l0c: int = 1
    db_al1: int = 1
    db_bl1: int = 1

    def same_k(self, k: int) -> Tile:
        """Return the tile with K of `k` units in L0 and, for both operands, in L1."""
        return self._replace(k_l0=k, k_al1=k, k_bl1=k)


@frozen
class CacheTiling:
    """Result of the cache tiling procedure. `cycles` is the vendor model's estimate for a core, None where the fewest
    loads decided.

    `attach_a` and `attach_b` are the loop levels of the loads. L1 holds B for `rows_b` rows of gradOutput, in buffers
    of `bound_b` elements. `source` is "stand-in" where a rule was guessed on the way.
    """

    cuts: Cuts
    share: Share
    tile: Tile
    attach_a: Attach
    attach_b: Attach
    rows_b: int
    bound_b: int
    cycles: int | None = None
    source: str = "vendor procedure"

    def to_vendor(self) -> dict[str, Any]:
        """Return cuts, tile, rows and bound of B in L1 under the vendor's names, and the source; not the share, the loop levels
        and the cycles.
        """
        cuts, tile = self.cuts, self.tile
        return {
            "batch_dim": cuts.batch,
            "m_dim": cuts.m,
            "k_dim": cuts.k,
            "n_dim": cuts.n * cuts.planes,
            "group_dim": cuts.group,
            "d_dim": cuts.depth,
            **tile._asdict(),
            "ho_bl1": self.rows_b,
            "bl1_bound": self.bound_b,
            "source": self.source,
        }
