"""All bad inputs in their order, and the page that shows the line that each gets."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_sim.chip import chip_names
from ascend_sim.chip.files import shipped_files
from ascend_sim.ops.case import case_names
from ascend_sim.ops.network import network_names
from ascend_sim.ops.operators import OPERATORS
from tests.support.bad_inputs.bad_input import Bad
from tests.support.bad_inputs.command_lines import kernels, options, places, rows, stored
from tests.support.bad_inputs.descriptions import cases, chips, networks, tensors
from tests.support.places import DOCS, TESTS

EXPECTED = TESTS / "bad_inputs" / "expected.yaml"
PAGE = DOCS / "bad-input.md"


ALL: tuple[Bad, ...] = tuple(
    bad for part in (options, cases, tensors, chips, networks, kernels, rows, stored, places) for bad in part()
)


def without_lists(said: str) -> str:
    """Return a message with a word for each list of all that ships: one more chip or case leaves what is expected as it is."""
    shipped = {
        "(all chip files)": shipped_files(),
        "(all chips)": chip_names(),
        "(all operators)": OPERATORS,
        "(all cases)": case_names(),
        "(all networks)": network_names(),
    }
    for word, names in shipped.items():
        said = said.replace(", ".join(names), word)
    return said


def page(expected: Mapping[str, str]) -> str:
    """docs/bad-input.md."""
    lines = ["# What bad input gets", "", _INTRODUCTION.format(count=len(ALL)), "", _ONCE, ""]
    kind = ""
    for bad in ALL:
        if bad.kind != kind:
            kind = bad.kind
            lines += ["", f"## {kind[0].upper()}{kind[1:]}", "", "| what is wrong | command | it says |", "|---|---|---|"]
        command = repr(bad.command)[1:-1]
        if len(command) > 60:
            command = f"{command[:56]} ..."
        said = expected[bad.name].removeprefix("ascend-sim: ")
        if len(said) > 160:
            said = f"{said[:156]} ..."
        cells = (text.replace("|", "\\|").replace("<", "&lt;") for text in (bad.what, f"`{command}`", said))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


_INTRODUCTION = """\
For whoever reads an error message: every bad input ends in one line on stderr, which begins with `ascend-sim: `, and exit
code 2, without a traceback and with no file left behind. `tests/bad_inputs` tries these {count}; `python -m
tests.support.bad_inputs` makes the page. Long commands and lines are cut here."""


_ONCE = """\
## What some of it got once

Typed again at a revision before these checks (2c6c7d7) and now, on a busy machine; Python's start alone takes some 0.5 to
1 s of CPU. Kernels were given to the builder then, and to `ascend-sim kernel` now.

| what is wrong | then | now |
|---|---|---|
| YAML of 3,000 nested brackets | `RecursionError`, a traceback | more than 32 lists and mappings inside each other |
| YAML with anchors for 43 million values | refused once they were built, 2.0 s of CPU | refused before, 1.2 s |
| an npz of three arrays of 800 MB | refused once they were read, 15.6 s of CPU | refused by their headers, 1.4 s |
| report.json with another time | exit code 0 and a page with that time | not the report that was written with timeline.npz |
| timeline.npz, 2^62 cycles later | exit code 0 and a page of nonsense | was changed after it was written |
| timeline.npz with pipe 200 | exit code 0 and a page of nonsense | was changed after it was written |
| a row of a store of results with another time | exit code 0 and ranked by that time | was changed after it was written |
| a row of a store of results that is no JSON | `JSONDecodeError`, a traceback | was changed after it was written |
| `run --msprof --out out` four times at once | three fail, 6 of 10 kernels are there | all end, files are of one run |
| `--max-cycles 1000` on a 3x3 layer of ResNet-50 | ended at cycle 67,939, when a block did | ends at the limit |
| `k.scalar(-10**6)` | taken | time does not run backwards |
| a cross-core flag of mode 7 | taken | mode 7; allowed are 0, 1, 2 |
| a flag of a pipe with itself | taken | a flag orders two pipes |
| an atomic copy out of GM | taken | only GM can be added to |
| an atomic copy of 30 bytes as float32 | taken | rows of 30 bytes are not whole elements of 4 bytes |
| SIGINT, SIGTERM or SIGKILL to `run-network resnet50 --jobs 2` | three or four processes left after 45 s | none after 2.6 s |
| a barrier of a pipe that there is not | `KeyError`, a traceback | pipe_barrier is on pipe X; an AIV has V, MTE2, MTE3 |
"""
