"""Arithmetic of the Fixpipe on its way out of L0C (quant_pre, relu_pre): ReLU, and a scale for all columns or one for each."""

from __future__ import annotations

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.moves import Place

SUMS = ("float32", "int32")
"""Formats of sums in L0C."""
SCALE_BYTES = 8
"""A column's scale in the Fixpipe buffer, of which the lower four bytes are a float32 (asc-devkit, Fixpipe L0C to GM)."""
_DROPPED = 0xFFFFE000
"""Bits of a float32 that a scale keeps: 1 sign, 8 exponent, 10 mantissa (asc-devkit, Fixpipe L0C to GM: stated)."""


@frozen
class Quantisation:
    """Numbers of the format `source` in L0C, with `relu` negative ones as 0, times `scale`, rounded once to the output
    format.

    With `by_column` each column has a scale of its own in the Fixpipe buffer, and `scale` is 0. That the product is
    exact before it is rounded to nearest even, and that ReLU comes before it, is assumed (positive scales commute with
    ReLU).
    """

    source: str = "float32"
    scale: float = 0.0
    by_column: bool = False
    relu: bool = False

    @property
    def scales(self) -> bool:
        """Return True if numbers are multiplied by a scale."""
        return self.by_column or bool(self.scale)

    def __post_init__(self) -> None:
        """Raise SimError for a source that L0C never holds, and for a scale that no word holds."""
        if self.source not in SUMS:
            raise SimError(f"quantisation: source {self.source!r}; L0C holds {' or '.join(SUMS)}")
        for name in ("by_column", "relu"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise SimError(f"quantisation: {name} {getattr(self, name)!r}; True or False is allowed")
        if not isinstance(self.scale, int | float | np.number):
            raise SimError(
                f"quantisation: scale {self.scale!r}; a number is allowed, scales of columns are by_column=True"
            )
        if self.by_column and self.scale:
            raise SimError(f"quantisation: scale {self.scale} with by_column; one of both is given")
        normal = np.finfo(np.float32)
        if self.scale and not float(normal.tiny) <= abs(self.scale) <= float(normal.max):
            raise SimError(
                f"quantisation: scale {self.scale}; it has 8 bits of exponent and 10 of mantissa, and is no infinity, NaN or "
                f"subnormal (asc-devkit, Fixpipe L0C to GM)"
            )


@frozen
class Scaling:
    """Scale and ReLU in `Moves`: one scale (0: none), or the place of one scale for each item."""

    scale: float = 0.0
    scales: Place | None = None
    relu: bool = False


def kept(scale: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return a scale without its lower 13 bits, as the unit uses it."""
    return (scale.view(np.uint32) & np.uint32(_DROPPED)).view(np.float32).astype(np.float64)
