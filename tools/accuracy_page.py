"""Writes docs/accuracy.md: predicted against measured kernels, the aims, and what is known of the errors.

Usage: python tools/accuracy_page.py PAGE [--long]. With --long the products that take minutes each run too. A note on a
weakness stands on the page as long as the error is above its limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.report.files import atomic_write
from ascend_sim.runtime.workers import usable_cores
from ascend_sim.studies.validate.instruction_points import compare_points, shipped_points
from ascend_sim.studies.validate.kernel import PIPES
from ascend_sim.studies.validate.launches import MATMULS, MICROBENCHMARKS
from ascend_sim.studies.validate.pages import (
    Errors,
    Group,
    blind,
    blind_line,
    group_by,
    group_points,
    markdown,
    points_text,
    programs_markdown,
    skipped_lines,
)
from ascend_sim.studies.validate.rows import TOLD, of_chips, shipped_rows
from ascend_sim.studies.validate.run import Comparison, compare

DX, DW = "Conv2DBackpropInput", "Conv2DBackpropFilter"
B2, FIRST = "ascend910b2", "ascend910b"


@dataclass(frozen=True)
class Note:
    """Why a quantity ("task", "core" or a pipe) of a chip's operator is off; shown while its mean error exceeds `limit` %."""

    chip: str
    op_type: str
    quantity: str
    limit: float
    why: str
    series: str = ""


HEAD = """# Accuracy: measured kernels and what the simulator says of them

`tools/accuracy` writes this page; `ascend-sim validate --csv rows.csv` prints the first table and every single row.
The numbers are as they come.

**Rows.** `configs/measurements/` holds the rows with their sources: AlexNet training steps on a 910B2 (HF32, with counters
of the pipes; Ascend/msinsight test data) and ResNet-50 training steps on the first 910 with 30 cores (fp16, no counters; Wu et
al., HPCC 2022); and matrix products (`matmul.csv`) from samples, microbenchmarks and training steps on A2, A3 and 950PR. A
row is one kernel, which runs alone, with its inputs in the L2 as far as they fit (`--l2 cold` for the contrary).

**What the prediction was told.** "told nothing" is what a user gets: sizes and dtype of the row go into the simulator, blocks,
tiling and the state of the L2 are its own. "told" (`ascend-sim validate --told block_dim,tiling,l2`) also takes from the row
what the measured library had decided: the blocks of convolutions and products; base block and share of a core where a
product's source gives them (8192^3 samples and others); and for {stale} rows of training steps, whose inputs were written or
read long before, that the L2 is full of what other kernels wrote (column l2, `stale`: inferred from the order of the step;
the simulator has no rule for it). Every table says which of both it shows.

**Figures.** Error of a row: (predicted - measured) / measured. mean and median are of the sizes of errors, bias is the mean
of errors, rank is Spearman's correlation over rows (three kernels or more). "kernels" counts distinct ones: {rows_910b2} rows
of the 910B2 are only {kernels_910b2} kernels, its convolutions two shapes. Core and pipe times are means over the launched
cores.

**Not blind.** "fitted" says whether costs of the chip were fitted on rows of the same network or sample: then the figure is
in-sample, whatever it was told. The costs and their rows are listed [below](#fitted-costs-and-the-rows-that-fitted-them).
There is no second network with counters, so no leave-one-network-out error can be given for the 910B2; what leaving out a
layer, a batch or a chip says stands below. Kernels and tilings were written with these rows in view, too.
"""


