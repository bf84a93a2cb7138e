"""Completions of a shell, and the filling of help's lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from tests.support.cli.commands import run


@pytest.mark.fast
@pytest.mark.parametrize(
    ("line", "there", "not_there"),
    [
        ("run str", {"strided"}, {"by_hand"}),
        ("run ", {"by_hand", "strided", "mine.yaml", "folder/"}, {"resnet50", "notes.txt", ".hidden/"}),
        ("run folder/", {"folder/other.yaml"}, {"by_hand"}),
        ("explain by", {"by_hand"}, {"strided"}),
        ("run by_hand --chip ascend910b", {"ascend910b3", "ascend910b4-1"}, {"ascend910a", "dav-2201"}),
        ("run-network res", {"resnet18", "resnet50"}, {"vgg16"}),
        ("run-network resnet50 --chip ascend310", {"ascend310p3"}, {"ascend910a"}),
        ("compare by_hand asc", {"ascend910b3"}, {"dav-2201"}),
        ("check m", {"mine.yaml", "mine.py"}, {"by_hand"}),
        ("check by_hand --tool ", {"memcheck", "racecheck", "initcheck", "synccheck"}, {"by_hand"}),
        ("run by_hand --mode f", {"full", "functional"}, {"timing"}),
        ("run by_hand --overflow ", {"inf_nan", "saturate"}, {"blas"}),
        ("run by_hand --accumulate ", {"blas", "chunk", "exact_group"}, {"saturate"}),
        ("tile by_hand --kernel ", {"grad_input", "grad_weight", "dX", "dW"}, {"grad_bias"}),
        ("run by_hand --tiling ", {"grad_input.", "dX.", "mine.yaml"}, {"mine.py", "db."}),
        ("run by_hand --tiling dX.bas", {"dX.baseM=", "dX.baseN="}, {"dX.stepKa=", "grad_input.baseM="}),
        ("tile by_hand --field dW.baseM=16,dW.stepK", {"dW.baseM=16,dW.stepKa="}, {"dW.stepKa="}),
    ],
)
def test_names_are_completed(
    line: str, there: set[str], not_there: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine.yaml", "mine.py", "notes.txt", "folder/other.yaml", ".hidden/x.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    words = f"ascend-sim {line}"
    asked = {"_ASCEND_SIM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    told = CliRunner().invoke(app, [], prog_name="ascend-sim", env=asked).stdout.split()
    assert there <= set(told) and not not_there & set(told)


def test_completion_reads_nothing_but_folders() -> None:
    """It answers at every press of a key: what reads chips and cases takes a second to import."""
    words = {"COMP_WORDS": "ascend-sim run by_hand --chip asc", "COMP_CWORD": "4"}
    code = (
        "import sys; from ascend_sim.cli import app\ntry: app(prog_name='ascend-sim')\n"
        "except SystemExit: pass\nprint(*{'numpy', 'ascend_sim.chip', 'ascend_sim.ops.case'} & set(sys.modules))"
    )
    env = os.environ | words | {"_ASCEND_SIM_COMPLETE": "complete_bash"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    told = done.stdout.splitlines()
    assert "ascend910b3" in told and told[-1] == ""


@pytest.mark.fast
def test_help_fills_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paragraphs are broken where the terminal ends, not where the lines of the code do."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in run("run", "--help").out.splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.startswith("Without --out"))
    first, second, *_ = lines[begin : lines.index("", begin)]
    assert len(first) + 1 + len(second.split()[0]) > 78 and len(second) > 50
