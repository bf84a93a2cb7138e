"""Snapshots: the state of a value that the body of a traced loop can see, in a form that can be compared later.

Two snapshots are equal where the values look the same to the body. Classes of the kernel room return the state to compare by
their method `visible`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from dis import get_instructions
from enum import Enum
from functools import cache, partial
from operator import index
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.kernel.tracked import Tracked

_MOST_BYTES = 1 << 16
"""Bytes of the largest array that is compared; a larger one takes longer than a turn of a loop."""
_PLAIN = (int, bool, str, bytes, complex, type(None), type(Ellipsis), range)
_CONSTANT = (type, ModuleType, BuiltinFunctionType, Enum, ChipSpec, np.dtype)


class Unknown(Exception):
    """Raised for a value whose state cannot be seen: an iterator, an object of a class that is no dataclass and has no
    `visible`, an array above 64 KiB or of objects, an outer variable without a value.
    """


class Snapshots:
    """Maker of snapshots of the values that a function's body sees; `file` has the names of its module.

    The builder `k` always compares equal.
    """

    def __init__(self, file: Mapping[str, Any], k: object) -> None:
        self._file, self._k = file, k
        self._running: set[int] = set()

    def of_names(self, names: Iterable[str], held: Mapping[str, Any]) -> Hashable:
        """Return ((name, snapshot), ...) of variables, found in `held` or else in the module; a name in neither is left out."""
        found = [(name, held if name in held else self._file) for name in sorted(names)]
        return tuple([(name, self.of(place[name])) for name, place in found if name in place])

    def of(self, value: Any) -> Hashable:
        """Return a hashable snapshot of a value, equal for values that look the same.

        Raises Unknown for a state that cannot be seen.
        """
        kind = type(value)
        if kind in _PLAIN:
            return kind, value
        if kind is Tracked:
            return int, index(value)
        if kind is float:
            return kind, repr(value)  # 0.0 and -0.0 are two numbers
        if value is self._k or isinstance(value, _CONSTANT):
            return _Same(value if value is not self._k else None)
        if isinstance(value, FunctionType):
            return self._of_function(value)
        return kind, self._of_parts(value)

    def _of_parts(self, value: Any) -> Hashable:
        """Return a snapshot of a compound value from those of its parts: containers, arrays, partials, methods, dataclasses,
        and objects with `visible`.

        Raises Unknown for any other value.
        """
        if isinstance(value, tuple | list):
            return tuple([self.of(one) for one in value])
        if isinstance(value, dict):
            return tuple([(self.of(key), self.of(one)) for key, one in value.items()])
        if isinstance(value, set | frozenset):
            return frozenset([self.of(one) for one in value])
        if isinstance(value, slice):
            return self.of((value.start, value.stop, value.step))
        if isinstance(value, np.ndarray | np.generic) and value.nbytes <= _MOST_BYTES and not value.dtype.hasobject:
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, partial):
            return self.of((value.func, value.args, value.keywords))
        if isinstance(value, MethodType):
            return self.of((value.__func__, value.__self__))
        if hasattr(value, "visible"):
            return self.of(value.visible())
        if is_dataclass(value):
            return tuple([self.of(getattr(value, one.name)) for one in fields(value)])
        raise Unknown

    def _of_function(self, function: FunctionType) -> Hashable:
        """Return a snapshot of a function of this file: its code, defaults and outer values; one of another file, or one
        under way, by identity.

        Raises Unknown for an outer variable without a value yet.
        """
        if function.__globals__ is not self._file or id(function) in self._running:
            return _Same(function)
        self._running.add(id(function))
        try:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            around = self.of((cells, function.__defaults__, function.__kwdefaults__))
            return _Same(function.__code__), around, self.of_names(_globals(function.__code__), {})
        except ValueError:  # nothing was written to a cell yet
            raise Unknown from None
        finally:
            self._running.discard(id(function))


@cache
def _globals(code: CodeType) -> frozenset[str]:
    """Return the names of its module that a function, or a function inside it, reads."""
    inner = [_globals(one) for one in code.co_consts if isinstance(one, CodeType)]
    return frozenset([row.argval for row in get_instructions(code) if row.opname == "LOAD_GLOBAL"]).union(*inner)


class _Same:
    """Snapshot of a value that is equal only to that of the same object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
