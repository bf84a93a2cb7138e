"""The order of a step as PyTorch runs it: the tensors that the operators before a call moved.

Every aten operator counts, also one without a kernel here: it reads its arguments and writes its results once. A view moves
nothing. A tensor is its storage; storages take turns at PyTorch's addresses as they do at the chip's (assumed).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ascend_sim.runtime import KernelMoves, Moved

_REMEMBERED = 4
"""L2 sizes of traffic that are kept: a line of a first-in first-out cache is gone after one."""
_MOST = 4096
"""Operators that are kept: a small model moves too little to leave an L2."""

Storage = tuple[int, int]


class StepOrder:
    """The tensors that the last operators moved, as far back as an L2 of `l2_bytes` remembers."""

    def __init__(self, l2_bytes: int) -> None:
        self._kept = _REMEMBERED * l2_bytes
        self._bytes = 0
        self._moved: deque[tuple[tuple[Storage, bool], ...]] = deque()

    def ran(self, func: Any, args: Any, kwargs: Mapping[str, Any], results: Any) -> None:
        """Record an operator with its arguments and results."""
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
        """Return the kernels before a call, oldest first, by the buffers that they move.

        Buffers of the call's `tensors` have their names, others a number. Equal orders of equal sizes are equal,
        whatever the addresses.
        """
        own = {storage: name for name, tensor in tensors.items() for storage in _storages(tensor)}
        numbers: dict[Storage, int] = {}

        def moves(one: tuple[tuple[Storage, bool], ...]) -> Iterable[Moved]:
            for storage, written in one:
                buffer = own.get(storage) or numbers.setdefault(storage, len(numbers))
                yield buffer, storage[1], written

        return tuple(tuple(moves(one)) for one in self._moved)


def _storages(value: Any) -> list[Storage]:
    """Return (address, bytes) of the storages of all tensors in an argument; storage without memory has an address of
    its own.
    """
    found = []
    for tensor in tree_leaves(value):
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            if isinstance(nbytes := storage.nbytes(), int) and nbytes:
                meta = tensor.device.type == "meta" or isinstance(tensor, torch._subclasses.FakeTensor)
                found.append((storage._cdata if meta else storage.data_ptr(), nbytes))
    return found
