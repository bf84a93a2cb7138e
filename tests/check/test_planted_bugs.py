"""Every mistake of the suite is found on every chip, by its label and by no other; of its twin nothing is said."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.support.check.bugs import suite
from tests.support.check.bugs.planted import ALL, PAIRS, Pair, found
from tests.support.places import DOCS
from tests.support.sampling import part_of_cases

assert suite.FILES


@part_of_cases(3)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_mistake_is_told_and_its_twin_is_not(pair: Pair) -> None:
    for chip in pair.chips:
        told = found(pair.check(chip, bug=True))
        assert pair.labels <= told <= pair.labels | pair.also, (chip, sorted(told))
        clean = pair.check(chip, bug=False)
        assert clean.passed and not clean.unused, (chip, clean.render())


@pytest.mark.fast
def test_the_suite_covers_what_it_should() -> None:
    names = [pair.name for pair in PAIRS]
    assert len(names) >= 80 and len(set(names)) == len(names)
    labels = Counter(label for pair in PAIRS for label in pair.labels)
    wanted = {f"{kind} {space}" for kind in ("RAW", "WAR") for space in ("GM", "L1", "L0A", "L0B", "L0C", "UB")}
    wanted |= {f"WAW {space}" for space in ("GM", "L1", "L0A", "L0B", "UB")}  # the cube interlocks its writes to L0C
    wanted |= {f"uninitialized read {space}" for space in ("GM", "L1", "L0A", "L0B", "L0C", "UB")}
    wanted |= {"deadlock", "flag overflow", "double set", "barrier not reached", "redundant flag", "redundant barrier"}
    assert wanted <= set(labels)
    assert {chip for pair in PAIRS for chip in pair.chips} == set(ALL)


@pytest.mark.fast
def test_the_page_has_the_table_of_this_suite() -> None:
    """Shares are those that the test above holds: all of them."""
    page = (DOCS / "check.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w ]+) \| (\d+) \| (\d+) \| 100 % \| 100 % \|$", page, re.MULTILINE)
    pairs = Counter(label for pair in PAIRS for label in pair.labels)
    runs = Counter(label for pair in PAIRS for label in pair.labels for _ in pair.chips)
    assert rows == [(label, str(pairs[label]), str(runs[label])) for label in sorted(pairs)]
    total = sum(len(pair.chips) for pair in PAIRS)
    assert f"{len(PAIRS)} pairs, {total} runs with the mistake; of {total} of {total} runs" in page
