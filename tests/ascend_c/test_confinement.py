"""The sandbox around processes of a judged kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_sim.ascend_c.confinement import JUDGED, confined, confines

COMMAND = [
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import os, sys; print(os.path.exists(sys.argv[1]), os.path.exists(sys.argv[2]))",
]


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    confines.cache_clear()
    yield
    confines.cache_clear()


def test_outside_of_judge_nothing_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JUDGED, raising=False)
    assert confined(COMMAND, []) == COMMAND


def test_without_bubblewrap_nothing_is_confined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(JUDGED, "1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert confined(COMMAND, []) == COMMAND


def test_a_bubblewrap_that_may_not_make_namespaces_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
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
