"""Measured rows that decided a cost, from the cost's `fitted_on`: `matmul.csv: series=AlexNet, K=32`."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import ConfigError
from ascend_sim.ops.kernels.cube.libraries import libraries
from ascend_sim.ops.kernels.cube.vendor import open_procedures
from ascend_sim.studies.validate.sealed import refuse_sealed

FOLDER = "measurements"


def folder() -> Path:
    """Return the path of the folder of the measured rows that ship with the package."""
    return Path(str(files("ascend_sim.configs"))) / FOLDER


def selected(text: str) -> list[Mapping[str, str]]:
    """Return the measured rows that `text` selects by file and columns, "matmul.csv: series=AlexNet, K=32".

    Raises ConfigError for another form, an unknown file or column, for no row, and for rows that must not be fitted on.
    """
    name, columns = _parse(text)
    rows = _rows(name)
    unknown = [column for column in columns if column not in rows[0]]
    if unknown:
        raise ConfigError(f"fitted_on {text!r}: {name} has no column {unknown[0]!r}; it has {', '.join(rows[0])}")
    found = [row for row in rows if all(row[column] == value for column, value in columns.items())]
    if not found:
        raise ConfigError(f"fitted_on {text!r}: no row of {name} is so")
    refuse_sealed(found, f"fitted_on {text!r}")
    return found


def _parse(text: str) -> tuple[str, dict[str, str]]:
    """Return (file, {column: value}) of a text "FILE: column=value, column=value". Raises ConfigError for another form."""
    name, colon, rest = text.partition(": ")
    pairs = [part.partition("=") for part in rest.split(", ")]
    if not colon or not all(column and equals for column, equals, _ in pairs):
        raise ConfigError(f"fitted_on {text!r}: allowed is FILE: column=value, column=value")
    return name, {column: value for column, _, value in pairs}


@cache
def _rows(name: str) -> Sequence[Mapping[str, str]]:
    path = folder() / name
    if not path.is_file():
        raise ConfigError(f"fitted_on: {name} is no file of configs/{FOLDER}")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and line[0] != "#"]
    return list(csv.DictReader(lines))


def fitted_of(chip: ChipSpec) -> dict[str, tuple[str, Sequence[str]]]:
    """Return {name of a cost: (source, `fitted_on`)} for the costs of a chip whose value measured rows decided.

    Costs are numbers of the chip file (named by dotted path), of kernels of a library version, and of tilings. A source that
    begins with `fitted:` is a fit; another cost was derived, assumed or guessed, and the rows chose it.
    """
    found: dict[str, tuple[str, Sequence[str]]] = {
        place: (source.text, source.fitted_on)
        for place, source in chip.sources.items()
        if source.mark == "fitted" or source.fitted_on
    }
    for version, kernels in libraries().items():
        for name, kernel in kernels.items():
            if name == "source" or kernel["arch"] != chip.identity.arch:
                continue
            found |= {f"{version}, {name}.{cost}": leaf for cost, leaf in _decided(kernel).items()}
    for name, procedure in open_procedures().get(chip.identity.arch, {}).items():
        found |= {f"tilings.yaml: {name}.{number}": leaf for number, leaf in _decided(procedure).items()}
    return found


def _decided(numbers: Mapping[str, Any]) -> dict[str, tuple[str, Sequence[str]]]:
    """Return {name: (source, `fitted_on`)} of the numbers that measured rows decided: source `fitted:`, or with an entry
    `fitted_on`.
    """
    return {
        name: (leaf["source"], leaf.get("fitted_on", ()))
        for name, leaf in numbers.items()
        if isinstance(leaf, Mapping) and (leaf["source"].startswith("fitted:") or "fitted_on" in leaf)
    }