def main(page: str, long: bool) -> None:
    """Run all rows once, those of the 910B2 also with a cold L2, and write the page."""
    jobs = usable_cores()
    plain, helped = shipped_rows(), shipped_rows(told=TOLD)
    chilled = of_chips([row for row in shipped_rows("cold") if row.kernel.op_type in SIMULATED], [B2])
    every = compare([*plain, *helped, *chilled], jobs=jobs, long=long)  # equal kernels run once
    compared, told, cold = every[: len(plain)], every[len(plain) : -len(chilled)], every[-len(chilled) :]
    groups = group_by(compared)
    on_b2 = [
        one
        for one in compared
        if one.row.kernel.chip == B2 and one.row.kernel.op_type in SIMULATED and not one.prediction.skipped
    ]
    stale = sum(one.row.cells.get("l2") == "stale" for one in told)
    head = HEAD.format(stale=stale, rows_910b2=len(on_b2), kernels_910b2=len({one.row.kernel for one in on_b2}))
    parts = [
        head,
        "## Convolutions, told nothing and told\n\n" + headline(compared, told),
        "## Task time by chip and operator\n\n" + three_columns(groups, group_by(told)),
        "## Core and pipe times, told nothing\n\n" + markdown([group for group in groups if group.core is not None]),
        "Not simulated:\n\n" + "\n".join(f"- {line}" for line in skipped_lines(groups)),
        BATCH_32,
        "## Against the aims\n\nTold nothing; in brackets told.\n\n" + aims(compared, told),
        LEFT_OUT + "\n" + "\n".join([*left_out(compared, "nothing"), *left_out(told, "told")]),
        FITTED + "\n\n" + fitted_costs(),
        "## Where it is weak, and why\n\n" + notes(groups),
        NOT_MODELLED,
        "## The four convolution kernels of the 910B2\n\nMean over repeats, us; measured / predicted, told nothing.\n\n"
        + kernels(on_b2),
        "## Matrix products\n\nMean over repeats, us; measured / predicted, told.\n\n" + products(told),
        "## TransData of the 910B2 by kind\n\nTold nothing.\n\n" + by_label(compared, B2, "TransData", _kind),
        "## The first 910 by batch and kind of convolution\n\n"
        + "\n\n".join(
            f"{what}.\n\n{by_label(rows, FIRST, op, _layer)}"
            for what, rows in (("Told nothing", compared), ("Told the blocks", told))
            for op in (DW, DX)
        ),
        programs(compared),
        POINTS
        + "\n\n"
        + "\n".join(f"- {line}" for line in points_text(group_points(compare_points(shipped_points())))),
        "## The 910B2 with a cold L2\n\nTold nothing.\n\n" + markdown(group_by(cold)),
        Path(__file__).with_name("tuned_tilings.md").read_text(encoding="utf-8").replace("../docs/", ""),
    ]
    with atomic_write(page) as file:
        file.write(("\n\n".join(part.strip("\n") for part in parts) + "\n").encode())
    print(f"wrote {page}")


SIMULATED = (DX, DW, "TransData", "ReduceSum", "Cast", "MemSet")
"""Operators of a training step but for its matrix products."""

PROGRAMS = """## Small programs

Streams out of GM by all cores (row size, alignment, L2 hits), single transfers and a vector add, each built and simulated:
`configs/measurements/microbench.csv` has the rows, their sources and what was left out because it is doubted,
[measured-bandwidth.md](measured-bandwidth.md) the figures behind some of them. A row that "sets a cost" was used to fit one, so
it stands apart; so do the loads into L0A and L0B, for which the sources disagree (msKPP has 2 cycles a transfer beside its
data, the GEMM sample 22 a LoadData, which the convolution rows support and the chip files follow).

{table}

{blind}. What misses most: the step of GM->L1 at 4 KB (18 %); 64 rows of 128 bytes into UB on A2 (16 % too slow); the vector add
without bypass on A2 (10-14 % too fast: reads and writes share HBM here without a loss at each turn). L0C->GM takes the larger
of 80 cycles and its data, where a sum stands here: up to twice as long around 10 KB. On the 950, whose file has no dispatch
interval, streams of one 128-byte row an instruction keep the cores in step, which costs 8 of 39 cycles."""

