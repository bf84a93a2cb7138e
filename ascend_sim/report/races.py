"""Findings of a run on its page: grouped, with writer, reader and cycles of each hazard."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ascend_sim.engine.task import order_of
from ascend_sim.engine.values import Access, Clash
from ascend_sim.engine.watch import watched
from ascend_sim.frozen import frozen
from ascend_sim.runtime import Recording

_SHOWN = 20
"""Findings of a group that are listed one by one."""


@frozen
class _Group:
    """Findings of one kind under a common `title`; each is (its text, its index among the clashes or -1)."""

    title: str
    findings: list[tuple[str, int]]


class Findings:
    """Findings of a report in groups, and the hazards (`clashes`) that the timeline draws; numbered from `first`."""

    def __init__(self, recording: Recording, report: Mapping[str, Any], first: int = 0) -> None:
        self._runs = recording.timeline.programs
        self._index = {order_of(run.task, run.program): place for place, run in enumerate(self._runs)}
        known = {one.text: one.clash for one in watched(recording.timeline).findings if one.clash is not None}
        self.clashes: list[dict[str, Any]] = []
        self._groups: dict[str, _Group] = {}
        for one in report["findings"]:
            clash = known.get(one["text"])
            number = -1
            if clash is None:
                title = f"{one['kind']} in {one['task']}: {_alike(one['text'])}"
            else:
                title = f"{one['kind']} in {one['task']}: {self._title(clash)}"
                number = first + len(self.clashes)
                self.clashes.append(self._race_entry(clash, one["text"]))
            self._groups.setdefault(title, _Group(title, [])).findings.append((one["text"], number))

    def part(self) -> str:
        """Return the groups as HTML, the largest first, with up to 20 findings each; "" without findings."""
        if not self._groups:
            return ""
        lines = ['<div class="findings">']
        for group in sorted(self._groups.values(), key=lambda one: -len(one.findings)):
            many = f"{len(group.findings)} times: " if len(group.findings) > 1 else ""
            lines.append(f'<details><summary class="bad">{many}{escape(group.title)}</summary><ul>')
            for text, number in group.findings[:_SHOWN]:
                button = f' <button data-clash="{number}">show</button>' if number >= 0 else ""
                lines.append(f"<li>{escape(text)}{button}</li>")
            if len(group.findings) > _SHOWN:
                lines.append(f"<li>and {len(group.findings) - _SHOWN} more</li>")
            lines.append("</ul></details>")
        return "\n".join([*lines, "</div>"])

    def _title(self, clash: Clash) -> str:
        late, early = self._words(clash.late), self._words(clash.early)
        return f"{late} {clash.space} while {early} it"

    def _words(self, access: Access) -> str:
        view = self._runs[self._index[access.program]].program[access.row]
        return f"{view.pipe} {view.instruction.name} {'writes' if access.writes else 'reads'}"

    def _race_entry(self, clash: Clash, text: str) -> dict[str, Any]:
        sides: Sequence[tuple[str, Access]] = (("early", clash.early), ("late", clash.late))
        places = {
            name: {"block": self._index[access.program], "row": access.row, "words": self._words(access)}
            for name, access in sides
        }
        where = f"{clash.space} bytes {clash.low:,} to {clash.high:,}"
        return {**places, "where": where, "start": clash.start, "retire": clash.retire, "text": text}


def _alike(text: str) -> str:
    """Return a finding's text without parameters, addresses and numbers: the key by which findings are grouped."""
    return re.sub(r"\b[0-9]+\b", "...", re.sub(r" ?\([^)]*\)| (?:dst|src0|src1)=\S+", "", text))
