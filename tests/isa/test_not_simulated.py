"""Refusals by name of instructions that chips have and no method writes, and their table on the page of instructions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascend_sim.ascend_c.names import REFUSED
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.not_simulated import NotSimulated, not_simulated, refuse_not_simulated

pytestmark = pytest.mark.fast

CHIPS = {"dav-1001": "ascend910a", "dav-2002": "ascend310p3", "dav-2201": "ascend910b3", "dav-3510": "ascend950pr_9589"}
ROOT = Path(__file__).parents[2]


def test_what_is_left_out_is_on_the_page() -> None:
    page = (ROOT / "docs" / "instructions.md").read_text(encoding="utf-8")
    for one in not_simulated():
        assert f"| {one.words} | {', '.join(one.architectures)} | {one.source} |" in page


@pytest.mark.parametrize("one", not_simulated(), ids=lambda one: one.words)
def test_what_is_left_out_is_refused_by_name(one: NotSimulated) -> None:
    """In Python what a method would be given, in C++ every call; modes that no method can be given are listed alone."""
    for arch in one.architectures:
        for of in one.of:
            with pytest.raises(SimError, match=re.escape(f"{one.method} ({of}): {one.words}: ")):
                refuse_not_simulated(load_chip(CHIPS[arch]), one.method, of)
    assert {*one.calls} <= {*REFUSED}


@pytest.mark.parametrize(
    ("arch", "method", "of"), [("dav-3510", "mmad", "int4"), ("dav-2201", "mmad", "int8"), ("dav-2201", "l0c_to_ub", "L0C->UB")]
)
def test_what_is_simulated_or_not_there_is_not_refused_here(arch: str, method: str, of: str) -> None:
    try:
        refuse_not_simulated(load_chip(CHIPS[arch]), method, of)
        refused = ""
    except SimError as error:
        refused = str(error)
    assert refused == ""