POINTS = """## Single instructions and transfers

Published cycles of vector tile operations (`configs/measurements/points/`, hw-native-sys/pto-isa; of level tile_op or
line_fit, not flagged by those who collected them), precision 1 - abs(error). The aim is a median of 0.92 for each architecture.
Far off on dav-2201: fp16 Exp and Sqrt (the vendor's page says 4 cycles a repeat, these points 2-3), Divs (twice Div),
Sel, and int16 Add and Mul (two cycles a repeat more). On dav-3510: conversions of ten short rows. Costs of both were fitted on
points of the same source. Streams and single transfers: [measured-bandwidth.md](measured-bandwidth.md)."""

BATCH_32 = """The batch 32 rows of the first 910 come from other software (other splits, other fusion): never average them with
the rest."""

NOT_MODELLED = """Not modelled anywhere: misses of the instruction cache, dual issue.
Measured L2 misses of tensors left by an earlier phase of a step run at 0.45-0.65 TB/s; write-backs of what other kernels
left explain two thirds of the distance to the 1.45 of long streams, the rest is not known.

On the 950 no measured kernel says what small layers cost. Where a kernel is split by rows and columns, the vector cores
here take a transfer, with its head of 38 cycles (assumed), for each channel and part of a tile, and dW in NCDHW leaves L0C in
single elements, a 128-byte line each; small 1x1 layers of stride 2 and small dW are nothing but that. The library may move
several channels at once; no instruction that does so is described in the sources here."""


LEFT_OUT = """## Rows left out of a fit

How much of the agreement is the fitting's? Two corrections of the predicted task times of convolutions are fitted to the least
mean of abs(log(predicted / measured)): a constant, which is what the fitted launch and start-up costs add to every launch, and
a constant with a factor, which stands for all rates together. "left out" predicts every layer (both gradients, all batches),
every batch and the whole chip with a fit on the others. Means of the sizes of errors, percent. All rows of a chip come from
one network (AlexNet on the 910B2, ResNet-50 on the first 910), so "chip out" is also the network left out. The predictions
that are corrected come from costs that had seen the rows left out, and tilings and kernels were written with these rows in
view: what stands here is a lower bound of the error on a new network; `tools/calibrate.py` does the same with any cost of a
chip file and any rows, told what the rows know. With two layers (910B2) a fit on one says little about the other: the costs
there are as good as these two layers, no better.

| chip | told | rows | layers | shipped | constant: fit | layer out | and a factor: fit | layer out | batch out | chip out |
|---|---|---|---|---|---|---|---|---|---|---|"""


def left_out(compared: Sequence[Comparison], told: str) -> list[str]:
    """A line for each chip with convolution rows that are compared with the aims."""
    both = {chip: [one for one in _of(compared, chip, (DX, DW)) if not one.row.series] for chip in (B2, FIRST)}
    everywhere = [one for rows in both.values() for one in rows]
    pooled = np.array([(one.prediction.task_us, one.row.duration_us) for one in everywhere]).T
    chips = np.array([one.row.kernel.chip for one in everywhere])
    factors_of = (np.ones(1), np.geomspace(0.6, 1.6, 101))
    lines = []
    for chip, rows in both.items():
        times = pooled[:, chips == chip]
        layers = np.unique([_shape_of(one) for one in rows], return_inverse=True)[1]
        batches = np.array([one.row.kernel["N"] for one in rows])
        everything = np.zeros(len(rows), int)
        cells = [_percent(times[0], times[1])]
        for factors in factors_of:
            cells += [_fit_error(times, everything, factors), _fit_error(times, layers, factors)]
        shown = [f"{cell:.1f}" for cell in cells]
        shown.append(f"{_fit_error(times, batches, factors):.1f}" if len(set(batches)) > 1 else "one batch only")
        constant, factor = _correction(pooled[:, chips != chip], factors)
        shown.append(f"{_percent(np.maximum(factor * times[0] + constant, 0.01), times[1]):.1f}")
        lines.append(f"| {chip} | {told} | {len(rows)} | {len(set(layers))} | " + " | ".join(shown) + " |")
    return lines


