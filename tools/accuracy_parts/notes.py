"""Notes on the causes of errors of predictions; each stands on the page while the error is above its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from accuracy_parts.rows import errors_of
from ascend_sim.studies.validate.pages import Group


@dataclass(frozen=True)
class Note:
    """Cause of an error of a quantity ("task", "core" or a pipe) of a chip's operator; shown while its mean exceeds
    `limit` %.
    """

    chip: str
    op_type: str
    quantity: str
    limit: float
    why: str
    series: str = ""


def load_notes() -> list[Note]:
    """The notes of tools/accuracy_notes.yaml."""
    text = Path(__file__).parents[1].joinpath("accuracy_notes.yaml").read_text(encoding="utf-8")
    return [Note(**entry) for entry in yaml.safe_load(text)]


def notes(groups: Sequence[Group]) -> str:
    """The notes whose error is above their limit, with the error."""
    found = {(group.chip, group.op_type, group.series): group for group in groups}
    lines = []
    for note in load_notes():
        group = found.get((note.chip, note.op_type, note.series))
        errors = errors_of(group, note.quantity) if group else None
        if errors is not None and errors.mean > note.limit:
            figures = f"mean {errors.mean:.0f} %, bias {errors.bias:+.0f} %"
            what = f"{note.op_type}, {note.series}" if note.series else note.op_type
            lines.append(f"- **{note.chip} {what}, {note.quantity}** ({figures}): {note.why}")
    return "\n".join(lines)
