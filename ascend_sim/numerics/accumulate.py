"""Models of how the cube adds up products. Models: neither order nor inner rounding of Mmad is published or measured.

Operands are [m, k] and [n, k] float32 arrays that hold values of the compute dtype, sums [m, n] float32. Within one Mmad
`blas` takes one matrix product in float32, in the host's order of additions, and adds it to the sum; `chunk` adds the products
of one fractal's k in float32, one after the other, and their sum to the sum so far;
`exact_group` adds the products of one cycle (k_per_cycle of the chip) and the sum exactly and rounds once, group after
group in increasing k. One public table of error figures (a third party's, fp32 on a 910B) speaks for the last: weak.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ACCUMULATIONS = {
    "blas": "one float32 matrix product per Mmad, then one float32 addition",
    "chunk": "products of one fractal of k added in float32 in order of k, then one float32 addition",
    "exact_group": "exact sum of the products of one cycle and the sum so far, one rounding to float32",
}
"""Name of an accumulation model -> its rule in words; `chunk` is the default, `blas` the fastest."""

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

_DIGITS = 53  # binary digits of a float64
_SHORT = 12  # digits of an operand whose products with 24-digit ones leave room for a spread of binades
_NEVER = 1 << 12  # a span that never fits: rows with inf or NaN
_BLOCK = 1 << 13  # sums worked on at a time: the temporaries stay in the cache


def add_chunks(total: Float32, left: Float32, right: Float32, width: int) -> Float32:
    """Return `total` + `left` x `right`^T in float32: for each `width` values of k the products are added in order of k, then
    their sum is added to the total.

    Every product and sum is rounded. The host's matrix product is not used, since its order of additions depends on the CPU.
    NaNs become the default NaN. engine/compiled/products.c computes the same.
    """
    columns, rows = np.ascontiguousarray(left.T)[:, :, None], np.ascontiguousarray(right.T)
    product = np.empty_like(total)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(rows), width):
            partial = columns[start] * rows[start]
            for k in range(start + 1, min(start + width, len(rows))):
                partial += np.multiply(columns[k], rows[k], out=product)
            total = total + partial
    total[np.isnan(total)] = np.nan
    return total


def add_exact_groups(total: Float32, left: Float32, right: Float32, width: int, digits: int) -> Float32:
    """Return `total` + `left` x `right`^T; every `width` products (the last group may have fewer) and the sum so far are added
    exactly, then rounded once.

    `digits` is the significand of the operands' format (float16: 11). Where float64 provably holds the sum of a group exactly
    it is a float64 matrix product; elsewhere the rounding errors of float64 are carried along exactly.
    """
    result = np.empty_like(total)
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    step = max(_BLOCK // max(len(right), 1), 1)
    with np.errstate(invalid="ignore", over="ignore"):
        for row in range(0, len(left), step):
            rows = slice(row, row + step)
            result[rows] = total[rows]
            for start in range(0, left.shape[1], width):
                part = slice(start, start + width)
                result[rows] = _add_group(result[rows], wide_left[rows, part], wide_right[:, part], digits)
    return result


def _add_group(total: Float32, a: Float64, b: Float64, digits: int) -> Float32:
    """Return `total` [m, n] + the products of a [m, k] and b [n, k], added exactly and rounded once."""
    short = digits <= _SHORT
    fits = _spans(a, min(digits, _SHORT))[:, None] + _spans(b, digits) + (a.shape[1] - 1).bit_length() <= _DIGITS
    if short:
        high, low = _two_sum(total.astype(np.float64), a @ b.T)
    else:
        # Two words: the left operand's upper digits and the rest give sums that are exact each; three terms to add.
        upper = np.ldexp(np.trunc(np.ldexp(np.frexp(a)[0], _SHORT)), np.frexp(a)[1] - _SHORT)
        high, low = _add_three(total.astype(np.float64), upper @ b.T, (a - upper) @ b.T)
    result = _round_once(high, low)
    if not fits.all():
        rows, columns = np.nonzero(~fits)
        result[rows, columns] = _add_products(total[rows, columns], a[rows] * b[columns])
    return result


def _spans(rows: Float64, digits: int) -> npt.NDArray[np.int64]:
    """Return for each row the number of binary digits from the top of its largest value to the last of the `digits` digits of
    its smallest nonzero one; 0 for a row of zeros.

    A product of two such rows' values is a multiple of the product of their last places. So a sum of products needs no more
    digits than both spans and the logarithm of their number. Rows with inf or NaN get a span that never fits.
    """
    magnitude = np.abs(rows)
    largest = magnitude.max(axis=1)
    smallest = np.where(magnitude > 0, magnitude, np.inf).min(axis=1)
    empty = largest == 0
    spans = np.frexp(largest)[1] - np.frexp(np.where(empty, 1.0, smallest))[1] + digits
    spans = np.where(empty, 0, spans)
    return np.where(np.isfinite(largest), spans, _NEVER).astype(np.int64)


def _two_sum(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    """Return (a + b rounded, its rounding error), whose sum is exactly a + b (Knuth)."""
    total = a + b
    virtual = total - a
    error = total - virtual
    np.subtract(a, error, out=error)
    np.subtract(b, virtual, out=virtual)
    error += virtual
    return total, error


def _add_three(a: Float64, b: Float64, c: Float64) -> tuple[Float64, Float64]:
    """Return (high, low) of a + b + c: `high` is one of the two float64 around the sum, `low` has the exact rest's sign."""
    partial, error = _two_sum(b, c)
    high, rest = _two_sum(a, partial)
    rest, last = _two_sum(rest, error)
    total, rest = _two_sum(high, rest)
    if not np.isfinite(high).all():
        total = np.where(np.isfinite(high), total, high)
    return total, rest + last  # `last` is smaller than the last digit of `rest`: the sign is right


def _round_once(high: Float64, low: Float64) -> Float32:
    """Return a sum rounded to float32 once; the sum is `high`, or lies beside it on the side of `low`'s sign.

    An inexact `high` with an even last bit is moved to its odd neighbour: such a float64 can neither look like a tie of float32
    nor cross one (Boldo and Melquiond, round to odd).
    """
    inexact = (low > 0) | (low < 0)  # not where it is NaN, beside an infinite `high`
    if not inexact.any():
        return high.astype(np.float32)
    patterns = high.view(np.int64)
    inexact &= (patterns & 1) == 0
    outward = (low > 0) == (high > 0)
    return (patterns + np.where(inexact, np.where(outward, 1, -1), 0)).view(np.float64).astype(np.float32)


def _add_products(total: Float32, products: Float64) -> Float32:
    """Return `total` [e] + the row sums of `products` [e, k], each sum exact and rounded once.

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
    for index in np.flatnonzero(lost & ~special):  # rare
        from fractions import Fraction

        from ascend_sim.numerics import reference

        terms = (float(total[index]), *products[index].tolist())
        result[index] = reference.round_value(sum(map(Fraction, terms), Fraction(0)), "float32")
    return result
