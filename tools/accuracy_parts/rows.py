"""Selection of the compared rows for the parts of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accuracy_parts.fitted_on import folder
from ascend_sim.studies.validate.launches import MATMULS
from ascend_sim.studies.validate.pages import Errors, Group, spearman
from ascend_sim.studies.validate.rows import MeasuredRow, read_rows
from ascend_sim.studies.validate.run import RowComparison

DX, DW = "Conv2DBackpropInput", "Conv2DBackpropFilter"


B2, FIRST = "ascend910b2", "ascend910b"


SIMULATED = (DX, DW, "TransData", "ReduceSum", "Cast", "MemSet")
"""Operators of a training step but for its matrix products."""


STEPS = ("steps/alexnet_910b2_rank0.csv", "steps/alexnet_910b2_rank1.csv")
STEP_CHIP, ORDERED = "ascend910b2", "AlexNet in its order"


def of_steps(l2: str | None) -> list[MeasuredRow]:
    """Return the rows of AlexNet's steps, with the L2 as the step's order leaves it for None."""
    return [
        replace(row, series=ORDERED, cells={**row.cells, "run": "alexnet"})
        for name in STEPS
        for row in read_rows(folder() / name, l2, STEP_CHIP, skip=True)
    ]


def out_of_order(row: MeasuredRow) -> bool:
    """Return True for AlexNet's products that are not of `of_steps`: what of their weights, 16 to 151 MB, the L2 holds is
    known by the step's order alone.
    """
    return row.kernel.op_type in MATMULS and row.series == "AlexNet"


def ordered_products() -> list[MeasuredRow]:
    """Return the rows of AlexNet's products in the order of their steps."""
    return [row for row in of_steps(None) if row.kernel.op_type in MATMULS]


def simulated_of(compared: Sequence[RowComparison], chip: str, ops: Sequence[str]) -> list[RowComparison]:
    """The simulated rows of a chip's operators."""
    return [
        one for one in compared if one.row.kernel.chip == chip and one.row.kernel.op_type in ops and not one.prediction.skipped
    ]


def pooled(rows: Sequence[RowComparison]) -> Group:
    """One group over several operators of a chip."""
    pairs = [(one.prediction.task_us, one.row.duration_us) for one in rows]
    rank = spearman([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return Group(rows[0].row.kernel.chip, "", "", len({one.row.kernel for one in rows}), Errors.of(pairs), rank, None, {}, {})


def errors_of(group: Group, quantity: str) -> Errors | None:
    """Errors of "task", "core" or a pipe."""
    return {"task": group.task, "core": group.core, **group.pipes}.get(quantity)
