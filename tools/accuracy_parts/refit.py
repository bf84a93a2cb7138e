"""Costs fitted again without a layer's rows, and that layer predicted with them: the errors of rows that no cost has seen.

For the kernels of KINDS every fitted cost is fitted anew whose `fitted_on` names a row of theirs, one layer left out at a
time (of the 950's weight gradients, which are a row each, one row). Tilings, kernels and rules were written with all rows in
view, so what comes out is still a lower bound.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from calibrate import CostBench, Values, can_be_scaled, value_of

from accuracy_parts.fitted_on import fitted_of, selected
from accuracy_parts.rows import B2, DW, DX, FIRST
from accuracy_parts.structure import was_chosen_on
from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.cube.libraries import libraries
from ascend_sim.runtime.workers import usable_cores
from ascend_sim.studies.validate.launch import MeasuredKernel, MeasuredRow
from ascend_sim.studies.validate.run import as_timed, simulate

KINDS = (
    (B2, (DX, DW)), (FIRST, (DX, DW)), (B2, ("TransData",)), (B2, ("ReduceSum",)), (B2, ("MemSet",)),
    (FIRST, ("Cast",)), (FIRST, ("TransData",)), ("ascend950pr_9579", ("npu_conv3d_backward",)),
)  # fmt: skip
"""Chip and operators that are fitted together."""


@dataclass(frozen=True)
class Refit:
    """Fits without a layer: us of each kernel as it ships and left out, and the measured times of `rows`."""

    chip: str
    op_types: tuple[str, ...]
    fields: tuple[str, ...]
    rows: tuple[MeasuredRow, ...]
    layers: int
    shipped: Mapping[MeasuredKernel, float]
    left_out: Mapping[MeasuredKernel, float]

    def percent(self, times: Mapping[MeasuredKernel, float]) -> float:
        """Mean size of the rows' errors."""
        return float(100 * np.mean([abs(times[as_timed(row.kernel)] / row.duration_us - 1) for row in self.rows]))


class LibraryBench(CostBench):
    """Trials in this process, also of costs of a kernel of `configs/libraries.yaml`: fields `VERSION, OPERATOR.COST`."""

    def run(self, settings: Sequence[tuple[Sequence[MeasuredRow], Values]]) -> None:
        for rows, values in settings:
            key = self._key(values)
            wanted = dict.fromkeys(row.kernel for row in rows if (row.kernel, key) not in self._known)
            chip = self._file({field: value for field, value in key if not _of_library(field)})
            with _costs({field: value for field, value in values.items() if _of_library(field)}):
                trials = {kernel: as_timed(replace(kernel, chip=chip)) for kernel in wanted}
                self._known |= {(kernel, key): simulate(trial).task_us for kernel, trial in trials.items()}


def _of_library(field: str) -> bool:
    return ", " in field


@contextmanager
def _costs(values: Values) -> Any:
    leaves = {field: _leaf(field) for field in values}
    before = {field: leaf["value"] for field, leaf in leaves.items()}
    for field, leaf in leaves.items():
        leaf["value"] = values[field]
    try:
        yield
    finally:
        for field, leaf in leaves.items():
            leaf["value"] = before[field]


def _leaf(field: str) -> dict[str, Any]:
    version, _, rest = field.partition(", ")
    operator, _, cost = rest.partition(".")
    leaf: dict[str, Any] = libraries()[version][operator][cost]
    return leaf


def fitted_fields(chip: str, rows: Sequence[MeasuredRow]) -> tuple[str, ...]:
    """The costs that these rows fitted; what was derived or assumed and chosen by them stays as it is, and so does a 0."""
    cells = [dict(row.cells) for row in rows]
    return tuple(
        place
        for place, (source, texts) in fitted_of(load_chip(chip)).items()
        if source.startswith("fitted:")
        and (_of_library(place) or can_be_scaled(chip, place))
        and any(dict(row) in cells for text in texts for row in selected(text))
    )


