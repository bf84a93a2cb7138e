"""Table of errors before and after each mechanism, from the figures of tools/accuracy_mechanisms.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

TEXT = """## Before and after each mechanism

Mean error with sizes only, before -> after. "at": two commits, whose pages say so; or one, of whose state the mechanism alone
was taken out. "-": no sealed row of such a kernel was simulated."""

Figures = tuple[str, str, int, float, float]
"""Chip, kind of kernel or call, its rows, and their mean error in percent before and after."""


@dataclass(frozen=True)
class Mechanism:
    """Change of the simulator, with what was `fitted` on which `rows` (as in `fitted_on`) and errors of `kinds` of open rows
    and of `sealed` ones at commits `at`; `unmeasured` says why there are none.
    """

    what: str
    fitted: str
    rows: Sequence[str] = ()
    at: Sequence[str] = ()
    kinds: Sequence[Figures] = ()
    sealed: Sequence[Figures] = ()
    unmeasured: str = ""


def load_mechanisms() -> list[Mechanism]:
    """The entries of tools/accuracy_mechanisms.yaml."""
    text = Path(__file__).parents[1].joinpath("accuracy_mechanisms.yaml").read_text(encoding="utf-8")
    return [Mechanism(**entry) for entry in yaml.safe_load(text)]


def mechanisms() -> str:
    """The section of the page."""
    lines = ["| mechanism | fitted, on which rows | at | chip | kind | open: mean % | sealed: mean % |", "|" + "---|" * 7]
    for one in load_mechanisms():
        fitted = one.fitted + (f" ({'; '.join(one.rows)})" if one.rows else "")
        head = f"| {one.what} | {fitted} | {' -> '.join(one.at) or '-'} |"
        if one.unmeasured:
            lines.append(f"{head} - | - | not measured: {one.unmeasured} | - |")
        for rows, cells in ((one.kinds, "{} | -"), (one.sealed, "- | {}")):
            for chip, kind, count, before, after in rows:
                lines.append(f"{head} {chip} | {kind} | {cells.format(f'{before:.1f} -> {after:.1f} ({count})')} |")
                head = "| | | |"
    return TEXT + "\n\n" + "\n".join(lines)
