"""Fitted costs and the measured rows that fitted them; what else was decided with rows in view."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.studies.validate.fitted_on import fitted_of, selected
from ascend_sim.studies.validate.run import Comparison

FITTED = """## Fitted costs and the rows that fitted them

From the chip files, as `ascend-sim chips NAME` prints them, and from `configs/libraries.yaml`. Each names beside its source
the rows of `configs/measurements/` that fitted it (`fitted_on`), which is also what "fitted" means in the tables. A source
that begins with `derived:` or `assumed:` is of a cost that was chosen with these rows in view: they are beside it, or
one of several readings was taken because they agree with it. Such costs count as fitted in the tables too; the fits with
layers left out do not touch them."""

STRUCTURE: dict[tuple[str, str], tuple[str, ...]] = {
    ("ascend910b", ""): ("Conv2DBackpropFilter",),
    ("ascend910b2", ""): ("Conv2DBackpropFilter", "npu_conv3d_backward"),
    ("ascend910b4", "KernelBench"): (
        "BatchMatMul", "MatMul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    ),
}  # fmt: skip
"""Chip and series of rows -> operators of which a rule of the kernel, or the chip itself, was chosen with these rows in view
(words.HEAD says which); their figures are in-sample even where no cost was fitted on them."""


def is_fitted(rows: Sequence[Comparison]) -> bool:
    """Whether one of these rows fitted a cost of its architecture."""
    selectors = {
        text
        for chip in {one.row.kernel.chip for one in rows}
        for _, texts in fitted_of(load_chip(chip)).values()
        for text in texts
    }
    fitted = {tuple(row.items()) for text in selectors for row in selected(text)}
    return any(tuple(one.row.cells.items()) in fitted for one in rows)


def fitted_mark(rows: Sequence[Comparison], chip: str, op_type: str, series: str) -> str:
    """What the column "fitted" says of these rows."""
    found = [
        "yes" if is_fitted(rows) else "",
        "structure" if op_type in STRUCTURE.get((chip, series), ()) else "",
    ]
    return ", ".join(filter(None, found)) or "no"


def fitted_costs() -> str:
    """Every fitted cost, its rows, and what its source says of them."""
    lines = ["| chips | cost | rows | source |", "|---|---|---|---|"]
    seen: dict[tuple[str, ...], list[str]] = {}
    for name in chip_names():
        chip = load_chip(name)
        for place, (text, selectors) in fitted_of(chip).items():
            cells = (place, "; ".join(selectors), text.removeprefix("fitted: ").replace("|", "/"))
            seen.setdefault(cells, []).append(chip.identity.arch)
    for cells, archs in seen.items():
        lines.append(f"| {', '.join(dict.fromkeys(archs))} | {' | '.join(cells)} |")
    return "\n".join(lines)
