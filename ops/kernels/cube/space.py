"""Axes of a grid of tilings: even parts of a size, values that a user fixed, pairs of L1 steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascend_sim.ops.problem.sizes import ceil_div

Fixed = Mapping[str, int]
STEPS = (1, 2, 4, 8)


def even_parts(total: int, unit: int = 1) -> list[int]:
    """Return the distinct part sizes, rounded up to multiples of `unit`, that cut `total` into 1, 2, 3, ... even parts; largest
    first.
    """
    units = ceil_div(total, unit)
    return [unit * size for size in dict.fromkeys(ceil_div(units, parts) for parts in range(1, units + 1))]


def axis(given: Fixed, name: str, values: Any) -> Any:
    """Return the values to try for field `name`: the user's value alone if `given` has it, else `values`."""
    return (given[name],) if name in given else values


def pairs(steps: set[tuple[int, int]], given: Fixed) -> list[tuple[int, int]]:
    """Return the sorted pairs of L1 steps (step_ka, step_kb), one dividing the other, with the user's values if given."""
    pairs = {(given.get("step_ka", a), given.get("step_kb", b)) for a, b in steps}
    return sorted(pair for pair in pairs if max(pair) % min(pair) == 0)
