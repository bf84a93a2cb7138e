"""How an axis is cut over cores: by its divisors, or those of a power of two where it has few, and by the cores' own.

Source: host tiling of Conv2DBackpropFilter (NPUKernelBench 6b84216, math_util.cc, cycle_calculator.cc: stated).
"""

from __future__ import annotations

from functools import lru_cache

from ascend_sim.ops.problem.divisors import divisors
from ascend_sim.ops.problem.sizes import ceil_div

POOR = 4  # an axis whose divisors have no more divisors than this is cut as a power of two
SMALL = 16  # below which no power of two is taken
LARGEST_POWER = 2048
SHARE_SMALL, SHARE_LARGE = 64, 128  # sizes within which the divisors of a share are looked at
ALWAYS_FINE = 8


def largest_divisor(number: int, limit: int, even: bool = False) -> int:
    """The largest (even) divisor that is not above `limit`; 0 for none. All of `number` where the limit allows it."""
    if limit >= number:
        return number
    return next((d for d in reversed(divisors(number, limit)) if d % 2 == 0 or not even), 0)


@lru_cache(maxsize=4096)
def richness(number: int, low: int, high: int) -> int:
    """The greatest number of divisors that any divisor of `number` within [low, high] has."""
    inside = (d for d in divisors(number, high) if d >= low)
    return max((len(divisors(d, d)) for d in inside), default=0)


@lru_cache(maxsize=4096)
def mapped(number: int, cores: int) -> int:
    """The number by whose divisors an axis is cut: itself, or a power of two above it where it is poor in divisors."""
    if number < SMALL or richness(number, 1, cores) > POOR:
        return number
    power = 2 * SMALL
    while power < LARGEST_POWER and not power // 2 < number <= power:  # exactly SMALL lies in no span (stated)
        power *= 2
    return power


@lru_cache(maxsize=4096)
def cut_counts(number: int, cores: int) -> tuple[int, ...]:
    """The cuts that are tried, ascending."""
    most = min(number, cores)
    return tuple(sorted({*divisors(mapped(number, cores), most), *divisors(cores, most)}))


@lru_cache(maxsize=4096)
def share_of(number: int, cut: int, cores: int) -> int:
    """Units that a core gets: from the rounded up part on towards that of the power of two, the first that tiles well."""
    if cut == 1 and _tiles_well(number):
        return number
    units, end = ceil_div(number, cut), ceil_div(mapped(number, cores), cut)
    while units != end and not _tiles_well(units):
        units += 1 if units < end else -1
    return units


def _tiles_well(units: int) -> bool:
    if units <= ALWAYS_FINE:
        return True
    small = richness(units, 1, SHARE_SMALL)
    if units <= SHARE_LARGE:
        return small > 2
    return small > 2 and small + richness(units, SHARE_SMALL + 1, SHARE_LARGE) > POOR
