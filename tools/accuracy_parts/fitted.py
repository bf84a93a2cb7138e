"""Fitted costs, and the measured rows that fitted them."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.studies.validate.fitted_on import fitted_of, selected
from ascend_sim.studies.validate.run import Comparison

FITTED = """## Fitted costs and the rows that fitted them

From the chip files, as `ascend-sim chips NAME` prints them, and from `configs/libraries.yaml`. Each names beside its source
the rows of `configs/measurements/` that fitted it (`fitted_on`), which is also what "fitted" means in the tables."""


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
