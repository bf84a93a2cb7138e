"""Writes the table of docs/check.md: what the checks find in the suite of planted bugs, by label.

Usage: python tools/check_page.py [PAGE]. Every pair of `tests/check/bugs` runs on every chip that it names.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from ascend_sim.report.files import atomic_write

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

BEGIN, END = "<!-- suite: made by tools/check_page.py -->\n", "<!-- end of suite -->\n"


def table() -> str:
    """Recall and precision by label, as Markdown."""
    from tests.support.check.bugs import suite
    from tests.support.check.bugs.planted import PAIRS, found

    assert suite.FILES
    planted: Counter[str] = Counter()
    right: Counter[str] = Counter()
    told: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    clean = beside = 0
    for pair in PAIRS:
        pairs.update(pair.labels)
        for chip in pair.chips:
            labels = found(pair.check(chip, bug=True))
            planted.update(pair.labels)
            right.update(pair.labels & labels)
            consequences = pair.also - pair.labels
            beside += bool(labels & consequences)
            told.update(labels - consequences)
            twin = found(pair.check(chip, bug=False))
            told.update(twin)
            clean += not twin
    runs = sum(len(pair.chips) for pair in PAIRS)
    lines = ["| label | pairs | runs | recall | precision |", "|---|---|---|---|---|"]
    for label in sorted(planted | told):
        recall, precision = (_share(right[label], of[label]) for of in (planted, told))
        lines.append(f"| {label} | {pairs[label]} | {planted[label]} | {recall} | {precision} |")
    lines += [
        "",
        f"{len(PAIRS)} pairs, {runs} runs with the mistake; of {clean} of {runs} runs of the clean twins nothing is said.",
        f"In {beside} runs a consequence that the pair names is told beside the label; it is not counted.",
    ]
    return "\n".join(lines) + "\n"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def page_with(text: str, made: str) -> str:
    """The page with its table replaced."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{made}{END}{tail}"


def main(arguments: list[str]) -> None:
    """Write the page."""
    path = Path(arguments[0]) if arguments else ROOT / "docs" / "check.md"
    text = page_with(path.read_text(encoding="utf-8"), table())
    with atomic_write(path) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
