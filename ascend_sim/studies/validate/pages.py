"""Errors of predictions against measurements: the table, and all rows as CSV."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
from rich.console import Console

from ascend_sim.frozen import frozen
from ascend_sim.report.files import as_csv
from ascend_sim.report.grid import Grid, say
from ascend_sim.studies.validate.instruction_points import ComparedPoint
from ascend_sim.studies.validate.launch import PIPES
from ascend_sim.studies.validate.launches import MICROBENCHMARKS
from ascend_sim.studies.validate.rows import unknown_operator
from ascend_sim.studies.validate.run import RowComparison

FAR = 0.75
"""Precision of a published point, 1 - abs(error), below which it counts as far off."""

FEW = 3
"""Distinct measured kernels below which a rank correlation says nothing."""


@frozen
class Errors:
    """Relative errors of one predicted quantity over `rows` rows, in percent: mean and median of their size, their signed
    mean (`bias`).

    `worst` is the error of the largest size, with its sign.
    """

    rows: int
    mean: float
    median: float
    bias: float
    worst: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Errors | None:
        """Return the errors of (predicted, measured) pairs; pairs with a measured 0 are left out. None if no pair is left."""
        errors = [100 * (predicted - measured) / measured for predicted, measured in pairs if measured > 0]
        if not errors:
            return None
        sizes = [abs(error) for error in errors]
        return cls(len(errors), fmean(sizes), median(sizes), fmean(errors), max(errors, key=abs))

    def to_dict(self) -> dict[str, Any]:
        """Return "rows", and "mean_pct", "median_pct", "bias_pct", "worst_pct" in percent."""
        sizes = {"mean_pct": self.mean, "median_pct": self.median, "bias_pct": self.bias, "worst_pct": self.worst}
        return {"rows": self.rows, **sizes}


@frozen
class Group:
    """Errors of the measured rows of one chip, operator and series: of task and core time and of the busy time of each pipe.

    `kernels` counts the distinct ones. `rank` is Spearman's rank correlation of task times, None with fewer than three distinct
    kernels or equal times on one side. `skipped` counts rows by the reason why they were not simulated.
    """

    chip: str
    op_type: str
    series: str
    kernels: int
    task: Errors | None
    rank: float | None
    core: Errors | None
    pipes: Mapping[str, Errors]
    skipped: Mapping[str, int]


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, equal values sharing their mean rank; None with fewer than two values or a
    constant side.
    """
    a, b = _ranks(first), _ranks(second)
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray[Any, Any]:
    _, inverse, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def series_of(one: RowComparison) -> str:
    """Return the row's series, with the path of a small program in front; "" without both."""
    return ", ".join(filter(None, (one.row.kernel.label("path"), one.row.series)))


def group_by(compared: Sequence[RowComparison], label: Callable[[RowComparison], str] = series_of) -> list[Group]:
    """Return one Group for every combination of chip, op_type and the text `label(row)`, sorted by these three."""
    parts: dict[tuple[str, str, str], list[RowComparison]] = {}
    for one in compared:
        kernel = one.row.kernel
        parts.setdefault((kernel.chip, kernel.op_type, label(one)), []).append(one)
    return [_group(*key, rows) for key, rows in sorted(parts.items())]


def _group(chip: str, op_type: str, series: str, rows: Sequence[RowComparison]) -> Group:
    shown = [one for one in rows if not one.prediction.skipped]
    pairs = [(one.prediction.task_us, one.row.duration_us) for one in shown]
    cores = [(one.prediction.core_us, one.row.core_us) for one in shown if one.row.core_us and not one.prediction.kernels]
    pipes = {}
    for pipe in PIPES:
        if errors := Errors.of([(one.prediction.pipes[pipe], one.row.pipes[pipe]) for one in shown if pipe in one.row.pipes]):
            pipes[pipe] = errors
    kernels = len({one.row.kernel for one in shown})
    rank = spearman(*zip(*pairs, strict=True)) if kernels >= FEW else None
    skipped = Counter(one.prediction.skipped for one in rows if one.prediction.skipped)
    return Group(chip, op_type, series, kernels, Errors.of(pairs), rank, Errors.of(cores), pipes, skipped)


HEADS = ("chip", "op_type", "rows", "kernels", "mean %", "median %", "bias %", "rank", "core mean %", "pipes: mean % (bias %)")


