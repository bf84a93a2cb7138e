"""Case files: one call of an operator in YAML, with a chip and a source of its tensors' values.

A case file names the arguments of the operator; left-out arguments have the operator's default, and a shape that
follows from the others may be left out. CASE is the name of a case that ships with the package, the path of a file, or
the address of a network's layer (`ascend_sim.ops.network`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from os.path import isfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ascend_sim.errors import ConfigError, why_no_file
from ascend_sim.numerics import encode
from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.case_data import draw
from ascend_sim.ops.case_entries import Case, choices, explain_error, spelled
from ascend_sim.ops.network import address_of, case_of_layer, load_network, network_names
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.tensor_files import load_tensors
from ascend_sim.shipped import read_config

_RULES_REFUSE = ("greater_than_equal", "greater_than", "too_short", "too_long")
"""Errors of a file, as pydantic calls them, for values that an operator's rules refuse with a status."""


def case_names() -> list[str]:
    """Return the names of the cases in the package, sorted."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _shipped().iterdir() if entry.name.endswith(".yaml"))


def load_case(name_or_path: str | Path, *, as_given: bool = False) -> Case:
    """Return the case of that name (in any case of letters), the case file at that path, or the layer at that address
    (`resnet50:conv1`). A shipped name comes before a file of that name; a `.npz` file that the case names is sought beside the
    case file.

    Raises ConfigError (one line: file, field, given value, allowed values): no such case, file or layer, a whole network, a
    Python file, broken YAML, an unknown key, a value that is not allowed, shapes that do not fit. With `as_given`, which does
    nothing for the layer of a network, faults that a call would refuse with a status raise nothing: shapes that contradict each
    other, values of attributes and dtypes that no rule allows.
    """
    if not isinstance(name_or_path, str | Path):
        raise ConfigError(f"a {type(name_or_path).__name__} given; allowed are a case's name, the path of its file, and a Case")
    name = str(name_or_path)
    if not name.strip():
        raise ConfigError(f"CASE {name!r}: nothing given{choices(name, case_names(), 'shipped cases')}")
    own = spelled(name, case_names())
    path = _shipped() / f"{own}.yaml" if own in case_names() else Path(name)
    if not isfile(path):
        if address := address_of(name):
            return case_of_layer(*address)
        if spelled(name, network_names()) in network_names():
            raise _is_a_network(name, load_network(name).layers[0].name)
        networks = [one for one in network_names() if name in [layer.name for layer in load_network(one).layers]]
        if addresses := [f"{network}:{name}" for network in networks]:
            raise ConfigError(f"{name}: that is a layer of a network; its address is {' or '.join(addresses)}")
        raise ConfigError(
            f"{name}: {why_no_file(path)}, and no case of that name{choices(name, case_names(), 'shipped cases')}"
        )
    if path.suffix == ".py":
        raise ConfigError(f"{name}: that is a Python file; a case is YAML. A kernel in it: kernel {name}, or check {name}")
    if own in case_names():
        entries = read_config(f"cases/{own}.yaml")
    else:
        from ascend_sim.yaml_file import read_yaml  # a user's file alone needs it

        entries = read_yaml(path, "a case file is a mapping of field names to values")
    operator = entries.get("operator")
    if operator is None and "layers" in entries:
        raise _is_a_network(name, load_network(path).layers[0].name)
    if str(operator) not in OPERATORS:
        given = "missing" if operator is None else f"{operator!r} is unknown"
        raise ConfigError(f"{path}: operator: {given}{choices(str(operator), list(OPERATORS))}")
    kind = OPERATORS[str(operator)].case
    try:
        case = _as_given(kind, entries, OPERATORS[str(operator)].attributes) if as_given else kind.model_validate(entries)
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain_error(kind, error)}") from error
    return case.with_file(path.parent / case.data.file) if case.data.file else case


def _as_given(kind: type[Case], entries: Mapping[str, Any], attributes: Sequence[str]) -> Case:
    """Return a case validated from `entries`, but with values that only a call may have: any numbers for `attributes`,
    any dtype.

    Refused numbers are left out and dtypes replaced while the other entries are validated; then the given values are
    put back. Raises pydantic's ValidationError for any other fault.
    """
    context = {"as_given": True}
    try:
        return kind.model_validate(entries, context=context)
    except ValidationError as error:
        wrong = [(one["type"], [part for part in one["loc"] if part != "[key]"]) for one in error.errors()]
    fields = kind.model_fields
    numbers = {str(at[0]) for what, at in wrong if at and what in _RULES_REFUSE and at[0] in attributes}
    typed = {str(at[0]) for what, at in wrong if what == "literal_error" and at[1:] == ["dtype"] and at[0] in fields}
    for_all = any(what == "literal_error" and at == ["dtype"] for what, at in wrong)
    plain = {name: value for name, value in entries.items() if name not in numbers}
    plain |= {name: {**entries[name], "dtype": None} for name in typed}
    if typed or for_all:
        # Of what follows from a tensor with another dtype.
        plain["dtype"] = "float32" if for_all else entries.get("dtype") or "float32"
    case = kind.model_validate(plain, context=context)
    given: dict[str, Any] = {}
    for name in numbers:
        value = entries[name]
        per_axis = isinstance(value, int) and fields[name].annotation is not int
        given[name] = (value,) if per_axis else tuple(value) if isinstance(value, list) else value
    if for_all:
        given["dtype"] = str(entries["dtype"])
    for name in typed:
        given[name] = getattr(case, name).model_copy(update={"dtype": str(entries[name]["dtype"])})
    return case.model_copy(update=given)


def case_label(name: str | Path) -> str:
    """Return a short name of a case for titles and folders: its own, its file's without folder and suffix, or for an address
    NETWORK-LAYER, with `-` for each further `:` and `/`.
    """
    network, layer = address_of(str(name)) or (name, "")
    return "-".join([Path(network).stem, *layer.replace("/", "-").split(":")]) if layer else Path(network).stem


def _is_a_network(name: str, layer: str) -> ConfigError:
    return ConfigError(f"{name}: that is a network: run-network {name}, or a layer of it, {name}:{layer}")


def make_tensors(case: Case) -> dict[str, NDArray[Any]]:
    """Return name -> array for the tensors of a case: read from its `.npz` file, or drawn (bfloat16 as ml_dtypes arrays, 8-bit
    formats as uint8 codes).

    Every drawn tensor has a PCG64 stream of its own, seeded with the case's seed and the tensor's name, so that the shape of
    one changes no other; values are multiplied by the case's `scale` in float32, then rounded to the dtype, where they may
    overflow. Raises TensorFileError when the case's file cannot be read or lacks what the case needs.
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
