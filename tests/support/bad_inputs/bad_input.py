"""One bad input: a command with its files, and its run in this process."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

Content = str | bytes | Callable[[Path], None]


@dataclass(frozen=True)
class Bad:
    """One command that cannot be right; `kind` groups them on the page, `what` says what is wrong in a few words."""

    kind: str
    what: str
    command: str
    files: Mapping[str, Content] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its key in expected.yaml."""
        return f"{self.kind}: {self.what}"


@dataclass(frozen=True)
class Got:
    """Result of a command: exit code, its words on stderr, and the files that it left."""

    code: int
    said: str
    left: tuple[str, ...]


@cache
def commands() -> Any:
    """Return the group of all commands of `ascend-sim`."""
    from ascend_sim.cli import app

    return get_command(app)


def tried(bad: Bad, folder: Path) -> Got:
    """Run it in this process, in `folder`."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        for name, content in bad.files.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            else:
                path.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
        there = set(Path().rglob("*"))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            commands().main(shlex.split(bad.command), prog_name="ascend-sim")
        left = tuple(sorted(str(path) for path in set(Path().rglob("*")) - there if "__pycache__" not in path.parts))
        said = (err.getvalue() or out.getvalue()).replace(str(folder), ".").replace(str(folder.resolve()), ".")
        return Got(int(ended.value.code or 0), said, left)
    finally:
        os.chdir(before)
