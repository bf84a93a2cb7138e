"""Messages for a wrong call of the kernel's language: the method's signature, or names near the one that does not exist."""

from __future__ import annotations

import inspect
import re
from difflib import get_close_matches
from typing import Any

from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.tensor import Tensor

_LANGUAGE = (Kernel, BufferQueue, LocalTensor, Tensor)
"""Classes whose objects a kernel function holds."""
_CALL = re.compile(r"(\w+)\.(\w+)\(\) ")
"""Start of Python's message about the arguments of a call: class and method."""


def explain_mistake(error: BaseException) -> str | None:
    """Return one line about wrong arguments or a name that the kernel's language lacks; None for any other error."""
    if isinstance(error, TypeError):
        return _about_call(" ".join(str(error).split()))
    if isinstance(error, AttributeError):
        return _about_name(error.obj, error.name)
    return None


def _about_call(text: str) -> str | None:
    """Return a line about wrong arguments of a method, with its signature, from Python's message; None for other messages."""
    match = _CALL.match(text)
    if match is None:
        return None
    owner, name = match.groups()
    for one in _LANGUAGE:
        method = getattr(one, name, None)
        if inspect.isfunction(method) and owner in {base.__name__ for base in one.__mro__} and name[0] != "_":
            return f"{_shown(one)}{name}() {text[match.end() :]}; allowed: {_shown(one)}{name}{_parameters(method)}"
    return None


def _about_name(holder: Any, name: str | None) -> str | None:
    """Return a line about a missing attribute, with up to three similar names; None for a `holder` outside the language."""
    kind = next((one for one in _LANGUAGE if isinstance(holder, one)), None)
    if kind is None or name is None:
        return None
    known = [one for one in dir(holder) if not one.startswith("_")]
    begun = [one for one in known if one.startswith(f"{name}_")]
    near = list(dict.fromkeys([*get_close_matches(name, known, n=3), *begun]))[:3]
    near = near or [one for one in known if name in one or one in name][:3]
    advice = f"near: {', '.join(f'{_shown(kind)}{one}' for one in near)}" if near else "see docs/instructions.md"
    return f"{_shown(kind)}{name} does not exist; {advice}"


def _shown(kind: type) -> str:
    """Return the text before a method's name in a message: "k." for the builder, else the class with a dot."""
    return "k." if kind is Kernel else f"{kind.__name__}."


def _parameters(method: Any) -> str:
    """Return the parameters of a method without types, with defaults: `(dst, src, *, rows=1)`."""
    signature = inspect.signature(method)
    empty = inspect.Parameter.empty
    plain = [one.replace(annotation=empty) for one in list(signature.parameters.values())[1:]]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
