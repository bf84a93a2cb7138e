"""Whole numbers cut into units: rounding up and down, divisors, sums of quotients."""

from __future__ import annotations


def ceil_div(value: int, unit: int) -> int:
    """Return `value / unit`, rounded up."""
    return -(-value // unit)


def ceil_to(value: int, unit: int) -> int:
    """Return `value` rounded up to a multiple of `unit`."""
    return -(-value // unit) * unit


def floor_to(value: int, unit: int) -> int:
    """Return `value` rounded down to a multiple of `unit`, but at least one unit."""
    return max(value // unit, 1) * unit


def divisors_down(number: int, start: int) -> list[int]:
    """Return the divisors of `number` up to `start`, largest first; takes time in proportion to `start`."""
    return [d for d in range(min(number, start), 0, -1) if number % d == 0]


def floor_sum(count: int, number: int, divisor: int, offset: int = 0) -> int:
    """Return the sum of (i * number + offset) // divisor for i from 0 to `count` - 1, in about log(divisor) steps as
    Euclid's algorithm.
    """
    total = 0
    while count > 0:
        total += count * (count - 1) // 2 * (number // divisor) + count * (offset // divisor)
        number, offset = number % divisor, offset % divisor
        last = number * count + offset
        count, offset, number, divisor = last // divisor, last % divisor, divisor, number
    return total


def cut(total: int, largest: int, unit: int = 1) -> list[tuple[int, int]]:
    """Return (start, count) of the fewest nearly equal pieces of at most `largest` that cover `total`; pieces begin at
    multiples of `unit`.
    """
    if total <= largest:
        return [(0, total)]
    size = ceil_to(ceil_div(total, ceil_div(total, largest)), unit)
    return [(start, min(size, total - start)) for start in range(0, total, size)]
