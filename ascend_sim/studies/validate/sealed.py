"""Sealed rows: measured rows on which nothing may be fitted, so that their errors are those of new kernels.

`configs/measurements/sealed.yaml` has the salt and the sources of which rows are sealed. All rows of a group (source, operator,
shape, dtype, layout) are sealed, or none is. A copy of a sealed row that ships is sealed too, whatever columns it has lost.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ascend_sim.chip.files import is_path
from ascend_sim.errors import SimError
from ascend_sim.shipped import read_config
from ascend_sim.studies.validate.launches import COLUMNS, LAUNCHES

LAYOUT = ("dtype", "dtype_out", "dtypes", "format_in", "format_out", "shapes", "attrs")
"""Text columns of a group, beside its operator and sizes."""
_DECIDED = {name for launch in LAUNCHES.values() for columns in launch.helps.values() for name in columns}
_SIZES = tuple(name for name in COLUMNS if name not in _DECIDED)


@cache
def _split() -> Mapping[str, Any]:
    return read_config("measurements/sealed.yaml")


@cache
def measurement_files() -> Sequence[Path]:
    """Return the paths of the files of measured rows that ship."""
    folder = Path(str(files("ascend_sim.configs"))) / "measurements"
    return [*sorted(folder.glob("*.csv")), *sorted(folder.glob("later/*.csv"))]


def is_sealed(cells: Mapping[str, str]) -> bool:
    """Return True if the row with these columns is sealed: its group's hash, salted, is in the lower half, or it copies a
    shipped row of such a group.

    Rows of a `run` that sealed.yaml does not list are open unless they are copies, and so are those with the values that it
    names as open.
    """
    equal = _sealed_by_time().get(_number(cells.get("duration_us")), ())
    return _hashed(cells) or any(_copies(cells, sealed) for sealed in equal)


def _hashed(cells: Mapping[str, str]) -> bool:
    source = _split()["sources"].get(cells.get("run", "").strip())
    if source is None or any(cells.get(name, "") == value for name, value in source.get("open", {}).items()):
        return False
    return hashlib.sha256(f"{_split()['salt']} {_group(cells)}".encode()).digest()[0] < 128


def _group(cells: Mapping[str, str]) -> str:
    """Return the key of the row's group: run, operator, sizes and layout, without columns that the library decided such as
    block_dim.
    """
    names = ("run", "op_type", *_SIZES, *LAYOUT)
    return "|".join(f"{name}={cells[name].strip()}" for name in names if cells.get(name, "").strip())


@cache
def _sealed_by_time() -> Mapping[float | str, Sequence[Mapping[str, str]]]:
    """Return {measured us: the shipped rows of sealed groups that took them}."""
    found: dict[float | str, list[Mapping[str, str]]] = {}
    for path in measurement_files():
        lines = path.read_text(encoding="utf-8").splitlines()
        for cells in csv.DictReader(line for line in lines if not line.startswith("#")):
            if _hashed(cells):
                found.setdefault(_number(cells["duration_us"]), []).append(cells)
    return found


def _copies(cells: Mapping[str, str], sealed: Mapping[str, str]) -> bool:
    """Return True if two rows of equal time have sizes or shapes in common and differ in none that both have.

    A row that names another chip is not a copy; no chip and a user's chip file may be any chip.
    """
    chip = cells.get("chip", "").strip().lower()
    names = [name for name in (*_SIZES, "shapes") if cells.get(name) and sealed.get(name)]
    same = all(_number(cells[name]) == _number(sealed[name]) for name in names)
    return bool(names) and same and (not chip or is_path(chip) or chip == sealed["chip"])


def _number(text: str | None) -> float | str:
    """Return the number that a cell holds, or its text."""
    try:
        return float(text or "")
    except ValueError:
        return (text or "").strip()


def refuse_sealed(rows: Iterable[Mapping[str, str]], place: str = "") -> None:
    """Raise SimError, which begins with `place`, if one of the rows, given by their columns, is sealed."""
    for cells in rows:
        if is_sealed(cells):
            named = f" in run {cells['run']}" if cells.get("run") else ""
            raise SimError(
                f"{place}{': ' if place else ''}the row of {cells.get('op_type')}{named}, {cells.get('duration_us')} us, is "
                "sealed; costs are fitted on open rows alone (configs/measurements/sealed.yaml)"
            )
