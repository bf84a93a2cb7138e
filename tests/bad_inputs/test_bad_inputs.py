"""Every bad input ends in the one line that is written down for it, with exit code 2, and leaves no file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.bad_inputs.bad_input import Bad, tried
from tests.support.bad_inputs.page import ALL, EXPECTED, PAGE, page, without_lists

pytestmark = pytest.mark.fast

_OF_TYPER = " --help has more"
LINES: dict[str, str] = yaml.safe_load(EXPECTED.read_text(encoding="utf-8"))


def test_there_are_enough_and_each_has_a_line() -> None:
    assert len(ALL) >= 200 and len({bad.name for bad in ALL}) == len(ALL)
    assert [bad.name for bad in ALL] == list(LINES)
    assert all(line.startswith(("ascend-sim: ", '{"status": null, ')) and len(line) > 20 for line in LINES.values())


@pytest.mark.parametrize("bad", ALL, ids=lambda bad: bad.name)
def test_it_gets_its_line(bad: Bad, tmp_path: Path) -> None:
    got = tried(bad, tmp_path)
    assert (got.code, got.left) == (2, ())
    if LINES[bad.name].endswith(_OF_TYPER):  # whose words change with its versions
        assert got.said.startswith("ascend-sim: ") and got.said.endswith(f"{_OF_TYPER}\n") and got.said.count("\n") == 1
    else:
        assert without_lists(got.said) == LINES[bad.name] + "\n"


def test_the_page_shows_them() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(LINES)
