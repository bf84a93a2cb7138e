"""docs/conformance.md: every test that it names exists, and every statement about a check has one."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

from tests.support.ops.check_calls import conv_call, status, tbc_call

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "conformance.md"
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def functions_of(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_test_on_the_page_exists():
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 60
    files: dict[str, set[str]] = {}
    for path in HERE.parents[1].rglob("test_*.py"):
        files.setdefault(path.name, set()).update(functions_of(path))
    assert not {(file, name) for file, name in named if name not in files.get(file, ())}


def test_every_row_has_a_test_or_is_no_check():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|") and line.count("|") > 4]
    headers_and_rules = ("| statement", "| ruling", "| what", "|---")
    bare = [row for row in rows if not row.startswith(headers_and_rules) and not NAMED.search(row)]
    assert all("not a check" in row or "561103" in row for row in bare), bare


def test_every_ruling_has_its_tests():
    rulings = {int(number) for number in re.findall(r"^\| (\d+)\. ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}
    tested = {int(name.split("_")[2]) for name in functions_of(HERE / "test_rulings.py") if name.startswith("test_ruling_")}
    assert rulings == tested == set(range(1, 12))


def test_non_contiguous_inputs_are_accepted():
    conv, tbc = conv_call((2, 8, 4, 4), (2, 4, 6, 6), (8, 4, 3, 3)), tbc_call()
    for name in ("grad_output", "input", "weight"):
        strided = replace(getattr(conv, name), strides=(1, 500, 70, 3), offset=5)
        assert not strided.is_contiguous
        for conformance in ("documented", "library"):
            assert status(replace(conv, **{name: strided}), conformance=conformance) == 0
    for name in ("self", "input", "weight"):
        strided = replace(getattr(tbc, name), strides=(1, 500, 70))
        assert status(replace(tbc, **{name: strided})) == 0
