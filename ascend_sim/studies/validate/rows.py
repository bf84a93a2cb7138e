"""Measured rows: read from a file of one's own, from a profiler's tables, or as they ship with the package.

A row is one launch. Columns of a file of one's own: chip, op_type, dtype, duration_us, the sizes of the kernel (`launches`),
`block_dim` for the cube kernels, and where counters exist aicore_time_us and mac_ratio, mte1_ratio, ... (parts of it). Lines
that begin with # are comments, other columns are carried along.

Only these facts of a row reach the simulator: chip, operator, dtypes, formats, sizes; the state before it (column l2, where a
source cleared it or repeated the kernel; column launches, warm where the same kernel ran shortly before); and the version of
the library (column library, of whole calls). Two more reach it if `facts` names them: the row's blocks, and the known tiling of
a MatMul.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os.path import exists, isdir
from pathlib import Path
from typing import Any

from ascend_sim.chip import load_chip
from ascend_sim.chip.files import is_path, read_layers
from ascend_sim.errors import ConfigError, SimError, why_no_file
from ascend_sim.studies.validate import op_summary
from ascend_sim.studies.validate.launch import L2_STATES, LAUNCH_STATES, PIPES, REPEATED, STEP, MeasuredKernel, MeasuredRow
from ascend_sim.studies.validate.launches import COLUMNS, LAUNCHES
from ascend_sim.studies.validate.profile_order import moved_by, note_launches
from ascend_sim.studies.validate.profiler_line import Line
from ascend_sim.studies.validate.sealed import is_sealed, measurement_files

CHIPS = {"ascend910b_gen1": "ascend910b"}
"""Other names of chips in published tables: the first 910 with 30 cores."""

FACTS = ("block_dim", "tiling")
"""Facts of a measured row that a prediction may be given beside the problem: its blocks, and the base block and share of a core
of a MatMul.
"""

_LABELS = ("dtype_out", "format_in", "format_out", "path", "quantity", "kernels", "library")
_FLAGS = ("trans_a", "trans_b", "bypass")
_FROM_ZERO = ("pad_d_total", "pad_h_total", "pad_w_total", *_FLAGS)


def shipped_rows(l2: str = "warm", facts: Collection[str] = ()) -> list[MeasuredRow]:
    """Return the measured rows of the package that are not sealed.

    `l2` is the L2 state of rows without one of their own; `facts` names the measured facts that a prediction may use:
    "block_dim" (a row's blocks), "tiling" (of a MatMul).
    """
    return [row for row in _all_shipped(l2, facts) if not is_sealed(row.cells)]


def sealed_rows() -> list[MeasuredRow]:
    """Return the measured rows of the package that are sealed, for pages that print errors; the L2 of rows without a state of
    their own is warm.
    """
    return [row for row in _all_shipped("warm", ()) if is_sealed(row.cells)]


def _all_shipped(l2: str, facts: Collection[str]) -> list[MeasuredRow]:
    return [row for path in measurement_files() for row in read_rows(path, l2, facts=facts)]


def read_rows(
    path: str | Path, l2: str | None = None, chip: str | None = None, facts: Collection[str] = (), *, skip: bool = False
) -> list[MeasuredRow]:
    """Return the rows of a CSV file, or of a profiler's table or folder, whose `chip` must then be given.

    `l2` is one of L2_STATES or STEP, for rows without a state of their own; None is STEP for a profile with start times and
    warm for others. `facts` names the measured facts that a prediction may use: "block_dim" (a row's blocks), "tiling" (of a
    MatMul). Raises SimError for another `l2` or `facts`, for a profile without `chip`, and for STEP without start times;
    ConfigError for a file that cannot be read, and with file, line and column for an impossible value. With `skip` that row has
    the reason in `unlike` instead; the error is raised if no row is left.
    """
    path = Path(path)
    if l2 not in (None, *L2_STATES, STEP):
        raise SimError(f"l2 {l2!r}: allowed are {', '.join((*L2_STATES, STEP))}")
    strange = sorted(set(facts) - set(FACTS))
    if strange:
        raise SimError(f"facts: {strange[0]!r}: allowed are {', '.join(FACTS)}")
    found = op_summary.tables(path) if isdir(path) else [path]
    if not found:
        raise ConfigError(f"{path}: a folder without a profiler's table; looked for {' and '.join(op_summary.FILES)} below it")
    wrong: list[ConfigError] = []
    rows = [row for file in found for row in _read_file(file, l2, chip, facts, wrong)]
    if wrong and (len(wrong) == len(rows) or not skip):
        raise wrong[0]
    return rows


def _read_file(
    path: Path, l2: str | None, chip: str | None, facts: Collection[str], wrong: list[ConfigError]
) -> list[MeasuredRow]:
    """Return the rows of one file; a row that cannot be used has the reason in `unlike`, and its error is added to `wrong`.

    Raises ConfigError for a file that is missing, no text, without rows or without a needed column; SimError for a profile
    without `chip` and for `l2` STEP without start times.
    """
    if not exists(path) or path.is_char_device():  # a device may have no end
        raise ConfigError(f"{path}: {why_no_file(path)}; --rows takes a CSV of measured rows, or a profiler's folder")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as CSV text: {error}") from None
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    if len(numbered) < 2:
        raise ConfigError(f"{path}: no rows; a first line names the columns, every other line is a measured launch")
    heads = _cells(f"{path}, line {numbered[0][0]}", numbered[0][1])
    from_profiler = op_summary.is_op_summary(heads)
    if from_profiler:
        op_summary.check_table(path, heads, chip)
    missing = [name for name in ("chip", "op_type", "dtype", "duration_us") if name not in heads]
    if missing and not from_profiler:
        raise ConfigError(f"{path}: no column {', '.join(missing)} in the first line: {', '.join(heads)}")
    rows, parsed = [], list(_parsed(path, heads, numbered[1:]))
    moved: dict[int, Any] = {}
    if from_profiler and chip:
        in_order = {place: cells for place, (_, cells) in enumerate(parsed) if isinstance(cells, dict)}
        note_launches(list(in_order.values()), load_chip(chip))
        if l2 in (None, STEP):
            found_in_order = moved_by(list(in_order.values()), load_chip(chip))
            moved = {place: found_in_order[at] for at, place in enumerate(in_order) if at in found_in_order}
    if l2 == STEP and not moved:
        raise SimError(
            f"{path}: l2 'step' is what the earlier kernels of a profile leave; give a profiler's table with start times"
        )
    for place, (where, found) in enumerate(parsed):
        cells = {}
        try:
            if isinstance(found, ConfigError):
                raise found
            cells = found
            if from_profiler and chip:
                row = _profiled(where, cells, STEP if place in moved else l2 or "warm", chip, facts)
                if place in moved and not row.unlike:
                    of_step, before = moved[place]
                    row = replace(row, kernel=replace(row.kernel, moved=of_step, before=before))
            else:
                row = _row(where, cells, l2 or "warm", facts)
        except ConfigError as error:
            wrong.append(error)
            named = (chip, Line(cells)["type"]) if from_profiler else (cells.get("chip"), cells.get("op_type"))
            row = _skipped(*named, str(error), cells)
        rows.append(row)
    return rows


def _parsed(
    path: Path, heads: Sequence[str], numbered: Iterable[tuple[int, str]]
) -> Iterator[tuple[str, dict[str, str] | ConfigError]]:
    """Yield (place in words, {column: text}) for every numbered line, or (place, ConfigError) for one that is not CSV."""
    for number, line in numbered:
        where = f"{path}, line {number}"
        try:
            yield where, dict(zip(heads, _cells(where, line), strict=False))
        except ConfigError as error:
            yield where, error


def _cells(where: str, line: str) -> list[str]:
    try:
        return next(csv.reader([line]))
    except csv.Error as error:
        raise ConfigError(f"{where}: {error}") from None


def _skipped(chip: str | None, op_type: str | None, why: str, cells: Mapping[str, str]) -> MeasuredRow:
    """Return a row without sizes and times that is skipped with the reason `why`; characters that a terminal cannot show are
    escaped.
    """
    names = _chip_name((chip or "").strip()), op_type or ""
    chip, op_type = (name if name.isprintable() else repr(name)[1:-1] for name in names)
    return MeasuredRow(MeasuredKernel(chip, op_type, "", ()), math.nan, None, {}, "", why, cells)


def _profiled(where: str, cells: Mapping[str, str], l2: str, chip: str, facts: Collection[str]) -> MeasuredRow:
    """Return the row of a line of a profiler's table; one that cannot be simulated has the reason in `unlike`.

    Raises ConfigError, with the place `where`, for cells that are not a shape or a number.
    """
    try:
        row = {"chip": chip, "launches": cells.get("launches", ""), **op_summary.to_row(cells, COLUMNS)}
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    skipped = row.get("skipped") or _unlike(row["op_type"], "")
    found = _skipped(chip, row["op_type"], skipped, {}) if skipped else _row(where, row, l2, facts)
    return replace(found, cells={**cells, **row})


def of_chips(rows: Iterable[MeasuredRow], names: Iterable[str]) -> list[MeasuredRow]:
    """Return copies of the rows of the named chips, chip by chip, with that name as their chip. Raises SimError, with the chips
    that have rows, if one has none, and ConfigError for a chip file that cannot be used.

    A chip file of the user's takes the rows of the nearest chip that it extends; they then name the file.
    """
    rows = list(rows)
    found = sorted({row.kernel.chip for row in rows})
    chosen = []
    for given in names:
        name = _chip_name(given.strip())
        bases = [Path(layer.file).stem for layer in read_layers(name)] if is_path(name) else [name]
        base = next((base for base in (name, *bases) if base in found), None)
        if base is None:
            raise SimError(f"chip {name!r} has no measured rows; there are rows of {', '.join(found)}")
        load_chip(name)
        chosen += [replace(row, kernel=replace(row.kernel, chip=name)) for row in rows if row.kernel.chip == base]
    return chosen


def _row(where: str, cells: Mapping[str, str], l2: str, facts: Collection[str]) -> MeasuredRow:
    text = {name: value.strip() for name, value in cells.items()}
    chip = _chip_name(text.get("chip", ""))
    try:
        load_chip(chip)
    except ConfigError as error:
        raise ConfigError(f"{where}: chip: {error}") from None
    op_type = text.get("op_type", "")
    op_type = op_summary.STATIC.get(op_type, op_type)
    sizes = {name: _whole(where, name, text[name], name in _FROM_ZERO) for name in COLUMNS if text.get(name)}
    for name in _FLAGS:
        if sizes.get(name, 0) > 1:
            raise ConfigError(f"{where}: {name}: {text[name]!r} given; allowed: 0, 1")
    labels = {name: text[name] for name in _LABELS if text.get(name)}
    labels |= _formats(labels)
    own_states = (*L2_STATES, REPEATED)
    if text.get("l2", "") not in ("", *own_states):
        raise ConfigError(f"{where}: l2: {text['l2']!r} given; allowed: {', '.join(own_states)}")
    known = text.get("l2") or l2
    usual = "warm" if known == REPEATED else LAUNCHES[op_type].launches if op_type in LAUNCHES else "cold"
    launches = text.get("launches") or usual
    if launches not in LAUNCH_STATES:
        raise ConfigError(f"{where}: launches: {launches!r} given; allowed: {', '.join(LAUNCH_STATES)}")
    if known == REPEATED and launches == "cold":
        raise ConfigError(f"{where}: launches: 'cold' given; allowed with l2 {REPEATED!r}, where the same kernels ran: warm")
    unlike = _unlike(op_type, text.get("fused", "")) or LAUNCHES[op_type].unlike(labels, sizes)
    helps = LAUNCHES[op_type].helps if op_type in LAUNCHES else {}
    withheld = {column for name, columns in helps.items() if name not in facts for column in columns}
    sizes = {name: size for name, size in sizes.items() if name not in withheld}
    dtype, sorted_sizes = text.get("dtype", "").lower(), tuple(sorted(sizes.items()))
    kernel = MeasuredKernel(chip, op_type, dtype, sorted_sizes, tuple(labels.items()), known, launches)
    if not unlike:
        try:
            LAUNCHES[op_type].check(kernel)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
    core = _time(where, text, "aicore_time_us")
    ratios = {pipe: _time(where, text, f"{pipe}_ratio") for pipe in PIPES}
    pipes = {pipe: ratio * core for pipe, ratio in ratios.items() if ratio is not None and core is not None}
    duration = _time(where, text, "duration_us")
    if not duration:
        raise ConfigError(f"{where}: duration_us: {text.get('duration_us', '')!r} given; must be a time above 0")
    return MeasuredRow(kernel, duration, core, pipes, text.get("series", ""), unlike, dict(cells))


def _chip_name(name: str) -> str:
    """Return a chip's canonical name, in lower case and without aliases; the path of a user's chip file stays."""
    return name if is_path(name) else CHIPS.get(name.lower(), name.lower())


def _unlike(op_type: str, fused: str) -> str:
    several = op_type.startswith("FusionOp") or bool(set(op_type.split("_")) & set(LAUNCHES))
    if fused.lower() in ("true", "1", "yes") or (several and op_type not in LAUNCHES):
        return "fused with other operators"
    return "" if op_type in LAUNCHES else unknown_operator(op_type)


def _formats(labels: Mapping[str, str]) -> dict[str, str]:
    """Return {"format_in": format, "format_out": format} with the simulator's names of formats; a side that the row leaves out
    is missing.

    ND becomes NCHW where the other side has channel blocks. ":1", which profilers append for the C0 = 16 of fp32, is dropped.
    """
    found = {side: labels[side].upper().split(":")[0] for side in ("format_in", "format_out") if side in labels}
    blocked = {"NC1HWC0", "FRACTAL_Z"} & set(found.values())
    return {side: "NCHW" if name == "ND" and blocked else name for side, name in found.items()}


def unknown_operator(op_type: str) -> str:
    """Return the reason why a row of an operator without a simulated kernel is skipped."""
    return f"no kernel of {op_type or 'an empty op_type'} here"


def _number(text: str) -> float:
    """Return the number in a cell; NaN for any other text."""
    with suppress(ValueError):
        return float(text)
    return math.nan


def _whole(where: str, name: str, text: str, zero: bool) -> int:
    value = _number(text)
    if not (math.isfinite(value) and value >= (0 if zero else 1) and value == int(value)):
        raise ConfigError(f"{where}: {name}: {text!r} given; must be a whole number from {0 if zero else 1}")
    return int(value)


def _time(where: str, text: Mapping[str, str], name: str) -> float | None:
    if not text.get(name):
        return None
    value = _number(text[name])
    if not (0 <= value < math.inf):
        raise ConfigError(f"{where}: {name}: {text[name]!r} given; must be a number from 0")
    return value
