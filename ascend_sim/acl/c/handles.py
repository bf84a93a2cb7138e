"""The pointers that a C program holds for objects of the simulator.

A pointer is a number that no memory has: it is never read from, so that a pointer that is null, was destroyed, is of another
kind or comes from anywhere is as harmless as any other. A number is not given out twice, and it says its kind, so that
what was destroyed is known without being kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any

from ascend_sim.acl.device import Context
from ascend_sim.acl.operators import aclOpExecutor
from ascend_sim.acl.streams import Event, Stream
from ascend_sim.acl.tensors import aclBoolArray, aclIntArray, aclTensor

_BASE = 0x0ACE << 48
"""No program has an address so high: a program that looks behind a handle ends there, and not in foreign memory."""
_KIND_BITS, _SPACING_BITS = 4, 4
_GONE: tuple[Any, ...] = (
    aclTensor(None, None, alive=False),  # type: ignore[arg-type]
    aclIntArray((), alive=False),
    aclBoolArray((), alive=False),
    aclOpExecutor("", None, None, None, {}, used=True),  # type: ignore[arg-type]
    Stream(None, live=False),  # type: ignore[arg-type]
    Event(None, live=False),  # type: ignore[arg-type]
    Context(None, live=False),  # type: ignore[arg-type]
)
"""For each kind of object, one destroyed object that stands for all destroyed ones; the position is the kind's number."""
_KINDS = {type(thing): number for number, thing in enumerate(_GONE)}


class Pointer(int):
    """A pointer value that no call gave out. No function accepts it: it is an object of no kind."""


class Handles:
    """Two-way table between the simulator's objects and the pointers that a C program holds for them."""

    def __init__(self) -> None:
        self._things: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self._issued = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._things)

    def number(self, thing: Any) -> int:
        """Return the pointer of an object: a new one at the first call, the same one later; 0 for None."""
        if thing is None:
            return 0
        with self._lock:
            if thing not in self._numbers:
                self._issued += 1
                number = _BASE | (self._issued << _KIND_BITS | _KINDS[type(thing)]) << _SPACING_BITS
                self._things[number] = thing
                self._numbers[thing] = number
            return self._numbers[thing]

    def thing(self, number: int) -> Any:
        """Return the object of a pointer; None for 0.

        A pointer whose object was forgotten returns a destroyed stand-in of the object's kind; a number that was never a
        pointer returns a `Pointer`.
        """
        if not number:
            return None
        known = self._things.get(number)
        if known is not None:
            return known
        serial, kind = divmod((number - _BASE) >> _SPACING_BITS, 1 << _KIND_BITS)
        aligned = number % (1 << _SPACING_BITS) == 0
        if aligned and 0 < serial <= self._issued and kind < len(_GONE):
            return _GONE[kind]
        return Pointer(number)

    def forget_dead(self, things: Iterable[Any] | None = None) -> None:
        """Remove the handles of those `things` that are no longer alive (destroyed or used up); None: of all known objects."""
        with self._lock:
            for thing in list(self._numbers) if things is None else things:
                if thing in self._numbers and not thing.alive:
                    del self._things[self._numbers.pop(thing)]
