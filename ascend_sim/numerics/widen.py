"""16-bit floats to float32, exactly and fast: numpy converts float16 one element at a time, integer operations do not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# A float16 moved to the top of a float32 keeps its sign; its exponent is then too small by the difference of the biases.
_SHIFT = np.int32(13)
_KEEP = np.uint32(0x8FFFE000).view(np.int32)
_REBIAS = np.float32(2.0**112)
_INFINITE = np.float32(65536.0)


def to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return float16, bfloat16 or float32 values of any strides as contiguous float32; infinities and NaN are kept.

    A contiguous float32 array is returned itself, not copied.
    """
    if values.dtype != np.float16:
        return np.ascontiguousarray(values, np.float32)
    bits = np.ascontiguousarray(values).view(np.int16).astype(np.int32)
    np.left_shift(bits, _SHIFT, out=bits)
    np.bitwise_and(bits, _KEEP, out=bits)
    wide = bits.view(np.float32)
    np.multiply(wide, _REBIAS, out=wide)
    if wide.size and (wide.max() >= _INFINITE or wide.min() <= -_INFINITE):
        return np.ascontiguousarray(values).astype(np.float32)
    return wide
