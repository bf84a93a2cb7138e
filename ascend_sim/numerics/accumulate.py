"""Models of how the cube adds up products. Models: neither order nor inner rounding of Mmad is published or measured.

Operands are [m, k] and [n, k] float32 arrays that hold values of the compute dtype, sums [m, n] float32. Within one Mmad
`blas` takes one matrix product in float32 and adds it to the sum; `chunk` does so for the k of one fractal at a time;
`exact_group` adds the products of one cycle (k_per_cycle of the chip) and the sum exactly and rounds once, group after
group in increasing k. One public table of error figures (a third party's, fp32 on a 910B) speaks for the last: weak.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ascend_sim.numerics import reference

ACCUMULATIONS = {
    "blas": "one float32 matrix product per Mmad, then one float32 addition",
    "chunk": "one float32 matrix product and one float32 addition per fractal of k",
    "exact_group": "exact sum of the products of one cycle and the sum so far, one rounding to float32",
}
"""Name of a model -> what it does; the first is the default (the fastest)."""

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

_DIGITS = 53  # binary digits of a float64
_NEVER = 1 << 12  # a span that never fits: rows with inf or NaN


def add_chunks(total: Float32, left: Float32, right: Float32, width: int) -> Float32:
    """`total` + `left` x `right`^T, `width` of k at a time: each partial product and each addition in float32."""
    for start in range(0, left.shape[1], width):
        part = slice(start, start + width)
        total = total + left[:, part] @ right[:, part].T
    return total


def add_exact_groups(total: Float32, left: Float32, right: Float32, width: int, digits: int) -> Float32:
    """`total` + `left` x `right`^T; every `width` products and the sum so far are added exactly, then rounded once.

    `digits` is the significand of the operands' format (float16: 11). Where float64 provably holds the sum of a group
    exactly it is one float64 matrix product; elsewhere the rounding errors of float64 are carried along exactly.
    """
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    for start in range(0, left.shape[1], width):
        part = slice(start, start + width)
        a, b = wide_left[:, part], wide_right[:, part]
        fits = _spans(a, digits)[:, None] + _spans(b, digits) + (a.shape[1] - 1).bit_length() <= _DIGITS
        with np.errstate(invalid="ignore", over="ignore"):
            result = _round_once(*_two_sum(total.astype(np.float64), a @ b.T))
            rows, columns = np.nonzero(~fits)
            if rows.size:
                result[rows, columns] = _add_products(total[rows, columns], a[rows] * b[columns])
        total = result
    return total


def _spans(rows: Float64, digits: int) -> npt.NDArray[np.int64]:
    """Digits from the top of the largest to the last digit of the smallest value of each row, zeros left out.

    A product of two such rows' values is a multiple of the product of their last places, so a sum of them needs no more
    digits than both spans together (and the logarithm of their number).
    """
    magnitude = np.abs(rows)
    largest = magnitude.max(axis=1)
    smallest = np.where(magnitude > 0, magnitude, np.inf).min(axis=1)
    empty = largest == 0
    spans = np.frexp(largest)[1] - np.frexp(np.where(empty, 1.0, smallest))[1] + digits
    spans = np.where(empty, 0, spans)
    return np.where(np.isfinite(largest), spans, _NEVER).astype(np.int64)


def _two_sum(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    """(a + b rounded, its rounding error), together exactly a + b (Knuth)."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _round_once(high: Float64, low: Float64) -> Float32:
    """high + low, with |low| at most half an ULP of high, rounded to float32 as if exact.

    `high` is moved to the neighbour with an odd last bit where `low` says that it is inexact: such a float64 can neither
    look like a tie of float32 nor cross one (Boldo and Melquiond, round to odd).
    """
    patterns = high.view(np.int64)
    inexact = ((low > 0) | (low < 0)) & (patterns & 1 == 0)
    outward = (low > 0) == (high > 0)
    return (patterns + np.where(inexact, np.where(outward, 1, -1), 0)).view(np.float64).astype(np.float32)


def _add_products(total: Float32, products: Float64) -> Float32:
    """`total` [e] + the sums over the rows of `products` [e, k], each exactly and rounded once.

    The errors of the float64 additions are added up in a second float64; where that one rounds too (operands that span
    more than 100 binades within a group), the element is worked out in rational numbers.
    """
    high = total.astype(np.float64)
    low = np.zeros_like(high)
    lost = np.zeros(high.shape, np.bool_)
    for column in products.T:
        high, error = _two_sum(high, column)
        low, error = _two_sum(low, error)
        lost |= (error > 0) | (error < 0)
    exact, rest = _two_sum(high, low)
    result = _round_once(exact, rest)
    special = ~np.isfinite(high)
    result[special] = high[special]
    for index in np.flatnonzero(lost & ~special):
        terms = (float(total[index]), *products[index].tolist())
        result[index] = reference.round_value(sum(map(Fraction, terms), Fraction(0)), "float32")
    return result
