"""Fits costs of a chip file to measured rows and writes them as an overlay: a chip file that extends the one it began with.

    python tools/calibrate.py ROWS.csv --chip ascend910b2 --field "launch.prologue_us.ReduceSum" --out mine.yaml

ROWS is what `ascend-sim validate --rows` reads. Fields are fitted in the order given, each to the least mean of
abs(log(predicted / measured)) of task times, over factors of its present value. Beside the error of the fit stands the one of
rows left out: with more than one network (column `network`, else `run`), each is predicted with a fit on the others.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.report.files import atomic_write
from ascend_sim.validate import Row, of_chips, read_rows, simulate

FACTORS = (0.5, 0.7, 0.85, 0.95, 1.0, 1.05, 1.15, 1.4, 2.0)
"""Of a field's value, tried in each round; a second round refines around the best."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print the errors before, after and left out, write the overlay; 2 for what cannot be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--chip", required=True)
    parser.add_argument("--field", action="append", required=True, help="dotted, as `ascend-sim chips NAME` prints it")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        fit(given.rows, given.chip, given.field, given.out)
    except SimError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def fit(path: Path, chip: str, fields: Sequence[str], out: Path) -> None:
    """The whole of it; raises SimError for rows or fields that there are not."""
    rows = [row for row in of_chips(read_rows(path), [chip]) if not row.unlike]
    start = {field: _value(chip, field) for field in fields}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(chip, Path(folder))
        best = bench.fitted(rows, start)
        before, after = bench.percent(rows, start), bench.percent(rows, best)
        print(f"{len(rows)} rows of {chip}: mean error {before:.1f} %, fitted {after:.1f} %")
        for group, error in bench.left_out(rows, start):
            print(f"left out {group}: {error:.1f} %")
    for field in fields:
        print(f"{field}: {start[field]:g} -> {best[field]:g}")
    with atomic_write(out) as file:
        file.write(overlay(chip, best, f"fitted: {len(rows)} rows of {path.name}").encode())
    print(f"wrote {out}")


class Bench:
    """Errors of rows under given values; every distinct setting is simulated once."""

    def __init__(self, chip: str, folder: Path) -> None:
        self.chip, self.folder = chip, folder
        self._known: dict[tuple[object, tuple[tuple[str, float], ...]], float] = {}

    def predicted(self, row: Row, values: Mapping[str, float]) -> float:
        """Task time in us; SimError where the kernel cannot be simulated."""
        key = row.kernel, tuple(sorted(values.items()))
        if key not in self._known:
            file = self.folder / f"{abs(hash(key[1]))}.yaml"
            if not file.exists():
                file.write_text(overlay(self.chip, values, "fitted: trial"))
            found = simulate(replace(row.kernel, chip=str(file)))
            if found.skipped:
                raise SimError(f"{row.kernel.op_type}: {found.skipped}")
            self._known[key] = found.task_us
        return self._known[key]

    def loss(self, rows: Sequence[Row], values: Mapping[str, float]) -> float:
        """Mean of abs(log(predicted / measured))."""
        return fmean(abs(math.log(self.predicted(row, values) / row.duration_us)) for row in rows)

    def percent(self, rows: Sequence[Row], values: Mapping[str, float]) -> float:
        """Mean size of relative errors in percent."""
        return fmean(100 * abs(self.predicted(row, values) / row.duration_us - 1) for row in rows)

    def fitted(self, rows: Sequence[Row], start: Mapping[str, float]) -> dict[str, float]:
        """One field after the other, in two rounds of finer steps."""
        values = dict(start)
        for power in (1.0, 0.25):
            for field in values:
                whole = isinstance(start[field], int)
                tried = {round(values[field] * f**power) if whole else values[field] * f**power for f in FACTORS}
                values[field] = min(sorted(tried), key=lambda value: self.loss(rows, {**values, field: value}))
        return values

    def left_out(self, rows: Sequence[Row], start: Mapping[str, float]) -> list[tuple[str, float]]:
        """Every group with its error under a fit on the others; nothing with one group."""
        column = "network" if any(row.cells.get("network") for row in rows) else "run"
        groups = sorted({row.cells.get(column, "") for row in rows})
        found = []
        for group in groups if len(groups) > 1 else []:
            others = [row for row in rows if row.cells.get(column, "") != group]
            mine = [row for row in rows if row.cells.get(column, "") == group]
            found.append((group, self.percent(mine, self.fitted(others, start))))
        return found


def _path(field: str) -> list[str]:
    return field.split(".")


def _value(chip: str, field: str) -> float:
    """A number of the chip file; SimError names the fields that are like it."""
    node: Any = load_chip(chip).model_dump()
    for part in _path(field):
        node = node.get(part) if isinstance(node, dict) else None
    if isinstance(node, bool) or not isinstance(node, int | float):
        raise SimError(
            f"--field {field}: no number of {chip}; `ascend-sim chips {chip}` prints them, e.g. paths.GM->UB.head"
        )
    return node


def overlay(chip: str, values: Mapping[str, float], source: str) -> str:
    """The YAML of a chip that extends `chip` with these values, units as the chip file has them."""
    sources = load_chip(chip).sources
    tree: dict[str, Any] = {"extends": chip}
    for field, value in values.items():
        node = tree
        *parents, leaf = _path(field)
        for part in parents:
            node = node.setdefault(part, {})
        node[leaf] = {"value": value, "unit": sources[field].unit, "source": source}
    return yaml.safe_dump(tree, sort_keys=False)


if __name__ == "__main__":
    sys.exit(main())
