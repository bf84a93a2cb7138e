"""Case files: one call of an operator in YAML, with a chip and a way to make its tensors.

A case file names the arguments of the operator; what is left out has the operator's default, and a shape that follows
from the others may be left out. CASE is the name of a case that ships with the package or the path of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ascend_sim.errors import ConfigError
from ascend_sim.numerics import encode
from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.case_data import draw
from ascend_sim.ops.case_entries import Case, DataEntry, TensorEntry
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.tensor_files import load_tensors
from ascend_sim.yaml_file import read_yaml

__all__ = [
    "Case",
    "DataEntry",
    "TensorEntry",
    "case_names",
    "explain_error",
    "load_case",
    "make_tensors",
]

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


def case_names() -> list[str]:
    """Names of the cases that ship with the package, sorted."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _shipped().iterdir() if entry.name.endswith(".yaml"))


def load_case(name_or_path: str | Path) -> Case:
    """The case of that name, or else the case file at that path.

    Raises ConfigError (one line: file, field, what was given, what is allowed): no such case or file, broken YAML, an
    unknown key, a value that is not allowed, shapes that do not fit.
    """
    name = str(name_or_path)
    if not name.strip():
        raise ConfigError(f"CASE {name!r}: nothing given{_choices(name, case_names(), 'shipped cases')}")
    path = _shipped() / f"{name}.yaml" if name in case_names() else Path(name)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "no such file"
        raise ConfigError(f"{name}: {what}, and no case of that name{_choices(name, case_names(), 'shipped cases')}")
    entries = read_yaml(path, "a case file is a mapping of field names to values")
    operator = entries.get("operator")
    if str(operator) not in OPERATORS:
        given = "missing" if operator is None else f"{operator!r} is unknown"
        raise ConfigError(f"{path}: operator: {given}{_choices(str(operator), list(OPERATORS))}")
    kind = OPERATORS[str(operator)].case
    try:
        case = kind.model_validate(entries)
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain_error(kind, error.errors()[0])}") from error
    return case.with_file(path.parent / case.data.file) if case.data.file else case


def make_tensors(case: Case) -> dict[str, NDArray[Any]]:
    """The tensors of a case by name, in its shapes and dtypes (bfloat16 as ml_dtypes arrays, 8-bit formats as uint8 codes).

    Every tensor draws from a PCG64 stream of its own, seeded with the case's seed and the tensor's name, so that the
    shape of one changes no other. Raises TensorFileError when the case's file does not hold what the case needs.
    """
    if case.data.file is not None:
        return {name: array for name, (array, _) in load_tensors(case.data.file, case.tensors).items()}
    tensors = {}
    for name, (shape, dtype) in case.tensors.items():
        stream = np.random.SeedSequence([case.data.seed, *name.encode()])
        values = draw(case.data.distribution, name, shape, np.random.Generator(np.random.PCG64(stream)))
        values *= np.float32(case.data.scale)
        if dtype in EIGHT_BIT:
            tensors[name] = encode(values, dtype)
            continue
        with np.errstate(over="ignore"):  # a scale may well take float16 to infinity
            tensors[name] = values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype, copy=False)
    return tensors


def _shipped() -> Path:
    return Path(str(files("ascend_sim.configs"))) / "cases"


def explain_error(kind: type[BaseModel], error: ErrorDetails) -> str:
    """One line for a pydantic error: field, what was given, what is allowed."""
    location = [part for part in error["loc"] if part != "[key]"]
    field = ".".join(map(str, location))
    given = error["input"]
    match error["type"]:
        case "extra_forbidden":
            keys = [info.alias or key for key, info in _owner(kind, location).model_fields.items()]
            return f"{field}: unknown key{_choices(str(location[-1]), keys)}"
        case "missing":
            return f"{field}: missing"
        case "literal_error":
            choices = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
            return f"{field}: {given!r} given; allowed: {choices}"
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


def _choices(given: str, allowed: Mapping[str, Any] | list[str], title: str = "allowed") -> str:
    near = get_close_matches(given, list(allowed), n=1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f"; {title}: {', '.join(allowed)}"
