"""Selection of the compared rows for the parts of the page."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.studies.validate.pages import Errors, Group, spearman
from ascend_sim.studies.validate.run import RowComparison

DX, DW = "Conv2DBackpropInput", "Conv2DBackpropFilter"


B2, FIRST = "ascend910b2", "ascend910b"


SIMULATED = (DX, DW, "TransData", "ReduceSum", "Cast", "MemSet")
"""Operators of a training step but for its matrix products."""


def simulated_of(compared: Sequence[RowComparison], chip: str, ops: Sequence[str]) -> list[RowComparison]:
    """The simulated rows of a chip's operators."""
    return [
        one
        for one in compared
        if one.row.kernel.chip == chip and one.row.kernel.op_type in ops and not one.prediction.skipped
    ]


def pooled(rows: Sequence[RowComparison]) -> Group:
    """One group over several operators of a chip."""
    pairs = [(one.prediction.task_us, one.row.duration_us) for one in rows]
    rank = spearman([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return Group(
        rows[0].row.kernel.chip, "", "", len({one.row.kernel for one in rows}), Errors.of(pairs), rank, None, {}, {}
    )


def errors_of(group: Group, quantity: str) -> Errors | None:
    """Errors of "task", "core" or a pipe."""
    return {"task": group.task, "core": group.core, **group.pipes}.get(quantity)