def table_rows(groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """Return a row of texts under `HEADS` for each group with a simulated row; small programs (`program_rows`) are left
    out.
    """
    rows: list[tuple[str, ...]] = []
    for group in groups:
        if group.task is None or group.op_type in MICROBENCHMARKS:
            continue
        task, lead = group.task, (group.chip, _name(group), str(group.task.rows), str(group.kernels))
        errors = f"{task.mean:.1f}", f"{task.median:.1f}", f"{task.bias:+.1f}"
        rank = "-" if group.rank is None else f"{group.rank:.3f}"
        core = "-" if group.core is None else f"{group.core.mean:.1f}"
        pipes = ", ".join(f"{pipe} {e.mean:.0f} ({e.bias:+.0f})" for pipe, e in group.pipes.items())
        rows.append((*lead, *errors, rank, core, pipes or "-"))
    return rows


def _name(group: Group) -> str:
    return f"{group.op_type}, {group.series}" if group.series else group.op_type


PROGRAM_HEADS = ("chip", "program", "rows", "median %", "worst %", "bias %")


def program_rows(groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """Return a row of texts under `PROGRAM_HEADS` for each group of small programs with a simulated row."""
    return [
        (group.chip, _name(group), str(task.rows), f"{task.median:.1f}", f"{task.worst:+.1f}", f"{task.bias:+.1f}")
        for group in groups
        if group.op_type in MICROBENCHMARKS and (task := group.task) is not None
    ]


def blind(compared: Sequence[RowComparison]) -> Errors | None:
    """Return the errors of task time over the small programs without a series; None if there are none.

    Rows without a series set no cost, and no other source contradicts them.
    """
    return Errors.of(
        [
            (one.prediction.task_us, one.row.duration_us)
            for one in compared
            if one.row.kernel.op_type in MICROBENCHMARKS and not one.row.series and not one.prediction.skipped
        ]
    )


def blind_line(errors: Errors) -> str:
    """Return one line with the number, median and worst error of the programs that set no cost."""
    rows = "program that sets" if errors.rows == 1 else "programs that set"
    return f"{errors.rows} small {rows} no cost: median error {errors.median:.1f} %, worst {errors.worst:+.1f} %"


def skipped_lines(groups: Sequence[Group]) -> list[str]:
    """Return a line with the number of skipped rows for each group and reason; operators without a kernel here share one
    line for each chip.
    """
    lines = []
    strangers: dict[str, Counter[str]] = {}
    for group in groups:
        for reason, count in sorted(group.skipped.items()):
            if reason == unknown_operator(group.op_type):
                strangers.setdefault(group.chip, Counter())[group.op_type or "(no operator)"] += count
            else:
                lines.append(f"{_rows(count)} of {group.chip} {_name(group)} skipped: {reason}")
    for chip, counts in strangers.items():
        names = ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        lines.append(f"{_rows(sum(counts.values()))} of {chip} skipped, operators without a kernel here: {names}")
    return lines


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def before_lines(compared: Sequence[RowComparison]) -> list[str]:
    """Return one line on the states of L2 and code before the simulated rows, the most frequent first; small programs do not
    count, [] without other rows.
    """
    found = Counter(
        f"L2 {one.row.kernel.l2}, code {one.row.kernel.launches}"
        for one in compared
        if not one.prediction.skipped and one.row.kernel.op_type not in MICROBENCHMARKS
    )
    return [f"at the start: {'; '.join(f'{state} ({n})' for state, n in found.most_common())}"] if found else []


def assumed_lines(compared: Sequence[RowComparison]) -> list[str]:
    """Return a line for each set of assumptions that a row of a profiler's table needed, with the number of simulated rows that
    share it, most first.
    """
    shown = [one for one in compared if not one.prediction.skipped]
    notes = Counter(one.row.cells["assumed"] for one in shown if one.row.cells.get("assumed"))
    return [f"assumed for {_rows(count)}: {note}" for note, count in notes.most_common()]


def render(compared: Sequence[RowComparison], console: Console) -> None:
    """Print a table of errors by chip and operator, one of small programs, and the lines of `note_lines`."""
    groups = group_by(compared)
    print_table("Task time, predicted against measured", HEADS, table_rows(groups), console)
    print_table("Small programs, predicted against measured", PROGRAM_HEADS, program_rows(groups), console)
    for line in note_lines(compared, groups):
        say(console, line)


def note_lines(compared: Sequence[RowComparison], groups: Sequence[Group]) -> list[str]:
    """Return the lines below the tables: small programs, states at the start, skipped rows and assumptions."""
    errors = blind(compared)
    lines = [] if errors is None else [blind_line(errors)]
    return [*lines, *before_lines(compared), *skipped_lines(groups), *assumed_lines(compared)]


def print_table(title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]], console: Console) -> None:
    """Print the rows below a title; nothing without rows."""
    if not rows:
        return
    marked = [
        f"~{head}" if head.startswith("pipes") else f">{head}" if number > 1 else head for number, head in enumerate(heads)
    ]
    table = Grid(title, marked, names=2)
    for row in rows:
        table.row(*row)
    console.print(table)


