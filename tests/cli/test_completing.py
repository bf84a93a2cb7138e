"""Completions of a shell, and the filling of help's lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

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
        ("run by_hand --chip 910b", {"910b3", "910b4-1"}, {"ascend910b3", "910a"}),
        ("run by_hand --chip Ascend95", {"Ascend950pr_9589"}, {"ascend950pr_9589", "950pr_9589"}),
        ("tile by_hand --chip ascend910b3,950dt", {"ascend910b3,950dt_9581"}, {"950dt_9581"}),
        ("precision by_hand --chips 910b3,910b", {"910b3,910b4"}, {"910b3,910b3"}),
        ("precision by_hand --inputs ", {"wide", "relu"}, {"by_hand"}),
        ("precision by_hand --accumulate ", {"chunk", "all"}, set()),
        ("compare-training train.py --precisions fp32,h", {"fp32,hf32", "fp32,hifloat8"}, {"fp32,fp32"}),
        ("run resnet5", {"resnet50_conv2_3x3", "resnet50:"}, {"resnet50"}),
        ("run resnet50:conv2_1", {"resnet50:conv2_1_3x3"}, {"resnet50:conv1", "conv2_1_3x3"}),
        ("run net.yaml:f", {"net.yaml:first"}, {"net.yaml:second"}),
        ("run mine.yaml:f", set(), {"mine.yaml:first"}),
        ("sweep by_hand --vary ba", {"batch=", "baseM="}, {"chip="}),
        ("sweep by_hand --vary chip.", {"chip.memory.", "chip.buffers."}, {"chip.memory.hbm_gb_per_s=", "batch="}),
        ("sweep by_hand --vary chip.memory.h", {"chip.memory.hbm_gb_per_s="}, {"chip.memory."}),
        ("sweep by_hand --vary batch,chip.mem", {"batch,chip.memory."}, {"chip.memory."}),
        ("sweep by_hand --vary dtype=float32,fl", {"dtype=float32,float16"}, {"dtype=float32,float32"}),
        ("sweep by_hand --vary transposed=", {"transposed=true", "transposed=false"}, {"by_hand"}),
        ("sweep by_hand --vary chip=910b3,910b", {"chip=910b3,910b4"}, {"910b4"}),
        ("sweep document_example_tbc --vary len", {"length="}, {"groups="}),
        ("sweep by_hand --vary len", set(), {"length="}),
        ("sweep no_such --vary ba", set(), {"batch="}),
        ("sweep by_hand --vary dW.base", {"dW.baseM=", "dW.baseK="}, {"grad_weight.baseM="}),
        ("format h", {"hf32", "hifloat8"}, {"float32"}),
        ("format ", {"float32", "hifloat8"}, {"fp32"}),
        ("run strided --disarm g", {"grad_input.", "grad_weight."}, {"ReduceSum_grad_bias."}),
        ("run strided --disarm grad_input.A1", {"grad_input.A1[0]\\", "full"}, {"grad_input.L0C\\"}),
        ("run no_such --disarm g", set(), {"grad_input."}),
    ],
)
def test_names_are_completed(
    line: str, there: set[str], not_there: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine.yaml", "mine.py", "notes.txt", "folder/other.yaml", ".hidden/x.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "net.yaml").write_text("layers: [{name: first}, {name: second}]\n")
    monkeypatch.chdir(tmp_path)
    told = completions(f"ascend-sim {line}".split(" "))
    assert there <= set(told) and not not_there & set(told)


def completions(words: list[str], at: int = -1) -> list[str]:
    """Return the completions that bash gets for the word at `at`."""
    place = str(range(len(words))[at])
    asked = {"_ASCEND_SIM_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": place}
    return CliRunner().invoke(app, [], prog_name="ascend-sim", env=asked).stdout.split()


@pytest.mark.parametrize(
    ("words", "whole", "kept"),
    [
        (["run", "resnet50", ":"], "run resnet50:", "resnet50:"),
        (["run", "resnet50", ":", "conv2_1"], "run resnet50:conv2_1", "resnet50:"),
        (["run", "by_hand", "--tiling", "dX.baseM", "=", "16,dX.ba"], "run by_hand --tiling dX.baseM=16,dX.ba", "dX.baseM="),
        (["sweep", "by_hand", "--vary", "dtype", "="], "sweep by_hand --vary dtype=", "dtype="),
        (["sweep", "resnet50", ":", "conv1", "--vary", "ba"], "sweep resnet50:conv1 --vary ba", ""),
        (["run", "by_hand", "--mode", "=", "f"], "run by_hand --mode=f", ""),
        (["sweep", "by_hand", "--vary", "=", "dtype", "=", "f"], "sweep by_hand --vary=dtype=f", "dtype="),
    ],
)
def test_bash_divides_words_at_colons_and_equals_signs(words: list[str], whole: str, kept: str) -> None:
    """COMP_WORDS has the parts, and bash puts a completion in place of the last one. The oracle is the whole word."""
    found = completions(["ascend-sim", *words])
    assert found == [one.removeprefix(kept) for one in completions(["ascend-sim", *whole.split(" ")])]
    assert found and not any(one.startswith(kept) for one in found if kept)


def test_bash_completes_an_earlier_word() -> None:
    words = ["ascend-sim", "run", "resnet50", ":", "conv2_1", "--mode", "=", "timing"]
    assert completions(words, 4)[0] == "conv2_1_1x1_in" and completions(words, 7) == ["timing"]


def test_a_blank_ends_a_word_behind_an_equals_sign() -> None:
    words = ["ascend-sim", "sweep", "by_hand", "--vary", "dtype", "="]
    assert "float32" in completions(words) and "float32" not in completions([*words, ""])


def test_listed_names_are_all_names() -> None:
    from ascend_sim.cli import completing
    from ascend_sim.ops.case_data import Distribution

    assert set(completing.INPUTS("")) == set(get_args(Distribution))
    training = pytest.importorskip("ascend_sim.torch.training")
    assert completing.PRECISIONS("") == list(training.PRECISIONS)


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
    begin = next(i for i, line in enumerate(lines) if line.startswith("Exit code 1"))
    first, second, *_ = lines[begin : lines.index("", begin)]
    assert len(first) + 1 + len(second.split()[0]) > 78 and len(second) > 50
