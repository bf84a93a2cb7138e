"""Write the tables of names in docs/ascend-c.md: `python tools/ascend_c_page.py` (`--check`: say whether they are right)."""

from __future__ import annotations

import sys
from pathlib import Path

from ascend_sim.ascend_c.names import ARCHITECTURES, ASSUMED, REFUSED, SIMULATED

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ascend-c.md"
HEADING = "## Names\n"


def tables() -> str:
    """Return the tables of the names that are simulated and of those that are refused."""
    lines = ["", "| names | architectures | simulated / refused |", "|---|---|---|"]
    for what, names in SIMULATED.items():
        listed = ", ".join(f"`{name}`" for name in names)
        state = "assumed" if what in ASSUMED else "simulated"
        lines.append(f"| {what}: {listed} | {', '.join(ARCHITECTURES)} | {state} |")
    reasons = dict.fromkeys(REFUSED.values())
    for why in reasons:
        listed = ", ".join(f"`{name}`" for name in sorted(REFUSED) if REFUSED[name] == why)
        lines.append(f"| {why}: {listed} | none | refused |")
    return "\n".join([*lines, ""])


def page() -> str:
    """Return the page with its tables made anew."""
    before, heading, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    return before + heading + tables()


def main() -> None:
    """Write the page, or say whether it is right."""
    text = page()
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if PAGE.read_text(encoding="utf-8") == text else f"{PAGE.name} is not what the code says")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
