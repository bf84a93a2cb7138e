"""Findings of a check: places, words and JSON. The words have the shape of the vendor's sanitizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from ascend_sim.engine.values import Finding
from ascend_sim.frozen import frozen, mutable
from ascend_sim.kernel.inspection import Line

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
"""Tools of a check."""
LEVELS = ("ERROR", "WARNING")
_CALL = 48
"""Characters of a call in the one-line form."""
REMARK = "REMARK"
"""The level of a remark: it is reported, but is not a mistake."""
_ROOT = Path(__file__).resolve().parents[2]


@frozen
class FindingPlace:
    """One instruction of a finding: core, pipe, row, source line if noted, and the cycle of its start if known.

    `address` is a byte of the buffer, or of GM, counted from its start.
    """

    block: int
    core: str
    sub_block: int
    pipe: str
    row: int
    instruction: str
    access: str = ""
    address: int | None = None
    line: Line | None = None
    cycle: int | None = None
    task: int = 0
    """The number of the task, in the order of launches."""
    call: str = ""
    """The text of the line, where its file is there."""

    @property
    def block_text(self) -> str:
        """Return the core's name as the vendor's tool writes it: "aiv(3)", "aiv(3.1)" for its second AIV."""
        number = f"{self.block}.{self.sub_block}" if self.sub_block else str(self.block)
        return f"{_KINDS.get(self.core, self.core.lower())}({number})"

    def where(self) -> str:
        """Return "#0 " and file, line, instruction, row, cycle and the line's text, as far as they are known."""
        cycle = "" if self.cycle is None else f", cycle {self.cycle}"
        line = f"{shown(self.line)} " if self.line is not None else ""
        call = f": {self.call}" if self.call else ""
        return f"#0 {line}{self.instruction} (row {self.row}{cycle}){call}"

    def short(self) -> str:
        """Return "add.py:7 `k.gm_to_ub(row, x)`": file, line, its text cut to 48 characters (the instruction if it is
        unknown).

        Without a line it is the instruction alone.
        """
        call = f"`{shorten(self.call, _CALL, placeholder=' ...')}`" if self.call else self.instruction
        return f"{Path(self.line[0]).name}:{self.line[1]} {call}" if self.line is not None else call

    def to_dict(self) -> dict[str, Any]:
        """Return the fields except `task` as a dict for JSON, None if unknown; "file" and "line" stand for the source line."""
        return {
            "block": self.block,
            "core": self.core,
            "sub_block": self.sub_block,
            "pipe": self.pipe,
            "row": self.row,
            "instruction": self.instruction,
            "access": self.access or None,
            "address": self.address,
            "file": None if self.line is None else shown(self.line).rpartition(":")[0],
            "line": None if self.line is None else self.line[1],
            "call": self.call or None,
            "cycle": self.cycle,
        }


_KINDS = {"AI_CORE": "aicore"}


