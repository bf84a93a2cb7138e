"""A file is whole or not there, and whatever stood in its place survives a failure."""

import errno
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from ascend_sim.errors import SimError
from ascend_sim.report import files, run_files
from ascend_sim.report.files import atomic_write, make_folder, remove_empty, staging, write_json

pytestmark = pytest.mark.fast


def test_the_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "out.bin"
    with atomic_write(path) as file:
        file.write(b"abc")
        assert not path.exists()
    assert path.read_bytes() == b"abc" and os.listdir(tmp_path) == ["out.bin"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["out.bin"]


def test_a_pipe_is_written_to_and_stays(tmp_path):
    """A page given a device as its name once took that device away from the machine, if root ran it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with atomic_write(path) as file:
            file.write(b"abc")
        assert path.is_fifo()
        assert os.read(reader, 10) == b"abc" and os.listdir(tmp_path) == ["pipe"]
    finally:
        os.close(reader)


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    link, path = tmp_path / "link", tmp_path / "out.bin"
    path.write_bytes(b"old")
    link.symlink_to(path)
    with atomic_write(link) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert link.is_symlink() and path.read_bytes() == b"new" and sorted(os.listdir(tmp_path)) == ["link", "out.bin"]


def test_other_processes_may_read_it(tmp_path):
    with atomic_write(tmp_path / "out.bin"):
        pass
    (tmp_path / "plain.bin").touch()
    assert (tmp_path / "out.bin").stat().st_mode == (tmp_path / "plain.bin").stat().st_mode


def test_a_missing_folder_is_one_clear_line(tmp_path):
    with pytest.raises(SimError, match=r"cannot write .*none/out\.json: No such file or directory"):
        write_json(tmp_path / "none" / "out.json", {})


def test_json_is_strict(tmp_path):
    path = tmp_path / "out.json"
    write_json(path, {"a": [1, 0.5, "é"]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": [1, 0.5, "é"]}
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text(encoding="utf-8"))["a"][0] == 1


def test_folders_that_were_made_for_nothing_go_again(tmp_path):
    made = make_folder(tmp_path / "a" / "b")
    assert made == [tmp_path / "a" / "b", tmp_path / "a"] and not os.listdir(made[0])
    remove_empty(made)
    assert not os.listdir(tmp_path)
    remove_empty(make_folder(tmp_path))  # that was there
    made = make_folder(tmp_path / "a")
    (tmp_path / "a" / "kept").touch()
    remove_empty(made)
    assert os.listdir(tmp_path / "a") == ["kept"]


def test_a_folder_that_cannot_be_made_leaves_none_of_those_around_it(tmp_path):
    with pytest.raises(SimError, match=r"cannot make that folder: .*too long"):
        make_folder(tmp_path / "a" / ("b" * 300))
    assert not os.listdir(tmp_path)
    (tmp_path / "a").touch()
    with pytest.raises(SimError, match="a: there is a file of that name; give a folder"):
        make_folder(tmp_path / "a")


def test_a_full_disk_leaves_no_folder(tmp_path, monkeypatch):
    """The command says it in one line; a folder that was there before stays."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_files, "write_json", full)
    (tmp_path / "older").mkdir()
    for name in ("new", "older"):
        result = CliRunner().invoke(app, ["run", "by_hand", "--mode", "timing", "--out", str(tmp_path / name)])
        assert result.exit_code == 2 and "No space left on device" in result.output
    assert os.listdir(tmp_path) == ["older"] and not os.listdir(tmp_path / "older")


def test_a_folder_that_cannot_be_written_in_is_refused_before_the_run(tmp_path, monkeypatch):
    def refused(**_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(files, "TemporaryFile", refused)
    monkeypatch.setattr(run_files, "write_run", None)
    for name, cannot in ((tmp_path, "write in"), (tmp_path / "new", "make")):
        result = CliRunner().invoke(app, ["run", "by_hand", "--mode", "timing", "--out", str(name)])
        assert result.exit_code == 2
        assert f"--out {name}: cannot {cannot} that folder: Permission denied" in result.output.replace("\n", "")
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(files.fcntl is None, reason="no locks")
def test_what_a_killed_process_left_goes_with_the_next_run(tmp_path):
    """A folder of a process that still runs stays."""
    code = f"""
import os, signal
from pathlib import Path
from ascend_sim.report.files import staging
with staging(Path({str(tmp_path)!r})) as folder:
    (folder / "half").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".run.") and left.endswith(".tmp")
    (tmp_path / "mine.tmp").mkdir()
    with staging(tmp_path) as one:
        assert not (tmp_path / left).exists()
        with staging(tmp_path) as other:
            assert one.is_dir() and other.is_dir()
    assert os.listdir(tmp_path) == ["mine.tmp"]
