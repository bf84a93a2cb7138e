"""Description of a copy between two strided views, for ViewCopy and Transpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class StridedCopy(NamedTuple):
    """target[target_offset + i . target_strides] = source[source_offset + i . source_strides] for every index i of `shape`.

    Strides and offsets count elements of `itemsize` bytes; source strides may be 0 (expanded) or negative.
    """

    shape: Sequence[int]
    source_strides: Sequence[int]
    target_strides: Sequence[int]
    itemsize: int
    source_offset: int = 0
    target_offset: int = 0
