"""Makes the lesson in which a student takes a flag away: docs/lessons/6_take_a_flag_away.html.

Usage: python tools/flag_lesson.py [PAGE]. Every flag of the kernel is taken away once; the page holds what each run gave.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ascend_sim.calls.cases import call_case
from ascend_sim.calls.checks import check_call
from ascend_sim.chip import load_chip
from ascend_sim.engine.critical_path import critical_path
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.report.blocks import EXPLAINED, timeline_part
from ascend_sim.report.files import atomic_write
from ascend_sim.report.html import table
from ascend_sim.report.packed import PackedBlocks
from ascend_sim.report.races import Findings
from ascend_sim.report.skeleton import Figures, framed

LESSONS = Path(__file__).resolve().parents[1] / "docs" / "lessons"
CASE = LESSONS / "6_take_a_flag_away.yaml"
PAGE = LESSONS / "6_take_a_flag_away.html"
KERNEL, OUTPUT = "grad_input", "grad_input"
_INTRO = """<p>The pipes of a core work side by side: MTE2 loads from memory into L1, MTE1 from L1 into L0A and L0B, the cube M
multiplies into L0C, Fixpipe writes the result away. Nothing holds one of them back for another except <b>flags</b>: a pipe
raises one behind its work, another waits for it. Each buffer has two. <i>Full</i>: it is filled, it may be read.
<i>Free</i>: it was read, it may be filled again.</p>
<p>Choose a flag below. It is taken away: its waits hold nothing any more. Before you look: what will happen, and to which
number?</p>"""
_QUESTIONS = (
    (
        "Some flags can be taken away and nothing happens. Are they superfluous?",
        "See what <code>ascend-sim check</code> finds: it looks at what the flags promise, not at the cycles of one run. "
        "Where it finds nothing, something else keeps the two apart: MTE2 loads A before B, in order, so that whoever waits "
        "for B has A too. Where it finds a mistake, this run was lucky: a pipe happened to be slow enough.",
    ),
    (
        "Why are some wrong numbers nan, and others only wrong?",
        "A buffer that nobody has filled holds the simulator's poison, nan. A buffer that is half filled, or held the tile "
        "before, gives numbers that look right. On a chip there is no poison, and all are of the second kind.",
    ),
    (
        "Some flags give races and right numbers. How can that be?",
        "The two accesses are under way at the same time, but what was overwritten had been read by then, or is the same. A "
        "cycle more or less and the numbers are wrong: a race is a mistake also where a run hides it.",
    ),
)


@dataclass(frozen=True)
class FlagRun:
    """One run: without `flag` ("" for none), its result, and what `ascend-sim check` finds."""

    flag: str
    result: Any
    checked: int


def variants() -> list[FlagRun]:
    """The run as it is, and without each flag of the kernel."""
    case, chip = load_case(str(CASE)), load_chip("ascend910b3")
    tensors = make_tensors(case)

    def run(flag: str) -> FlagRun:
        disarm = {KERNEL: [flag]} if flag else None
        options: dict[str, Any] = {"block_dim": case.block_dim, "disarm": disarm}
        result = call_case(case, tensors, chip=chip, cube_math_type=case.cube_math_type, **options)
        return FlagRun(flag, result, len(check_call(case, chip, **options).findings))

    whole = run("")
    task = next(i for i, one in enumerate(whole.result.tasks) if one.name == KERNEL)
    flags = whole.result.timeline.of(task)[0].program.flags
    return [whole, *(run(flag) for flag in sorted(flags))]


def page(runs: list[FlagRun]) -> str:
    """The lesson as one page."""
    right = runs[0].result.outputs[OUTPUT]
    flags = program_of(runs[0]).program.flags
    rows, marks, sections = [], [], []
    told: dict[str, Any] = {}
    for number, one in enumerate(runs):
        source, destination, _ = flags[one.flag] if one.flag else ("", "", 0)
        rows.append(
            [escape(one.flag or "none: all flags as they are"), source, destination, meaning(one.flag, source, destination)]
        )
        marks.append(f'data-kernel="{number}"')
        sections.append(section(number, one, right, told))
    options = "".join(f'<option value="{number}">{escape(one.flag or "nothing")}</option>' for number, one in enumerate(runs))
    questions = "".join(f"<details><summary>{asked}</summary><p>{answer}</p></details>" for asked, answer in _QUESTIONS)
    parts = [
        "<h1>Take a flag away</h1>",
        _INTRO,
        table(("flag", "raised by", "waited for by", "what it says"), rows, marks=marks, identity="kernels"),
        f'<h2 id="one-kernel">Taken away: <select id="kernel" aria-label="flag">{options}</select></h2>',
        *sections,
        "<h2>Questions</h2>",
        questions,
        f"<p>Try it: <code>ascend-sim run {CASE.name} --flags</code> lists the flags of all kernels, <code>--disarm "
        "KERNEL.FLAG</code> takes one away, <code>--html page.html</code> draws the run.</p>",
    ]
    return framed("Take a flag away", parts, Figures(), told)


def program_of(one: FlagRun) -> Any:
    """The kernel's first block."""
    task = next(i for i, kernel in enumerate(one.result.tasks) if kernel.name == KERNEL)
    return one.result.timeline.of(task)[0]


