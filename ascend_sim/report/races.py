"""Findings of a run on its page: grouped, with writer, reader and cycles of each hazard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from ascend_sim.engine.task import order_of
from ascend_sim.engine.values import Access, Clash
from ascend_sim.engine.watch import watched
from ascend_sim.runtime import Recording

_SHOWN = 20
"""Findings of a group that are listed one by one."""


class Findings:
    """Findings of a report in groups, and the hazards (`clashes`) that the timeline draws; numbered from `first`."""

    def __init__(self, recording: Recording, report: Mapping[str, Any], first: int = 0) -> None:
        self._runs = recording.timeline.programs
        self._index = {order_of(run.task, run.program): place for place, run in enumerate(self._runs)}
        known = {one.text: one.clash for one in watched(recording.timeline).findings if one.clash is not None}
        self.clashes: list[dict[str, Any]] = []
        self._groups: dict[str, list[tuple[str, int]]] = {}
        """Findings of one kind by their common title: (text, index among the clashes or -1)."""
        for one in report["findings"]:
            clash = known.get(one["text"])
            number = -1
            if clash is None:
                # What findings of one kind have in common: their text without parameters, addresses and numbers.
                same = re.sub(r" ?\([^)]*\)| (?:dst|src0|src1)=\S+", "", one["text"])
                title = re.sub(r"\b[0-9]+\b", "...", same)
            else:
                title = f"{self._words(clash.late)} {clash.space} while {self._words(clash.early)} it"
                number = first + len(self.clashes)
                self.clashes.append(self._race_entry(clash, one["text"]))
            title = f"{one['kind']} in {one['task']}: {title}"
            self._groups.setdefault(title, []).append((one["text"], number))

    def part(self) -> str:
        """Return the groups as HTML, the largest first, with up to 20 findings each; "" without findings."""
        if not self._groups:
            return ""
        lines = ['<div class="findings">']
        for title, found in sorted(self._groups.items(), key=lambda group: -len(group[1])):
            many = f"{len(found)} times: " if len(found) > 1 else ""
            lines.append(f'<details><summary class="bad">{many}{escape(title)}</summary><ul>')
            for text, number in found[:_SHOWN]:
                button = f' <button data-clash="{number}">show</button>' if number >= 0 else ""
                lines.append(f"<li>{escape(text)}{button}</li>")
            if len(found) > _SHOWN:
                lines.append(f"<li>and {len(found) - _SHOWN} more</li>")
            lines.append("</ul></details>")
        return "\n".join([*lines, "</div>"])

    def _words(self, access: Access) -> str:
        view = self._runs[self._index[access.program]].program[access.row]
        return f"{view.pipe} {view.instruction.name} {'writes' if access.writes else 'reads'}"

    def _race_entry(self, clash: Clash, text: str) -> dict[str, Any]:
        places = {
            name: {"block": self._index[access.program], "row": access.row, "words": self._words(access)}
            for name, access in (("early", clash.early), ("late", clash.late))
        }
        where = f"{clash.space} bytes {clash.low:,} to {clash.high:,}"
        return {**places, "where": where, "start": clash.start, "retire": clash.retire, "text": text}
