"""Fits costs of a chip file to measured rows and writes them as an overlay: a chip file that extends the one it began with.

    python tools/calibrate.py PROF_000001/ --chip ascend910b3 --out mine.yaml
    python tools/calibrate.py ROWS.csv --chip ascend910b2 --field "launch.prologue_us.ReduceSum" --out mine.yaml
    ascend-sim validate --rows PROF_000001/ --chip ascend910b3        # before
    ascend-sim run resnet50_conv2_3x3 --mode timing --chip mine.yaml  # with the overlay

ROWS is what `ascend-sim validate --rows` reads: a CSV file, a profiler's table or its folder. Every field is tried at a few
factors of its value, one field at a time; times in between are interpolated, effects of several fields added up. The fields
are then set together to the least mean of abs(log(predicted / measured)) of task times, and what is printed as fitted is
simulated once more. Beside it stands the error of rows left out: each group is predicted with a fit on the others.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml

from ascend_sim.chip import load_chip
from ascend_sim.chip.files import is_path
from ascend_sim.errors import SimError
from ascend_sim.report.files import atomic_write
from ascend_sim.runtime.workers import spread, usable_cores
from ascend_sim.studies.validate.launch import MeasuredKernel, MeasuredRow
from ascend_sim.studies.validate.launches import LAUNCHES
from ascend_sim.studies.validate.pages import assumed_lines, group_by, skipped_lines
from ascend_sim.studies.validate.rows import FACTS, of_chips, read_rows
from ascend_sim.studies.validate.run import Prediction, RowComparison, as_timed, simulate
from ascend_sim.studies.validate.sealed import refuse_sealed

FACTORS = (0.5, 0.75, 1.0, 1.33, 2.0)
"""Factors of a field's value that are simulated."""
STEPS = 61
"""Values between the first and the last factor that a fit chooses from."""
FIELDS = (
    "launch.task_overhead_us.AIC", "launch.task_overhead_us.AIV", "launch.task_overhead_us.AI_CORE",
    "launch.core_start_us.AIC", "launch.core_start_us.AIV", "memory.hbm_gb_per_s",
    "memory.l2_read_bytes_per_cycle_per_aic", "memory.l2_write_bytes_per_cycle_per_aic",
)  # fmt: skip
"""Fitted when none is named, as far as the chip has them: what differs from system to system, not from kernel to kernel."""
NO_EFFECT = 1e-3
"""A field that changes no row by this part of its time cannot be fitted."""
FAR = 0.25
"""Error above which a row is named as not explained."""
GROUPS = ("network", "run", "layer", "batch", "none")

