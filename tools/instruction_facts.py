#!/usr/bin/env python3
"""Writer of the facts about instruction fields that tests hold the declared forms against.

`python tools/instruction_facts.py FACTS.json` reads {"facts": [{instruction, architectures, what, value, unit, mark,
source}]} and writes tests/isa/forms/facts.tsv: one fact a line, in the order of the file, with the pages of sources by their
English names.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "tests" / "isa" / "forms" / "facts.tsv"
COLUMNS = ("instruction", "architectures", "what", "value", "unit", "mark", "source")
_LAST_PART = re.compile(r"docs/zh/api/\S+/([^/]*?)(\.md)?(?=$|[,;])")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def source_of(text: str) -> str:
    """Return a source in ASCII: a page of the API by what its name has of it, "API general" for a page without any."""
    short = _LAST_PART.sub(lambda found: f"API {_NOT_ASCII.sub(' ', found[1]).strip(' -') or 'general'}", text)
    return " ".join(_NOT_ASCII.sub(" ", short).split())


def line_of(fact: dict[str, Any]) -> str:
    """Return the line of a fact; the value is JSON."""
    cells = {
        **fact,
        "architectures": ",".join(one.removeprefix("dav-") for one in fact["architectures"]),
        "value": json.dumps(fact["value"], separators=(",", ":")),
        "source": source_of(fact["source"]),
    }
    return "\t".join(str(cells[name]) for name in COLUMNS)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/instruction_facts.py FACTS.json")
    facts = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["facts"]
    TARGET.write_text("\n".join(["\t".join(COLUMNS), *map(line_of, facts)]) + "\n", encoding="utf-8")
    print(f"{len(facts)} facts")


if __name__ == "__main__":
    main()