def layer_of(row: MeasuredRow) -> str:
    """A convolution's sizes but for batch and blocks, a vector kernel's with all of them; a call is a layer of its own."""
    if "case" in row.cells:
        return row.cells["case"]
    other = ("N", "block_dim") if row.kernel.op_type in (DX, DW) else ("block_dim",)
    return str((row.kernel.labels, [(name, size) for name, size in row.kernel.sizes if name not in other]))


def refit(rows: Sequence[MeasuredRow], chip: str, op_types: tuple[str, ...], keep: Path | None = None) -> Refit:
    """Fits without each layer in turn, of the rows of these operators with sizes only; `keep` is where they stay."""
    given = [row for row in rows if row.kernel.chip == chip and row.kernel.op_type in op_types and not row.series]
    fields = fitted_fields(chip, given)
    file = None if keep is None else keep / f"refit-{_digest(given, chip, fields)}.json"
    if file is None or not file.exists():
        times = _fitted_again(given, chip, fields)
        if file is not None:
            file.write_text(json.dumps(times), encoding="utf-8")
    else:
        times = json.loads(file.read_text(encoding="utf-8"))
    used = [given[at] for at in times["rows"]]
    kernels = [as_timed(row.kernel) for row in used]
    shipped, left_out = (dict(zip(kernels, times[name], strict=True)) for name in ("shipped", "left_out"))
    return Refit(chip, op_types, fields, tuple(used), len({layer_of(row) for row in used}), shipped, left_out)


def _digest(given: Sequence[MeasuredRow], chip: str, fields: Sequence[str]) -> str:
    """Return a digest of the rows and of the numbers that their times depend on."""
    of_library = {field: _leaf(field)["value"] for field in fields if _of_library(field)}
    asked = (load_chip(chip).model_dump_json(), of_library, [(row.kernel, row.duration_us) for row in given], fields)
    return hashlib.sha256(repr(asked).encode()).hexdigest()


def _fitted_again(given: Sequence[MeasuredRow], chip: str, fields: Sequence[str]) -> dict[str, list[Any]]:
    """Return the rows that can be simulated, with their us as shipped and left out."""
    kind = LibraryBench if any(_of_library(field) for field in fields) else CostBench
    with tempfile.TemporaryDirectory() as folder:
        start = {field: _leaf(field)["value"] if _of_library(field) else value_of(chip, field) for field in fields}
        bench = kind(chip, start, Path(folder), usable_cores())
        used = bench.usable(given)
        parts: dict[str, list[MeasuredRow]] = {}
        for row in used:
            parts.setdefault(layer_of(row), []).append(row)
        known = {
            as_timed(row.kernel): float(us)
            for name, times in bench.left_out_times(parts).items()
            for row, us in zip(parts[name], times, strict=True)
        }
        return {
            "rows": [at for at, row in enumerate(given) if row in used],
            "shipped": [float(us) for us in bench.times(used, start)],
            "left_out": [known[as_timed(row.kernel)] for row in used],
        }


def refits(rows: Sequence[MeasuredRow], keep: Path | None = None) -> list[Refit]:
    """One for each of KINDS."""
    return [refit(rows, chip, op_types, keep) for chip, op_types in KINDS]


def refitted(found: Sequence[Refit]) -> str:
    """The table of the page."""
    lines = [
        "| chip | kernels | costs fitted again | rows | layers | as shipped: mean % | left out: mean % "
        "| in-sample all the same |",
        "|" + "---|" * 8,
    ]
    for one in found:
        cells = (
            one.chip, ", ".join(one.op_types), ", ".join(one.fields), len(one.rows), one.layers,
            f"{one.percent(one.shipped):.1f}", f"{one.percent(one.left_out):.1f}",
            ", ".join(op for op in one.op_types if was_chosen_on(row for row in one.rows if row.kernel.op_type == op)) or "-",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)
