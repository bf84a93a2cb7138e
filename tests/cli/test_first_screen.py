"""Tasks of users: each a command or at most three lines of Python, its answer on the first screen.

A screen has 24 rows of 100 columns. A refusal is one line, which the terminal wraps; it counts as the rows that it takes.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ascend_sim
from ascend_sim.cli import app
from tests.support.cli.commands import write_case
from tests.support.cli.further_tasks import FURTHER_TASKS
from tests.support.cli.user_tasks import KERNEL, KERNELS, NETWORK, PRODUCT, TASKS, TORCH, UserTask
from tests.support.places import DOCS
from tests.support.sampling import part_of_cases
from tests.support.studies.measured_rows import HELPERS, TWO_ROWS

ROWS, COLUMNS = 24, 100
PYTHON_LINES = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the user's folder: a network, kernels, measured rows, a refused case and runs to compare."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "net.yaml").write_text(NETWORK, encoding="utf-8")
    (folder / "rows.csv").write_text(TWO_ROWS, encoding="utf-8")
    (folder / "helpers.csv").write_text(HELPERS, encoding="utf-8")
    for name, line in KERNELS.items():
        (folder / f"{name}.py").write_text(KERNEL.replace(PRODUCT, line), encoding="utf-8")
    write_case(folder, "refused.yaml", cube_math_type=9)
    for line in (
        "run by_hand --out before",
        "run by_hand --tiling grad_input.bl1Pbuffer=1 --out after",
        "run-network net.yaml --jobs 1 --out net_before",
        "run-network net.yaml --jobs 1 --chip ascend910b4 --out net_after",
    ):
        assert typed_command(f"ascend-sim {line}", folder)[1] == 0
    return folder


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Return the names of the user's Python session; those of PyTorch are there where PyTorch is."""
    return {"ascend_sim": ascend_sim}


@pytest.fixture(scope="module")
def torch_names(names: dict[str, Any]) -> dict[str, Any]:
    pytest.importorskip("torch")
    exec(TORCH, names)
    return names


def typed_command(line: str, folder: Path) -> tuple[str, int]:
    """Return output and exit code of a command, run in this process."""
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exception is None or isinstance(done.exception, SystemExit), line
    return done.output, done.exit_code


def typed_python(code: str, names: dict[str, Any], folder: Path) -> tuple[str, int]:
    """Return the output of lines of Python, or the message that they raise; the code is 2 then."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        try:
            exec(code, dict(names))
        except (ascend_sim.SimError, KeyError, TypeError) as error:
            return f"{printed.getvalue()}ascend-sim: {error}", 2
    return printed.getvalue(), 0


def screen(text: str) -> Iterator[str]:
    """Yield the lines of the first screen; none is longer than its columns, but a refusal, which the terminal wraps."""
    rows = 0
    for line in text.splitlines():
        line = line.rstrip()
        rows += max(1, -(-len(line) // COLUMNS))
        if rows > ROWS:
            return
        assert len(line) <= COLUMNS or line.startswith("ascend-sim: "), line
        yield line


@part_of_cases(4)
@pytest.mark.parametrize("task", [*TASKS, *FURTHER_TASKS], ids=lambda task: f"{task.kind}: {task.question}")
def test_the_answer_is_on_the_first_screen(
    task: UserTask, folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    if task.is_command:
        text, code = typed_command(task.typed.format(docs=DOCS), folder)
    else:
        names = request.getfixturevalue("torch_names" if task.kind == "torch" else "names")
        text, code = typed_python(task.typed, names, folder)
    shown = "\n".join(screen(text))
    assert code == task.code, text
    assert re.search(task.answer, shown), text
