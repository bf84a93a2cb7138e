"""Tables of rows that nothing was fitted on, and of a training step in its order."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence

from ascend_sim.chip import load_chip
from ascend_sim.studies.validate.fitted_on import folder
from ascend_sim.studies.validate.launches import MICROBENCHMARKS
from ascend_sim.studies.validate.pages import Errors
from ascend_sim.studies.validate.profile_order import victims
from ascend_sim.studies.validate.rows import read_rows
from ascend_sim.studies.validate.run import RowComparison, compare

STEPS = ("steps/alexnet_910b2_rank0.csv", "steps/alexnet_910b2_rank1.csv")
STEP_CHIP = "ascend910b2"
KINDS = (
    ("MatMul", "matrix product"),
    ("BatchMatMul", "matrix product"),
    ("npu_conv3d_backward", "call: weight gradient"),
    ("conv_transpose", "call: transposed convolution"),
    ("conv", "call: forward convolution"),
    ("Conv2DBackpropFilter", "kernel: weight gradient"),
    ("Conv2DBackpropInput", "kernel: data gradient"),
    ("Conv3DBackpropFilter", "kernel: weight gradient"),
    ("Conv3DBackpropInput", "kernel: data gradient"),
)
"""Beginnings of operators, and the kind of a row."""
TRUST = """## How far off a number of this kind on this chip is

- **Trust an order before a time.** Comparisons of tilings, layers and modes of one kernel on one chip are better than absolute
  times; a time is to be read with its interval ([below](#how-sure-a-time-is)).
- **Trust the sealed columns before the open ones.** Nothing was fitted on sealed rows or chosen with them in view
  (`configs/measurements/sealed.yaml`); open rows were in view, and a layer of your own is worse than they are.
- **Do not trust a kind without a row here**, or a chip without a line: its time follows from data sheets alone.

Errors in percent, told nothing but sizes and dtype; "inside" counts measured times in the 80 % interval. `-`: no row."""
STEP = """## A training step in its order

AlexNet, batch 32, on a 910B2: every kernel finds in the L2 what the kernels before it left (`validate --l2 step`), or its
inputs (`--l2 warm`). Lines that reads drive out cost `memory.write_back_ratio`, fitted on others of this step."""


def open_and_sealed(compared: Sequence[RowComparison], closed: Sequence[RowComparison]) -> str:
    """Return the headline: a line for each chip and kind, its sealed rows and its open ones, kinds with sealed rows first."""
    lines = [
        "| chip | kind | sealed: rows | mean % | worst % | inside | open: rows | mean % | worst % | inside |",
        "|" + "---|" * 10,
    ]
    sealed, seen = _by_kind(closed), _by_kind(compared)
    for chip, kind in sorted(sealed.keys() | seen.keys(), key=lambda key: (key not in sealed, key)):
        cells = " | ".join(_figures(rows.get((chip, kind), ())) for rows in (sealed, seen))
        lines.append(f"| {chip} | {kind} | {cells} |")
    return TRUST + "\n\n" + "\n".join(lines)


def _by_kind(compared: Sequence[RowComparison]) -> dict[tuple[str, str], list[RowComparison]]:
    """Return the rows that were simulated, but small programs, by chip and kind."""
    found: dict[tuple[str, str], list[RowComparison]] = {}
    for one in compared:
        if not one.prediction.skipped and one.row.kernel.op_type not in MICROBENCHMARKS:
            found.setdefault((one.row.kernel.chip, kind_of(one)), []).append(one)
    return found


def kind_of(one: RowComparison) -> str:
    """Return the kind of a row, as a reader asks for it."""
    op_type = one.row.kernel.op_type
    return next((kind for begins, kind in KINDS if op_type.startswith(begins)), "vector or layout kernel")


def _figures(rows: Sequence[RowComparison]) -> str:
    """Rows, mean and worst error, and how many measured times lie in their interval; `-` where none has one."""
    errors = Errors.of([(one.prediction.task_us, one.row.duration_us) for one in rows])
    if errors is None:
        return "- | - | - | -"
    sure = [one for one in rows if not math.isnan(one.prediction.low_us)]
    inside = sum(one.prediction.low_us <= one.row.duration_us <= one.prediction.high_us for one in sure)
    return f"{errors.rows} | {errors.mean:.1f} | {errors.worst:+.1f} | {f'{inside} of {len(sure)}' if sure else '-'}"


def step() -> str:
    """Return errors of a step's kernels with and without its order, and the dirty lines that kernels drive out."""
    in_order, warm = (
        compare([row for name in STEPS for row in read_rows(folder() / name, l2, STEP_CHIP, skip=True)])
        for l2 in (None, "warm")
    )
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


def _victims() -> str:
    """The dirty lines driven out, predicted beside measured, by operator."""
    predicted: dict[str, float] = {}
    measured: dict[str, float] = {}
    for name in STEPS:
        text = (folder() / name).read_text(encoding="utf-8")
        lines = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
        for cells, ours, theirs in zip(lines, *victims(lines, load_chip(STEP_CHIP)), strict=True):
            predicted[cells["Type"]] = predicted.get(cells["Type"], 0.0) + ours / 1e6
            measured[cells["Type"]] = measured.get(cells["Type"], 0.0) + theirs / 1e6
    shown = sorted(
        (kind for kind in measured if max(measured[kind], predicted[kind]) >= 10), key=lambda kind: -measured[kind]
    )
    rows = ["| kernel | driven out, MB: predicted | measured |", "|---|---|---|"]
    rows += [f"| {kind} | {predicted[kind]:.0f} | {measured[kind]:.0f} |" for kind in shown]
    total = f"| all | {sum(predicted.values()):.0f} | {sum(measured.values()):.0f} |"
    what = "Dirty lines that kernels drive out (victim rate of the profile times the bytes of its tensors):"
    return f"{what}\n\n" + "\n".join([*rows, total])
