"""A sweep as a table, a file of rows (CSV or Parquet), a heat map and a Pareto front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ascend_sim.errors import SimError
from ascend_sim.report.columns import counted
from ascend_sim.report.files import as_csv, atomic_write, write_text
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.png import png_figure, write_png
from ascend_sim.report.summary import before_words
from ascend_sim.studies.sweep.point import TRIED
from ascend_sim.studies.sweep.run import Row, Sweep

_SHOWN = ("us", "grad_input_us", "grad_weight_us", "grad_bias_us", "output_us", "layout_us", "l1", "error")
"""Columns of the table on a terminal, as far as there are any; a file has all."""
_MOST_CELLS = 200
"""Most cells of a heat map with a number in each."""


def render(
    sweep: Sweep, console: Console, *, top: int | None = None, columns: Sequence[str] | None = None, front: Sequence[Row] = ()
) -> None:
    """Print the rows, shortest time first and refused ones last, only the first `top` if given, then sentences on the best
    point, on tilings, and on an interruption.

    `columns` defaults to the usual ones; those that no row has are left out. Rows in `front` are marked with a star.
    """
    shown = [name for name in columns or _SHOWN if name in sweep.columns]
    rows = sorted(sweep.rows, key=lambda row: (row["status"] != 0, row.get("us") or 0.0))
    refused = len(sweep.ran) < len(rows)
    units = [f"{name} KiB" if name.endswith(("l1", "l0c")) else name.replace("_us", " us") for name in shown]
    heads = [f">{name}" for name in sweep.fields] + ["front"] * bool(front) + [f">{name}" for name in units]
    heads += ["~refused"] * refused
    before = f"; {before_words({'l2': sweep.l2})}" if sweep.l2 else ""
    table = Grid(f"{sweep.case}: {counted(len(rows), 'point')}{before}", heads, names=len(sweep.fields) + bool(front))
    for row in rows[:top]:
        cells = [value_text(row[name]) for name in sweep.fields]
        cells += ["*" if row in front else ""] * bool(front)
        cells += ["" if row["status"] != 0 else _cell(name, row.get(name)) for name in shown]
        code = f"{row['status']}: " if row["status"] else ""
        cells += ["" if row["status"] == 0 else f"{code}{row['reason']}"] * refused
        table.row(*cells)
    console.print(table)
    lines = [f"{len(rows) - top} more rows; --top shows more, --table writes all"] if top and len(rows) > top else []
    lines += [sentence(sweep), *tilings_words(sweep)]
    if not sweep.complete:
        lines.append("interrupted: only the points that were finished stand here")
    for line in lines:
        say(console, line)


def sentence(sweep: Sweep) -> str:
    """Return a sentence: how many points ran and were refused, the shortest time with its settings, and how much longer the
    longest takes; if the batch is varied, the shortest time for each image too.
    """
    best, refused = sweep.best, len(sweep.rows) - len(sweep.ran)
    counts = f"{counted(len(sweep.ran), 'point')} ran"
    counts += f", {refused} {'was' if refused == 1 else 'were'} refused" if refused else ""
    if best is None:
        return counts

    def setting(row: Row) -> str:
        return ", ".join(f"{name} {value_text(row[name])}" for name in sweep.fields)

    if len(sweep.ran) == 1:
        return f"{counts}: {best['us']:,.2f} us with {setting(best)}"
    worst = max(row["us"] for row in sweep.ran)
    if f"{worst:.2f}" == f"{best['us']:.2f}":
        return f"{counts}; each takes {best['us']:,.2f} us"
    longest = f"the longest {worst / best['us']:.2f} times that"
    text = f"{counts}; the shortest is {best['us']:,.2f} us with {setting(best)}, {longest}"
    if "batch" not in sweep.fields:
        return text
    row = min(sweep.ran, key=lambda row: row["us"] / row["batch"])
    return f"{text}; for each image the shortest is {row['us'] / row['batch']:,.2f} us with {setting(row)}"


def tilings_words(sweep: Sweep) -> list[str]:
    """Return sentences on how each point's tilings were chosen, and with a search on the kernels that larger buffers make
    slower.

    [] for a sweep that neither searches nor varies the chip's buffers, and without a search where fewer than two points ran.
    """
    if sweep.tile:
        words = f"tilings: the best that {TRIED} simulations of each cube kernel found at each point"
        return [words, *_slower_with_more(sweep)]
    if not any(name.startswith("chip.buffers.") for name in sweep.fields) or len(sweep.ran) < 2:
        return []
    if sweep.unchanged:
        return ["tilings unchanged: no kernel used the other size; try --tile"]
    return ["tilings: the call's own choice at each point; --tile searches better ones"]


def _slower_with_more(sweep: Sweep) -> Iterator[str]:
    """Yield a line for each cube kernel that larger buffers of the chip make slower, since its search missed a tiling that
    fits both.
    """
    for column in (name for name in sweep.columns if name.endswith("_searched")):
        kernel = column.removesuffix("_searched")
        us = f"{kernel}_us"
        ran = [row for row in sweep.ran if us in row]
        pairs = [(less, row) for row in ran for less in ran if _has_less(less, row, sweep.fields)]
        less, row = max(pairs, key=lambda pair: pair[1][us] - pair[0][us], default=(None, None))
        if less and row and less[us] < row[us]:
            field = next(name for name in sweep.fields if less[name] != row[name])
            whose = "" if less[column] else " (the call's own choice)"
            yield (
                f"{kernel}: {field} {row[field]} is slower than {less[field]}, whose tiling{whose} fits too; "
                f"{TRIED} simulations did not reach it"
            )


def _has_less(less: Row, row: Row, fields: Sequence[str]) -> bool:
    """Return True if two points differ in the sizes of buffers alone, and no buffer of `less` is larger."""
    apart = [name for name in fields if less[name] != row[name]]
    return bool(apart) and all(name.startswith("chip.buffers.") and less[name] < row[name] for name in apart)


def value_text(value: Any) -> str:
    """Return a field's value as the user writes it: a list as [1,2] without spaces, a bool in small letters, a float with at
    most six significant digits.
    """
    if isinstance(value, list | tuple):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith(("l1", "l0c")):
        return f"{value / 1024:,.1f}"
    if name.endswith("error"):
        return f"{value:.2e}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


# -- files ---------------------------------------------------------------------------------------------------------------


def check_table(path: Path) -> None:
    """Raise SimError for a file of rows that cannot be written: another ending than .csv or .parquet, no folder, for .parquet
    no pyarrow.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise SimError(f"--table {path}: give a file that ends in .csv or .parquet")
    if not path.parent.is_dir():
        raise SimError(f"--table {path}: there is no folder {path.parent}")
    if path.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise SimError("--table: Parquet needs pyarrow, which is not installed: pip install pyarrow") from None


