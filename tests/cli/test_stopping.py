"""Endings of a command from outside, in real processes: one line, nothing left that runs, finished work kept."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_sim import run_case
from ascend_sim.errors import MemoryLimitError

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")

PATIENCE = 240.0
"""Seconds until a test gives up; how long something takes on a busy machine is no property of the code."""
AT_WORK = 1.0
"""Seconds of CPU after which a process is past its start, and in the large layer, which takes several."""
NETWORK = """
defaults: {padding: 1, dtype: float16}
layers:
  - {name: small, input: [1, 16, 4, 4], weight: [16, 16, 3, 3]}
  - {name: large, input: [1, 256, 448, 448], weight: [256, 256, 3, 3]}
"""


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, group, session, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, own, *_ = stat(int(entry.name))
            except OSError:
                continue
            if int(own) == leader and state != "Z":
                found.append(int(entry.name))
    return found


def cpu_seconds(pid: int) -> float:
    try:
        return sum(map(int, stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `ascend-sim` as the leader of a session, and leaves nothing of it behind."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "ascend_sim", *arguments], cwd=tmp_path, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        for pid in session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def network_at_work(started: Callable[..., subprocess.Popen[str]], folder: Path) -> subprocess.Popen[str]:
    """A `run-network` on two processes, one of which is done with its layer while the other is in the middle of it."""
    (folder / "two.yaml").write_text(NETWORK)
    process = started("run-network", "two.yaml", "--batch", "64", "--jobs", "2", "--out", "out")
    until(lambda: results(folder / "out" / "results.sqlite") == 1)
    until(lambda: any(cpu_seconds(pid) > AT_WORK for pid in session(process.pid) if pid != process.pid))
    return process


def results(store: Path) -> int:
    """How many results a store holds; none where it is only just being made."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
            return int(database.execute("select count(*) from results").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.parametrize(
    ("number", "whole_group", "said"),
    [
        pytest.param(signal.SIGINT, True, "ascend-sim: interrupted (Ctrl-C)", marks=pytest.mark.slow),
        (signal.SIGTERM, False, "ascend-sim: stopped by SIGTERM"),
    ],
)
def test_what_was_finished_is_kept(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals, whole_group: bool, said: str
) -> None:
    process = network_at_work(started, tmp_path)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    until(lambda: session(process.pid) == [])  # joblib's helper process ends itself a moment later
    assert err.splitlines()[-1] == said and len(err.splitlines()) == 2 and err.startswith("took ")
    found = json.loads((tmp_path / "out" / "network.json").read_text())
    assert [layer["name"] for layer in found["layers"]] == ["small"] and not found["complete"]
    assert "interrupted: only the layers that were finished" in out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["layers.csv", "network.json", "results.sqlite"]


def test_workers_die_with_a_killed_parent(started: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = network_at_work(started, tmp_path)
    assert len(session(process.pid)) >= 3
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: session(process.pid) == [])
    _, err = process.communicate(timeout=PATIENCE)
    assert err == "" and all("results.sqlite" in path.name for path in (tmp_path / "out").iterdir())


COMMANDS = {
    "run": ("run", "resnet50_conv2_3x3"),
    "tile": ("tile", "resnet50_conv2_3x3", "--jobs", "2", "--out", "tilings"),
    "validate": ("validate", "--chip", "ascend910b2", "--jobs", "2"),
    "precision": ("precision", "resnet50_conv2_3x3"),
    "sweep": ("sweep", "resnet50_conv2_3x3", "--vary", "batch=8:64", "--jobs", "2"),
    "what if": ("run", "resnet50_conv2_3x3", "--mode", "timing", "--html", "page.html"),
}


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3, 12])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_long_command_ends_with_nothing_left(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path, command: str, number: signal.Signals, seconds: int
) -> None:
    process = started(*COMMANDS[command])
    try:
        process.wait(seconds)
        pytest.skip("it was over before")
    except subprocess.TimeoutExpired:
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    begin = time.monotonic()
    until(lambda: session(process.pid) == [])
    print(f"{command} {number.name} after {seconds} s: ended in {time.monotonic() - begin:.2f} s")
    _, err = process.communicate()
    assert "Traceback" not in err
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert len([line for line in err.splitlines() if line.startswith("ascend-sim: ")]) == 1
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")]


