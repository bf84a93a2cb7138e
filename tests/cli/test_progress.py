"""What a terminal shows while work takes long, and in the help."""

from __future__ import annotations

import io
import sys

import pytest
from commands import run

from ascend_sim.cli import progress


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
    line = progress.Status("searching")
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
    for command, flag in (("run", "--json"), ("sweep", "--json"), ("chips", "--compare")):
        described = [line.split() for line in run(command, "--help").out.splitlines()]
        assert ["bool" in " ".join(words) for words in described if words[1:2] == [flag]] == [False]