def write_table(sweep: Sweep, path: str | Path) -> None:
    """Write every row with every column as CSV or Parquet, by the file's ending. Raises SimError as `check_table` does, and if
    writing fails.

    A Parquet column of mixed types becomes text, of ints and floats float.
    """
    target = Path(path)
    check_table(target)
    if target.suffix == ".csv":
        write_text(target, csv_text(sweep))
        return
    import pyarrow
    from pyarrow import parquet

    columns = {name: [_plain(row.get(name)) for row in sweep.rows] for name in sweep.columns}
    for name, values in columns.items():  # one type a column: texts where they are mixed
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and kinds != {int, float}:
            columns[name] = [None if value is None else value_text(value) for value in values]
        elif kinds == {int, float}:
            columns[name] = [None if value is None else float(value) for value in values]
    with atomic_write(target) as file:
        parquet.write_table(pyarrow.table(columns), file)


def csv_text(sweep: Sweep) -> str:
    """Return the sweep as CSV: a head, then a line for each row; lists as in YAML, an empty cell where a row lacks the
    column.
    """
    return as_csv([sweep.columns, *([_plain(row.get(name)) for name in sweep.columns] for row in sweep.rows)])


def _plain(value: Any) -> Any:
    return value_text(value) if isinstance(value, list | tuple) else value


# -- pictures ------------------------------------------------------------------------------------------------------------


