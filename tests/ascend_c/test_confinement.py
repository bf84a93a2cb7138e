"""The sandbox around processes of a judged kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_sim.ascend_c.confinement import JUDGED, confined, confines

COMMAND = [sys.executable, "-I", "-S", "-c", "import os, sys; print(os.path.exists(sys.argv[1]), os.path.exists(sys.argv[2]))"]


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    confines.cache_clear()
    yield
    confines.cache_clear()


def program(folder: Path, code: int) -> None:
    """A bwrap in `folder` that ends with this code."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)


def test_a_case_of_judge_is_confined_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(JUDGED, raising=False)
    assert confined(COMMAND, []) == COMMAND
    monkeypatch.setenv(JUDGED, "1")
    sandbox, inside = confined(COMMAND, [])[: -len(COMMAND)], confined(COMMAND, [])[-len(COMMAND) :]
    assert sandbox[0] == "bwrap" and "--unshare-all" in sandbox and inside == COMMAND


def test_without_bubblewrap_nothing_is_confined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(JUDGED, "1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert confined(COMMAND, []) == COMMAND


def test_a_bubblewrap_that_may_not_make_namespaces_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, 1)
    monkeypatch.setenv(JUDGED, "1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert confined(COMMAND, []) == COMMAND


def test_a_confined_process_sees_its_own_files_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(JUDGED, "1")
    if not confines():
        pytest.skip("no bubblewrap that works")
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_text("")
    other.write_text("")
    done = subprocess.run([*confined(COMMAND, [mine]), str(mine), str(other)], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"], done.stderr
