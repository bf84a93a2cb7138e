"""The table of a comparison as text."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.studies.compare.facts import Fact, RunComparison
from ascend_sim.studies.compare.text import shown_difference, shown_values
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


@pytest.mark.parametrize("others", [["dilated"], ["dilated", "grouped"]])
def test_a_summary_is_one_screen_and_names_the_rest(others: list[str]) -> None:
    """The oracle sorts the kernels by the difference of their times; what is left out is counted."""
    compared = asim.compare_runs("strided", *others)
    lines = str(compared).splitlines()
    assert len(lines) <= 24 and all(len(line) <= 100 for line in lines)
    spans = {kernel.name: kernel.spread for kernel in compared.kernels if kernel.differs}
    ordered = sorted(spans, key=lambda name: -spans[name])
    rows = [
        line.split()[1] for line in lines[lines.index(next(line for line in lines if line.startswith("kernels, us"))) + 1 :]
    ]
    told = [name for name in rows if name in spans]
    assert told[: len(dict.fromkeys(told))] == ordered[: len(dict.fromkeys(told))]
    assert f"{len(spans) - len(dict.fromkeys(told))} more kernels" in lines[-1]
    assert lines[-1].endswith(f"--kernel {ordered[0]}")


def test_a_summary_says_what_changed_in_a_kernel() -> None:
    """A tiling is told with its old and its new value, then the parts of the waterfall, which add up in us."""
    changed = asim.run_case("strided", mode="timing", tiling={"grad_input": {"baseM": 16}})
    compared = asim.compare_runs("strided", changed)
    kernel = kernel_of(compared, "grad_input")
    (field,) = [fact for fact in kernel.groups["tiling"] if fact.name == "baseM"]
    line = " ".join(str(compared).split())
    assert f"baseM {field.values[0]} -> 16" in line
    gaps = {fact.name: fact.differences[1] / 1800 for fact in kernel.groups["waterfall"] if fact.differs}
    name = max(gaps, key=lambda one: abs(gaps[one]))
    assert f"{name} {gaps[name]:+,.2f} us" in line


def test_shares_are_percentages(planted: RunComparison) -> None:
    assert Fact("main stall share", (0.5, 0.25)).is_share and not Fact("cycles", (1, 2)).is_share
    share = Fact("grad_input equal bits with A", (0.25, 0.75, 1.0, 0.9999, 0.0001, 0.0, None))
    assert shown_values(share) == ["25.0 %", "75.0 %", "100.0 %", "> 99.9 %", "< 0.1 %", "0.0 %", "-"]
    assert shown_difference(share) == ("+50.0 points", "") and shown_values(Fact("us", (0.5,))) == ["0.5"]
    rows = [line for line in shown(planted, everything=True).splitlines() if "bottleneck busy" in line]
    assert rows and all("%" in line and not re.search(r"\d\.\d{2}", line) for line in rows if line.split()[3:])


def test_a_number_many_times_another_is_a_ratio() -> None:
    for first, second, text in (
        (2.0, 3.0, "+50.0 %"),
        (4, 39, "+875.0 %"),
        (4, 40, "x 10"),
        (1, 9408, "x 9,408"),
        (8, 2, "-75.0 %"),
    ):
        assert shown_difference(Fact("bytes", (first, second)))[1] == text


def test_a_summary_has_the_largest_difference_of_values() -> None:
    """The oracle subtracts the results; equal results have a share alone."""
    first, second = (asim.run_case("by_hand", cube_math_type=number) for number in (0, 2))
    text = str(asim.compare_runs(first, second))
    for name in ("grad_input", "grad_weight", "grad_bias"):
        gap = float(np.abs(getattr(first, name) - getattr(second, name)).max())
        row = next(line for line in text.splitlines() if line.startswith(f"  {name} equal bits"))
        assert (row.split()[-3:] == ["up", "to", f"{gap:.4g}"]) == (gap > 0), row