Values = Mapping[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print the errors before, after and left out, write the overlay; 2 for what cannot be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--chip", required=True, help="a chip's name or a chip file")
    parser.add_argument(
        "--field",
        action="append",
        help="dotted, as `ascend-sim chips NAME` prints it; again for more (default: launch, HBM, L2)",
    )
    parser.add_argument("--out", type=Path, required=True, help="the overlay (.yaml)")
    parser.add_argument(
        "--leave-out", choices=GROUPS, help="what is left out in turn; default: the column network, else the layer"
    )
    parser.add_argument("--jobs", type=int, default=usable_cores())
    given = parser.parse_args(arguments)
    try:
        fit(given.rows, given.chip, given.field, given.out, given.leave_out, given.jobs)
    except SimError as error:
        print(f"calibrate: {error}", file=sys.stderr)
        return 2
    return 0


def fit(path: Path, chip: str, fields: Sequence[str] | None, out: Path, leave_out: str | None = None, jobs: int = 1) -> None:
    """The whole of it; raises SimError for rows or fields that there are not."""
    if not is_path(str(out)):
        raise SimError(f"--out {out}: give a file that ends in .yaml, or --chip would not take it for a chip file")
    if not out.parent.is_dir():
        raise SimError(f"--out {out}: there is no folder {out.parent}")
    start = {field: value_of(chip, field) for field in fields or default_fields(chip)}
    given = of_chips(read_rows(path, chip=chip, facts=FACTS), [chip])
    with tempfile.TemporaryDirectory() as folder:
        bench = CostBench(chip, start, Path(folder), jobs)
        rows = bench.usable(given)
        print(f"{len(given)} rows, {len(rows)} of them simulated ({len({row.kernel for row in rows})} kernels)")
        for line in bench.notes:
            print(line)
        if not rows:
            raise SimError(f"{path}: no row of {chip} can be simulated")
        best = bench.fitted(rows)
        before, after = bench.percent(rows, start), bench.percent(rows, best)
        if after > before:  # effects of several fields are not quite their sum
            best, after = start, before
        print(f"mean error of task times: before {before:.1f} %, fitted {after:.1f} %")
        name, parts = groups(rows, leave_out)
        errors = bench.left_out(parts)
        for group, error in errors.items():
            print(f"left out {group}: {error:.1f} %")
        if errors:
            weights = [len(parts[group]) for group in errors]
            mean = float(np.average(list(errors.values()), weights=weights))
            print(f"mean error with each {name} left out in turn: {mean:.1f} %")
        for field in start:
            print(f"{field}: {start[field]:g} -> {best[field]:g}{bench.doubt(rows, field, best[field])}")
        for line in bench.unexplained(rows, best):
            print(line)
    source = f"fitted: {len(rows)} rows of {path.name}, mean error {before:.1f} % before, {after:.1f} % after"
    changed = {field: value for field, value in best.items() if value != start[field]}
    with atomic_write(out) as file:
        file.write(overlay(chip, changed, source, out.parent).encode())
    print(f"wrote {out}: {len(changed)} of {len(start)} fields changed")


class CostBench:
    """Predicted task times of rows under given values; every kernel is simulated once for each setting."""

    def __init__(self, chip: str, start: Values, folder: Path, jobs: int = 1) -> None:
        self.chip, self.start, self.folder, self.jobs = chip, start, folder, jobs
        self.notes: list[str] = []
        self._known: dict[tuple[MeasuredKernel, tuple[tuple[str, float], ...]], float] = {}

    def usable(self, rows: Sequence[MeasuredRow]) -> list[MeasuredRow]:
        """The rows that can be simulated; `notes` tells what was left out and assumed. SimError for a sealed row."""
        refuse_sealed(row.cells for row in rows)
        told = {row.kernel: Prediction(skipped=row.unlike) for row in rows if row.unlike}
        long = {
            row.kernel: Prediction(skipped="takes minutes")
            for row in rows
            if not row.unlike and LAUNCHES[row.kernel.op_type].is_long(row.kernel)
        }
        kernels = list(dict.fromkeys(row.kernel for row in rows if row.kernel not in told and row.kernel not in long))
        told |= long | dict(zip(kernels, spread(simulate, kernels, jobs=self.jobs, name="rows"), strict=True))
        self._known |= {(kernel, ()): told[kernel].task_us for kernel in kernels}
        compared = [RowComparison(row, Prediction(skipped=row.unlike) if row.unlike else told[row.kernel]) for row in rows]
        self.notes = [*skipped_lines(group_by(compared)), *assumed_lines(compared)]
        # A call that ran more than is simulated would bend the costs of what is.
        return [one.row for one in compared if not one.prediction.skipped]

    def times(self, rows: Sequence[MeasuredRow], values: Values) -> np.ndarray[Any, Any]:
        """Task times in us; SimError where a kernel cannot be simulated with these values."""
        self.run([(rows, values)])
        key = self._key(values)
        return np.array([self._known[row.kernel, key] for row in rows])

    def run(self, settings: Sequence[tuple[Sequence[MeasuredRow], Values]]) -> None:
        """Simulate what is not known of (rows, values), all of it at once."""
        work = dict.fromkeys((row.kernel, self._key(values)) for rows, values in settings for row in rows)
        files = {key: self._file(dict(key)) for _, key in work}
        as_run = {one: as_timed(replace(one[0], chip=files[one[1]])) for one in work if one not in self._known}
        trials = list(dict.fromkeys(as_run.values()))
        found = dict(zip(trials, spread(simulate, trials, jobs=self.jobs, name="rows"), strict=True))
        for one, trial in as_run.items():
            if found[trial].skipped:
                raise SimError(f"{trial.op_type}: {found[trial].skipped}")
            self._known[one] = found[trial].task_us

    def _key(self, values: Values) -> tuple[tuple[str, float], ...]:
        """Return the fields that differ from the start."""
        return tuple(sorted((field, value) for field, value in values.items() if value != self.start[field]))

    def _file(self, changed: Values) -> str:
        """A chip file with these values."""
        if not changed:
            return self.chip
        text = overlay(self.chip, changed, "fitted: trial", self.folder)
        file = self.folder / f"{hashlib.sha1(text.encode()).hexdigest()}.yaml"
        file.write_text(text)
        return str(file)

    def percent(self, rows: Sequence[MeasuredRow], values: Values) -> float:
        """Mean size of relative errors in percent."""
        return _percent(self.times(rows, values), rows)

    def _tried(self, field: str) -> list[float]:
        return sorted({_rounded(self.start[field], factor) for factor in FACTORS})

    def responses(self, rows: Sequence[MeasuredRow], field: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Tried values of a field, and what each adds to every row's time: [values], [values, rows]."""
        tried = self._tried(field)
        base = self.times(rows, self.start)
        return np.array(tried), np.array([self.times(rows, {**self.start, field: value}) - base for value in tried])

    def fitted(self, rows: Sequence[MeasuredRow]) -> dict[str, float]:
        """The fields set in turn on the sum of their effects, until none moves; of equal ones the nearest to the start.

        From several starts: where costs do much the same, none moves alone out of a valley of the loss.
        """
        start, measured, base = self.start, _measured(rows), self.times(rows, self.start)
        self.run([(rows, {**start, field: value}) for field in start for value in self._tried(field)])
        choices: dict[str, list[float]] = {}
        effects: dict[str, np.ndarray[Any, Any]] = {}
        for field in start:
            tried, added = self.responses(rows, field)
            if _without_effect(added, measured):
                choices[field], effects[field] = [start[field]], np.zeros((1, len(rows)))
                continue
            steps = {_rounded(start[field], factor) for factor in np.geomspace(FACTORS[0], FACTORS[-1], STEPS)}
            choices[field] = sorted(steps | {start[field]}, key=lambda value: abs(math.log(value / start[field])))
            effects[field] = np.array(
                [[np.interp(value, tried, row) for row in added.T] for value in choices[field]]
            )  # [choices, rows]

        def descended(at: dict[str, int]) -> tuple[float, dict[str, int]]:
            """The loss of the place where no field moves alone any more, and that place."""
            for _ in range(20):
                before = dict(at)
                for field in start:
                    others = base + sum((effects[other][at[other]] for other in start if other != field), np.zeros(len(rows)))
                    total = np.maximum(others + effects[field], 1e-9)
                    losses = np.round(np.abs(np.log(total / measured)).mean(axis=1), 6)
                    at[field] = int(np.argmin(losses))
                if at == before:
                    break
            return float(losses[at[field]]), at

        # Costs that do much the same have valleys of their own: from the start, and from either end of each field.
        ends = [{**dict.fromkeys(start, 0), field: end} for field in start for end in _ends(choices[field])]
        at = min((descended(place) for place in (dict.fromkeys(start, 0), *ends)), key=lambda found: found[0])[1]
        return {field: choices[field][at[field]] for field in start}

    def left_out_times(self, parts: Mapping[str, Sequence[MeasuredRow]]) -> dict[str, np.ndarray[Any, Any]]:
        """The task times of every group under a fit on the others; nothing with one group."""
        if len(parts) < 2:
            return {}
        fits = {group: self.fitted([row for name, rows in parts.items() if name != group for row in rows]) for group in parts}
        self.run([(parts[group], values) for group, values in fits.items()])
        return {group: self.times(parts[group], values) for group, values in fits.items()}

    def left_out(self, parts: Mapping[str, Sequence[MeasuredRow]]) -> dict[str, float]:
        """The mean size of relative errors of every group under a fit on the others, in percent."""
        return {group: _percent(times, parts[group]) for group, times in self.left_out_times(parts).items()}

    def doubt(self, rows: Sequence[MeasuredRow], field: str, value: float) -> str:
        """Return the reason why a fitted value means little, "" where it does not."""
        tried, added = self.responses(rows, field)
        if _without_effect(added, _measured(rows)):
            return "  (not fitted: it changes none of these rows)"
        if value in (tried[0], tried[-1]):
            return f"  (at the end of what was tried, {FACTORS[0]:g} to {FACTORS[-1]:g} times: something else may be the cause)"
        return ""

    def unexplained(self, rows: Sequence[MeasuredRow], values: Values) -> list[str]:
        """A line for each of the worst kernels that stay far off, and how many there are."""
        times, measured = self.times(rows, values), _measured(rows)
        errors: dict[MeasuredKernel, list[float]] = {}
        for row, error in zip(rows, times / measured - 1, strict=True):
            errors.setdefault(row.kernel, []).append(error)
        far = sorted(((fmean(all_of), kernel) for kernel, all_of in errors.items()), key=lambda one: -abs(one[0]))
        far = [one for one in far if abs(one[0]) > FAR]
        lines = [f"not explained: {kernel.op_type} {_sizes(kernel)}: {100 * error:+.0f} %" for error, kernel in far[:5]]
        return [*lines, f"not explained by these fields: {len(far)} of {len(errors)} kernels are more than {FAR:.0%} off"]


def groups(rows: Sequence[MeasuredRow], by: str | None = None) -> tuple[str, dict[str, list[MeasuredRow]]]:
    """Return the kind of groups to leave out in turn, and the rows of each: by a column, by layer (a kernel at any batch) or by
    batch.
    """
    if by is None:
        by = "network" if len({row.cells.get("network", "") for row in rows}) > 1 else "layer"
    parts: dict[str, list[MeasuredRow]] = {}
    for row in rows if by != "none" else ():
        if by == "layer":
            layer = _sizes(row.kernel, without=("N", "block_dim", "batch")) or _sizes(row.kernel)
            name = f"{row.kernel.op_type} {layer}"
        elif by == "batch":
            name = f"batch {row.kernel.get('N', row.kernel.get('batch', 1))}"
        else:
            name = row.cells.get(by, "")
        parts.setdefault(name, []).append(row)
    return by, dict(sorted(parts.items()))


def _sizes(kernel: MeasuredKernel, without: Sequence[str] = ()) -> str:
    return " ".join(f"{name}={size}" for name, size in kernel.sizes if name not in without)


def _measured(rows: Sequence[MeasuredRow]) -> np.ndarray[Any, Any]:
    return np.array([row.duration_us for row in rows])


def _ends(values: Sequence[float]) -> tuple[int, int]:
    """Return the indices of the smallest and the largest value."""
    return int(np.argmin(values)), int(np.argmax(values))


def _percent(times: np.ndarray[Any, Any], rows: Sequence[MeasuredRow]) -> float:
    return float(100 * np.abs(times / _measured(rows) - 1).mean())


def _without_effect(added: np.ndarray[Any, Any], measured: np.ndarray[Any, Any]) -> bool:
    """Return True if a field moves no row by more than a trifle."""
    return bool((np.abs(added) < NO_EFFECT * measured).all())


def _rounded(value: float, factor: float) -> float:
    """A multiple of a field's value, whole where the field is."""
    if factor == 1:
        return value
    return max(round(value * factor), 1) if isinstance(value, int) else float(f"{value * factor:.4g}")


def default_fields(chip: str) -> list[str]:
    """`FIELDS` as far as the chip has them."""
    return [field for field in FIELDS if _number(chip, field)]


def _number(chip: str, field: str) -> Any:
    node: Any = load_chip(chip).model_dump()
    for part in field.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return None if isinstance(node, bool) or not isinstance(node, int | float) else node


def value_of(chip: str, field: str) -> float:
    """A number of the chip file that can be scaled; SimError tells how to find their names."""
    number = _number(chip, field)
    if number is None:
        raise SimError(f"--field {field}: no number of {chip}; `ascend-sim chips {chip}` prints them, e.g. paths.GM->UB.head")
    if number <= 0:
        raise SimError(f"--field {field}: {number} in {chip}; factors of a value are tried, which needs one above 0")
    return float(number) if isinstance(number, float) else int(number)


def can_be_scaled(chip: str, field: str) -> bool:
    """Return whether factors of the field's value differ: 0 has none."""
    return _number(chip, field) != 0


def overlay(chip: str, values: Values, source: str, folder: Path) -> str:
    """The YAML of a chip that extends `chip` with these values, units as the chip file has them; it will lie in `folder`."""
    sources = load_chip(chip).sources
    tree: dict[str, Any] = {"extends": str(Path(chip).resolve()) if is_path(chip) else chip}
    if is_path(chip) and Path(chip).resolve().is_relative_to(folder.resolve()):
        tree["extends"] = str(Path(chip).resolve().relative_to(folder.resolve()))
    for field, value in values.items():
        node = tree
        *parents, leaf = field.split(".")
        for part in parents:
            node = node.setdefault(part, {})
        node[leaf] = {"value": value, "unit": sources[field].unit, "source": source}
    return yaml.safe_dump(tree, sort_keys=False)


if __name__ == "__main__":
    sys.exit(main())
