"""Sweeps that are killed: the whole command, one of its workers, a worker of a Dask cluster, its scheduler.

Nothing is lost, and nothing that was finished is made again.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc"),
]
PATIENCE = 1800.0
JOBS = 2
UNDER_WAY = 4 * JOBS
"""Points that a killed command may have claimed without a result: joblib has two for each process, takes as many as there are
processes ahead of them, and those over which a worker died wait beside the new ones."""


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ascend_sim", "sweep", "by_hand", "--out", str(folder), "--top", "1", *arguments]


def rows(folder: Path) -> dict[str, tuple[str, int]]:
    """name -> (data, how often it was begun) of every result."""
    path = folder / "results.sqlite"
    if not path.exists():
        return {}
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, timeout=30)) as database:
        found = database.execute("select name, data, begun from results").fetchall()
        return {name: (data, begun) for name, data, begun in found}
    return {}


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
                if int(fields[1]) == pid and b"resource_tracker" not in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def until(what: Callable[[], bool], process: subprocess.Popen[Any] | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "it never happened"
        assert process is None or process.poll() is None, "it ended before"
        time.sleep(0.05)


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(arguments, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def session(leader: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def test_2000_points_killed_five_times(tmp_path: Path) -> None:
    """By turns the whole command and one of its workers, at random moments; then in one go to the end."""
    draw = random.Random(7)
    arguments = command(
        tmp_path, "--jobs", str(JOBS), "--vary", "output_mask=[false,false,true]",
        "--vary", "batch=1:50", "--vary", "size=3:42",
    )  # fmt: skip
    kills, parents = [], 0
    for number in range(5):
        process = started(*arguments)
        before = rows(tmp_path)
        target = len(before) + draw.randrange(60, 300)
        until(lambda target=target: len(rows(tmp_path)) >= target, process)  # type: ignore[misc]
        if number % 2:
            victim = draw.choice(children(process.pid))
            os.kill(victim, signal.SIGKILL)
            here = len(rows(tmp_path))
            until(lambda here=here: len(rows(tmp_path)) >= here + 20, process)  # type: ignore[misc]
        os.kill(process.pid, signal.SIGKILL)
        until(lambda process=process: session(process.pid) == [])  # type: ignore[misc]
        process.communicate()
        parents += 1
        after = rows(tmp_path)
        assert all(after[name] == result for name, result in before.items()), "a finished point was made again"
        kills.append(len(after))
    last = started(*arguments)
    text, said = last.communicate(timeout=PATIENCE)
    assert last.returncode == 0, said
    assert "2,000 points ran" in text and f"{kills[-1]} results were there before" in said
    found = rows(tmp_path)
    again = sum(begun - 1 for _, begun in found.values())
    print(f"killed at {kills}: {len(found)} results, {again} begun again after {parents} killed commands")
    assert len(found) == 2000 and again <= parents * UNDER_WAY
    assert [path.name for path in tmp_path.iterdir()] == ["results.sqlite"]


def test_two_commands_share_a_folder(tmp_path: Path) -> None:
    arguments = command(tmp_path, "--jobs", "1", "--vary", "batch=1:60", "--json")
    both = [started(*arguments) for _ in range(2)]
    texts = [process.communicate(timeout=PATIENCE) for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    assert texts[0][0] == texts[1][0]
    found = rows(tmp_path)
    assert len(found) == 60 and {begun for _, begun in found.values()} == {1}


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str], list[subprocess.Popen[str]]]]:
    """A Dask scheduler and two workers, each a process with one thread."""
    address = f"tcp://127.0.0.1:{free_port()}"
    dask = [sys.executable, "-m", "distributed.cli"]
    running = []
    try:
        for name in ("dask_scheduler", "dask_worker", "dask_worker"):
            own = (
                ["--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"]
                if name == "dask_scheduler"
                else [address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
            )
            running.append(
                subprocess.Popen(
                    [*dask[:-1], f"distributed.cli.{name}", *own], text=True, start_new_session=True,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip
            until(lambda: _answers(address))
        yield address, running[0], running[1:]
    finally:
        for process in running:
            process.kill()
            process.wait()


def _answers(address: str) -> bool:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


@pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask")
def test_a_worker_of_a_cluster_is_killed(tmp_path: Path) -> None:
    with cluster(tmp_path) as (address, _, workers):
        process = started(*command(tmp_path / "out", "--scheduler", address, "--vary", "batch=1:120"))
        until(lambda: len(rows(tmp_path / "out")) >= 25, process)
        workers[0].kill()
        here = len(rows(tmp_path / "out"))
        text, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "120 points ran" in text and here < 120
    print(f"worker killed at {here} of 120 results")
    assert len(rows(tmp_path / "out")) == 120


@pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask")
def test_a_scheduler_is_killed(tmp_path: Path) -> None:
    arguments = ("--vary", "batch=1:120")
    with cluster(tmp_path) as (address, scheduler, _):
        process = started(*command(tmp_path / "out", "--scheduler", address, *arguments))
        until(lambda: len(rows(tmp_path / "out")) >= 25, process)
        scheduler.kill()
        begin = time.monotonic()
        _, said = process.communicate(timeout=PATIENCE)
        print(f"scheduler killed at {len(rows(tmp_path / 'out'))} of 120; ended after {time.monotonic() - begin:.1f} s: {said}")
    assert process.returncode == 2 and said.splitlines()[-1].startswith(f"ascend-sim: the scheduler {address} is gone")
    assert len(said.splitlines()) == 1
    before = rows(tmp_path / "out")
    with cluster(tmp_path) as (address, _, _):
        process = started(*command(tmp_path / "out", "--scheduler", address, *arguments))
        text, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "120 points ran" in text, said
    after = rows(tmp_path / "out")
    assert len(after) == 120 and all(after[name] == result for name, result in before.items())
