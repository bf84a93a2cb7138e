"""One line for an entry of a YAML file that is not allowed: the field, what was given, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

__all__ = ["choices", "explain_error"]

_REQUIREMENTS = {
    "int_type": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}
"""What pydantic's type errors ask for, in the words of YAML."""


def explain_error(kind: type[BaseModel], error: ErrorDetails) -> str:
    """One line for a pydantic error: field, what was given, what is allowed."""
    location = [part for part in error["loc"] if part != "[key]"]
    field = ".".join(map(str, location))
    given = error["input"]
    match error["type"]:
        case "extra_forbidden":
            keys = [info.alias or key for key, info in _owner(kind, location).model_fields.items()]
            return f"{field}: unknown key{choices(str(location[-1]), keys)}"
        case "missing":
            return f"{field}: missing"
        case "literal_error":
            allowed = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
            return f"{field}: {given!r} given; allowed: {allowed}"
        case "value_error":
            text = str(error["ctx"]["error"])
            return f"{field}: {text}" if field else text
        case "greater_than_equal" | "greater_than":
            bound = f">= {error['ctx']['ge']}" if "ge" in error["ctx"] else f"> {error['ctx']['gt']}"
            return f"{field}: {given!r} given; must be {bound}"
        case "too_short" | "too_long":
            limit = error["ctx"].get("min_length", error["ctx"].get("max_length"))
            return f"{field}: {list(given)} given; must have {limit} values"
        case other:
            return f"{field}: {given!r} given; {_REQUIREMENTS.get(other, error['msg'].lower())}"


def _owner(kind: type[BaseModel], location: list[int | str]) -> type[BaseModel]:
    """The model that a key stands in: a file's own, or that of one of its entries."""
    if len(location) == 1:
        return kind
    fields = {info.alias or key: info.annotation for key, info in kind.model_fields.items()}
    annotation = fields[str(location[0])]
    models = (annotation, *get_args(annotation))
    return next(one for one in models if isinstance(one, type) and issubclass(one, BaseModel))


def choices(given: str, allowed: Mapping[str, Any] | list[str], title: str = "allowed") -> str:
    near = get_close_matches(given, list(allowed), n=1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f"; {title}: {', '.join(allowed)}"
