"""Standard output that cannot be written, in real processes: one line and exit code 2, with the files of --out complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sampling import part_of_cases

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="/dev/full is where a disk is full")

KERNEL = """
import numpy as np
import ascend_sim

@ascend_sim.kernel_function(core="AIV")
def copy(k, x, y):
    row = k.local_tensor(64, "float32", "row")
    k.gm_to_ub(row, x)
    loaded = k.flag("MTE2", "MTE3", "loaded")
    k.set_flag(loaded)
    k.wait_flag(loaded)
    k.ub_to_gm(y, row)

BLOCKS = 1

def arguments(rng):
    print("\\u00b5-kernel", "much" * 4000)
    return np.ones(64, np.float32), ascend_sim.empty(64, "float32")
"""
COMMANDS = [
    "--help",
    "--version",
    "run --help",
    "run by_hand --mode timing",
    "run by_hand --mode timing --json",
    "run nothing_like_it --json",
    "kernel kernel.py",
    "check kernel.py",
    "check by_hand --json",
    "sweep by_hand --vary batch=1,2 --out swept",
    "tile by_hand --kernel grad_input --limit 2",
    "chips ascend910b3",
    "cases",
    "precision by_hand --csv",
    "explain by_hand",
]


def run(command, folder, shell="", **more):
    """A command in a process of its own; `shell` redirects its streams."""
    (folder / "kernel.py").write_text(KERNEL, encoding="utf-8")
    line = f'"{sys.executable}" -m ascend_sim {command} {shell}'
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"} | more
    return subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, timeout=300)


def told(done):
    """The lines on stderr, but for how long it took."""
    return [line for line in done.stderr.decode().splitlines() if not line.startswith("took ")]


@part_of_cases(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk(command, tmp_path):
    done = run(command, tmp_path, "> /dev/full")
    assert done.returncode == 2
    assert told(done) == ["ascend-sim: cannot write to standard output: No space left on device"]


@part_of_cases(2)
@pytest.mark.parametrize("command", ["--version", "run by_hand --mode timing", "kernel kernel.py", "check by_hand --json"])
def test_a_closed_output(command, tmp_path):
    done = run(command, tmp_path, ">&-")
    assert (done.returncode, told(done)) == (2, ["ascend-sim: cannot write to standard output: Bad file descriptor"])


def test_a_failed_verdict_is_not_what_a_full_disk_looks_like(tmp_path):
    """Its exit code is 1 where it can be read, 2 where it cannot."""
    wrong = KERNEL + "\ndef expected(x):\n    return x + 1\n"
    (tmp_path / "wrong.py").write_text(wrong, encoding="utf-8")
    assert run("kernel wrong.py", tmp_path, "> there.txt").returncode == 1
    assert run("kernel wrong.py", tmp_path, "> /dev/full").returncode == 2


@part_of_cases(2)
@pytest.mark.parametrize("command", ["--help", "run by_hand --mode timing", "run by_hand --json", "kernel kernel.py"])
def test_a_reader_that_has_enough(command, tmp_path):
    """141 as SIGPIPE has it, and silent: the reader is gone before a byte is written."""
    done = run(command, tmp_path, "| (exec <&-; sleep 0.1); exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (141, b"")


@part_of_cases(2)
@pytest.mark.parametrize("shell", ["> /dev/full", ">&-", "| head -1", ">&- 2>&- <&-"])
def test_files_are_complete(shell, tmp_path):
    run("run by_hand --mode timing --out whole", tmp_path, "> there.txt")
    run("run by_hand --mode timing --out cut", tmp_path, shell)
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert len(files) > 2 and files == {path.name: path.read_bytes() for path in (tmp_path / "cut").iterdir()}


@part_of_cases(3)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict", "cp1252", "utf-16"])
def test_an_encoding_without_our_characters(encoding, tmp_path):
    """Missing characters are replaced one by one, so that columns stay where they are."""
    right = run("run by_hand --mode timing", tmp_path).stdout.decode()
    done = run("run by_hand --mode timing", tmp_path, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    shown = done.stdout.decode(encoding.partition(":")[0])
    assert shown == (right if encoding == "utf-16" else right.replace("\u2588", "#"))


def test_what_a_kernel_prints_and_names_of_files(tmp_path):
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    assert run("kernel kernel.py", tmp_path, **ascii_only).stdout.startswith(b"?-kernel much")
    assert "\u00b5/report.json" in run("run by_hand --mode timing --out \u00b5", tmp_path, **ascii_only).stdout.decode()
    done = run("run by_hand --mode timing --out $'odd\\xff'", tmp_path)
    assert done.returncode == 0 and b"odd\xff/report.json" in done.stdout


@pytest.mark.parametrize("shell", ["2>&-", "2> /dev/full"])
def test_errors_that_nobody_can_read(shell, tmp_path):
    """They do not go to standard output, and the exit code says the rest."""
    done = run("run nothing_like_it", tmp_path, shell)
    assert (done.returncode, done.stdout) == (2, b"")
    assert run("run by_hand --mode timing", tmp_path, shell).returncode == 0