def axes_of(values: Mapping[str, Sequence[Any]], axes: Sequence[str] = ()) -> tuple[str, str]:
    """Return the two fields of a heat map: `axes`, or else the first two of `values` (field: its values) that have several
    values.

    Raises SimError for fields that are not varied, for one given twice, and where there are not two.
    """
    chosen = list(axes) or [name for name, given in values.items() if len(given) > 1][:2]
    if len(chosen) != 2 or chosen[0] == chosen[1] or not set(chosen) <= values.keys():
        given = f"{', '.join(chosen) or 'none'}{'' if axes else ' with several values'}"
        raise SimError(f"--axes: {given}; a heat map has two different varied fields: {', '.join(values)}")
    return chosen[0], chosen[1]


def heat_map(sweep: Sweep, path: str | Path, *, column: str = "us", axes: Sequence[str] = ()) -> None:
    """Write a PNG heat map over two varied fields (`axes_of`): in each cell the smallest `column` over all other fields.

    A cell without a number is grey. In a map of at most 200 cells each shows its number, or "refused". Raises SimError for a
    column without numbers, and as `axes_of` and `check_png`.
    """
    values = {name: _values(sweep, name) for name in sweep.fields}
    across, down = axes_of(values, axes)
    xs, ys = values[across], values[down]
    grid = np.full((len(ys), len(xs)), np.nan)
    for row in sweep.numeric(column):
        place = ys.index(value_text(row[down])), xs.index(value_text(row[across]))
        grid[place] = np.fmin(grid[place], row[column])
    figure = png_figure(path, 2.5 + 0.85 * len(xs), 1.9 + 0.55 * len(ys))
    axis = figure.subplots()
    axis.set_facecolor("lightgrey")
    image = axis.imshow(grid, aspect="auto", origin="lower", cmap="viridis_r")
    axis.set_xticks(range(len(xs)), xs, rotation=30 if max(map(len, xs)) > 6 else 0)
    axis.set_yticks(range(len(ys)), ys)
    others = [name for name, given in values.items() if len(given) > 1 and name not in (across, down)]
    title = f"{sweep.case}: {_label(column)}{', least over ' * bool(others)}{', '.join(others)}"
    axis.set(xlabel=across, ylabel=down, title=title)
    figure.colorbar(image, label=_label(column))
    if grid.size <= _MOST_CELLS:
        middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
        for (y, x), value in np.ndenumerate(grid):
            text, dark = ("refused", False) if np.isnan(value) else (f"{value:,.4g}", value > middle)
            axis.text(x, y, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
    write_png(figure, path)


def pareto_plot(sweep: Sweep, path: str | Path, first: str, second: str) -> None:
    """Write a PNG: every point with numbers in the columns `first` and `second`, and the Pareto front (`Sweep.front`) with its
    settings. Raises SimError as `Sweep.front`, `check_png` and `write_png`.
    """
    rows = [row for row in sweep.numeric(first) if row in sweep.numeric(second)]
    front = sweep.front(first, second)
    figure = png_figure(path, 8, 5)
    axis = figure.subplots()
    axis.scatter([row[first] for row in rows], [row[second] for row in rows], s=14, alpha=0.5, label="points")
    ends = [row[first] for row in front], [row[second] for row in front]
    axis.plot(*ends, color="tab:green", marker="*", markersize=11, drawstyle="steps-post", label="front")
    for row in front:
        setting = ", ".join(value_text(row[name]) for name in sweep.fields if len(_values(sweep, name)) > 1)
        axis.annotate(setting, (row[first], row[second]), xytext=(5, 5), textcoords="offset points", fontsize=8)
    axis.set(xlabel=_label(first), ylabel=_label(second), title=sweep.case)
    axis.grid(alpha=0.3)
    axis.legend()
    write_png(figure, path)


def _label(column: str) -> str:
    units = {"us": "time, us", "l1": "L1, bytes", "error": "error, share of the exact result"}
    return units.get(column, column)


def _values(sweep: Sweep, name: str) -> list[str]:
    """Return the distinct values of a field as texts, in the order of the rows."""
    return list(dict.fromkeys(value_text(row[name]) for row in sweep.rows))
