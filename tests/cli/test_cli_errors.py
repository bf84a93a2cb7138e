"""Errors at the command line: one line for each, its exit code, and nothing half-written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.main import get_command

from ascend_sim.cli.app import _EXAMPLES, COMMANDS, app
from tests.support.cli.commands import refused, run, save, write_case


@pytest.mark.fast
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pading": [1, 1]}, ["pading: unknown key", "did you mean 'padding'"]),
        ({"input": {"shape": [1, 16, 6, 6], "dtype": "float64"}}, ["input.dtype", "'float64'", "float32, float16"]),
        ({"input": {"shape": [1, 16, 6, 6]}}, ["input.dtype: missing"]),
        ({"input": {"shape": [1, 15, 6, 6], "dtype": "float16"}}, ["15 channels", "16"]),
        ({"grad_output": {"shape": [1, 16, 7, 6]}}, ["grad_output.shape", "[1, 16, 7, 6]", "= 6"]),
        ({"weight": {"shape": [16, 16, 9, 9]}}, ["weight.shape", "9", "does not fit"]),
        ({"padding": [1, 1, 1]}, ["padding", "2 or 4 values"]),
        ({"operator": "convolutions"}, ["operator", "convolution_backward"]),
        ({"groups": 0}, ["groups: 0"]),
        ({"chip": "ascend910b33"}, ["ascend910b33", "did you mean ascend910b3"]),
        ({"tiling": {"grad_bias": {}}}, ["grad_bias", "grad_input"]),
        ({"data": {"distribution": "gauss"}}, ["data.distribution", "normal"]),
        ({"data": {"file": "missing.npz"}}, ["missing.npz", "no such file"]),
        ({"cube_math_type": 7}, ["161002", "cubeMathType = 7"]),
        ({"chip": "ascend910a", "stride": [1, 70]}, ["561103", "stride w = 70 > 63"]),
    ],
)
def test_a_bad_case_file(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    line = refused("run", write_case(tmp_path, **changes))
    assert all(word in line for word in words), line


def test_a_missing_case_and_broken_yaml(tmp_path: Path) -> None:
    line = refused("run", "resnet50_conv2")
    assert "no such file" in line and "resnet50_conv2_3x3" in line
    assert "is a folder" in refused("run", tmp_path)
    (tmp_path / "broken.yaml").write_text("operator: convolution_backward\ninput: {shape: [1, 2\n", encoding="utf-8")
    line = refused("run", tmp_path / "broken.yaml")
    assert "broken.yaml" in line and "line 3" in line
    (tmp_path / "twice.yaml").write_text("groups: 1\ngroups: 2\n", encoding="utf-8")
    assert "'groups' is given twice" in refused("run", tmp_path / "twice.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert "binary.yaml" in refused("run", tmp_path / "binary.yaml")
    (tmp_path / "list.yaml").write_text("- 1\n")
    assert "mapping" in refused("run", tmp_path / "list.yaml")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--chip", "ascend910b33"], ["did you mean ascend910b3"]),
        (["--chip", "missing.yaml"], ["missing.yaml: no such file"]),
        (["--mode", "fast"], ["--mode fast", "full, functional, timing"]),
        (["--l2", "lukewarm"], ["lukewarm", "cold, warm, step"]),
        (["--conformance", "strict"], ["strict", "documented"]),
        (["--cube-math-type", "9"], ["161002", "cubeMathType = 9"]),
        (["--block-dim", "many"], ["--block-dim 'many'", "grad_weight=32"]),
        (["--block-dim", "²"], ["--block-dim '²'"]),
        (["--block-dim", "0"], ["block_dim of grad_input: 0"]),
        (["--block-dim", "grad_bias=3"], ["grad_bias", "grad_input and grad_weight"]),
        (["--tiling", "grad_input.baseM"], ["no such file", "KERNEL.FIELD=VALUE"]),
        (["--tiling", "baseM=16"], ["'baseM=16'", "grad_input.baseM=256"]),
        (["--tiling", "grad_input.baseM=--5"], ["'grad_input.baseM=--5'", "WHOLE NUMBER"]),
        (["--tiling", "grad_input.baseM=9999999999999999999999"], ["WHOLE NUMBER"]),
        (["--tiling", "grad_input.baseM=-16"], ["baseM = -16", "1 or more"]),
        (["--tiling", "grad_input.baseX=16"], ["unknown tiling field baseX", "baseM"]),
        (["--tiling", "grad_inputs.baseM=16"], ["grad_inputs", "grad_input and grad_weight"]),
        (["--tiling", "grad_input.baseM=20"], ["baseM = 20 is not a multiple of 16"]),
        (["--max-cycles", "100"], ["still runs at the limit of 100 cycles"]),
        (["--max-cycles", "100", "--mode", "functional"], ["max_cycles: 100 given; functional mode counts no cycles"]),
        (["--input", "missing.npz"], ["missing.npz: no such file"]),
        (["--input", "missing.npz", "--mode", "timing"], ["missing.npz: no such file"]),
    ],
)
def test_a_bad_option(case: Path, options: list[str], words: list[str]) -> None:
    line = refused("run", case, *options)
    assert all(word in line for word in words), line


def test_bad_tensor_files(case: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.npz"
    good = {"grad_output": (1, 16, 6, 6), "input": (1, 16, 6, 6), "weight": (16, 16, 3, 3)}
    arrays = {name: np.ones(shape, np.float16) for name, shape in good.items()}
    for mode in ("full", "timing"):
        np.savez(file, grad_output=arrays["grad_output"], weight=arrays["weight"], other=np.ones(2))
        line = refused("run", case, "--input", file, "--mode", mode)
        assert "missing input" in line and "there: grad_output, weight, other" in line
        save(file, arrays | {"weight": np.ones((16, 16, 3), np.float16)})
        assert "weight: shape [16, 16, 3] given, the case needs [16, 16, 3, 3]" in refused("run", case, "--input", file)
        save(file, arrays | {"input": arrays["input"].astype(np.float32)})
        assert "input: dtype float32 given, the case needs float16" in refused("run", case, "--input", file)
        save(file, arrays | {"input": np.array([None], object)})
        assert "input" in refused("run", case, "--input", file)
        file.write_text("not a zip file")
        assert "not an .npz file" in refused("run", case, "--input", file)
    np.save(tmp_path / "in.npy", arrays["input"])
    assert "not an .npz file" in refused("run", case, "--input", tmp_path / "in.npy")


def test_out_that_is_a_file(case: Path, tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("mine")
    assert "there is a file of that name; give a folder" in refused("run", case, "--out", file)
    assert "mine" in file.read_text() and "out" in refused("run", case, "--out", file / "deeper")


def test_a_refused_run_leaves_older_results_alone(case: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("run", case, "--out", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    refused("run", case, "--cube-math-type", 9, "--out", out)
    refused("run", case, "--max-cycles", 100, "--out", out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_run_that_cannot_be_written_leaves_the_older_one_alone(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ascend_sim.ops import tensor_files

    out = tmp_path / "out"
    run("run", case, "--mode", "timing", "--out", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(before) == ["report.json", "timeline.npz", "trace.json.gz"]

    def full(file: Any, **_: Any) -> None:
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensor_files.np, "savez", full)
    for folder in (out, tmp_path / "new"):
        line = refused("run", case, "--out", folder)  # its gradients are written last
        assert line == f"ascend-sim: {folder / 'gradients.npz'}: cannot be written (No space left on device)\n"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert not (tmp_path / "new").exists()


def test_errors_as_json(case: Path) -> None:
    for options, status, words in (
        (["--cube-math-type", "9"], 161002, "cubeMathType = 9"),
        (["--chip", "ascend911"], None, "ascend911"),
    ):
        ran = run("run", case, "--json", *options)
        told = json.loads(ran.out)
        assert ran.code == 2 and ran.err == "" and told["status"] == status and words in told["error"]


@pytest.mark.fast
def test_usage_errors_are_exit_code_2(case: Path) -> None:
    for arguments in (["run"], ["run", case, "--wrong"], ["fly"], ["run", case, "--trace-limit", "0"]):
        ran = run(*arguments)
        assert ran.code == 2 and "Traceback" not in ran.err and ran.out == ""


def test_unknown_chips() -> None:
    assert "did you mean ascend910b3" in refused("chips", "ascend910b33")
    assert "is a family, not a chip" in refused("chips", "dav-2201")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("tile by_hand --html page.html", "tile has no --html; options for its results: --plot, --json, --out; "),
        ("run by_hand --csv", "run has no --csv; options for its results: --full, --html, --json, --out; "),
        ("cases --plot", "cases has no --plot; "),
    ],
)
def test_a_form_that_a_command_does_not_give(typed: str, said: str) -> None:
    failed = run(*typed.split())
    assert failed.code == 2 and failed.err.startswith(f"ascend-sim: {said}") and failed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("validate rows.csv", "validate takes no argument, and rows.csv is too much; it may belong behind an option: --csv"),
        ("run by_hand more", "run takes CASE, and more is too much; it may belong behind an option: --chip"),
        ("cases by_hand", "cases takes no argument, and by_hand is too much: it lists them; ascend-sim run by_hand runs one; "),
        ("networks vgg16", "networks takes no argument, and vgg16 is too much: it lists them; ascend-sim run-network vgg16 "),
    ],
)
def test_an_argument_too_much(typed: str, said: str) -> None:
    failed = run(*typed.split())
    assert failed.code == 2 and failed.err.startswith(f"ascend-sim: {said}") and failed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "by_hand", "--html"], "--html needs a value, for example --html page.html. Write one page"),
        (["run", "by_hand", "--html", "--full"], "--html needs a value, for example --html page.html"),
        (["validate", "--csv", "--rows", "rows.csv"], "--csv needs a value, for example --csv rows.csv"),
        (["sweep", "by_hand", "--vary"], "--vary needs a value, for example --vary batch=1,2"),
        (["run", "by_hand", "--chip"], "--chip needs a value. Chip name or chip file"),
    ],
)
def test_an_option_without_its_value_says_what_it_takes(words: list[str], said: str) -> None:
    assert refused(*words).startswith(f"ascend-sim: {said}")


def test_every_option_that_takes_a_path_has_an_example() -> None:
    program: Any = get_command(app)
    context = typer.Context(program)
    options = [one for name in COMMANDS for one in program.get_command(context, name).params if one.param_type_name == "option"]
    assert {one.name for one in options if one.type.name == "path"} <= _EXAMPLES.keys()
    assert _EXAMPLES.keys() <= {one.name for one in options}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "resnet18:conv1", "--batch", 8], "run has no --batch: .*NETWORK:LAYER:batch=8.*sweep CASE --vary batch="),
        (["explain", "by_hand", "--bias", "1"], "explain has no --bias: --element names .*--weight .*sum of gradOutput"),
        (["tile", "by_hand", "--dtype", "float16"], "tile has no --dtype: it stands in the case; .*--vary dtype="),
        (["run-network", "resnet18", "--dtype", "float32"], "run-network has no --dtype: .*file has it; defaults: {dtype: "),
        (["precision", "by_hand", "--output-mask", "1"], "precision has no --output-mask: .*--vary output_mask="),
        (["run", "by_hand", "--nothing"], "No such option"),
        (["chips", "--batch", 8], "No such option"),
    ],
)
def test_a_field_of_the_call_that_is_no_option_says_where_it_stands(words: list[Any], said: str) -> None:
    assert re.search(said, refused(*words))
