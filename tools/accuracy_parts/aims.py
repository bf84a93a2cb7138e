"""The aims of the project for these rows."""

from __future__ import annotations

from collections.abc import Sequence

from accuracy_parts.rows import B2, DW, DX, FIRST, errors_of, pooled
from ascend_sim.studies.validate.instruction_points import compare_points, shipped_points
from ascend_sim.studies.validate.launches import MATMULS
from ascend_sim.studies.validate.pages import Group, blind, group_by, group_points
from ascend_sim.studies.validate.run import RowComparison


def aims(compared: Sequence[RowComparison], told: Sequence[RowComparison]) -> str:
    """The project's aims for these rows beside what came out, told nothing and told."""
    plain, helped = _aim_lines(compared), _aim_lines(told)
    lines = ["| chip | what | aim | told nothing | | told | |", "|---|---|---|---|---|---|---|"]
    for own, other in zip(plain, helped, strict=True):
        lines.append("| " + " | ".join((*own, *other[3:])) + " |")
    return "\n".join(lines)


def _aim_lines(compared: Sequence[RowComparison]) -> list[tuple[str, ...]]:
    """(chip, what, aim, value, met or missed)."""

    def rows(chip: str, op_type: str) -> list[RowComparison]:
        return [
            one
            for one in compared
            if (one.row.kernel.chip, one.row.kernel.op_type, one.row.series) == (chip, op_type, "")
            and not one.prediction.skipped
        ]

    def both_of(chip: str, ops: Sequence[str]) -> Group:
        both = [one for op in ops for one in rows(chip, op)]
        (group,) = group_by(both, lambda _: "") if len(ops) == 1 else [pooled(both)]
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
        group = both_of(B2, [op])
        for quantity, limit in limits.items():
            errors = errors_of(group, quantity)
            value = None if errors is None else errors.mean
            line(B2, f"{op}, {quantity}, mean", f"<= {limit} %", value, value is not None and value <= limit)
    both = both_of(FIRST, [DW, DX])
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
            task = pooled(these).task
            assert task is not None
            line(chip, f"MatMul, {series}, task, mean", f"<= {limit} %", task.mean, task.mean <= limit)
    return lines


MATMUL_AIMS = (
    ("ascend910b1", "8192^3 sample", 10), ("ascend950pr_9589", "8192^3 sample", 10), ("ascend910_9381", "pto-isa", 15),
    ("ascend910b3", "LLM", 15), ("ascend910b2", "torch", 15), ("ascend910b2", "torch, 1024^3", 25),
)  # fmt: skip
"""Chip, series and the mean error of task time that the project aims for, in percent."""