def meaning(flag: str, source: str, destination: str) -> str:
    """Return the meaning of a flag in words."""
    buffer, _, side = flag.partition(" ")
    if side == "full":
        return f"{source} has filled {buffer}: {destination} may read it"
    if side == "free":
        return f"{source} has read {buffer}: {destination} may fill it again"
    return ""


def section(number: int, one: FlagRun, right: np.ndarray, told: dict[str, Any]) -> str:
    """Return the section of a run: its numbers, its races, its timeline; the block goes to what the page's script draws."""
    recording, report, run = one.result.recording, one.result.report.to_dict(), program_of(one)
    place = next(i for i, other in enumerate(recording.timeline.programs) if other is run)
    packed = PackedBlocks(recording, critical_path(recording.timeline), [place], 1).to_dict()
    found = Findings(recording, report, len(told.get("clashes", [])))
    (block,) = packed["blocks"]
    if not told:
        told.update(packed, blocks=[], tables=[], tensors=[], tasks=[], clashes=[])
    for clash in found.clashes:
        for side in ("early", "late"):
            clash[side]["block"] = number if clash[side]["block"] == place else -1
    told["blocks"].append({**block, "index": number, "task": number, "table": len(told["tables"])})
    told["tables"].append(packed["tables"][block["table"]])
    told["tensors"].append(packed["tensors"][run.task])
    told["tasks"].append(number)
    told["clashes"] += found.clashes
    command = f"ascend-sim run {CASE.name}" + (f' --disarm "{KERNEL}.{one.flag}"' if one.flag else "")
    return "\n".join(
        [
            f'<section class="kernel" data-kernel="{number}" hidden>',
            f"<p><code>{escape(command)}</code></p>",
            numbers(one, right, len(report["findings"])),
            found.part(),
            f'<p class="faint">{EXPLAINED}</p>',
            timeline_part(number, number, KERNEL),
            "</section>",
        ]
    )


def numbers(one: FlagRun, right: np.ndarray, findings: int) -> str:
    """Return a text on the wrong numbers: how many, the first, and their place in its channel."""
    got = one.result.outputs[OUTPUT]
    wrong = ~(got == right)
    count = int(wrong.sum())
    races = sum(finding["kind"] == "hazard" for finding in one.result.report.findings)
    said = [f"{races} races" if races != 1 else "1 race", f"{findings - races} reads of what nobody wrote"]
    said.append(f"<code>ascend-sim check</code> finds {one.checked} mistake{'' if one.checked == 1 else 's'} in the kernel")
    lines = [f"<p>{', '.join(said)}.</p>"]
    if not count:
        return f'<p class="good"><b>Every number of {OUTPUT} is right.</b></p>' + "".join(lines)
    first = tuple(int(axis[0]) for axis in np.nonzero(wrong))
    where = ", ".join(map(str, first))
    verdict = f'<p class="bad"><b>{count:,} of {wrong.size:,} numbers of {OUTPUT} are wrong.</b></p>'
    values = table(
        ("element", ">right", ">without the flag"),
        [[f"{OUTPUT}[{where}]", f"{float(right[first]):.4g}", f"{float(got[first]):.4g}"]],
        identity=f"number-{one.flag}",
    )
    channel = "\n".join("".join("#" if cell else "." for cell in row) for row in wrong[first[0], first[1]])
    picture = f"<details><summary>Where, in channel {first[1]}: # is wrong</summary><pre>{channel}</pre></details>"
    return "\n".join([verdict, *lines, values, picture])


def main(arguments: list[str]) -> None:
    """Write the page."""
    text = page(variants())
    with atomic_write(Path(arguments[0]) if arguments else PAGE) as file:
        file.write(re.sub(r"[ \t]+\n", "\n", text).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
