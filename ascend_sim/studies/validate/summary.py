"""The verdict of a comparison with measured kernels: the errors of all of them, and the groups that are furthest off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ascend_sim.frozen import frozen
from ascend_sim.report.columns import counted
from ascend_sim.report.grid import say
from ascend_sim.studies.validate.launches import MICROBENCHMARKS
from ascend_sim.studies.validate.pages import HEADS, Errors, Group, group_by, note_lines, print_table, table_rows
from ascend_sim.studies.validate.run import RowComparison

MOST_GROUPS, MOST_NOTES = 8, 3
"""Groups that the summary shows, of more those furthest off; notes below them."""
COLUMNS = HEADS[: HEADS.index("rank")]
"""Columns of the summary's table."""


@frozen
class ValidationSummary:
    """Errors of task time over all simulated rows, small programs left out; `inside` is the share in their 80 % intervals.

    It is None if no row has an interval.
    """

    task: Errors
    kernels: int
    chips: int
    inside: float | None

    @classmethod
    def of(cls, compared: Sequence[RowComparison]) -> ValidationSummary | None:
        """Return the summary of the rows; None without a simulated kernel."""
        shown = [one for one in compared if not one.prediction.skipped and one.row.kernel.op_type not in MICROBENCHMARKS]
        task = Errors.of([(one.prediction.task_us, one.row.duration_us) for one in shown])
        if task is None:
            return None
        known = [one for one in shown if not math.isnan(one.prediction.low_us)]
        inside = [one.prediction.low_us <= one.row.duration_us <= one.prediction.high_us for one in known]
        return cls(
            task,
            kernels=len({one.row.kernel for one in shown}),
            chips=len({one.row.kernel.chip for one in shown}),
            inside=sum(inside) / len(inside) if inside else None,
        )

    def lines(self) -> list[str]:
        """Return the verdict as lines of text."""
        task = self.task
        counts = f"{counted(task.rows, 'row')}, {counted(self.kernels, 'kernel')}, {counted(self.chips, 'chip')}"
        lines = [
            f"task time off by {task.mean:.1f} % in the mean   median {task.median:.1f} %   bias {task.bias:+.1f} %   "
            f"({counts})"
        ]
        if self.inside is not None:
            lines.append(
                f"{100 * self.inside:.0f} % of the rows lie in their 80 % intervals; the worst is off by {task.worst:+.1f} %"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return "task" (`Errors.to_dict`), "kernels", "chips", and `inside` in percent as "inside_interval_pct"."""
        inside = None if self.inside is None else 100 * self.inside
        return {"task": self.task.to_dict(), "kernels": self.kernels, "chips": self.chips, "inside_interval_pct": inside}


def furthest_off(groups: Sequence[Group]) -> list[Group]:
    """Return the groups with the largest mean errors of task time, at most `MOST_GROUPS`, in the order given; small programs
    and groups without a simulated row are left out.
    """
    kernels = [group for group in groups if group.task is not None and group.op_type not in MICROBENCHMARKS]
    worst = sorted(kernels, key=lambda group: -group.task.mean if group.task else 0.0)[:MOST_GROUPS]
    return [group for group in kernels if group in worst]


def render_summary(compared: Sequence[RowComparison], console: Console) -> None:
    """Print the verdict, the groups that are furthest off, and the first notes."""
    summary, groups = ValidationSummary.of(compared), group_by(compared)
    for line in summary.lines() if summary is not None else ():
        say(console, line)
    worst, rows = furthest_off(groups), table_rows(groups)
    title = (
        "Task time" if len(worst) == len(rows) else f"Task time, the {MOST_GROUPS} of {len(rows)} groups that are furthest off"
    )
    print_table(f"{title}: predicted against measured", COLUMNS, [row[: len(COLUMNS)] for row in table_rows(worst)], console)
    notes = note_lines(compared, groups)
    for line in notes[:MOST_NOTES]:
        say(console, line)
    left = len(notes) - MOST_NOTES
    say(console, f"more: --full, {counted(left, 'note')}" if left > 0 else "more: --full")