@frozen
class CheckFinding(Finding):
    """One finding of a check: `kind` ("RAW", "illegal read", ...), the `tool` that found it, its `title` and further lines
    `details`.

    `count` is how often the same lines of the kernel did it, `advice` a change that would mend it.
    """

    tool: str = ""
    level: str = "ERROR"
    title: str = ""
    details: tuple[str, ...] = ()
    places: tuple[FindingPlace, ...] = ()
    space: str = ""
    size: int = 0
    count: int = 1
    advice: str = ""
    tensor: str = ""
    """Tensor or piece of a buffer whose bytes are meant, where it has a name."""

    @property
    def of_unwritten(self) -> bool:
        return self.kind == "uninitialized read" and self.space != "GM"

    def harmless(self, why: str) -> CheckFinding:
        """Return the finding as a warning, with the reason `why` as its advice."""
        return replace(self, level="WARNING", advice=why).at(self.places)

    @classmethod
    def of(cls, tool: str, kind: str, task: str, title: str, **options: Any) -> CheckFinding:
        """Return a finding with these parts (`options` are further fields), and its one-line `text` made from them."""
        made = cls(kind, task, "", tool=tool, title=title, **options)
        return replace(made, text=made._in_one_line())

    def at(self, places: tuple[FindingPlace, ...]) -> CheckFinding:
        """Return a copy of the finding with other places and the text that follows from them."""
        made = replace(self, places=places)
        return replace(made, text=made._in_one_line())

    def _in_one_line(self) -> str:
        return " ".join("; ".join((self.title.rstrip(":"), *self.body())).split())

    def body(self) -> list[str]:
        """Return the lines under the title: details, places, count above 1, advice."""
        lines = list(self.details)
        for place in self.places:
            if place.access and len(self.places) > 1:
                lines.append(
                    f"PIPE_{place.pipe} {place.access.capitalize()} at {self.kind}()+{place.address or 0:#x} in block "
                    f"{place.block} ({place.block_text.partition('(')[0]}{f' {place.sub_block}' if place.sub_block else ''}) "
                    f"on device 0"
                )
            else:
                lines.append(f"in block {place.block_text} on device 0, PIPE_{place.pipe}")
            lines.append(place.where())
        if self.count > 1:
            lines.append(f"{self.count} times")
        if self.advice:
            lines.append(self.advice)
        return lines

    def brief(self) -> str:
        """Return the finding in one line: kind and count, of two accesses their lines and tensor, else title and places;
        then advice.
        """
        head = f"{self.kind}, {self.count} times" if self.count > 1 else self.kind
        held = f"{self.tensor} in {self.space}" if self.tensor else self.space
        advice = f"; {self.advice}" if self.advice else ""
        if len(self.places) == 2 and all(place.access for place in self.places):
            early, late = self.places
            return f"{head}: {late.short()} {late.access}s {held}, {early.short()} {early.access}s it, in no order{advice}"
        where = "".join(f"; {place.short()}" for place in self.places)
        return f"{head}: {self.title.rstrip(':')}{where}{advice}"

    def render(self) -> str:
        """Return the finding as lines in the form of the vendor's sanitizer."""
        return "\n".join((f"====== {self.level}: {self.title}", *(f"======    {line}" for line in self.body())))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but `text` and `clash` as a dict for JSON, `size` as "bytes".

        An empty space, tensor or advice is None.
        """
        return {
            "tool": self.tool,
            "level": self.level,
            "kind": self.kind,
            "task": self.task,
            "title": self.title,
            "details": list(self.details),
            "space": self.space or None,
            "tensor": self.tensor or None,
            "bytes": self.size,
            "count": self.count,
            "places": [place.to_dict() for place in self.places],
            "advice": self.advice or None,
        }


@mutable
class CheckReport:
    """Result of a check: its findings, and the numbers of checked programs and rows.

    `unused` lists unused memory. It is not a mistake, for a correct kernel may read a part of its input; `remarks` begin with
    its texts. `scalar_code` counts turns of loops and calls, as a run's report does.
    """

    chip: str
    tools: tuple[str, ...]
    findings: list[CheckFinding]
    programs: int = 0
    rows: int = 0
    remarks: list[str] = field(default_factory=list)
    unused: list[CheckFinding] = field(default_factory=list)
    scalar_code: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def __repr__(self) -> str:
        found = f"{len(self.findings)} findings" if self.findings else "nothing found"
        return f"<CheckReport on {self.chip}: {found} by {', '.join(self.tools)}>"

    @property
    def passed(self) -> bool:
        """Return True if there are no findings; remarks and unused memory do not count."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON, `rows` as "instructions", with "passed"; without an empty `scalar_code`."""
        return {
            "chip": self.chip,
            "tools": list(self.tools),
            "passed": self.passed,
            "programs": self.programs,
            "instructions": self.rows,
            **({"scalar_code": self.scalar_code} if self.scalar_code else {}),
            "findings": [one.to_dict() for one in self.findings],
            "remarks": list(self.remarks),
            "unused": [one.to_dict() for one in self.unused],
        }

    def render(self) -> str:
        """Return all findings in the vendor's form, the remarks, and a summary line."""
        levels = {level: sum(one.level == level for one in self.findings) for level in LEVELS}
        seen = f"in {self.programs} programs with {self.rows} instructions" if self.programs else "but no kernel ran"
        summary = (
            f"====== SUMMARY: {levels['ERROR']} errors, {levels['WARNING']} warnings {seen} on {self.chip} "
            f"({', '.join(self.tools)})"
        )
        remarks = [f"====== REMARK: {text}" for text in self.remarks]
        return "\n".join([*(one.render() for one in self.findings), *remarks, summary])


def shown(line: Line) -> str:
    """Return "file:line" for messages, relative for files in or below the folder that holds this package."""
    path = Path(line[0])
    if path.is_relative_to(_ROOT):
        return f"{path.relative_to(_ROOT)}:{line[1]}"
    return f"{line[0]}:{line[1]}"


def sort_findings(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Return the findings, errors before warnings; otherwise the order stays. Raises ValueError for a remark."""
    return sorted(findings, key=lambda one: LEVELS.index(one.level))
