"""The answer of a table of precisions: a line for each distinct computation, and what each costs against the widest one.

for line in rows_of(table): line["computed_in"], line["bits"]
sentences(table)      # "hf32: 12.7 bits, half the cube cycles of fp32; fp16: 11.5 bits, ..."
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.summary import before_words
from ascend_sim.studies.precision.run import PrecisionRow, PrecisionTable

SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "hifloat8": "hif8", "float8_e4m3fn": "e4m3fn"}
_SHARES = {
    1: "the",
    0.5: "half the",
    0.25: "a quarter of the",
    0.125: "an eighth of the",
    0.0625: "a sixteenth of the",
    2: "twice the",
}


def rows_of(table: PrecisionTable) -> list[dict[str, Any]]:
    """Return a dict for each distinct computation: (chip, input dtype, compute dtype, model); rows without outputs are left
    out.

    Beside its cost, "bits" of each output (None: exact; without an output whose bits are undefined, as no error is finite),
    "underflows" and "overflows" by operand where there are any, "nonfinite" elements of all outputs, "bias" the output's mean
    signed error over its mean size that is largest in size, "cube_math_types" all that compute so, "correct" the verdict of all
    outputs, "vendor_pass" False where the vendor's threshold fails (against unrounded inputs), and "findings", their number.
    """
    found: dict[tuple[str, str, str | None, str], dict[str, Any]] = {}
    for row in table.rows:
        if not row.outputs:
            continue
        key = (row.chip, row.dtype, row.compute_dtype, row.accumulate)
        if key in found:
            found[key]["cube_math_types"].append(row.cube_math_type)
        else:
            found[key] = _line(row)
    return list(found.values())


def _line(row: PrecisionRow) -> dict[str, Any]:
    biases = [figures["bias"] for figures in row.outputs.values() if figures.get("bias") is not None]
    bits = {name: figures["effective_bits"] for name, figures in row.outputs.items()}
    known = {name: round(value, 2) for name, value in bits.items() if value is not None and math.isfinite(value)}
    exact = {name for name, figures in row.outputs.items() if figures["max_abs_error"] == 0}
    return {
        "chip": row.chip,
        "dtype": row.dtype,
        "computed_in": row.compute_dtype,
        "sums": row.accumulate,
        "cube_math_types": [row.cube_math_type],
        "bits": {name: known.get(name) for name in bits if name in known or name in exact},
        "cube_cycles": row.cube_cycles,
        "us": row.total_us,
        "underflows": {name: effect["to_zero"] for name, effect in row.operands.items() if effect["to_zero"]},
        "overflows": {name: effect["overflowed"] for name, effect in row.operands.items() if effect["overflowed"]},
        "nonfinite": sum(figures["nonfinite"] for figures in row.outputs.values()),
        "bias": max(biases, key=abs, default=0.0),
        "correct": all(figures["correct"] for figures in row.outputs.values()),
        "vendor_pass": all(figures["vendor_pass"] is not False for figures in row.outputs.values()),
        "findings": row.findings,
    }


def short(dtype: str | None) -> str:
    """Return the short name of a dtype, itself if it has none; "-" for None."""
    return "-" if dtype is None else SHORT.get(dtype, dtype)


def sentences(table: PrecisionTable) -> list[str]:
    """Return a sentence for each input dtype and chip: what the further computations lose and cost against the first, and which
    of the correct ones fail the vendor's threshold.

    Inputs with one computation have a sentence only if that fails. Only the first model of additions is compared.
    """
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in rows_of(table):
        groups.setdefault((line["chip"], line["dtype"], line["sums"]), []).append(line)
    several = len(table.overflow) > 1
    first_sums = table.rows[0].accumulate if table.rows else ""
    found = []
    for (chip, dtype, sums), (first, *others) in groups.items():
        failed = [short(one["computed_in"]) for one in (first, *others) if one["correct"] and not one["vendor_pass"]]
        if sums == first_sums and (others or failed):
            parts = "; ".join(_against(table, first, one) for one in others)
            texts = [f"{parts}."] * bool(parts) + [f"Vendor's threshold fails: {', '.join(failed)}."] * bool(failed)
            found.append(f"{SHORT[dtype]} inputs{f' on {chip}' if several else ''}: {' '.join(texts)}")
    return found


def _against(table: PrecisionTable, first: Mapping[str, Any], line: Mapping[str, Any]) -> str:
    """Return a computation's comparison with the `first` one of its inputs in words: fewest bits of an output that the cube
    computes, cube cycles, time, elements lost to 0 or overflow.
    """
    operator = OPERATORS[table.operator]
    bits = [value for name, value in line["bits"].items() if operator.summed(name) is None]
    known = [value for value in bits if value is not None]
    name, base = short(line["computed_in"]), short(first["computed_in"])
    parts = [f"{min(known):.1f} bits" if known else "exact" if bits else "no bits"]
    if first["cube_cycles"] and line["cube_cycles"]:
        share = line["cube_cycles"] / first["cube_cycles"]
        near = next((words for value, words in _SHARES.items() if abs(share - value) < 0.02 * value), f"{share:.2g} x the")
        parts.append(f"{near} cube cycles of {base}")
    if first["us"] and line["us"]:
        more = round(100 * (line["us"] / first["us"] - 1))
        parts.append(f"{more:+d} % time" if more else "the same time")
    parts += [f"{count:,} elements of {one} become 0" for one, count in line["underflows"].items()]
    parts += [f"{count:,} elements of {one} overflow" for one, count in line["overflows"].items()]
    return f"{name}: {', '.join(parts)}"


def render_summary(table: PrecisionTable, console: Console, more: str = "more: --full") -> None:
    """Print a table with a line for each distinct computation, the sentences, refused rows and notes, and last `more`,
    unless it is "".
    """
    chips = f", {next(iter(table.overflow))}" if len(table.overflow) == 1 else ""
    rules = "" if table.conformance == "documented" else f"; {table.conformance}"
    before = before_words({"l2": table.l2})
    say(console, f"{table.operator} {table.case}{chips}: inputs {table.inputs}{rules}; {before}", style="bold")
    lines = rows_of(table)
    names = list(dict.fromkeys(name for row in table.rows for name in row.outputs))
    several = {"chip": len(table.overflow) > 1, "sums": len({one["sums"] for one in lines}) > 1}
    lead = [name for name, shown in several.items() if shown]
    head, *rest = names or [""]
    bits = f">bits of {head}" + (f" /\n{' / '.join(rest)}" if rest else "")
    heads = [*lead, "inputs", "computed\nin", "cubeMathType", bits]
    grid = Grid("", [*heads, ">cube\ncycles", ">us", ">to 0", ">bias", "verdict"], names=len(lead) + 2)
    for line in lines:
        bits = " / ".join(_bits(line, name) for name in names)
        first, *same = line["cube_math_types"]
        types = f"{first}, as {', '.join(map(str, same))}" if same else str(first)
        grid.row(
            *(line[name] for name in lead), SHORT[line["dtype"]], short(line["computed_in"]),
            types, bits,
            f"{line['cube_cycles']:,}",
            "-" if line["us"] is None else f"{line['us']:,.1f}",
            f"{sum(line['underflows'].values()):,}", f"{line['bias']:+.0e}" if line["bias"] else "0",
            "correct" if line["correct"] else "WRONG",
        )  # fmt: skip
    if lines:
        console.print(grid)
    for text in (*sentences(table), *_refused(table.rows)):
        say(console, text)
    for warning in dict.fromkeys(row.warning for row in table.rows if row.dtype in EIGHT_BIT and row.warning):
        say(console, f"note: {warning}")
    if any(line["findings"] for line in lines):
        say(console, "findings (hazards, uninitialised reads): `ascend-sim run` names them")
    if more:
        say(console, more)


def _bits(line: Mapping[str, Any], name: str) -> str:
    if name not in line["bits"]:
        return "-"
    return "exact" if line["bits"][name] is None else f"{line['bits'][name]:.1f}"


def _refused(rows: Sequence[PrecisionRow]) -> list[str]:
    """Return one line for each status other than 0 with all (dtype, cubeMathType) that have it."""
    groups: dict[str, dict[str, None]] = {}
    for row in (row for row in rows if row.status != 0):
        words = "not simulated" if row.status is None else f"refused with {row.status}"
        groups.setdefault(words, {})[f"{SHORT[row.dtype]} with cubeMathType {row.cube_math_type}"] = None
    return [f"{words}: {', '.join(cells)}; --full says why" for words, cells in groups.items()]
