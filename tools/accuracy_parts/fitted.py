"""Fitted costs and the measured rows that fitted them."""

from __future__ import annotations

from collections.abc import Sequence

from accuracy_parts.fitted_on import fitted_of
from accuracy_parts.structure import is_of, was_chosen_on
from ascend_sim.chip import chip_names, load_chip
from ascend_sim.studies.validate.launch import MeasuredRow

FITTED = """## Fitted costs and the rows that fitted them

From the chip files, `configs/libraries.yaml` and `configs/tilings.yaml`, each with the rows of `configs/measurements/` that
fitted it (`fitted_on`). A source that begins with `derived:`, `assumed:` or `guessed:` is of a cost that was chosen with
these rows in view; it counts as fitted, but the fits with layers left out do not touch it."""


def is_fitted(rows: Sequence[MeasuredRow]) -> bool:
    """Return True if one of these rows fitted a cost of its architecture."""
    chips = {row.kernel.chip for row in rows}
    return is_of(rows, [text for chip in chips for _, texts in fitted_of(load_chip(chip)).values() for text in texts])


def fitted_mark(rows: Sequence[MeasuredRow]) -> str:
    """Return the text of these rows in the column "fitted"."""
    found = ["yes" if is_fitted(rows) else "", "structure" if was_chosen_on(rows) else ""]
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
