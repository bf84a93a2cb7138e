"""A file is whole or not there, and whatever stood in its place survives a failure."""

import json
import os

import pytest

from ascend_sim.errors import SimError
from ascend_sim.report.files import atomic_write, write_json

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
