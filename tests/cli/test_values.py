"""Values of options, and one line for each wrong one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ascend_sim.cli.values import fields_of
from ascend_sim.errors import SimError
from tests.support.cli.commands import refused, run


def test_a_tiling_that_does_not_fit_shows_the_formula_and_the_numbers() -> None:
    fields = "grad_input.baseM=1024,grad_input.baseN=64,grad_input.baseK=16,grad_input.cl0Pbuffer=1"
    line = refused("run", "resnet50_conv2_3x3", "--mode", "timing", "--tiling", fields)
    assert "L0C: baseM*baseN*4*cl0Pbuffer = 1024*64*4*1 = 262144 > 131072 bytes" in line
    fields = "grad_weight.stepKa=200,grad_weight.stepKb=200"
    line = refused("run", "resnet50_conv2_3x3", "--mode", "timing", "--tiling", fields)
    assert "stepKa*baseK 6400 * stepM*baseM 64 * 2 * al1Pbuffer 2" in line and "> 524288 bytes" in line


def test_bad_tiling_files(case: Path, tmp_path: Path) -> None:
    file = tmp_path / "tiling.yaml"
    for text, word in {
        "grad_input: [1\n": "broken YAML",
        "- 1\n": "must map grad_input and grad_weight to fields",
        "grad_input: 3\n": "must map grad_input and grad_weight to fields",
        "grad_input: {baseM: 1.5}\n": "baseM = 1.5",
        "grad_input: {baseM: true}\n": "baseM = True",
        "conv: {baseM: 16}\n": "no cube kernel 'conv'",
    }.items():
        file.write_text(text, encoding="utf-8")
        assert word in refused("run", case, "--tiling", file)
    for path, word in ((tmp_path, "is a folder"), (tmp_path / "none", "no such file")):
        assert f"--tiling {path}: {word}, and not of the form" in refused("run", case, "--tiling", path)


def test_a_tiling_file_with_a_field_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tiling.yaml"
    file.write_text("grad_input:\n  baseM: 16\n  baseM: 32\n", encoding="utf-8")
    ran = run("run", "document_example_2d", "--tiling", file)
    assert ran.code == 2 and "line 3" in ran.err and "'baseM' is given twice" in ran.err


def test_whole_numbers_and_switches_of_fields_need_no_yaml_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ascend_sim.yaml_file", None)
    assert fields_of("n=16384,step=-3,zero=0,on=true") == {"n": 16384, "step": -3, "zero": 0, "on": True}
    monkeypatch.undo()
    assert fields_of("x=0.5,y=1e3,name=abc") == {"x": 0.5, "y": 1000.0, "name": "abc"}
    with pytest.raises(SimError, match="numbers are plain decimal"):
        fields_of("n=010")
