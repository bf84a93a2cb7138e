"""The order of a training step as PyTorch runs it: the tensors that the operators before a call moved.

Every aten operator counts, also one without a kernel here: it reads its arguments and writes its results once. A view moves
nothing. A tensor is its storage; storages share addresses over time in PyTorch as on the chip (assumed).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ascend_sim.runtime import KernelMoves, Moved

_REMEMBERED = 4
"""Traffic that is kept, in L2 sizes: a line of a first-in first-out cache is gone after one."""
_MOST = 4096
"""Most operators that are kept: a small model moves too little to displace an L2's contents."""

Storage = tuple[int, int]


class StepOrder:
    """Record of the tensors that the last operators moved: as many as 4 times `l2_bytes`, and at most 4096 operators."""

    def __init__(self, l2_bytes: int) -> None:
        self._kept = _REMEMBERED * l2_bytes
        self._bytes = 0
        self._moved: deque[tuple[tuple[Storage, bool], ...]] = deque()

    def ran(self, func: Any, args: Any, kwargs: Mapping[str, Any], results: Any) -> None:
        """Record one operator: the storages of its arguments and results, each marked if it is written. A view is ignored."""
        returned = [one.alias_info for one in func._schema.returns]
        if any(alias is not None and not alias.is_write for alias in returned):
            return  # a view
        written = {one.name for one in func._schema.arguments if one.alias_info is not None and one.alias_info.is_write}
        named = zip((one.name for one in func._schema.arguments), args, strict=False)
        moved: dict[Storage, bool] = {}
        for name, value in [*named, *kwargs.items()]:
            for storage in _storages(value):
                moved[storage] = moved.get(storage, False) or name in written
        moved |= dict.fromkeys(_storages(results), True)
        self._moved.append(tuple(moved.items()))
        self._bytes += sum(nbytes for _, nbytes in moved)
        while len(self._moved) > _MOST or (self._bytes > self._kept and len(self._moved) > 1):
            self._bytes -= sum(nbytes for (_, nbytes), _ in self._moved.popleft())

    def before(self, tensors: Mapping[str, Any]) -> tuple[KernelMoves, ...]:
        """Return the operators recorded before a call, oldest first, each as (buffer, bytes, written) of the storages that it
        moved.

        Buffers of the call's `tensors` have their names, others a number. Equal orders of equal sizes are equal, whatever the
        addresses.
        """
        own = {storage: name for name, tensor in tensors.items() for storage in _storages(tensor)}
        numbers: dict[Storage, int] = {}

        def moves(one: tuple[tuple[Storage, bool], ...]) -> Iterable[Moved]:
            for storage, written in one:
                buffer = own.get(storage) or numbers.setdefault(storage, len(numbers))
                yield buffer, storage[1], written

        return tuple(tuple(moves(one)) for one in self._moved)


def _storages(value: Any) -> list[Storage]:
    """Return (address, bytes) of the storages of strided tensors in a nested argument; fake ones have an id as address."""
    found = []
    for tensor in tree_leaves(value):
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            if isinstance(nbytes := storage.nbytes(), int) and nbytes:
                meta = tensor.device.type == "meta" or isinstance(tensor, torch._subclasses.FakeTensor)
                found.append((storage._cdata if meta else storage.data_ptr(), nbytes))
    return found
