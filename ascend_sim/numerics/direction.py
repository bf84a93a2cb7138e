"""Test for biased rounding errors by their signs; its threshold assumes fair coins only.

Rounding to nearest errs upwards as often as downwards; an accumulator that cuts digits off errs towards zero only. Where a
result is not the correctly rounded one, the sign of the difference is then a coin: of n coins |up - down| reaches sqrt(2 n ln(2
/ alpha)) with a probability of at most alpha (Hoeffding's inequality). Coins must be independent: elements that add the same
products, as those of a broadcast operand do, err alike and are one coin.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ascend_sim.frozen import frozen

FALSE_ALARM = 1e-9
"""Largest probability with which errors of a machine that rounds to nearest are called biased."""


@frozen
class Direction:
    """Numbers of elements whose magnitude came out too large (`away`) or too small (`towards_zero`)."""

    away: int
    towards_zero: int

    @property
    def limit(self) -> float:
        """Return the largest difference of `away` and `towards_zero` that chance explains, by Hoeffding's inequality."""
        return math.sqrt(2 * (self.away + self.towards_zero) * math.log(2 / FALSE_ALARM))

    @property
    def leans(self) -> bool:
        """Return True if one direction is more frequent than chance explains; never with fewer than 43 errors."""
        return abs(self.away - self.towards_zero) > self.limit

    @classmethod
    def of(cls, result: npt.ArrayLike, rounded: npt.ArrayLike, sums: npt.ArrayLike) -> Direction:
        """Return the counts of `result` against the rounded values `rounded`, by magnitude; only finite elements count, and of
        those whose `sums` are one number in float32 only the first.
        """
        found, right = (np.abs(np.asarray(part, np.float64)) for part in (result, rounded))
        wrong = np.isfinite(found) & np.isfinite(right) & (found != right)
        _, first = np.unique(np.asarray(sums)[wrong].astype(np.float32), return_index=True)
        away = int(np.sum((found > right)[wrong][first]))
        return cls(away, len(first) - away)
