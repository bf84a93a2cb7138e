"""Tables of the vendor's profiler as rows of `rows`.

Read are `op_summary_*.csv` of msprof, `kernel_details.csv` of torch_npu, and folders that hold some (`PROF_*`). Column
names: hiascend.com, Profiling, "op_summary (Operator Details)"; they differ between versions, case and unit included.

Column `assumed` lists the assumptions on sizes that are inferred from shapes (`inferred_sizes`); a row with a size left open is
not simulated, and `skipped` has the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ascend_sim.chip import load_chip
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.studies.validate.inferred_sizes import INFER, Open
from ascend_sim.studies.validate.launch import PIPES
from ascend_sim.studies.validate.profiler_line import NAMES, Line

FILES = ("op_summary_*.csv", "kernel_details.csv")
"""Names of the profiler's tables of kernels."""

_NEEDED = ("type", "duration", "input shapes", "input types", "input formats", "output shapes", "output types")
STATIC = {
    "Conv2DBackpropInputD": "Conv2DBackpropInput",
    "Conv2DBackpropFilterD": "Conv2DBackpropFilter",
    "Conv3DBackpropInputD": "Conv3DBackpropInput",
    "Conv3DBackpropFilterD": "Conv3DBackpropFilter",
    "ReduceSumD": "ReduceSum",
}
"""Operators compiled for one shape, by the name of the operator whose work they do."""


def tables(folder: Path) -> list[Path]:
    """Return the paths of msprof's tables anywhere below a folder, sorted; torch_npu's own where there are none, [] without
    either.
    """
    return next((found for name in FILES if (found := sorted(folder.rglob(name)))), [])


def is_op_summary(heads: Iterable[str]) -> bool:
    """Return True if the column names are those of a profiler's table, not those of `rows`."""
    names = _lower(heads)
    return bool(names & {"input shapes", "task duration(us)", "accelerator core"}) and "duration_us" not in names


def check_table(path: Path, heads: Iterable[str], chip: str | None) -> None:
    """Raise ConfigError for a table that lacks a needed column or for an unknown chip, SimError where no chip is given."""
    names = _lower(heads)
    missing = [NAMES[need][0].title() for need in _NEEDED if not names & set(NAMES[need])]
    if missing:
        raise ConfigError(
            f"{path}: a profiler's table without {', '.join(missing)}; msprof writes shapes with --task-time=l1, "
            "torch_npu from profiler level 1"
        )
    if chip is None:
        raise SimError(f"{path}: a profiler's table does not name its chip; give one with --chip")
    load_chip(chip)


def _lower(heads: Iterable[str]) -> set[str]:
    return {head.strip().lower() for head in heads}


def to_row(cells: Mapping[str, str], own: Sequence[str]) -> dict[str, str]:
    """Return a line of a profiler's table in the columns of `rows`, without chip. "skipped" is the reason where the line is of
    no launch that can be simulated; an unknown operator has none. "assumed" lists what was assumed for its sizes.

    `own` are columns that the user may have added, whole numbers that win over inferred sizes. Raises ValueError for text that
    is not the shape or number that its column needs.
    """
    line = Line(cells)
    row = {"op_type": STATIC.get(line["type"], line["type"]), "duration_us": line["duration"]}
    row |= _times(line)
    given = {name: line.text[name.lower()] for name in own if line.text.get(name.lower())}
    for name, text in given.items():
        if not text.isdigit():
            raise ValueError(f"{name}: {text!r} given; must be a whole number")
    assumed: list[str] = []
    try:
        if line["core"].upper().replace("_", " ") == "AI CPU":
            raise Open("runs on the AI CPU")
        if not line.number("duration"):
            raise Open("the profiler gives no time")
        infer = INFER.get(row["op_type"])
        row |= (infer(line, given, assumed) if infer else {}) | given
        empty = [name for name in own if row.get(name) == "0" and not name.startswith(("pad", "trans"))]
        if empty:
            raise Open(f"an operand without elements ({empty[0]} = 0)")
    except Open as reason:
        row["skipped"] = str(reason)
    if assumed:
        row["assumed"] = "; ".join(assumed)
    return row


def _times(line: Line) -> dict[str, str]:
    """Return {"aicore_time_us", "mac_ratio", ...}: time of the cores that worked (AIC or AIV), and each pipe's part of it;
    {} without a core time.
    """
    vector = "VECTOR" in line["core"].upper() or "AIV" in line["core"].upper()
    prefixes = ("aiv_", "") if vector else ("aic_", "")
    cores = ("aiv_time(us)", "aicore_time(us)") if vector else ("aicore_time(us)", "aic_time(us)")
    core = next(filter(None, (line.number(name) for name in cores)), None)
    if core is None:
        return {}
    row = {"aicore_time_us": repr(core)}
    for pipe in PIPES:
        for prefix in prefixes:
            time, ratio = line.number(f"{prefix}{pipe}_time(us)"), line.number(f"{prefix}{pipe}_ratio")
            if time is not None or ratio is not None:
                row[f"{pipe}_ratio"] = repr(time / core if time is not None else ratio)
                break
    return row
