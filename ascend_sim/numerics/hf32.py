"""hf32 on arrays: a float32 whose mantissa is rounded to 11 or 10 bits, by integer arithmetic on its pattern.

Adding just less than half of the dropped part and masking rounds to nearest. The carry runs into the exponent, also from the
largest value to infinity and across subnormals (as in the vendor's golden arithmetic; for the hardware: assumed).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ascend_sim.numerics.formats import format_of, rounding_mode

_CHUNK = 1 << 16  # elements per step: source and target stay in the second-level cache (measured)


def round_hf32(
    x: npt.NDArray[np.float32], mantissa_bits: int = 11, rounding: str = "rne", out: npt.NDArray[np.float32] | None = None
) -> npt.NDArray[np.float32]:
    """Return a float32 array rounded to hf32; `out` (contiguous float32, may be `x` itself) receives the result.

    `rounding`: rne (CTRL[47] = 0, the default of the conv backward kernels), rnz (nearest, ties toward zero: the literal
    NEAREST_ZERO), rna (nearest, ties away: the vendor's golden scripts), rtz (truncation). NaN stays NaN. Raises SimError for
    another mode, and for other `mantissa_bits` than 11 and 10.
    """
    mode = rounding_mode(format_of("hf32", mantissa_bits), rounding)
    x = np.ascontiguousarray(x, dtype=np.float32)
    result = np.empty_like(x) if out is None else out
    source, target = x.reshape(-1), result.reshape(-1)
    dropped = np.uint32(23 - mantissa_bits)
    mask = np.uint32(0xFFFFFFFF << int(dropped) & 0xFFFFFFFF)
    half = np.uint32(1 << int(dropped) - 1)
    for start in range(0, source.size, _CHUNK):
        values, kept = source[start : start + _CHUNK], target[start : start + _CHUNK]
        before, after = values.view(np.uint32), kept.view(np.uint32)
        nan = np.isnan(values) if np.isnan(values.max()) else None  # the maximum is NaN where any value is
        if mode == "rint":
            increment = after if out is None else np.empty_like(before)  # `out` may be the source
            np.right_shift(before, dropped, out=increment)
            np.bitwise_and(increment, np.uint32(1), out=increment)
            np.add(increment, half - np.uint32(1), out=increment)
            np.add(before, increment, out=after)
        elif mode == "trunc":
            np.copyto(after, before)
        else:
            np.add(before, half if mode == "round" else half - np.uint32(1), out=after)
        np.bitwise_and(after, mask, out=after)
        if nan is not None:
            kept[nan] = np.nan
    return result
