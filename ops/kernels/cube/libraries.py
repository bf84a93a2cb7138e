"""Versions of the vendor's library with different kernels for the same operator (`configs/libraries.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ascend_sim.errors import SimError
from ascend_sim.shipped import read_config


@cache
def libraries() -> Mapping[str, Mapping[str, Any]]:
    """Return version -> {its source, and by operator its kernel's properties}, read once; the newest version is last."""
    found: Mapping[str, Mapping[str, Any]] = read_config("libraries.yaml")
    return found


def known_library(name: str | None) -> str:
    """Return a version's name as calls store it; "" for None, the newest. Raises SimError for an unknown version."""
    if name is not None and name not in libraries():
        raise SimError(f"library = {name!r}; allowed: {', '.join(libraries())} (configs/libraries.yaml), or None for the last")
    return name or ""


def version(library: str) -> str:
    """Return the name of the version that a call stores as `library`: itself, or the newest for ""."""
    return library or list(libraries())[-1]


def kernel_of(library: str, op_type: str) -> Mapping[str, Any]:
    """Return the properties of an operator's kernel in a version ("" for the newest), by name; KeyError for an unknown version,
    or an operator that it lacks.
    """
    found: Mapping[str, Any] = libraries()[version(library)][op_type]
    return found


def surrogates_of(library: str, op_type: str) -> dict[str, str]:
    """Return cost name -> text of its value, what it stands for and its mark, for costs of parts of a kernel that are not
    simulated; KeyError as in `kernel_of`.
    """
    costs = kernel_of(library, op_type).items()
    return {
        name: f"{cost['value']} {cost['unit']} for {cost['surrogate']} ({cost['source'].split(':')[0]})"
        for name, cost in costs
        if isinstance(cost, Mapping) and "surrogate" in cost
    }
