"""The caller's arrays as numbers: 8-bit codes decoded, operands rounded to the cube's format."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.numerics import cast, decode, numpy_dtype, round_to
from ascend_sim.ops.call import stored_as
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]


def typed(array: Array, dtype: str) -> Array:
    """Return a view of uint8 codes as an array of their format `dtype` (of hifloat8, which numpy lacks, still uint8); any other
    array as it is, whatever `dtype` is.
    """
    return array.view(numpy_dtype(dtype)) if array.dtype == np.uint8 else array


def numbers(array: Array, dtype: str) -> Array:
    """Return a tensor's values: 8-bit codes of format `dtype` decoded to float32, any other array as it is."""
    return decode(array, dtype) if array.dtype == np.uint8 else array


def operand(array: Array, compute_dtype: str, model: ValueModel) -> Array:
    """Return numbers rounded to the values that the cube multiplies in `compute_dtype`, in the numpy dtype that stores it; a
    number beyond its range saturates if the model's do.

    hifloat8 is returned as float32; an array that needs no rounding is returned itself.
    """
    storage = stored_as(compute_dtype)
    if storage == "hifloat8":  # which numpy has no dtype for
        return round_to(array, storage, saturate=model.saturate)
    if array.dtype != numpy_dtype(storage):
        array = cast(array, storage, saturate=model.saturate)
    if compute_dtype == "hf32":
        return round_to(array, "hf32", mantissa_bits=model.chip.cube.hf32_mantissa_bits or 0)
    return array