@frozen
class PointGroup:
    """Precision of an architecture's published vector tile operations: the number of compared points and the median.

    `far` counts those with a precision below 0.75, `skipped` those without a cost in the chip file.
    """

    arch: str
    points: int
    median: float
    far: int
    skipped: int


def group_points(compared: Sequence[ComparedPoint]) -> list[PointGroup]:
    """Return one PointGroup for every architecture that has points with a prediction."""
    groups = []
    for arch in sorted({one.point.arch for one in compared}):
        of_arch = [one for one in compared if one.point.arch == arch]
        found = [one.precision for one in of_arch if not one.skipped]
        if found:
            far = sum(precision < FAR for precision in found)
            groups.append(PointGroup(arch, len(found), median(found), far, len(of_arch) - len(found)))
    return groups


def points_text(groups: Sequence[PointGroup]) -> list[str]:
    """Return a line for every architecture: points, median precision, points far off and skipped."""
    return [
        f"vector tile operations of {group.arch}: {group.points} points, median precision {group.median:.3f}, "
        f"{group.far} below {FAR}; {group.skipped} without a cost here"
        for group in groups
    ]


def to_dict(compared: Sequence[RowComparison]) -> dict[str, Any]:
    """Return {"groups": the fields of every Group as plain data}, `rank` as "rank_correlation", errors by `Errors.to_dict`."""
    return {"groups": [_plain(group) for group in group_by(compared)]}


def _plain(group: Group) -> dict[str, Any]:
    return {
        "chip": group.chip,
        "op_type": group.op_type,
        "series": group.series,
        "kernels": group.kernels,
        "task": group.task and group.task.to_dict(),
        "rank_correlation": group.rank,
        "core": group.core and group.core.to_dict(),
        "pipes": {pipe: of.to_dict() for pipe, of in group.pipes.items()},
        "skipped": dict(group.skipped),
    }


def csv_text(compared: Sequence[RowComparison]) -> str:
    """Return every row with its own columns and the predictions as CSV; `skipped` is the reason where there is no
    prediction.

    `predicted_low_us` and `predicted_high_us` are the 80 % interval of `predicted_us`.
    """
    heads = list(dict.fromkeys(name for one in compared for name in one.row.cells))
    pipes = [f"predicted_{pipe}_us" for pipe in PIPES]
    of_calls = ["predicted_kernels", "kernel_error_pct"]
    interval = ["predicted_low_us", "predicted_high_us"]
    added = ["predicted_us", *interval, "error_pct", "predicted_core_us", *pipes, "predicted_block_dim", *of_calls, "skipped"]
    columns = [*heads, *added]
    rows: list[list[Any]] = [columns]
    for one in compared:
        line: dict[str, Any] = {**one.row.cells, "skipped": one.prediction.skipped}
        if not one.prediction.skipped:
            low, high = one.prediction.low_us, one.prediction.high_us
            ends = [None if math.isnan(end) else round(end, 4) for end in (low, high)]
            line |= {
                "predicted_us": one.prediction.task_us,
                **dict(zip(interval, ends, strict=True)),
                "error_pct": round(100 * one.error, 2),
                "predicted_core_us": one.prediction.core_us,
                **{f"predicted_{pipe}_us": value for pipe, value in one.prediction.pipes.items()},
                "predicted_block_dim": one.prediction.blocks or "",
                "predicted_kernels": " ".join(f"{name}={us:.2f}" for name, us in one.prediction.kernels),
                "kernel_error_pct": " ".join(f"{name}={100 * error:+.2f}" for name, error in one.kernel_errors),
            }
        rows.append([line.get(name) for name in columns])
    return as_csv(rows)
