"""`@frozen`: a frozen dataclass whose `__repr__`, `__eq__` and `__hash__` are written when they are first called.

A dataclass writes the source of six methods as its module is imported and has Python compile each. Hardly any object of the
classes that a command imports is ever printed or compared, so these three wait; later they are a dataclass's own. `__init__`
does not wait: another thread might call it while it is being replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, TypeVar, dataclass_transform

__all__ = ["frozen"]

_Class = TypeVar("_Class", bound=type)
_MADE_LATER = ("__repr__", "__eq__", "__hash__")


class _Unwritten:
    """Descriptor in place of a method; at its first look-up, in its class or a subclass, the method is generated and replaces
    it.
    """

    def __init__(self, cls: type, name: str) -> None:
        self.cls, self.name = cls, name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        _write_methods(self.cls)
        written = self.cls.__dict__[self.name]
        return written.__get__(instance, owner) if hasattr(written, "__get__") else written


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: _Class) -> _Class:
    """Make a class a frozen dataclass, as `dataclass(frozen=True)` does, and return it; `__repr__`, `__eq__`, `__hash__` are
    generated at first use.

    Methods that the class defines itself stay.
    """
    dataclass(frozen=True, repr=False, eq=False)(cls)
    for name in _MADE_LATER:
        if cls.__dict__.get(name) is None:  # a class with an __eq__ of its own has None for its __hash__
            setattr(cls, name, _Unwritten(cls, name))
    return cls


def _write_methods(cls: type) -> None:
    """Replace every `_Unwritten` of `cls` by the method of a dataclass with the same fields."""
    alike = [(one.name, Any, field(repr=one.repr, hash=one.hash, compare=one.compare)) for one in fields(cls)]
    described = {"__doc__": __doc__}  # else a dataclass works out its signature, which takes longest
    twin = make_dataclass(cls.__name__, alike, namespace=described, init=False, unsafe_hash=True)
    for name in _MADE_LATER:
        if isinstance(cls.__dict__[name], _Unwritten):
            setattr(cls, name, twin.__dict__[name])
