"""Whole numbers cut into units: rounding up and down, divisors, sums of quotients."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from itertools import count

_TRIED = 4096  # up to here factors are found by trying
# Together they tell every number below 3.3e24 (Sorenson and Webster 2015); beyond, no composite is known that they do not tell.
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)


def divisors(number: int, limit: int) -> list[int]:
    """Return the divisors of `number` (at least 1) that are at most `limit`, ascending."""
    found = _all_divisors(number)
    return list(found[: bisect_right(found, limit)])


@lru_cache(maxsize=4096)
def is_prime(number: int) -> bool:
    """Return True if `number` is a prime, by Miller and Rabin's test: certain below 3.3e24, beyond for all that is known."""
    if number < 2:
        return False
    if any(number % prime == 0 for prime in _WITNESSES):
        return number in _WITNESSES
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    for witness in _WITNESSES:
        power = pow(witness, (number - 1) >> twos, number)
        if power == 1:
            continue
        for _ in range(twos):
            if power == number - 1:
                break
            power = power * power % number
        else:
            return False
    return True


@lru_cache(maxsize=4096)
def _all_divisors(number: int) -> tuple[int, ...]:
    found = [1]
    for prime, times in Counter(_prime_factors(number)).items():
        found = [divisor * prime**power for divisor in found for power in range(times + 1)]
    return tuple(sorted(found))


def _prime_factors(number: int) -> list[int]:
    found, tried = [], 2
    while tried <= _TRIED and tried * tried <= number:
        while number % tried == 0:
            found.append(tried)
            number //= tried
        tried += 1
    left = [number] if number > 1 else []
    while left:
        number = left.pop()
        if number <= _TRIED**2 or is_prime(number):
            found.append(number)
        else:
            factor = _a_factor(number)
            left += factor, number // factor
    return found


def _a_factor(number: int) -> int:
    """Return a factor, not always a prime, of an odd composite by Pollard's rho, in about the fourth root of `number` steps."""
    for constant in count(1):
        slow = fast = 2
        factor = 1
        while factor == 1:
            slow = (slow * slow + constant) % number
            fast = (fast * fast + constant) % number
            fast = (fast * fast + constant) % number
            factor = math.gcd(slow - fast, number)
        if factor != number:
            break
    return factor


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
    """Return the divisors of `number` up to `start`, largest first; takes time in proportion to the smaller of the two."""
    return [d for d in range(min(number, start), 0, -1) if number % d == 0]


def floor_sum(count: int, number: int, divisor: int, offset: int = 0) -> int:
    """Return the sum of (i * number + offset) // divisor for i below `count`, in about log(divisor) steps as Euclid."""
    total = 0
    while count > 0:
        total += count * (count - 1) // 2 * (number // divisor) + count * (offset // divisor)
        number, offset = number % divisor, offset % divisor
        last = number * count + offset
        count, offset, number, divisor = last // divisor, last % divisor, divisor, number
    return total


def cut(total: int, largest: int, unit: int = 1) -> list[tuple[int, int]]:
    """Return (start, count) of the fewest pieces of at most `largest` that cover `total`, all of one size but a shorter last
    one.

    The size is rounded up to `unit`, even beyond a `largest` that is no multiple of it. A `total` up to `largest`, also 0, is
    one piece.
    """
    if total <= largest:
        return [(0, total)]
    size = ceil_to(ceil_div(total, ceil_div(total, largest)), unit)
    return [(start, min(size, total - start)) for start in range(0, total, size)]