def _of(compared: Sequence[Comparison], chip: str, ops: Sequence[str]) -> list[Comparison]:
    """The simulated rows of a chip's operators."""
    return [
        one
        for one in compared
        if one.row.kernel.chip == chip and one.row.kernel.op_type in ops and not one.prediction.skipped
    ]


def headline(compared: Sequence[Comparison], told: Sequence[Comparison]) -> str:
    """The convolutions of both training steps, and on how many rows the number of blocks was the measured one."""
    lines = [
        "| chip | op_type | rows | nothing: mean % | bias % | rank | blocks right | told the blocks: mean % | bias % | rank |",
        "|" + "---|" * 10,
    ]
    for chip in (FIRST, B2):
        for op in (DW, DX):
            own, other = ([one for one in _of(rows, chip, (op,)) if not one.row.series] for rows in (compared, told))
            figures = []
            for group in map(_pooled, (own, other)):
                assert group.task is not None
                figures.append(f"{group.task.mean:.1f} | {group.task.bias:+.1f} | {group.rank or 0:.3f}")
            right = sum(one.row.cells["block_dim"] == str(one.prediction.blocks) for one in own)
            lines.append(f"| {chip} | {op} | {len(own)} | {figures[0]} | {right} of {len(own)} | {figures[1]} |")
    return "\n".join(lines)


def three_columns(groups: Sequence[Group], told: Sequence[Group]) -> str:
    """Task times told nothing and told, and whether costs were fitted on such rows."""
    lines = [
        "| chip | op_type | rows | kernels | told nothing: mean % | median % | bias % | rank | told: mean % | bias % | rank "
        "| fitted |",
        "|" + "---|" * 12,
    ]
    helped = {(group.chip, group.op_type, group.series): group for group in told}
    for group in groups:
        if group.task is None or group.op_type in MICROBENCHMARKS:
            continue
        with_help = helped[group.chip, group.op_type, group.series]
        assert with_help.task is not None
        ranks = ["-" if rank is None else f"{rank:.3f}" for rank in (group.rank, with_help.rank)]
        name = f"{group.op_type}, {group.series}" if group.series else group.op_type
        own, other = group.task, with_help.task
        fitted = "yes" if any(group_is_named(group, source) for source in fitted_sources(group.chip)) else "no"
        lines.append(
            f"| {group.chip} | {name} | {own.rows} | {group.kernels} | {own.mean:.1f} | {own.median:.1f} | {own.bias:+.1f} | "
            f"{ranks[0]} | {other.mean:.1f} | {other.bias:+.1f} | {ranks[1]} | {fitted} |"
        )
    return "\n".join(lines)


def fitted_sources(chip: str) -> list[str]:
    """The sources of a chip's fitted costs."""
    return [source.text for source in load_chip(chip).sources().values() if source.mark == "fitted"]


def group_is_named(group: Group, source: str) -> bool:
    """Whether a source names the network or sample of a group's rows."""
    network = {B2: "AlexNet", FIRST: "ResNet-50"}.get(group.chip, "")
    if group.series and group.series != network:
        network = ""
    names = [network, *NAMES_OF.get((group.chip, group.series), ())]
    return any(name and name in source for name in names)


NAMES_OF = {
    ("ascend910b1", "8192^3 sample"): ("910B1 8192^3",), ("ascend950pr_9589", "8192^3 sample"): ("8192^3 fp16 MatMul samples",),
    ("ascend910_9381", "pto-isa"): ("A3 3072^3",), ("ascend910b3", "LLM"): ("910B3, 910B1",),
    (FIRST, "batch 32, other software"): ("batch 32",),
}  # fmt: skip
"""How the sources of fitted costs call rows that come from no network of the convolutions."""


def fitted_costs() -> str:
    """Every fitted cost, and what its source says of its rows."""
    lines = ["| chips | cost | fitted on |", "|---|---|---|"]
    seen: dict[tuple[str, str], list[str]] = {}
    for name in chip_names():
        chip = load_chip(name)
        for place, source in chip.sources().items():
            if source.mark == "fitted":
                text = source.text.removeprefix("fitted: ").replace("|", "/")
                seen.setdefault((place, text), []).append(chip.identity.arch)
    for (place, text), archs in seen.items():
        lines.append(f"| {', '.join(dict.fromkeys(archs))} | {place} | {text} |")
    return "\n".join(lines)


