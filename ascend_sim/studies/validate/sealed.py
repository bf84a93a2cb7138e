"""Sealed rows: measured rows on which nothing may be fitted, so that their errors are those of new kernels.

`configs/measurements/sealed.yaml` has the salt and the sources of which rows are sealed. All rows of a group (source, operator,
shape, dtype, layout) are sealed, or none is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ascend_sim.errors import SimError
from ascend_sim.shipped import load_shipped
from ascend_sim.studies.validate.launches import COLUMNS, LAUNCHES

LAYOUT = ("dtype", "dtype_out", "dtypes", "format_in", "format_out", "shapes", "attrs")
"""Text columns of a group, beside its operator and sizes."""


@cache
def _split() -> Mapping[str, Any]:
    path = files("ascend_sim.configs").joinpath("measurements/sealed.yaml")
    return load_shipped(path.read_text(encoding="utf-8"))


def is_sealed(cells: Mapping[str, str]) -> bool:
    """Return True if the row with these columns is sealed: its group's hash, salted, is in the lower half.

    Rows of a `run` that sealed.yaml does not list are open, and those with the values that it names as open.
    """
    source = _split()["sources"].get(cells.get("run", "").strip())
    if source is None or any(cells.get(name, "") == value for name, value in source.get("open", {}).items()):
        return False
    return hashlib.sha256(f"{_split()['salt']} {_group(cells)}".encode()).digest()[0] < 128


def _group(cells: Mapping[str, str]) -> str:
    """Return the key of the row's group: run, operator, sizes and layout, without columns that the library decided such as
    block_dim.
    """
    decided = {name for launch in LAUNCHES.values() for columns in launch.helps.values() for name in columns}
    names = ("run", "op_type", *(name for name in COLUMNS if name not in decided), *LAYOUT)
    return "|".join(f"{name}={cells[name].strip()}" for name in names if cells.get(name, "").strip())


def refuse_sealed(rows: Iterable[Mapping[str, str]], use: str) -> None:
    """Raise SimError that names `use` if one of the rows, given by their columns, is sealed."""
    for cells in rows:
        if is_sealed(cells):
            raise SimError(
                f"{use}: the row of {cells.get('op_type')} in run {cells.get('run')} is sealed; costs are fitted on open rows "
                "alone (configs/measurements/sealed.yaml)"
            )
