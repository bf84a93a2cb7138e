"""Arithmetic of the Fixpipe on its way out of L0C (quant_pre, relu_pre): ReLU, and a scale for all columns or one for each."""

from __future__ import annotations

from numbers import Real

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.moves import Place

SUMS = ("float32", "int32")
"""Formats that sums in L0C can have."""
SCALE_BYTES = 8
"""Bytes of a column's scale in the Fixpipe buffer; the lower four are a float32 (asc-devkit, Fixpipe L0C to GM)."""
_KEPT_BITS = 0xFFFFE000
"""Bits of a float32 that a scale keeps: 1 sign, 8 exponent, 10 mantissa (asc-devkit, Fixpipe L0C to GM: stated)."""


@frozen
class Quantisation:
    """Arithmetic of the Fixpipe: numbers of format `source` in L0C, ReLU if `relu`, times `scale` (0: not scaled), rounded once
    to the output format.

    With `by_column` each column has a scale of its own in the Fixpipe buffer, and `scale` is 0. The unit drops the lower 13
    mantissa bits of a scale (`kept`). That the product is exact before it is rounded to nearest even, and that ReLU comes
    before it, is assumed (positive scales commute with ReLU). Raises SimError for a source or scale that the unit lacks.
    """

    source: str = "float32"
    scale: float = 0.0
    by_column: bool = False
    relu: bool = False

    @property
    def scales(self) -> bool:
        """Return True if numbers are multiplied by a scale, common or by column."""
        return self.by_column or bool(self.scale)

    def __post_init__(self) -> None:
        """Raise SimError for a source that L0C never holds, a flag that is not a bool, `scale` with `by_column`, and a scale
        that is no number, infinite, NaN or subnormal.
        """
        if self.source not in SUMS:
            raise SimError(f"quantisation: source {self.source!r}; L0C holds {' or '.join(SUMS)}")
        for name in ("by_column", "relu"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise SimError(f"quantisation: {name} {getattr(self, name)!r}; True or False is allowed")
        if not isinstance(self.scale, Real):
            raise SimError(f"quantisation: scale {self.scale!r}; a number is allowed; by_column=True takes one for each column")
        if self.by_column and self.scale:
            raise SimError(f"quantisation: scale {self.scale} with by_column=True; give one of them")
        normal = np.finfo(np.float32)
        if self.scale and not float(normal.tiny) <= abs(self.scale) <= float(normal.max):
            raise SimError(
                f"quantisation: scale {self.scale}; it has 8 bits of exponent and 10 of mantissa, and is not infinity, NaN or "
                f"subnormal (asc-devkit, Fixpipe L0C to GM)"
            )


@frozen
class Scaling:
    """Arithmetic of the Fixpipe in `Moves`: ReLU, then a product with `scales`, one per item, or with one `scale` (0: none)."""

    scale: float = 0.0
    scales: Place | None = None
    relu: bool = False


def kept(scale: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return float32 scales without their lower 13 bits, as the unit uses them, in float64."""
    return (scale.view(np.uint32) & np.uint32(_KEPT_BITS)).view(np.float32).astype(np.float64)
