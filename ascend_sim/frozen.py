"""`@frozen`: a frozen dataclass whose methods are written when they are first used.

A dataclass writes the source of six methods as its module is imported and has Python compile each. Of the classes that a
command imports it makes objects of half, and hardly any is ever printed or compared: together a sixth of a short run. So a
class that is `frozen` is made a dataclass when somebody makes an object of it or asks for its fields, and `__repr__`, `__eq__`
and `__hash__` follow when they are called. From then on they are those of a dataclass, as fast and with the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, TypeVar, dataclass_transform

__all__ = ["frozen"]

_Class = TypeVar("_Class", bound=type)
_MADE_FIRST = ("__init__", "__dataclass_fields__", "__dataclass_params__", "__match_args__")
"""What the class has as soon as it is a dataclass, by whichever of these it becomes one."""
_MADE_LATER = ("__repr__", "__eq__", "__hash__")


class _Unwritten:
    """Stands in a class for what is written when somebody looks it up there, by itself or through a subclass."""

    def __init__(self, cls: type, name: str) -> None:
        self.cls, self.name = cls, name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if self.name in _MADE_FIRST:
            _make_dataclass(self.cls)
        else:
            _write_methods(self.cls)
        written = self.cls.__dict__[self.name]
        return written.__get__(instance, owner) if hasattr(written, "__get__") else written


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: _Class) -> _Class:
    """As `dataclass(frozen=True)`, sooner imported. What the class writes itself stays as it is there too."""
    for name in (*_MADE_FIRST, *_MADE_LATER):
        if cls.__dict__.get(name) is None:  # a class with an __eq__ of its own has None for its __hash__
            setattr(cls, name, _Unwritten(cls, name))
    return cls


def _make_dataclass(cls: type) -> None:
    for name in _MADE_FIRST:
        if isinstance(cls.__dict__.get(name), _Unwritten):
            delattr(cls, name)  # a dataclass leaves alone what is there
    dataclass(frozen=True, repr=False, eq=False)(cls)


def _write_methods(cls: type) -> None:
    """Those of a dataclass with the same fields: they ask for the class of the object that they are called with."""
    alike = [(one.name, Any, field(repr=one.repr, hash=one.hash, compare=one.compare)) for one in fields(cls)]
    twin = make_dataclass(cls.__name__, alike, init=False, unsafe_hash=True)
    for name in _MADE_LATER:
        if isinstance(cls.__dict__[name], _Unwritten):
            setattr(cls, name, twin.__dict__[name])