FITTED = """## Fitted costs and the rows that fitted them

From the chip files, as `ascend-sim chips NAME` prints them. Sources that name AlexNet, ResNet-50, the MatMul rows or the GEMM
sample are rows of the tables above; msKPP, the copy sample, pto-isa and the add sample are small programs."""


def _shape_of(one: Comparison) -> str:
    return str([(name, size) for name, size in one.row.kernel.sizes if name not in ("N", "block_dim")])


def _percent(predicted: np.ndarray[Any, Any], measured: np.ndarray[Any, Any]) -> float:
    return float(100 * np.abs(predicted / measured - 1).mean())


def _fit_error(times: np.ndarray[Any, Any], group: np.ndarray[Any, Any], factors: np.ndarray[Any, Any]) -> float:
    """Mean error of rows, each corrected by a fit on the rows of other groups; of one group: by a fit on all."""
    names = np.unique(group)
    corrected = np.empty(times.shape[1])
    for name in names:
        mine = group == name
        constant, factor = _correction(times[:, ~mine if len(names) > 1 else mine], factors)
        corrected[mine] = np.maximum(factor * times[0, mine] + constant, 0.01)
    return _percent(corrected, times[1])


def _correction(times: np.ndarray[Any, Any], factors: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Constant in us and factor with the least loss; no time may become negative."""
    constants = np.linspace(-20, 20, 401)[:, None, None]
    total = np.maximum(factors[None, :, None] * times[0] + constants, 0.01)
    loss = np.abs(np.log(total / times[1])).mean(axis=2)
    place = np.unravel_index(int(np.argmin(loss)), loss.shape)
    return float(constants[place[0], 0, 0]), float(factors[place[1]])


def programs(compared: Sequence[Comparison]) -> str:
    """The section of small programs."""
    of = [one for one in compared if one.row.kernel.op_type in MICROBENCHMARKS]
    errors = blind(of)
    assert errors is not None
    return PROGRAMS.format(table=programs_markdown(group_by(of)), blind=blind_line(errors))


def aims(compared: Sequence[Comparison], told: Sequence[Comparison]) -> str:
    """The project's aims for these rows beside what came out, told nothing and told."""
    plain, helped = _aim_lines(compared), _aim_lines(told)
    lines = ["| chip | what | aim | told nothing | | told | |", "|---|---|---|---|---|---|---|"]
    for own, other in zip(plain, helped, strict=True):
        lines.append("| " + " | ".join((*own, *other[3:])) + " |")
    return "\n".join(lines)


def _aim_lines(compared: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """(chip, what, aim, value, met or missed)."""

    def rows(chip: str, op_type: str) -> list[Comparison]:
        return [
            one
            for one in compared
            if (one.row.kernel.chip, one.row.kernel.op_type, one.row.series) == (chip, op_type, "")
            and not one.prediction.skipped
        ]

    def pooled(chip: str, ops: Sequence[str]) -> Group:
        both = [one for op in ops for one in rows(chip, op)]
        (group,) = group_by(both, lambda _: "") if len(ops) == 1 else [_pooled(both)]
        return group

    lines: list[tuple[str, ...]] = []

    def line(chip: str, what: str, aim: str, value: float | None, met: bool, unit: str = " %") -> None:
        shown = "-" if value is None else f"{value:.1f}{unit}" if unit else f"{value:.3f}"
        lines.append((chip, what, aim, shown, "met" if met else "missed"))

    for op, limits in (
        (DX, {"core": 12, "mac": 8, "mte1": 15, "fixpipe": 12, "mte2": 40}),
        (DW, {"core": 12, "mac": 8, "mte1": 15, "fixpipe": 25, "mte2": 40}),
        ("TransData", {"task": 15}),
        ("ReduceSum", {"task": 10}),
        ("MemSet", {"task": 25}),
    ):
        group = pooled(B2, [op])
        for quantity, limit in limits.items():
            errors = errors_of(group, quantity)
            value = None if errors is None else errors.mean
            line(B2, f"{op}, {quantity}, mean", f"<= {limit} %", value, value is not None and value <= limit)
    both = pooled(FIRST, [DW, DX])
    assert both.task is not None
    name = f"{DW} and unfused {DX}, batch 16 and 64"
    line(FIRST, f"{name}, mean", "<= 18 %", both.task.mean, both.task.mean <= 18)
    line(FIRST, f"{name}, bias", "within 5 %", both.task.bias, abs(both.task.bias) <= 5)
    line(FIRST, f"{name}, rank", ">= 0.95", both.rank, (both.rank or 0) >= 0.95, "")
    small = blind(compared)
    assert small is not None
    line("all", "small programs that set no cost, median", "<= 8 %", small.median, small.median <= 8)
    line("all", "small programs that set no cost, worst", "within 25 %", small.worst, abs(small.worst) <= 25)
    for group in group_points(compare_points(shipped_points())):
        what = f"vector tile operations of {group.arch}, median precision"
        line("all", what, ">= 0.92", group.median, group.median >= 0.92, "")
    for chip, series, limit in MATMUL_AIMS:
        these = [
            one
            for one in compared
            if one.row.kernel.op_type in MATMULS
            and (one.row.kernel.chip, one.row.series) == (chip, series)
            and not one.prediction.skipped
        ]
        if these:
            task = _pooled(these).task
            assert task is not None
            line(chip, f"MatMul, {series}, task, mean", f"<= {limit} %", task.mean, task.mean <= limit)
    return lines


MATMUL_AIMS = (
    ("ascend910b1", "8192^3 sample", 10), ("ascend950pr_9589", "8192^3 sample", 10), ("ascend910_9381", "pto-isa", 15),
    ("ascend910b3", "LLM", 15), ("ascend910b2", "torch", 15), ("ascend910b2", "torch, 1024^3", 25),
)  # fmt: skip
"""Chip, series and the mean error of task time that the project aims for, in percent."""


def _pooled(rows: Sequence[Comparison]) -> Group:
    """One group over several operators of a chip."""
    from ascend_sim.studies.validate.pages import spearman

    pairs = [(one.prediction.task_us, one.row.duration_us) for one in rows]
    rank = spearman([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return Group(
        rows[0].row.kernel.chip, "", "", len({one.row.kernel for one in rows}), Errors.of(pairs), rank, None, {}, {}
    )


def errors_of(group: Group, quantity: str) -> Errors | None:
    """Errors of "task", "core" or a pipe."""
    return {"task": group.task, "core": group.core, **group.pipes}.get(quantity)


def load_notes() -> list[Note]:
    """The notes of the file beside this one."""
    text = Path(__file__).with_name("accuracy_notes.yaml").read_text(encoding="utf-8")
    return [Note(**entry) for entry in yaml.safe_load(text)]


def notes(groups: Sequence[Group]) -> str:
    """The notes whose error is above their limit, with the error."""
    found = {(group.chip, group.op_type, group.series): group for group in groups}
    lines = []
    for note in load_notes():
        group = found.get((note.chip, note.op_type, note.series))
        errors = errors_of(group, note.quantity) if group else None
        if errors is not None and errors.mean > note.limit:
            figures = f"mean {errors.mean:.0f} %, bias {errors.bias:+.0f} %"
            what = f"{note.op_type}, {note.series}" if note.series else note.op_type
            lines.append(f"- **{note.chip} {what}, {note.quantity}** ({figures}): {note.why}")
    return "\n".join(lines)


def kernels(rows: Sequence[Comparison]) -> str:
    """Measured and predicted times of every distinct cube kernel."""
    quantities = ("task", "core", "mac", "mte1", "mte2", "fixpipe", "scalar")
    lines = ["| kernel | blocks | " + " | ".join(quantities) + " |", "|---|---|" + "---|" * len(quantities)]
    of: dict[str, list[Comparison]] = {}
    for one in rows:
        kernel = one.row.kernel
        if kernel.op_type in (DX, DW):
            sizes = f"{kernel['Hi']}x{kernel['Wi']}, {kernel['kh']}x{kernel['kw']}"
            name = f"{kernel.op_type} {kernel['Ci']} -> {kernel['Co']}, {sizes}"
            blocks = f"{one.row.cells['block_dim']} / {one.prediction.blocks}"
            of.setdefault(f"{name} | {blocks}", []).append(one)
    for name, same in of.items():
        predicted = same[0].prediction
        cells = []
        for quantity in quantities:
            if quantity in PIPES:
                measured, ours = fmean(one.row.pipes[quantity] for one in same), predicted.pipes[quantity]
            elif quantity == "core":
                measured, ours = fmean(one.row.core_us or 0 for one in same), predicted.core_us
            else:
                measured, ours = fmean(one.row.duration_us for one in same), predicted.task_us
            cells.append(f"{measured:.1f} / {ours:.1f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def products(compared: Sequence[Comparison]) -> str:
    """Measured and predicted times of every distinct matrix product."""
    quantities = ("task", "core", "mac", "mte1", "mte2", "fixpipe")
    lines = ["| product | series | " + " | ".join(quantities) + " | task error % |", "|---|---|" + "---|" * 7]
    of: dict[str, list[Comparison]] = {}
    for one in compared:
        kernel = one.row.kernel
        if kernel.op_type in MATMULS and not one.prediction.skipped:
            batch = f"{kernel['batch']} x " if kernel.get("batch", 1) > 1 else ""
            layout = "NT"[kernel.get("trans_a", 0)] + "NT"[kernel.get("trans_b", 0)]
            sizes = f"{batch}{kernel['M']} x {kernel['N']} x {kernel['K']} {layout} {kernel.dtype}"
            of.setdefault(f"{kernel.chip} {sizes}, L2 {kernel.l2} | {one.row.series}", []).append(one)
    for name, same in of.items():
        ours = same[0].prediction
        cells = []
        for quantity in quantities:
            measured = [_measured(one, quantity) for one in same]
            predicted = {"task": ours.task_us, "core": ours.core_us, **ours.pipes}[quantity]
            known = [value for value in measured if value is not None]
            cells.append(f"{fmean(known):.1f} / {predicted:.1f}" if known else f"- / {predicted:.1f}")
        error = 100 * fmean(one.error for one in same)
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {error:+.1f} |")
    return "\n".join(lines)


def _measured(one: Comparison, quantity: str) -> float | None:
    """A measured time of a row, None where it has none."""
    if quantity == "task":
        return one.row.duration_us
    return one.row.core_us if quantity == "core" else one.row.pipes.get(quantity)


def by_label(compared: Sequence[Comparison], chip: str, op_type: str, label: Callable[[Comparison], str]) -> str:
    """The table of one operator, cut by a label."""
    rows = [one for one in compared if (one.row.kernel.chip, one.row.kernel.op_type) == (chip, op_type)]
    return markdown(group_by(rows, label))


def _kind(one: Comparison) -> str:
    kernel = one.row.kernel
    return f"{kernel.label('format_in')} to {kernel.label('format_out')}, C0 = {kernel['C0']}"


def _layer(one: Comparison) -> str:
    kernel = one.row.kernel
    stride = "" if kernel["stride_h"] == 1 else f" stride {kernel['stride_h']}"
    return f"batch {kernel['N']}, {kernel['kh']}x{kernel['kw']}{stride}"


if __name__ == "__main__":
    if len(sys.argv) != 2 and sys.argv[2:] != ["--long"]:
        sys.exit(__doc__)
    main(sys.argv[1], "--long" in sys.argv)
