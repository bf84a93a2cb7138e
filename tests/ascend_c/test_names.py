"""The table of names against the headers and the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_sim.ascend_c.compiler import HEADERS
from ascend_sim.ascend_c.names import REFUSED, SIMULATED
from tests.support.places import ROOT

NAMES = {name for names in SIMULATED.values() for name in names}


@pytest.fixture(scope="module")
def words() -> set[str]:
    """Every word of the headers, comments apart."""
    text = "\n".join(path.read_text() for path in HEADERS.rglob("*.h"))
    return set(re.findall(r"\w+", re.sub(r"//[^\n]*", "", text)))


def test_simulated_names_stand_in_the_headers(words: set[str]) -> None:
    assert not NAMES - words


def test_refused_names_do_not(words: set[str]) -> None:
    assert not set(REFUSED) & words


def test_no_name_is_both() -> None:
    assert not NAMES & set(REFUSED)


def test_every_name_of_the_recorded_calls_is_in_the_table() -> None:
    cases = json.loads(Path(__file__).with_name("words.json").read_text())
    assert not {case["name"] for case in cases} - NAMES


def test_the_page_has_the_tables_of_the_code() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "ascend_c_page.py"), "--check"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
