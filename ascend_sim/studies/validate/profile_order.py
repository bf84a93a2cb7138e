"""What the order of a profile says of each launch: whether its code was in the cores' instruction caches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ascend_sim.chip import ChipSpec
from ascend_sim.studies.validate.profiler_line import Line

_BINARY = ("type", "input types", "input formats", "output types", "output formats")
"""Columns that tell the code of two launches apart."""


def note_launches(lines: Sequence[dict[str, str]], chip: ChipSpec) -> None:
    """Write the column `launches` of a profiler's lines: warm where the same code ran shortly before on such cores.

    All launches of the profile count, also those that are not simulated (chip file, launch.kept_launches). Lines without a
    start time stay as they are.
    """
    timed = [(start, place) for place, line in enumerate(map(Line, lines)) if (start := _start(line)) is not None]
    launched: defaultdict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for _, place in sorted(timed):
        line = Line(lines[place])
        cores = line.text.get("device_id", ""), _kind(line["core"])
        recent, binary = launched[cores], tuple(line[name] for name in _BINARY)
        kept = recent[max(len(recent) - chip.launch.kept_launches, 0) :]
        lines[place].setdefault("launches", "warm" if binary in kept else "cold")
        recent.append(binary)


def _start(line: Line) -> float | None:
    """The start time in us; None where there is none, or no number."""
    try:
        return line.number("start")
    except ValueError:
        return None


def _kind(core: str) -> str:
    """The kind of core by its name in a profile."""
    return "AIV" if "VECTOR" in core.upper() or "AIV" in core.upper() else "AIC"
