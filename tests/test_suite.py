"""The suite itself: it needs no torch to be collected, and its fast tier has tests of every folder."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT, TESTS

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def collected() -> subprocess.CompletedProcess[str]:
    """The names of the fast tests, one a line, from a process in which torch cannot be imported."""
    arguments = ["-m", "fast", "--collect-only", "-p", "no:cacheprovider"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=alone,
    )


def test_the_suite_is_collected_without_torch(collected: subprocess.CompletedProcess[str]) -> None:
    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr[-2000:]


def test_torch_is_asked_for_where_it_is_needed() -> None:
    """An import would end a test, or the collection of its file, where `pytest.importorskip` skips."""
    wrong = []
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "torch" for name in names):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert wrong == []


def test_every_folder_has_fast_tests(collected: subprocess.CompletedProcess[str]) -> None:
    """`tests/test_house.py` walks through every room; what a room does is tested in the folder of its name."""
    files = {line.partition("::")[0] for line in collected.stdout.splitlines() if "::" in line}
    fast = {Path(name).parent for name in files}
    assert fast, collected.stdout[-2000:]
    folders = {path.parent.relative_to(ROOT) for path in TESTS.rglob("test_*.py")}
    assert sorted(map(str, folders - fast)) == []
