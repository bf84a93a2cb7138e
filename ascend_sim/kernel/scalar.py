"""The methods of a `Kernel` for loads and stores of the scalar unit."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import CleanDataCache, ScalarCopy, ScalarLoad, ScalarStore, bits_of_number
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.tensor import Tensor, storage_dtype
from ascend_sim.numerics.integers import INTEGERS

Element = Tensor | LocalTensor


class ScalarMethods:
    """Methods of a builder for loads and stores by the scalar unit of one element of the Unified Buffer or of GM.

    Later instructions are issued after them. Accesses of another pipe to the element are ordered by flags to and from pipe S.
    GM is read and written through the core's data cache: others see a store when its line was written back, by
    `clean_data_cache` or (assumed) at the end of the program.
    """

    contents: Sequence[Any] | None = None
    """The values of the launch's tensors, None for one that has none; without a launch the attribute itself is None."""
    shared: dict[str, Any]
    """Values that the kernel keeps from one block of the launch to the next."""

    if TYPE_CHECKING:

        def _emit(self, key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None: ...

    def scalar_load(self, src: Element, *, cached: bool = False) -> None:
        """Append a load of one element (else SimError); `cached`: its line of GM is in the data cache. A program cannot use the
        value.
        """
        space, size = _one_element("scalar_load", src)
        self._emit((ScalarLoad, space, size, cached), 0, src.address)

    def scalar_store(self, dst: Element, value: float, *, cached: bool = False) -> None:
        """Append a store of a number to one element, in the element's format; `cached` as for `scalar_load`.

        The number is rounded to a float format. Raises SimError for several elements, for what is no number, and for a number
        that an integer format does not hold.
        """
        space, size = _one_element("scalar_store", dst)
        if not isinstance(value, Real):
            raise SimError(f"scalar_store: {value!r}; a number is allowed")
        if dst.dtype in INTEGERS:
            limits = np.iinfo(dst.dtype)
            if not limits.min <= value <= limits.max or value != int(value):
                allowed = f"whole numbers from {limits.min} to {limits.max}"
                raise SimError(f"scalar_store: {value} does not fit {dst.dtype}; allowed are {allowed}")
        self._emit((ScalarStore, space, size, cached), dst.address, bits_of_number(value, dst.dtype))

    def scalar_copy(self, dst: LocalTensor, src: LocalTensor) -> None:
        """Copy one element within the Unified Buffer: a load and a store.

        Raises SimError unless both are single elements of one format.
        """
        sides = _one_element("scalar_copy", dst), _one_element("scalar_copy", src)
        if sides[0] != sides[1] or dst.dtype != src.dtype:
            raise SimError(f"scalar_copy: {dst} and {src}; both must be elements of UB with one format")
        self._emit((ScalarCopy, *sides[0]), dst.address, src.address)

    def clean_data_cache(self, dst: Tensor | None = None) -> None:
        """Write the line of the first element of `dst` back from the data cache and drop it; without `dst` all lines.

        Raises SimError for what is not a tensor in GM, and on a chip without the instruction.
        """
        if dst is not None and not isinstance(dst, Tensor):
            raise SimError(f"clean_data_cache: {dst!r} is not in GM; the data cache holds lines of GM")
        self._emit((CleanDataCache, dst is None), 0 if dst is None else dst.address)


def _one_element(what: str, element: Any) -> tuple[str, int]:
    """Return ("GM" or "UB", bytes) of a tensor with one element.

    Raises SimError for more elements and for what is not a tensor.
    """
    if not isinstance(element, Tensor | LocalTensor):
        raise SimError(f"{what}: {element!r} is not a tensor; give one element of a tensor of GM or of the Unified Buffer")
    count = element.size if isinstance(element, Tensor) else element.rows * element.columns
    if count != 1:
        raise SimError(f"{what}: {element} has {count} elements; the scalar unit reads and writes one at a time")
    return ("GM" if isinstance(element, Tensor) else "UB"), storage_dtype(element.dtype).itemsize
