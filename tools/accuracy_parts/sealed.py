"""Tables of rows that nothing was fitted on, and of a training step in its order."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from accuracy_parts.fitted_on import folder
from accuracy_parts.rows import STEP_CHIP, STEPS, of_steps, ordered_products, out_of_order
from ascend_sim.chip import load_chip
from ascend_sim.studies.validate.launches import CALLS, MATMULS, MICROBENCHMARKS
from ascend_sim.studies.validate.pages import Errors, spearman
from ascend_sim.studies.validate.profile_order import victims
from ascend_sim.studies.validate.rows import MeasuredRow
from ascend_sim.studies.validate.run import RowComparison, compare

HOW_FAR = """## How far off is a number?

Errors of task times by chip and kind of kernel or call. Nothing was fitted on sealed rows
(`configs/measurements/sealed.yaml`); open ones were in view. "worst" has its sign, "inside" counts measured times in the 80 %
interval.

{table}

- **Of a kind and chip with rows**, trust the order of tilings and layers, and read a time with its
  [interval](#how-sure-a-time-is).
- **New layers are worse** than open rows: where sealed rows of a kind stand here, take their error.
- **Without rows of its chip or kind** a time is an estimate: only its interval says how wide."""
STEP = """## A training step in its order

AlexNet, batch 32, on a 910B2: every kernel finds in the L2 what the kernels before it left (`validate --l2 step`), or its
inputs (`--l2 warm`). Lines that reads drive out cost `memory.write_back_ratio`, fitted on others of this step."""


def how_far_off(compared: Sequence[RowComparison], closed: Sequence[RowComparison]) -> str:
    """Return the errors of each chip and kind: the sealed rows of all of them, then the open ones."""
    lines = ["| rows | chip | kind | n | mean % | worst % | rank | inside |", "|" + "---|" * 8]
    opened = [one for one in compared if not out_of_order(one.row)] + compare(ordered_products())
    for name, rows in (("sealed", closed), ("open", opened)):
        kinds: dict[tuple[str, str], list[RowComparison]] = {}
        for one in rows:
            if not one.prediction.skipped and one.row.kernel.op_type not in MICROBENCHMARKS:
                kinds.setdefault((one.row.kernel.chip, kind_of(one.row)), []).append(one)
        for (chip, kind), own in sorted(kinds.items()):
            pairs = [(one.prediction.task_us, one.row.duration_us) for one in own]
            errors = Errors.of(pairs)
            assert errors is not None
            rank = spearman(*zip(*pairs, strict=True)) if len(pairs) > 2 else None
            inside = sum(one.prediction.low_us <= one.row.duration_us <= one.prediction.high_us for one in own)
            lines.append(
                f"| {name} | {chip} | {kind} | {errors.rows} | {errors.mean:.1f} | {errors.worst:+.1f} | "
                f"{'-' if rank is None else f'{rank:.2f}'} | {inside} |"
            )
    return HOW_FAR.format(table="\n".join(lines))


def kind_of(row: MeasuredRow) -> str:
    """Return the kind of kernel or call that a user knows: products by their origin, calls by groups."""
    kernel, series = row.kernel, row.series.partition(",")[0]
    if kernel.op_type in CALLS and series == "KernelBench":  # the chip of its own says it
        series = ""
    name = "MatMul" if kernel.op_type in MATMULS else kernel.op_type
    return f"{name}, {series}" if series else name


def step() -> str:
    """Return errors of a step's kernels with and without its order, and the dirty lines that kernels drive out."""
    in_order, warm = (compare(of_steps(l2)) for l2 in (None, "warm"))
    lines = ["| kernel | rows | step: mean % | bias % | warm: mean % | bias % |", "|" + "---|" * 6]
    for op_type in sorted({one.row.kernel.op_type for one in in_order if not one.prediction.skipped}):
        figures = []
        for rows in (in_order, warm):
            own = [one for one in rows if one.row.kernel.op_type == op_type and not one.prediction.skipped]
            errors = Errors.of([(one.prediction.task_us, one.row.duration_us) for one in own])
            assert errors is not None
            figures.append(f"{errors.mean:.1f} | {errors.bias:+.1f}")
        lines.append(f"| {op_type} | {errors.rows} | {' | '.join(figures)} |")
    return f"{STEP}\n\n" + "\n".join(lines) + f"\n\n{_victims()}"


def step_victims() -> tuple[dict[str, float], ...]:
    """Return three dicts of MB by operator: dirty lines driven out, predicted and measured, and tensors of the kernels."""
    found: tuple[dict[str, float], ...] = ({}, {}, {})
    for name in STEPS:
        text = (folder() / name).read_text(encoding="utf-8")
        lines = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
        for cells, *each in zip(lines, *victims(lines, load_chip(STEP_CHIP)), strict=True):
            for sums, nbytes in zip(found, each, strict=True):
                sums[cells["Type"]] = sums.get(cells["Type"], 0.0) + nbytes / 1e6
    return found


def _victims() -> str:
    """The dirty lines driven out, predicted beside measured, by operator."""
    predicted, measured, moved = step_victims()
    shown = sorted((kind for kind in measured if max(measured[kind], predicted[kind]) >= 10), key=lambda kind: -measured[kind])
    rows = ["| kernel | victim rate: predicted | measured | driven out, MB: predicted | measured |", "|" + "---|" * 5]
    sums = [(kind, predicted[kind], measured[kind], moved[kind]) for kind in shown]
    sums.append(("all", *(sum(one.values()) for one in (predicted, measured, moved))))
    rows += [f"| {kind} | {a / of:.3f} | {b / of:.3f} | {a:.0f} | {b:.0f} |" for kind, a, b, of in sums]
    return "Dirty lines that kernels drive out; the rate is of the bytes of their tensors:\n\n" + "\n".join(rows)
