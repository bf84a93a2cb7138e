"""Convolutions in a page of numpy that shares nothing with the simulator, and the number formats beside them.

A convolution ties three tensors together. With x [N, G ci, ...], the map that the kernel slides over, y [N, G co, ...], the
map that has a pixel for each of its places, and w [G co, ci, ...] it is the sum L of x[n, i, s o + d k - p] y[n, c, o]
w[c, i, k] over all indices, and every operator here is a derivative of L by one of the three: the forward convolution by y, its
gradients by x and w; where the convolution is transposed, forward by x, and its gradients by y and w.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
HIFLOAT8_TABLE = Path(__file__).parents[2] / "tests" / "data" / "hifloat8_decode.json"
"""The vendor's table of the 256 codes; the simulator computes them."""
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24}
"""Binary digits of a number, the leading one included."""
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


@dataclass(frozen=True)
class Link:
    """Geometry of the kernel's positions, with a value for each axis of the map. `low` is the padding before the first
    pixel.
    """

    stride: tuple[int, ...]
    low: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def derivative(self, by: str, x: Array, y: Array, w: Array) -> Array:
        """dL by "x", "y" or "w"; of the tensor itself only the shape counts. Exact for integers."""
        groups, kernel, pixels = self.groups, w.shape[2:], y.shape[2:]
        axes = zip(x.shape[2:], pixels, kernel, self.stride, self.dilation, self.low, strict=True)
        wide = tuple(max(size + p, (o - 1) * s + (k - 1) * d + 1) for size, o, k, s, d, p in axes)
        inside = (slice(None), slice(None), *(slice(p, p + size) for p, size in zip(self.low, x.shape[2:], strict=True)))
        padded = np.zeros((*x.shape[:2], *wide), x.dtype)
        padded[inside] = 0 if by == "x" else x
        maps = padded.reshape(len(x), groups, -1, *wide)
        places = (np.zeros_like(y) if by == "y" else y).reshape(len(y), groups, -1, *pixels)
        filters = (np.zeros_like(w) if by == "w" else w).reshape(groups, -1, *w.shape[1:])
        every = (slice(None),) * 3
        for tap, window in self._taps(kernel, pixels):
            seen, tapped = maps[every + window], filters[every + tap]
            if by == "x":
                seen += np.einsum("ngo...,goi->ngi...", places, tapped)
            elif by == "y":
                places += np.einsum("ngi...,goi->ngo...", seen, tapped)
            else:
                count = seen.shape[:3]
                tapped += np.einsum("ngip,ngop->goi", seen.reshape(*count, -1), places.reshape(*places.shape[:3], -1))
        return {"x": padded[inside], "y": places.reshape(y.shape), "w": filters.reshape(w.shape)}[by]

    def _taps(self, kernel: tuple[int, ...], pixels: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        for tap in itertools.product(*map(range, kernel)):
            axes = zip(tap, self.dilation, self.stride, pixels, strict=True)
            yield tap, tuple(slice(k * d, k * d + (o - 1) * s + 1, s) for k, d, s, o in axes)


@cache
def hifloat8_values() -> Array:
    """float64 of the 256 codes."""
    return np.array([float.fromhex(row) for row in json.loads(HIFLOAT8_TABLE.read_text())["values"]])


@cache
def _hifloat8_order() -> tuple[Array, Array]:
    """Codes of the finite numbers from the least to the largest, and where one ends and the next begins (ties: away from 0)."""
    values = hifloat8_values()
    codes = np.flatnonzero(np.isfinite(values))
    codes = codes[np.argsort(values[codes], kind="stable")]
    ordered = values[codes]
    return codes, (ordered[1:] + ordered[:-1]) / 2


def numbers(array: Array, dtype: str) -> Array:
    """float64 of an array as a caller holds it; 8-bit ones are codes."""
    if dtype == "hifloat8":
        return hifloat8_values()[array]
    return (array.view(ml_dtypes.float8_e4m3fn) if dtype == "float8_e4m3fn" else array).astype(np.float64)


def rounded(values: Array, dtype: str) -> Array:
    """float64 rounded once to a format, as float64. hifloat8 rounds ties away from zero, the others to even."""
    if dtype == "hifloat8":
        codes, middles = _hifloat8_order()
        up = np.searchsorted(middles, values, "right")  # a tie belongs to the upper one
        down = np.searchsorted(middles, values, "left")
        return hifloat8_values()[codes[np.where(values < 0, down, up)]]
    kept = ml_dtypes.float8_e4m3fn if dtype == "float8_e4m3fn" else NUMPY[dtype]
    return values.astype(np.float32).astype(kept).astype(np.float64)