def test_more_memory_than_the_limit_is_one_line(started: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = started("--max-memory", "0.05", "run", "resnet50_conv2_3x3", "--out", "out")
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("ascend-sim: stopped: more than 0.05 GiB of memory") and len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_whose_exception_python_drops_is_raised_again(number: signal.Signals) -> None:
    """Python drops the exceptions of finalizers."""
    code = (
        "import os, signal, time\n"
        "from ascend_sim.cli import stopping\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background may have it ignored
        "class Held:\n"
        "    def __del__(self):\n"
        f"        os.kill(os.getpid(), {int(number)})\n"
        "        time.sleep(0.1)\n"
        "stopping.listen()\n"
        "try:\n"
        "    Held()\n"
        "    time.sleep(20)\n"
        "except KeyboardInterrupt as error:\n"
        "    print(error is stopping.raised())\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\n", "")


def test_what_python_drops_without_an_exception_raises_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may give None in place of the exception; before a signal there is none either."""
    from ascend_sim.cli import stopping

    called: list[str] = []
    dropped: Any = SimpleNamespace(exc_type=ValueError, exc_value=None)
    monkeypatch.setattr(stopping, "_raised", None)
    monkeypatch.setattr(signal, "signal", lambda *_: called.append("signal"))
    monkeypatch.setattr(signal, "setitimer", lambda *_: called.append("timer"))
    monkeypatch.setattr(sys, "__unraisablehook__", lambda _: called.append("Python's own"))
    stopping._raise_again(dropped)
    assert called == ["Python's own"]


def test_work_that_goes_on_after_errors_ends_at_the_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial that is refused is left out; one in which the memory ends must not be."""

    def beyond(*_: object, **__: object) -> None:
        raise MemoryLimitError("stopped: more than 1 GiB of memory")

    result = run_case("fp32_keep", mode="timing")
    monkeypatch.setattr("ascend_sim.calls.trials.run_tasks", beyond)
    with pytest.raises(MemoryLimitError):
        result.to_dict()


@pytest.mark.parametrize(("text", "code"), [("stopped: more than 1 GiB of memory", 2), ("stopped by SIGTERM", 143)])
def test_an_ending_of_which_a_library_makes_another_error(
    text: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library that reads chip files does so, while it builds what checks them."""
    from ascend_sim import cli
    from ascend_sim.cli import stopping

    def wrapped(*_: object) -> None:
        try:
            stopping._stop(signal.SIGTERM, None)
        except BaseException as error:
            raise ValueError(f"cannot build: {error!r}") from None

    monkeypatch.setattr(stopping, "listen", lambda: None)
    for name, value in (("_last", signal.SIGINT), ("_told", False), ("_raised", None)):
        monkeypatch.setattr(stopping, name, value)
    monkeypatch.setattr(stopping, "_too_much", [text] if code == 2 else [])
    monkeypatch.setattr(sys.modules["ascend_sim.cli.app"], "_without_types", wrapped)
    monkeypatch.setattr(sys, "argv", ["ascend-sim", "cases"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code and capsys.readouterr().err == f"ascend-sim: {text}\n"


def test_the_limit_of_memory_is_reported_until_the_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may catch what the first signal raises."""
    from ascend_sim.cli import stopping

    sent: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(stopping, "_too_much", [])
    monkeypatch.setattr(stopping, "memory_limit", lambda: 2**30)
    monkeypatch.setattr(stopping, "held_memory", lambda: 2**31)
    monkeypatch.setattr(os, "kill", lambda _, number: sent.append((number, list(stopping._too_much))))
    monkeypatch.setattr(time, "sleep", lambda seconds: sys.exit() if len(sent) == 3 else None)
    with pytest.raises(SystemExit):
        stopping._watch_memory()
    assert [(number, len(texts)) for number, texts in sent] == [(signal.SIGTERM, 1)] * 3


@pytest.mark.slow
def test_a_worker_with_more_memory_than_the_limit(started: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(NETWORK)
    process = started("--max-memory", "0.2", "run-network", "two.yaml", "--batch", "64", "--jobs", "2")
    out, err = process.communicate(timeout=3 * PATIENCE)  # the large layer is tried three times
    assert process.returncode == 0 and "Traceback" not in err
    (why,) = [line for line in out.splitlines() if line.startswith("refused: large: its process died 3 times")]
    assert "more than 0.2 GiB of memory" in " ".join(out.split("refused: large")[1].split()), why
    assert session(process.pid) == []


def test_a_signal_before_a_command_has_begun(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Typer ends there with the exit code of Ctrl-C and without a word."""
    from ascend_sim import cli
    from ascend_sim.cli import stopping

    def interrupted(options: object) -> None:
        stopping._stop(signal.SIGTERM, None)

    monkeypatch.setattr(stopping, "listen", lambda: None)
    for name, value in (("_last", signal.SIGINT), ("_told", False), ("_raised", None)):
        monkeypatch.setattr(stopping, name, value)
    monkeypatch.setattr(sys.modules["ascend_sim.cli.app"], "_without_types", interrupted)
    monkeypatch.setattr(sys, "argv", ["ascend-sim", "cases"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 143 and capsys.readouterr().err == "ascend-sim: stopped by SIGTERM\n"


def test_a_signal_while_a_library_writes_a_function(tmp_path: Path) -> None:
    """`python -m` would end by Ctrl-C then, whatever the exit code: dataclasses are made of text, at every import."""
    (tmp_path / "interrupted.py").write_text(
        """
import sys
from ascend_sim import cli
TEXT = "import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"
sys.modules["ascend_sim.cli.app"]._without_types = lambda options: exec(TEXT)
sys.argv = ["ascend-sim", "cases"]
cli.main()
"""
    )
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (143, "ascend-sim: stopped by SIGTERM\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("then", "longest"),
    [
        ("pass", 8),
        ("while True: time.sleep(1)", 0.5),
        ("try: time.sleep(1)\nexcept BaseException: raise ImportError('a library that was slow')", 8),
    ],
    ids=["short", "endless", "slow machine"],
)
def test_a_signal_while_a_library_is_imported(tmp_path: Path, number: signal.Signals, then: str, longest: float) -> None:
    """Some make an error of their own of what is raised in them; the import is over first, if it ever is."""
    (tmp_path / "library.py").write_text(
        f"""
import os, time
try:
    os.kill(os.getpid(), {int(number)})
except BaseException:
    raise ImportError("a part of the library is missing")
{then}
"""
    )
    (tmp_path / "interrupted.py").write_text(
        f"""
import sys, time
from ascend_sim import cli
from ascend_sim.cli import stopping
stopping._LONGEST_SLEEP = {longest}
def imports(options):
    import library
    time.sleep(60)
sys.modules["ascend_sim.cli.app"]._without_types = imports
sys.argv = ["ascend-sim", "cases"]
cli.main()
"""
    )
    heard = f"import signal, runpy; signal.signal({int(signal.SIGINT)}, signal.default_int_handler)"
    code = f"{heard}; runpy.run_module('interrupted')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    words = {signal.SIGINT: "interrupted (Ctrl-C)", signal.SIGTERM: "stopped by SIGTERM"}
    assert (done.returncode, done.stderr) == (128 + number, f"ascend-sim: {words[number]}\n")


def test_a_command_that_is_to_survive_its_terminal_does(tmp_path: Path) -> None:
    """A command that nohup starts ignores SIGHUP."""
    (tmp_path / "alone.py").write_text(
        """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from ascend_sim import cli
sys.modules["ascend_sim.cli.app"]._without_types = lambda options: os.kill(os.getpid(), signal.SIGHUP) or options
sys.argv = ["ascend-sim", "cases"]
cli.main()
"""
    )
    done = subprocess.run([sys.executable, "alone.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "") and "document_example_2d" in done.stdout
