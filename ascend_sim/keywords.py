"""Near names for errors: of keywords that a function does not know, and of layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def check_keywords(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError for the first keyword that a function does not know, with the nearest one that it knows."""
    for name in given:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{near_hint(name, known)}")


def near_hint(name: str, known: Collection[str]) -> str:
    """Return the end of an error message, "; did you mean 'chip'?", for an unknown name; "" without a near one."""
    from difflib import get_close_matches  # an error alone needs it

    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def near_known(name: str, known: Collection[str]) -> list[str]:
    """Return up to three known names: those that contain `name`, else those that are like it or begin like it; [] for ""."""
    from difflib import get_close_matches

    if not name:
        return []
    inside = [one for one in known if name in one]
    whole = {one[: len(name)]: one for one in reversed(list(known))} | {one: one for one in known}
    return (inside or list(dict.fromkeys(whole[part] for part in get_close_matches(name, whole, n=3))))[:3]


def near_names(function: Function) -> Function:
    """Return `function`, wrapped so that its TypeError for an unknown keyword names the nearest known one."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def face(*given: Any, **named: Any) -> Any:
        if not named.keys() <= known.keys():
            check_keywords(function.__name__, named, known)
        return function(*given, **named)

    return face  # type: ignore[return-value]
