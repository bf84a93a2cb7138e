"""Reasons in words why there is no file to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.errors import why_no_file

pytestmark = pytest.mark.fast


def test_a_path_that_the_system_refuses_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("none")
    for name in ("none", "file/below", "nowhere", "a\0b"):
        assert why_no_file(tmp_path / name) == "no such file"
    assert why_no_file(tmp_path) == "is a folder"
    assert why_no_file(Path("/dev/null")) == "is a device or a pipe, not a file"
    assert why_no_file(tmp_path / ("a" * 300)) == "cannot be looked for (File name too long)"
    assert why_no_file(tmp_path / "loop").startswith("cannot be looked for (Too many levels of symbolic links")
