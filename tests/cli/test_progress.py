"""Words of a terminal while work takes long, and of the help."""

from __future__ import annotations

import io
import re
import sys
from types import SimpleNamespace

import pytest

from ascend_sim.cli import progress
from ascend_sim.runtime.outlook import Outlook
from tests.support.cli.commands import run
from tests.support.places import ROOT


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_long_work_from_the_start_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = _Terminal(), [0.0]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    bar = progress.Progress("points", at_once=True)
    bar.close()
    assert "preparing points" in stream.getvalue()
    bar = progress.Progress("points", at_once=True)
    for clock[0], done in ((1.0, 40), (11.0, 45)):  # 40 were there before: 5 points in 10 s are the rate
        bar("sweep", done, 100)
    bar.close()
    assert "sweep: 45 of 100 points done; about 2 min left" in stream.getvalue()
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    bar = progress.Progress("points", at_once=True)
    bar("sweep", 45, 100)
    bar.close()
    line = progress.ProgressLine("searching")
    line("more")
    line.close()
    assert log.getvalue() == ""


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_for_terminals_only(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only for work that takes long."""
    stream = _Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    quick = progress.Progress()
    quick("grad_input", 1, 20)
    quick.close()
    assert stream.getvalue() == ""
    monkeypatch.setattr(progress, "PROGRESS_AFTER_SECONDS", 0.0)
    bar = progress.Progress()
    bar("grad_input", 1, 20)
    bar("grad_input", 20, 20)
    bar.close()
    assert ("grad_input" in stream.getvalue()) == terminal


def test_flags_take_no_value_in_the_help() -> None:
    assert "bool" not in run("--help").out + run("cases", "--help").out
    for command, flag in (("run", "--json"), ("sweep", "--json"), ("chips", "--compare")):
        described = [line.split() for line in run(command, "--help").out.splitlines()]
        assert ["bool" in " ".join(words) for words in described if words[1:2] == [flag]] == [False]


def test_a_terminal_hears_of_long_work_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    progress.announce("big", lambda: Outlook(2_500_000, 61.0), ", then more")
    assert "big: 2,500,000 instructions, about 61 s at the pace of a block of each kernel, then more" in stream.getvalue()
    for short in (Outlook(2_500_000, 59.0), Outlook(2_500_000, None)):
        monkeypatch.setattr(sys, "stderr", quiet := _Terminal())
        progress.announce("small", lambda short=short: short)  # type: ignore[misc]
        assert "instructions" not in quiet.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    progress.announce("log", lambda: pytest.fail("nobody is asked for a log"))


def test_a_search_says_once_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := _Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    line = progress.ProgressLine("searching")
    line("grad_input: 3 of 900, best 17,413", 50.0)
    line("grad_input: 4 of 900, best 17,413", 400.0)
    line("grad_input: 5 of 900, best 17,413", 300.0, at_most=True)
    line.close()
    said = [text for text in stream.getvalue().splitlines() if "Ctrl-C" in text]
    assert len(said) == 1 and said[0].endswith("grad_input: 4 of 900, best 17,413; about 7 min left (Ctrl-C ends it)")


@pytest.mark.parametrize("command", ["run strided --mode timing", "check strided", "kernel docs/kernels/vector_add.py"])
def test_commands_ask_before_they_begin(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LONG_SECONDS", 0.0)
    monkeypatch.chdir(ROOT)
    told: list[str] = []
    monkeypatch.setattr(progress, "say", told.append)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=_Terminal()))
    assert run(*command.split()).code == 0
    assert len(told) == 1 and re.match(r"(strided|vector_add): [\d,]+ instructions, about \d+ s", told[0])
