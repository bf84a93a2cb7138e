"""A recorded instruction: name, regions and cycles of an instruction whose Python class is not needed.

Instructions that a user's kernel defines are stored so (`report.timeline_file`): the reader of the file does not need their
Python. On another chip they keep the cycles that they had.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, GmAccess, Instruction
from ascend_sim.memory.regions import Region


@frozen
class Recorded(Instruction):
    """A recorded instruction; `text` is the JSON of its properties, made by `of`."""

    text: str

    @classmethod
    def of(cls, instruction: Instruction, chip: ChipSpec) -> Recorded:
        """Return a recording of `instruction` on `chip`: its text, name, kind, `atomic`, pipe, cost, GM access, regions, label
        and path.

        Its effect on values is not recorded: `read` and `commit` of the recording do nothing.
        """
        access = instruction.gm_access(chip)
        told = {
            "name": instruction.name,
            "words": str(instruction),
            "kind": instruction.kind,
            "atomic": instruction.atomic,
            "pipe": instruction.pipe(chip),
            "cost": asdict(instruction.cost(chip)),
            "access": None if access is None else asdict(access),
            "reads": [asdict(region) for region in instruction.reads()],
            "writes": [asdict(region) for region in instruction.writes()],
            "label": instruction.label(),
            "path": instruction.path(),
        }
        return cls(json.dumps(told))

    @property
    def name(self) -> str:  # type: ignore[override]
        return str(_properties(self.text)["name"])

    @property
    def kind(self) -> int:  # type: ignore[override]
        return int(_properties(self.text)["kind"])

    @property
    def atomic(self) -> bool:  # type: ignore[override]
        return bool(_properties(self.text)["atomic"])

    def __str__(self) -> str:
        return str(_properties(self.text)["words"])

    def pipe(self, chip: ChipSpec) -> str:
        return str(_properties(self.text)["pipe"])

    def cost(self, chip: ChipSpec) -> Cost:
        return Cost(**_properties(self.text)["cost"])

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        access = _properties(self.text)["access"]
        return None if access is None else GmAccess(**{**access, "region": Region(**access["region"])})

    def reads(self) -> tuple[Region, ...]:
        return tuple(Region(**region) for region in _properties(self.text)["reads"])

    def writes(self) -> tuple[Region, ...]:
        return tuple(Region(**region) for region in _properties(self.text)["writes"])

    def label(self) -> str:
        return str(_properties(self.text)["label"])

    def path(self) -> str:
        return str(_properties(self.text)["path"])


@lru_cache(maxsize=1024)
def _properties(text: str) -> dict[str, Any]:
    """Return the properties in a recording's JSON text as a dict; cached."""
    found: dict[str, Any] = json.loads(text)
    return found
