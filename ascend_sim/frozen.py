"""`@frozen` and `@mutable`: dataclasses whose methods are written when they are first used.

A dataclass writes the source of six methods as its module is imported and has Python compile each. A command makes objects of a
third of the classes that it imports, and hardly any object is ever printed or compared. So a class gets its `__init__` and its
fields when code makes an object of it, reads its fields or derives a dataclass from it, and `__repr__`, `__eq__` and
`__hash__` when they are called; later they are a dataclass's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, is_dataclass, make_dataclass
from functools import partial
from inspect import get_annotations
from threading import RLock
from typing import Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type)
_MADE_FIRST = ("__dataclass_params__", "__match_args__", "__dataclass_fields__", "__init__")
_MADE_LATER = ("__repr__", "__eq__", "__hash__")
_TAKEN = ("__module__", "__qualname__", "__post_init__")
"""Attributes of a class on which its fields and the error texts of `__init__` depend."""
_NO_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")
"""Annotations that a dataclass has to see; it looks through each other text for them, which takes long."""
_LOCK = RLock()
"""Lock of a thread that writes methods; no attribute is missing meanwhile: a look-up waits."""


class _Unwritten:
    """Descriptor in place of an attribute; at its first look-up, in its class or a subclass, the attribute is made and replaces
    it.
    """

    def __init__(self, cls: type, name: str, write: Callable[[type], None]) -> None:
        self.cls, self.name, self.write = cls, name, write

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        with _LOCK:
            if self.cls.__dict__[self.name] is self:
                self.write(self.cls)
        written = self.cls.__dict__[self.name]
        return written.__get__(instance, owner) if hasattr(written, "__get__") else written


@overload
def frozen(cls: _Class) -> _Class: ...
@overload
def frozen(*, kw_only: bool = ..., eq: bool = ..., repr: bool = ...) -> Callable[[_Class], _Class]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    cls: _Class | None = None, *, kw_only: bool = False, eq: bool = True, repr: bool = True
) -> _Class | Callable[[_Class], _Class]:
    """Make a class a frozen dataclass, as `dataclass(frozen=True)` does, and return it; its methods are generated at first use.

    Methods that the class defines itself stay. A fault in its fields is raised at first use, too. `kw_only`, `eq` and
    `repr` are those of a dataclass.
    """
    if cls is None:
        return partial(frozen, kw_only=kw_only, eq=eq, repr=repr)  # type: ignore[return-value]
    _leave_unwritten(cls, partial(_make_dataclass, True, kw_only), ["__repr__"] * repr + ["__eq__", "__hash__"] * eq)
    _guard(cls)
    return cls


@overload
def mutable(cls: _Class) -> _Class: ...
@overload
def mutable(*, eq: bool = ..., repr: bool = ...) -> Callable[[_Class], _Class]: ...
@dataclass_transform(field_specifiers=(field,))
def mutable(cls: _Class | None = None, *, eq: bool = True, repr: bool = True) -> _Class | Callable[[_Class], _Class]:
    """Make a class a dataclass, as `dataclass` does, and return it; its methods are generated at first use as by `frozen`."""
    if cls is None:
        return partial(mutable, eq=eq, repr=repr)  # type: ignore[return-value]
    if eq and "__hash__" not in cls.__dict__:
        cls.__hash__ = None  # type: ignore[assignment]  # as a dataclass: what changes and compares has no hash
    _leave_unwritten(cls, partial(_make_dataclass, False, False), ["__repr__"] * repr + ["__eq__"] * eq)
    return cls


def _leave_unwritten(cls: type, make: Callable[[type], None], later: Iterable[str]) -> None:
    for names, write in ((_MADE_FIRST, make), (later, _write_methods)):
        for name in names:
            if cls.__dict__.get(name) is None:  # a class with an __eq__ of its own has None for its __hash__
                setattr(cls, name, _Unwritten(cls, name, write))


def _guard(cls: Any) -> None:
    """Make the class refuse to set or delete fields; on objects of this class itself, not of a subclass, any attribute."""

    def refuse(self: Any, name: str, what: str) -> None:
        if type(self) is cls or name in {one.name for one in fields(cls)}:
            raise FrozenInstanceError(f"cannot {what} field {name!r}")

    def set_attribute(self: Any, name: str, value: Any) -> None:
        refuse(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        refuse(self, name, "delete")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = set_attribute, delete_attribute


def _make_dataclass(is_frozen: bool, kw_only: bool, cls: type) -> None:
    """Replace the class's `__init__`, unless it defines one itself, and its field list by those of a dataclass with the same
    fields, those of bases included; in the class only defaults stay of its fields.
    """
    kinds: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for base in cls.__mro__[:0:-1]:
        inherited = {one.name: one for one in fields(base)} if is_dataclass(base) else {}
        kinds |= {name: one.type for name, one in inherited.items()}
        defaults |= inherited
    own = get_annotations(cls)
    kinds |= own
    defaults |= {name: getattr(cls, name, MISSING) for name in own}
    shown = {name: kind if any(one in str(kind) for one in _NO_FIELDS) else Any for name, kind in kinds.items()}
    described = {name: getattr(cls, name) for name in _TAKEN if hasattr(cls, name)} | {"__annotations__": shown}
    given = {name: default for name, default in defaults.items() if default is not MISSING}
    twin: Any = type(cls.__name__, (), {**described, **given, "__doc__": __doc__})
    dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(twin)
    for one in fields(twin):
        one.type = kinds[one.name]
    twin.__init__ = _init_of(twin, is_frozen)
    twin.__dataclass_params__.frozen = is_frozen
    for name in own:
        if isinstance(default := defaults[name], Field):
            if default.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, default.default)
    for name in _MADE_FIRST:  # __init__ last: a class has all of them, or none is used
        if isinstance(cls.__dict__[name], _Unwritten):
            setattr(cls, name, twin.__dict__[name])


class _Factory:
    """Default of a parameter whose value a function makes for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init_of(cls: type, is_frozen: bool) -> Callable[..., None]:
    """Return the `__init__` of a dataclass; Python's own for a frozen class brings two more methods, so it takes longer.

    Raises TypeError for a field without a default behind one that has one.
    """
    listed = [one for one in fields(cls) if one.init or one.default_factory is not MISSING]  # type: ignore[arg-type]
    given = sorted((one for one in listed if one.init), key=lambda one: bool(one.kw_only))
    known: dict[str, Any] = {"__set__": object.__setattr__, "__factory__": _FACTORY, "__name__": cls.__module__}
    parameters, lines, last = ["__self__"], list[str](), ""
    for one in given:
        if one.kw_only and "*" not in parameters:
            parameters.append("*")
        if one.default is MISSING and one.default_factory is MISSING:
            if last and not one.kw_only:
                raise TypeError(f"non-default argument {one.name!r} follows default argument")
            parameters.append(one.name)
            continue
        last = one.name
        known[f"__default_{last}__"] = _FACTORY if one.default is MISSING else one.default
        parameters.append(f"{last}=__default_{last}__")
    for one in listed:
        value = one.name if one.init else "__factory__"
        if one.default_factory is not MISSING:
            known[f"__make_{one.name}__"] = one.default_factory
            value = f"__make_{one.name}__() if {value} is __factory__ else {value}"
        lines.append(f" __set__(__self__, {one.name!r}, {value})" if is_frozen else f" __self__.{one.name} = {value}")
    lines += [" __self__.__post_init__()"] * hasattr(cls, "__post_init__")
    written: dict[str, Any] = {}
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *lines, " return None"]), known, written)
    init: Any = written["__init__"]
    init.__qualname__, init.__annotations__ = f"{cls.__qualname__}.__init__", {one.name: one.type for one in given}
    init.__annotations__["return"] = None
    return init  # type: ignore[no-any-return]


def _write_methods(cls: type) -> None:
    """Replace `__repr__`, `__eq__` and `__hash__` of `cls`, if still `_Unwritten`, by those of a dataclass with the same
    fields.
    """
    alike = [(one.name, Any, field(repr=one.repr, hash=one.hash, compare=one.compare)) for one in fields(cls)]  # type: ignore[arg-type]
    described = {"__doc__": __doc__}  # else a dataclass works out its signature, which takes longest
    twin = make_dataclass(cls.__name__, alike, namespace=described, init=False, unsafe_hash=True)
    for name in _MADE_LATER:
        if isinstance(cls.__dict__.get(name), _Unwritten):
            setattr(cls, name, twin.__dict__[name])
