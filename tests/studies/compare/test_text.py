"""The table of a comparison as text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import ascend_sim as asim
from ascend_sim.studies.compare.facts import Fact, RunComparison
from tests.support.studies.compared_runs import kernel_of, shown

pytestmark = pytest.mark.fast


def test_two_runs_fit_80_columns_and_every_row_has_its_name(planted: RunComparison) -> None:
    for text in (shown(planted), shown(planted, everything=True)):
        assert all(len(line) <= 80 for line in text.splitlines())
        for name in (*(one.name for one in planted.kernels), "blocks", "bottleneck", "idle cores", "launch", "coreNum"):
            assert re.search(rf"^[* ] {name} ", text, re.MULTILINE), name
    whole = shown(planted, everything=True)
    for kernel in planted.kernels:
        for fact in (fact for facts in kernel.groups.values() for fact in facts):
            assert fact.name.split()[0] in whole


def test_equal_errors_of_an_output_are_left_out(planted: RunComparison) -> None:
    """Verdicts and the share of equal bits always stand there; an error that differs does too."""
    equal, other = Fact("grad_input max abs error", (0.5, 0.5)), Fact("grad_bias max abs error", (0.5, 0.25))
    verdict = Fact("grad_input", ("correct", "correct"))
    compared = replace(planted, outputs=(verdict, equal, other))
    text, whole = shown(compared), shown(compared, everything=True)
    assert equal.name not in text and equal.name in whole
    assert other.name in text and " grad_input  " in text and "correct" in text


def test_what_is_equal_is_counted(planted: RunComparison) -> None:
    """Rows shown and rows counted make up the kernel."""
    text = shown(planted, kernels=["grad_input"])
    part = text[text.index("\ngrad_input\n") :]
    left = " ".join(part[part.index("equal, not shown:") :].split())
    told = {name: int(count) for name, count in re.findall(r"([a-z ]+?) (\d+)(?:,|$)", left.partition(":")[2])}
    fields = kernel_of(planted, "grad_input").groups["tiling"]
    assert told[" tiling"] == sum(not fact.differs for fact in fields) == len(fields) - 1


def test_a_comparison_without_values_says_why() -> None:
    cases, whole = asim.compare_runs("by_hand", "by_hand"), [asim.run_case("by_hand") for _ in range(2)]
    assert "values: not compared, A and B" in str(cases) and "timing mode" in cases.to_dict()["without_values"]
    assert "A without any" in asim.compare_runs("by_hand", whole[0]).without_values
    assert asim.compare_runs(*whole).without_values == "" and "values: not" not in str(asim.compare_runs(*whole))
