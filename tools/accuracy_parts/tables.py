"""The tables of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from accuracy_parts.fitted import fitted_mark
from accuracy_parts.markdown import markdown
from accuracy_parts.rows import B2, DW, DX, FIRST, pooled, simulated_of
from ascend_sim.studies.validate.launch import PIPES
from ascend_sim.studies.validate.launches import CALLS, MATMULS, MICROBENCHMARKS
from ascend_sim.studies.validate.pages import Errors, group_by, series_of
from ascend_sim.studies.validate.run import RowComparison


def headline(compared: Sequence[RowComparison], with_facts: Sequence[RowComparison]) -> str:
    """The convolutions of both training steps, and on how many rows the number of blocks was the measured one."""
    lines = [
        "| chip | op_type | rows | sizes only: mean % | bias % | rank | blocks right "
        "| with the blocks: mean % | bias % | rank |",
        "|" + "---|" * 10,
    ]
    for chip in (FIRST, B2):
        for op in (DW, DX):
            own, other = (
                [one for one in simulated_of(rows, chip, (op,)) if not one.row.series] for rows in (compared, with_facts)
            )
            figures = []
            for group in map(pooled, (own, other)):
                assert group.task is not None
                figures.append(f"{group.task.mean:.1f} | {group.task.bias:+.1f} | {group.rank or 0:.3f}")
            right = sum(one.row.cells["block_dim"] == str(one.prediction.blocks) for one in own)
            lines.append(f"| {chip} | {op} | {len(own)} | {figures[0]} | {right} of {len(own)} | {figures[1]} |")
    return "\n".join(lines)


def three_columns(compared: Sequence[RowComparison], helped_rows: Sequence[RowComparison]) -> str:
    """Task times with sizes only and with facts, and what was fitted or chosen on such rows."""
    groups, helped_groups = group_by(compared), group_by(helped_rows)
    rows: dict[tuple[str, str, str], list[RowComparison]] = {}
    for one in compared:
        rows.setdefault((one.row.kernel.chip, one.row.kernel.op_type, series_of(one)), []).append(one)
    lines = [
        "| chip | op_type | rows | kernels | sizes only: mean % | median % | bias % | rank | with facts: mean % | bias % "
        "| rank | fitted |",
        "|" + "---|" * 12,
    ]
    helped = {(group.chip, group.op_type, group.series): group for group in helped_groups}
    for group in groups:
        if group.task is None or group.op_type in MICROBENCHMARKS:
            continue
        with_help = helped[group.chip, group.op_type, group.series]
        assert with_help.task is not None
        ranks = ["-" if rank is None else f"{rank:.3f}" for rank in (group.rank, with_help.rank)]
        name = f"{group.op_type}, {group.series}" if group.series else group.op_type
        own, other = group.task, with_help.task
        key = (group.chip, group.op_type, group.series)
        fitted = fitted_mark([one.row for one in rows[key]])
        lines.append(
            f"| {group.chip} | {name} | {own.rows} | {group.kernels} | {own.mean:.1f} | {own.median:.1f} | {own.bias:+.1f} | "
            f"{ranks[0]} | {other.mean:.1f} | {other.bias:+.1f} | {ranks[1]} | {fitted} |"
        )
    return "\n".join(lines)


def kernels(rows: Sequence[RowComparison]) -> str:
    """Measured and predicted times of every distinct cube kernel."""
    quantities = ("task", "core", "mac", "mte1", "mte2", "fixpipe", "scalar")
    lines = ["| kernel | blocks | " + " | ".join(quantities) + " |", "|---|---|" + "---|" * len(quantities)]
    of: dict[str, list[RowComparison]] = {}
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


def products(compared: Sequence[RowComparison]) -> str:
    """Measured and predicted times of every distinct matrix product."""
    quantities = ("task", "core", "mac", "mte1", "mte2", "fixpipe")
    lines = ["| product | series | " + " | ".join(quantities) + " | task error % |", "|---|---|" + "---|" * 7]
    of: dict[str, list[RowComparison]] = {}
    for one in compared:
        kernel = one.row.kernel
        if kernel.op_type in MATMULS and not one.prediction.skipped:
            batch = f"{kernel['batch']} x " if kernel.get("batch", 1) > 1 else ""
            layout = "NT"[kernel.get("trans_a", 0)] + "NT"[kernel.get("trans_b", 0)]
            sizes = f"{batch}{kernel['M']} x {kernel['N']} x {kernel['K']} {layout} {kernel.dtype}"
            of.setdefault(f"{kernel.chip} {sizes} | {one.row.series}", []).append(one)
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


def _measured(one: RowComparison, quantity: str) -> float | None:
    """A measured time of a row, None where it has none."""
    if quantity == "task":
        return one.row.duration_us
    return one.row.core_us if quantity == "core" else one.row.pipes.get(quantity)


def by_label(compared: Sequence[RowComparison], chip: str, op_type: str, label: Callable[[RowComparison], str]) -> str:
    """The table of one operator, cut by a label."""
    rows = [one for one in compared if (one.row.kernel.chip, one.row.kernel.op_type) == (chip, op_type)]
    return markdown(group_by(rows, label))


def kind(one: RowComparison) -> str:
    """Return the direction of a TransData."""
    kernel = one.row.kernel
    return f"{kernel.label('format_in')} to {kernel.label('format_out')}, C0 = {kernel['C0']}"


def layer(one: RowComparison) -> str:
    """Batch and kernel of a convolution."""
    kernel = one.row.kernel
    stride = "" if kernel["stride_h"] == 1 else f" stride {kernel['stride_h']}"
    return f"batch {kernel['N']}, {kernel['kh']}x{kernel['kw']}{stride}"


def calls(compared: Sequence[RowComparison]) -> tuple[str, str]:
    """Whole calls by kind, and every row with its kernels."""
    of: dict[tuple[str, ...], list[RowComparison]] = {}
    for one in compared:
        kernel = one.row.kernel
        if kernel.op_type in CALLS:
            plan = "named" if kernel.label("kernels") else "ours"
            of.setdefault((kernel.op_type, one.row.series or "-", kernel.chip, plan), []).append(one)
    kinds = ["| call | series | chip | kernels | n | mean % | median % | bias % | inside |", "|" + "---|" * 9]
    rows = ["| call | series | chip | case | dtype | measured us | predicted us | error % | kernels, us |", "|" + "---|" * 9]
    for name, group in sorted(of.items()):
        same = [one for one in group if not one.prediction.skipped]
        errors = Errors.of([(one.prediction.task_us, one.row.duration_us) for one in same])
        rest = ("-",) * 3 if errors is None else (f"{errors.mean:.1f}", f"{errors.median:.1f}", f"{errors.bias:+.1f}")
        inside = sum(one.prediction.low_us <= one.row.duration_us <= one.prediction.high_us for one in same)
        figures = (str(len(same)), *rest, f"{inside} of {len(same)}")
        kinds.append("| " + " | ".join((*name, *figures)) + " |")
        for one in same:
            times = f"{one.row.duration_us:.1f} | {one.prediction.task_us:.1f} | {100 * one.error:+.1f}"
            parts = ", ".join(f"{part} {us:.1f}" for part, us in one.prediction.kernels)
            case, dtype = one.row.cells["case"], one.row.kernel.dtype
            rows.append("| " + " | ".join((*name[:3], case, dtype, times, parts)) + " |")
    return "\n".join(kinds), "\n".join(rows)
