"""Tasks dealt to cores: the contiguous deal of the vendor's kernels (ops-nn arch22: stated)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def core_share(total: int, cores: int, core: int) -> range:
    """Return the task numbers of core `core` among `cores`: a contiguous run, one longer on the first `total % cores` cores."""
    each, more = divmod(total, cores)
    start = core * each + min(core, more)
    return range(start, start + each + (core < more))


def chunk(index: int, size: int, total: int) -> tuple[int, int]:
    """Return (start, count) of chunk number `index` when `total` is cut into chunks of `size`; the last may be shorter."""
    return index * size, min(size, total - index * size)


def axes_of(number: int, sizes: Mapping[str, int], order: Sequence[str]) -> dict[str, int]:
    """Return {axis: index} of task `number`, where axes have `sizes` and tasks are numbered in `order`, slowest axis first."""
    found = {}
    for axis in reversed(order):
        number, found[axis] = divmod(number, sizes[axis])
    return found
