"""Checks of sizes: whole numbers, refused at once where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.errors import SimError


def whole_number(value: Any, what: str, least: int) -> int:
    """Return `value` as an int if it is an integer (Python or numpy) of at least `least`.

    Raises SimError otherwise, for bools too.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise SimError(f"{what} is {value!r}; allowed is a whole number from {least}")
    return int(value)
