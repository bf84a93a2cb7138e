"""When a command keeps the timeline of its run, and asks for the folder of its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ascend_sim.cli import page
from tests.support.cli.commands import names, run
from tests.support.cli.user_tasks import KERNEL


def test_a_long_run_keeps_its_timeline_for_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["run", "document_example_2d", "--mode", "timing"]
    assert "from the ideal" in run(*command, "--full").out
    kept = json.loads(run(*command, "--json").out)
    assert kept["summary"]["statements"] and "waterfall" in kept["kernels"][4]
    monkeypatch.setattr(page, "_ROWS_OF_TEXT", 100)
    assert "no advice: the timeline was not kept" in run(*command).out
    assert json.loads(run(*command, "--json").out)["summary"]["statements"] == []
    said = " ".join(run(*command, "--full").out.split())
    assert "from the ideal" not in said
    assert "Timeline not kept: there is no waterfall" in said and "--out or --html keep it" in said
    assert run(*command, "--out", tmp_path).code == 0 and "timeline.npz" in names(tmp_path)


def test_every_page_asks_for_its_folder_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    for words in ("run by_hand", "explain by_hand", "compare by_hand strided", "run-network resnet18", "kernel kernel.py"):
        done = run(*words.split(), "--html", "none/page.html")
        assert (done.code, done.err) == (2, "ascend-sim: --html none/page.html: there is no folder none\n"), words
    assert names(tmp_path) == ["kernel.py"]
