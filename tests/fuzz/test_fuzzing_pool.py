"""tools/fuzz: calls that crash or hang are told and the rest goes on; a run that was killed is gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tests.support.places import TOOLS


@pytest.fixture
def outcome(fuzzing):
    return fuzzing("outcome")


def kind(outcome, calls):
    """A kind of calls of which some do something of their own."""

    def run(seed, index):
        calls.get(index, lambda: None)()
        return outcome.FuzzOutcome(("x", "fine"))

    return SimpleNamespace(LABELS=("name", "ended in"), SECONDS=0.3, run=run, line=lambda seed, index: f"call {index}")


def told(fuzzing, made, count, block=50, jobs=2):
    """Return the outcomes that are heard of so many calls."""
    pool, store, heard = fuzzing("pool"), fuzzing("store"), {}

    def report(index, outcome, seconds):
        assert index not in heard
        heard[index] = outcome

    pool.run(made, 0, store.Tally("x", 0, made.LABELS).missing(count, block), jobs, report)
    assert sorted(heard) == list(range(count))
    return {index: outcome.wrong for index, outcome in heard.items() if outcome.wrong}


def spin():
    while True:
        pass


def deaf(action, *arguments):
    """Hang like C code: no alarm is heard."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGPROF, signal.SIGALRM))
    action(*arguments)


@pytest.mark.fast
def test_a_child_goes_when_its_parent_has_gone(fuzzing, outcome, monkeypatch):
    class Gone(BaseException):
        pass

    def end(code):
        raise Gone

    heard, parents = [], iter([5, 5, 5, 1])
    pool = fuzzing("pool")
    monkeypatch.setattr(pool.os, "getppid", lambda: next(parents))
    monkeypatch.setattr(pool.os, "_exit", end)
    monkeypatch.setattr(pool, "one", lambda made, seed, index: (made.run(seed, index), 0.0))
    monkeypatch.setattr(pool.signal, "signal", lambda *_: None)
    monkeypatch.setattr(pool.resource, "setrlimit", lambda *_: None)
    with pytest.raises(Gone):
        pool._work(kind(outcome, {}), 0, 0, 20, SimpleNamespace(send=heard.append))
    assert [index for index, *_ in heard] == [0, 1]


@pytest.mark.fast
def test_a_call_that_kills_its_process(fuzzing, outcome):
    made = kind(outcome, {3: lambda: os.kill(os.getpid(), signal.SIGKILL), 9: lambda: os._exit(3)})
    wrong = told(fuzzing, made, 20, block=5)
    assert wrong == {3: "the process ended with code -9", 9: "the process ended with code 3"}


def test_calls_that_take_too_long(fuzzing, outcome, monkeypatch):
    """Much CPU time, or much time on the clock; in Python, and where no signal is heard."""
    monkeypatch.setattr(fuzzing("pool"), "PATIENCE", 6.0)
    wrong = told(
        fuzzing, kind(outcome, {1: spin, 2: lambda: time.sleep(60), 5: lambda: deaf(time.sleep, 60)}), 7, block=1, jobs=7
    )
    assert wrong == {1: "takes more than 0 s", 2: "takes more than 0 s", 5: "hangs and hears no signal"}
    monkeypatch.setattr(fuzzing("pool"), "PATIENCE", 600.0)  # the CPU time counts alone, however busy the machine is
    wrong = told(fuzzing, kind(outcome, {0: lambda: deaf(spin)}), 1, block=1, jobs=1)
    assert wrong == {0: f"the process ended with code {-signal.SIGXCPU}"}


@pytest.mark.fast
def test_what_is_missing(fuzzing, outcome):
    tally = fuzzing("store").Tally("x", 0, ("name", "ended in"))
    fine = outcome.FuzzOutcome(("x", "fine"))
    for index in (3, 0, 1, 7, 4, 2):
        tally.add(index, fine, 0.0)
    assert tally.done == [[0, 5], [7, 8]]
    assert tally.missing(12, 2) == [(5, 7), (8, 10), (10, 12)]
    assert tally.missing(6, 50) == [(5, 6)] and tally.missing(5, 50) == []


SLOW_CALLS = """
import os, sys, time
from types import SimpleNamespace
from fuzzing import __main__ as command
from fuzzing.outcome import FuzzOutcome

def run(seed, index):
    time.sleep(float(os.environ["A_CALL_TAKES"]))
    return FuzzOutcome((str(index % 3), "fine"))

command.KINDS["acl"] = SimpleNamespace(LABELS=("name", "ended in"), SECONDS=5, run=run, line=str)
command.SAVE_EACH, command.BLOCK = 0, 7
sys.exit(command.main(sys.argv[1:]))
"""


def test_a_killed_run_is_gone_on_with(tmp_path, monkeypatch):
    """Killed twice; in the end every call was counted once."""
    monkeypatch.setenv("PYTHONPATH", str(TOOLS))
    store = tmp_path / "out" / "fuzz.json"
    command = [sys.executable, "-c", SLOW_CALLS, "acl", "300", "--jobs", "2", "--resume", str(store)]
    before = 0
    monkeypatch.setenv("A_CALL_TAKES", "0.1")  # a quarter of a minute in all, in which even a busy machine gets to the kill
    for number in (signal.SIGKILL, signal.SIGTERM):
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        while running.poll() is None and _calls(store) < before + 10:
            time.sleep(0.02)
        running.send_signal(number)
        said, _ = running.communicate(timeout=30)
        assert before < _calls(store) < 300
        before = _calls(store)
    assert running.returncode == 130 and f"{before} calls, 0 wrong" in said
    monkeypatch.setenv("A_CALL_TAKES", "0")
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "300 calls, 0 wrong" in done.stdout
    found = json.loads(store.read_text())
    assert found["done"] == [[0, 300]] and found["counts"] == [[str(name), "fine", 100] for name in range(3)]


def _calls(store):
    return sum(row[-1] for row in json.loads(store.read_text())["counts"]) if store.exists() else 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no file of tools/fuzz"),
        ("[]", "no file of tools/fuzz"),
        ('{"version": 9}', "version 9"),
        ('{"version": 1, "kind": "calls", "labels": []}', "holds calls of the kind 'calls', not 'acl'"),
    ],
)
def test_files_that_hold_something_else(fuzzing, tmp_path, capsys, text, words):
    path = tmp_path / "x.json"
    path.write_text(text)
    assert fuzzing("__main__").main(["acl", "5", "--resume", str(path)]) == 2
    assert words in capsys.readouterr().err
    assert path.read_text() == text


def test_another_seed_is_not_mixed_in(fuzzing, outcome, tmp_path, capsys):
    command_module, store = fuzzing("__main__"), fuzzing("store")
    path = tmp_path / "x.json"
    store.Tally("acl", 3, command_module.KINDS["acl"].LABELS).save(path)
    assert command_module.main(["acl", "5", "--seed", "4", "--resume", str(path)]) == 2
    assert "holds calls of seed 3, not 4" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["phase-one", "calls", "acl"])
def test_one_call_again(fuzzing, capsys, kind):
    assert fuzzing("__main__").main([kind, "--seed", "1", "--again", "2"]) == 0
    assert "nothing wrong" in capsys.readouterr().out
