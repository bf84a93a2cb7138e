"""The suite itself: it needs no torch to be collected, and its fast tier has tests of every folder."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import ROOT, TESTS
from tests.support.sources import nodes, parsed, python_files

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"


@cache
def trees() -> dict[Path, ast.Module]:
    """All files of the suite."""
    return {path: parsed(path) for path in python_files("tests")}


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and full name of everything that a file imports, wherever it does."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def near_torch() -> list[Path]:
    """Return the test files that speak of torch, or import a helper that does: the others cannot need it."""
    says = {path for path in trees() if "torch" in path.read_text(encoding="utf-8")}
    helpers = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in says - holding_tests(says)}
    uses = {path for path, tree in trees().items() if any(helpers & lineage(name) for _, name in imported(tree))}
    return sorted(holding_tests(says | uses))


def lineage(name: str) -> set[str]:
    """Return a full name and those of the packages above it."""
    parts = name.split(".")
    return {".".join(parts[: end + 1]) for end in range(len(parts))}


def holding_tests(paths: Iterable[Path]) -> set[Path]:
    """Return the files that hold tests."""
    return {path for path in paths if path.name.startswith("test_")}


def test_the_suite_is_collected_without_torch() -> None:
    """In a process in which torch cannot be imported; what ascend_sim itself imports is asked in tests/torch."""
    arguments = ["--collect-only", "--assert=plain", "-p", "no:cacheprovider", *(str(path) for path in near_torch())]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    collected = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env=alone
    )
    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr[-2000:]


def test_torch_is_asked_for_where_it_is_needed() -> None:
    """An import would end a test, or the collection of its file, where `pytest.importorskip` skips."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, tree in trees().items()
        for line, name in imported(tree)
        if name.split(".")[0] == "torch"
    ]
    assert wrong == []


def is_fast(tree: ast.Module) -> bool:
    """Return True if a file has tests of the fast tier: the mark is on the file or on one of its tests."""
    marks: list[ast.expr] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets):
            marks += node.value.elts if isinstance(node.value, ast.List) else [node.value]
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks += node.decorator_list
    return any(ast.unparse(mark) == "pytest.mark.fast" for mark in marks)


@pytest.mark.fast
def test_every_folder_has_fast_tests() -> None:
    """`tests/test_house.py` walks through every room; what a room does is tested in the folder of its name."""
    tests = {path: tree for path, tree in trees().items() if path.name.startswith("test_")}
    fast = {path.parent for path, tree in tests.items() if is_fast(tree)}
    assert sorted(str(path.relative_to(ROOT)) for path in {path.parent for path in tests} - fast) == []


@pytest.mark.fast
def test_folders_of_tests_have_the_names_of_rooms() -> None:
    """Folders are named after the rooms that they test; frozen results, messages and random calls belong to the whole."""
    folders = {path.parent.relative_to(ROOT / "tests") for path in trees() if path.name.startswith("test_")}
    whole = {Path(), Path("golden"), Path("bad_inputs"), Path("fuzz")}
    homes = {one: ROOT / one if one.parts[:1] == ("ops",) else ROOT / "ascend_sim" / one for one in folders - whole}
    assert sorted(str(one) for one, home in homes.items() if not home.is_dir()) == []


MIRRORED = 0.6
"""The least share of source files whose tests stand at their place and name."""


def place_of_tests(source: Path) -> Path:
    """Return where the tests of a source file are looked for: at the same path, under the same name."""
    inside = source.relative_to(ROOT / "ascend_sim") if source.is_relative_to(ROOT / "ascend_sim") else source.relative_to(ROOT)
    return TESTS / inside.parent / f"test_{inside.name}"


@pytest.mark.fast
def test_most_sources_have_their_tests_at_their_place() -> None:
    sources = [
        path for room in ("ascend_sim", "ops") for path in sorted((ROOT / room).rglob("*.py")) if path.name != "__init__.py"
    ]
    missing = [str(place_of_tests(path).relative_to(ROOT)) for path in sources if not place_of_tests(path).is_file()]
    share = 1 - len(missing) / len(sources)
    assert share >= MIRRORED, f"{share:.1%} of {len(sources)} source files have their tests; not there: {missing}"


@pytest.mark.fast
def test_a_file_of_tests_holds_tests() -> None:
    tests = {path: tree for path, tree in trees().items() if path.name.startswith("test_")}
    functions = {path: [node for node in nodes(tree) if isinstance(node, ast.FunctionDef)] for path, tree in tests.items()}
    without = [path for path, nodes in functions.items() if not any(node.name.startswith("test_") for node in nodes)]
    assert [str(path.relative_to(ROOT)) for path in without] == []


@pytest.mark.fast
def test_what_tests_share_stands_in_support() -> None:
    """Tests import nothing from each other: whoever moves a test must not have to move another."""
    known = {path for path in trees() if path.name.startswith("test_") or path.name in ("conftest.py", "__init__.py")}
    beside = [str(path.relative_to(ROOT)) for path in trees() if path not in known and TESTS / "support" not in path.parents]
    shared = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path, tree in trees().items()
        for line, name in imported(tree)
        if name.startswith("tests.") and not name.startswith("tests.support.")
    ]
    assert (beside, shared) == ([], [])
