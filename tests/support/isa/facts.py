"""Facts about the fields, formats and modes of the chips' instructions, from tests/isa/forms/facts.tsv.

`tools/instruction_facts.py` writes the file from a table that was made apart from this project's forms.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parents[2] / "isa" / "forms" / "facts.tsv"
CHIPS = {"dav-1001": "ascend910a", "dav-2002": "ascend310p3", "dav-2201": "ascend910b3", "dav-3510": "ascend950pr_9589"}


class InstructionFact(NamedTuple):
    """One line of the file: what an instruction has on some architectures."""

    instruction: str
    architectures: tuple[str, ...]
    what: str
    value: Any
    unit: str
    mark: str
    source: str

    @property
    def name(self) -> tuple[str, str]:
        """Return (instruction, what)."""
        return self.instruction, self.what


@cache
def instruction_facts() -> tuple[InstructionFact, ...]:
    """Return the facts in the order of the file."""
    found = []
    for line in FILE.read_text(encoding="utf-8").splitlines()[1:]:
        instruction, architectures, what, value, unit, mark, source = line.split("\t")
        archs = tuple(f"dav-{one}" for one in architectures.split(","))
        found.append(InstructionFact(instruction, archs, what, json.loads(value), unit, mark, source))
    return tuple(found)
