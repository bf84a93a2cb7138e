"""The precision table as text, as CSV and as a picture, and in plain words what was lost where."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ascend_sim.numerics import format_of
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.report.columns import listed
from ascend_sim.report.files import as_csv
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.html import by_probe, results_name
from ascend_sim.report.png import png_figure, write_png
from ascend_sim.report.summary import before_words
from ascend_sim.studies.precision.run import PrecisionRow, PrecisionTable
from ascend_sim.studies.precision.summary import SHORT as _SHORT
from ascend_sim.studies.precision.summary import short as _short

_ROW_FIELDS = ("chip", "dtype", "cube_math_type", "accumulate", "status", "compute_dtype", "total_us", "same_as")
_FIGURES = (
    "correct", "decided_by", "worst_error_over_bound", "vendor_matched_ratio", "vendor_pass", "max_abs_error", "mere", "mare",
    "rmse", "cosine", "effective_bits", "operand_bits", "machine_bits", "bit_equal_share", "nonfinite", "products",
    "computed_in",
)  # fmt: skip


# -- the table ---------------------------------------------------------------------------------------------------------


def render(table: PrecisionTable, console: Console) -> None:
    """Print the table, the chips side by side where there are several, and the notes."""
    title = f"{table.operator} {table.case}: inputs {table.inputs}; {table.conformance}; {before_words({'l2': table.l2})}"
    say(console, title, style="bold")
    console.print(detail(table))
    if len(table.overflow) > 1:
        console.print(_side_by_side(table))
    console.print()
    for note in notes(table):
        say(console, note)


def detail(table: PrecisionTable) -> Grid:
    """Return a table with one line for each row and output, in which an output's figures stand beside its row's status and
    time.

    A row without outputs of its own takes one line: refused, or "as type N" where it repeats an earlier cubeMathType; such
    lines appear for the first model of additions only.
    """
    several_chips = len(table.overflow) > 1
    several_models = len({row.accumulate for row in table.rows}) > 1
    kind = results_name([name for row in table.rows for name in row.outputs])
    head = [*(["chip"] if several_chips else []), "inputs", ">type", *(["sums"] if several_models else []), kind]
    figures = [
        "status", "compute", ">us", "correct", ">matched", "vendor", ">max abs", ">MERE", ">MARE", ">RMSE", ">cosine", ">bits",
        ">bit-equal", ">inf/NaN",
    ]  # fmt: skip
    grid = Grid("", [*head, *figures], names=len(head))
    first = table.rows[0].accumulate if table.rows else ""
    for row in table.rows:
        own = bool(row.outputs) and row.same_as is None
        if not own and row.accumulate != first:
            continue  # equal for every model of additions
        lead = [*([row.chip] if several_chips else []), _SHORT[row.dtype], str(row.cube_math_type)]
        lead += [row.accumulate if own else "-"] if several_models else []
        status = "no kernels" if row.status is None else str(row.status)
        ran = [status, _short(row.compute_dtype), "-" if row.total_us is None else f"{row.total_us:.2f}"]
        if not own:
            said = "-" if row.same_as is None else Text(f"as type {row.same_as}", style="dim")
            grid.row(*lead, said, *ran, *[""] * (len(figures) - len(ran)))
        for name, gradient in row.outputs.items() if own else ():
            grid.row(*lead, name, *ran, *_cells(gradient))
            ran = [""] * len(ran)
    return grid


def _cells(figures: Mapping[str, Any]) -> list[Text | str]:
    right = figures["correct"]
    return [
        Text(("yes" if right else "WRONG") + by_probe(figures), style="green" if right else "bold red"),
        _share(figures["vendor_matched_ratio"]),
        "-" if figures["vendor_pass"] is None else "pass" if figures["vendor_pass"] else "fail",
        *("-" if (value := figures[key]) is None else f"{value:.2e}" for key in ("max_abs_error", "mere", "mare", "rmse")),
        f"{figures['cosine']:.8f}" if figures["cosine"] is not None else "-",
        _left(figures),
        _share(figures["bit_equal_share"]),
        str(figures["nonfinite"]),
    ]


def _side_by_side(table: PrecisionTable) -> Grid:
    """Return a table with a line for each (dtype, cubeMathType, model); each chip has columns for the compute format or
    status, the time and the effective bits of every output.

    Models after the first get a line only where some chip ran.
    """
    chips = list(table.overflow)
    names = dict.fromkeys(name for row in table.rows for name in row.outputs)
    title = f"\nSide by side (effective bits of {' / '.join(names)})"
    heads = ["inputs", ">type", "sums", *(column for chip in chips for column in (chip, ">us", ">bits"))]
    grid = Grid(title, heads, names=3)
    by_key: dict[tuple[str, int, str], dict[str, PrecisionRow]] = {}
    for row in table.rows:
        by_key.setdefault((row.dtype, row.cube_math_type, row.accumulate), {})[row.chip] = row
    first = table.rows[0].accumulate if table.rows else ""
    for (dtype, number, model), rows in by_key.items():
        if model != first and not any(row.outputs for row in rows.values()):
            continue
        cells = [_SHORT[dtype], str(number), model]
        for chip in chips:
            row = rows[chip]
            state = _short(row.compute_dtype) if row.status == 0 else str(row.status or "no kernels")
            bits = " / ".join(_left(figures) for figures in row.outputs.values())
            cells += [state, "-" if row.total_us is None else f"{row.total_us:.2f}", bits or "-"]
        grid.row(*cells)
    return grid


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}%"


def _bits(value: float | None) -> str:
    return "-" if value is None else "exact" if value == math.inf else f"{value:.1f}"


def _exact(figures: Mapping[str, Any]) -> bool:
    """Return True if the largest absolute error of an output is 0; its effective bits are then infinite, which a figure has as
    None.
    """
    return figures["max_abs_error"] == 0


def _left(figures: Mapping[str, Any]) -> str:
    return "exact" if _exact(figures) else _bits(figures["effective_bits"])


# -- in plain words ----------------------------------------------------------------------------------------------------


def notes(table: PrecisionTable) -> list[str]:
    """Return lines of text: for each computation of the first model of sums the bits that it drops in operands and results, and
    its warnings; then the rows that were refused or not simulated, the number of findings, if any, and what sums and verdicts
    mean, if anything ran.
    """
    lines = []
    several = len(table.overflow) > 1
    models = list(dict.fromkeys(row.accumulate for row in table.rows))
    groups: dict[tuple[str, str, str | None], list[PrecisionRow]] = {}
    for row in table.rows:
        if row.outputs and row.accumulate == models[0]:
            groups.setdefault((row.dtype, row.chip, row.compute_dtype), []).append(row)
    for rows in groups.values():
        row = rows[0]
        types = listed([str(number) for number in dict.fromkeys(one.cube_math_type for one in rows)])
        where = f" on {row.chip}" if several else ""
        lines.append(f"{_SHORT[row.dtype]}, cubeMathType {types}{where}: {_operands(row, table)}")
        lines += [
            f"  {_output(name, figures, OPERATORS[table.operator].summed(name))}" for name, figures in row.outputs.items()
        ]
        lines += [f"  warning: {text}" for text in dict.fromkeys(one.warning for one in rows) if text]
    lines += _refusals(table, several)
    found = sum(row.findings for row in table.rows if row.same_as is None)
    if found:
        lines.append(f"{found} findings (hazards, uninitialised reads): `ascend-sim run` names them.")
    if any(row.outputs for row in table.rows):
        lines.append(
            f"Sums are a model ({', '.join(models)}): the order in which the cube adds is not published, so no last bit here "
            "is the hardware's. The vendor's verdict holds results against unrounded inputs and is informative; "
            "`correct` is the verdict."
        )
    return lines


def _operands(row: PrecisionRow, table: PrecisionTable) -> str:
    compute, given = row.compute_dtype or "", format_of(row.dtype)
    if compute == row.dtype:
        return f"{_short(compute)} operands are multiplied as they are, sums are float32."
    if compute == "hf32":
        kept = table.hf32_bits[row.chip] or 0
        text = f"rounds both operands to hf32 as they enter the cube: {given.mantissa_bits - kept} bits dropped"
        text += ", results stay float32"
    else:
        wanted = format_of(compute)
        dropped = given.mantissa_bits - wanted.mantissa_bits
        bits = f"{dropped} bits dropped" if dropped > 0 else "no bits of the mantissa dropped"
        text = f"casts both operands to {compute} before the cube: {bits}"
        if wanted.max_exponent < given.max_exponent:
            text += f", range cut to {wanted.smallest:.1e} .. {wanted.max_finite:g}"
    changed = max((effect["changed"] for effect in row.operands.values()), default=0.0)
    text += f" ({_share(changed)} of the elements of an operand change)"
    for count, what in (("overflowed", "overflow"), ("to_zero", "become 0")):
        lost = {name: effect[count] for name, effect in row.operands.items() if effect[count]}
        if lost:
            text += "; " + ", ".join(f"{number:,} of {name} {what}" for name, number in lost.items())
    return text + "."


def _output(name: str, figures: Mapping[str, Any], summed: str | None) -> str:
    text = f"{name} sums up to {figures['products']:,} products in float32"
    if summed is not None:
        text = f"{name} sums {figures['products']:,} values of {summed} in its own dtype, in float32 (assumed)"
    steps = [_short(step) for step in figures["roundings"] if step != "float32"]
    if steps:
        dropped = 23 - min(format_of(step).mantissa_bits for step in figures["roundings"])
        text += f" and rounds them to {listed(steps)} ({dropped} bits dropped)"
    total = "exact" if _exact(figures) else f"{_bits(figures['effective_bits'])} effective bits"
    if figures["operand_bits"] == math.inf:
        return f"{text}: {total}{'' if _exact(figures) else ', all of the loss in sums and result'}."
    return (
        f"{text}: {total}; rounding the operands alone leaves {_bits(figures['operand_bits'])}, "
        f"sums and result alone {_bits(figures['machine_bits'])}."
    )


def _refusals(table: PrecisionTable, several: bool) -> list[str]:
    groups: dict[tuple[str, int | None, str], dict[str, None]] = {}
    for row in (row for row in table.rows if row.status != 0):
        cells = groups.setdefault((f" on {row.chip}" if several else "", row.status, row.message), {})
        cells[f"{_SHORT[row.dtype]} with {row.cube_math_type}"] = None
    return [
        f"{'Not simulated' if status is None else f'Refused with {status}'}{where}: {', '.join(cells)}: {message}"
        for (where, status, message), cells in groups.items()
    ]


# -- files -------------------------------------------------------------------------------------------------------------


def csv_text(table: PrecisionTable) -> str:
    """Return the table as CSV: a line per row and output, and one for a row without outputs; figures in full precision,
    non-finite ones empty.
    """
    rows = [[*_ROW_FIELDS, "gradient", *_FIGURES, "message"]]
    for row in table.to_dict()["rows"]:
        lead = [row[name] for name in _ROW_FIELDS]
        for name, figures in (row["outputs"] or {"": {}}).items():
            rows.append([*lead, name, *(figures.get(key) for key in _FIGURES), row["message"]])
    return as_csv(rows)


def plot(table: PrecisionTable, path: str | Path) -> None:
    """Write a PNG with an axis for each output: the distribution of log2 of the relative error, a line for each computed row.

    Rows that repeat another cubeMathType are left out. Raises SimError as `check_png` and `write_png`.
    """
    shown = [row for row in table.rows if row.outputs and row.same_as is None]
    names = list(dict.fromkeys(name for row in shown for name in row.outputs))
    figure = png_figure(path, 9, 1.2 + 2.6 * max(len(names), 1))
    axes = figure.subplots(max(len(names), 1), 1, sharex=True, squeeze=False)[:, 0]
    for axis, name in zip(axes, names, strict=False):
        for row in shown:
            if name in row.outputs:
                _line(axis, row, row.outputs[name], table)
        axis.set_ylabel(f"{name}\nshare of elements")
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("relative error, log2(|error| / |reference|)")
    axes[0].set_title(f"{table.case}: errors against float64 of the inputs ({table.inputs})")
    if names:
        axes[0].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    write_png(figure, path)


def _line(axis: Any, row: PrecisionRow, figures: Mapping[str, Any], table: PrecisionTable) -> None:
    histogram = figures["error_log2"]
    total = sum(histogram["counts"]) + histogram["exact"] + histogram["undefined"]
    label = f"{_short(row.dtype)} as {_short(row.compute_dtype)}"
    label += f", {row.accumulate}" if len({one.accumulate for one in table.rows}) > 1 else ""
    label += f", {row.chip}" if len(table.overflow) > 1 else ""
    if histogram["exact"]:
        label += f" ({_share(histogram['exact'] / total)} exact)"
    used = [index for index, count in enumerate(histogram["counts"]) if count]
    if used:
        span = range(max(used[0] - 1, 0), min(used[-1] + 2, len(histogram["counts"])))
        places = [histogram["low"] + index + 0.5 for index in span]
        axis.plot(places, [histogram["counts"][index] / total for index in span], drawstyle="steps-mid", label=label)
    else:
        axis.plot([], [], label=label)
