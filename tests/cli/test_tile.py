"""`ascend-sim tile` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from ascend_sim.chip import load_chip
from ascend_sim.cli import app
from ascend_sim.ops.case import load_case
from ascend_sim.studies.sweep.point import searched_tilings

QUICK = ["--kernel", "grad_input", "--jobs", "1", "--field", "baseN=16,al1Pbuffer=2,bl1Pbuffer=2,cl0Pbuffer=1"]


def tile(*arguments: str, case: str = "document_example_2d") -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["tile", case, *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_best_can_be_run(tmp_path: Path) -> None:
    code, text, _ = tile(*QUICK, "--out", str(tmp_path), "--plot", str(tmp_path / "a.png"))
    assert code == 0
    assert "the rest cannot be better" in text.replace("\n ", "") and "call: the kernel of your call (stand-in)" in text
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    best = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert best["grad_input"]["baseN"] == 16
    arguments = ["run", "document_example_2d", "--mode", "timing", "--json", "--tiling", str(tmp_path / "best.yaml")]
    report = json.loads(CliRunner().invoke(app, arguments).stdout)
    (kernel,) = (kernel for kernel in report["kernels"] if kernel["name"] == "grad_input")
    assert kernel["tiling_source"] == "manual"
    assert {name: kernel["tiling"][name] for name in best["grad_input"]} == best["grad_input"]


def test_no_best_is_lost_when_another_search_ends_in_the_same_folder(tmp_path: Path) -> None:
    path, kept = tmp_path / "best.yaml", [tmp_path / "best-1.yaml", tmp_path / "best-2.yaml"]
    tile(*QUICK, "--out", str(tmp_path))
    first = path.read_text()
    _, _, said = tile(*QUICK, "--out", str(tmp_path))
    assert path.read_text() == first and "held other" not in said and not kept[0].exists()
    for number, other in enumerate((["--chip", "ascend910a"], ["--field", "grad_input.baseM=32"])):
        before = path.read_text()
        code, _, said = tile(*QUICK, *other, "--out", str(tmp_path))
        assert code == 0
        assert f"{path} held other tilings; they are in {kept[number]} now" in said
        assert kept[number].read_text() == before != path.read_text()
    assert kept[0].read_text() == first


def test_chips_side_by_side_as_json(tmp_path: Path) -> None:
    code, text, _ = tile(*QUICK, "--chip", "ascend910b3,ascend910b4", "--json", "--top", "1", "--out", str(tmp_path))
    assert code == 0
    found = json.loads(text)
    assert [search["chip"] for search in found] == ["ascend910b3", "ascend910b4"]
    assert all(len(search["best"]) == 1 and search["might_be_better"] == 0 for search in found)
    assert {path.name for path in tmp_path.iterdir()} == {"results.sqlite", "best-ascend910b3.yaml", "best-ascend910b4.yaml"}
    _, text, said = tile(*QUICK, "--chip", "ascend910b3,ascend910b4", "--out", str(tmp_path))
    assert "Chips side by side" in text and "results were there before" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kernel", "grad_bias"], "kernel 'grad_bias': allowed are grad_input and grad_weight"),
        (["--field", "baseM"], "--field 'baseM': allowed is FIELD=WHOLE NUMBER"),
        (["--field", "baseM=16,baseM=32"], "grad_input.baseM is given twice"),
        (["--field", "grad_weight.baseM=16", "--kernel", "grad_input"], "grad_weight is not searched"),
        (["--field", "grad_input.baseQ=16"], "unknown tiling field baseQ; did you mean baseN, baseM, baseK?; allowed: baseM"),
        (["--field", "grad_input.baseM=4096"], "L0A: baseM*baseK*4*al0Pbuffer"),
        (["--l2", "hot"], "l2 'hot': allowed are call, cold and warm"),
        (["--plot", "a.pdf"], "--plot a.pdf: give a file that ends in .png"),
        (["--chip", "ascend910z"], "'ascend910z' is not a known chip"),
        (["--out", "/dev/null"], "--out /dev/null: there is a file of that name"),
        (["--out", "/dev/null/deeper"], "--out /dev/null/deeper: cannot make that folder: Not a directory"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], words: str) -> None:
    code, text, said = tile(*arguments, "--jobs", "1")
    assert code == 2 and text == ""
    assert words in said and said.count("\n") == 1


@pytest.mark.parametrize("kernel", [(), ("--kernel", "output"), ("--kernel", "grad_input")])
@pytest.mark.parametrize("case", ["forward_2d", "forward_transposed"])
def test_a_forward_convolution_has_no_kernel_to_search(case: str, kernel: tuple[str, ...]) -> None:
    code, text, said = tile(*kernel, case=case)
    assert (code, text) == (2, "")
    assert "tile searches the tilings of grad_input and grad_weight; convolution has neither of these kernels\n" in said
    assert said.count("\n") == 1


def test_a_transposed_call_has_no_tiling_of_grad_input() -> None:
    code, _, said = tile("--kernel", "grad_input", case="transposed_2d")
    assert code == 2 and "forward convolution, whose tiling has no fields" in said


def test_the_last_line_tells_what_a_time_limit_left_out() -> None:
    code, _, said = tile(*QUICK[:4], "--time-limit", "0")
    last = said.splitlines()[-1]
    assert code == 0 and last.startswith("grad_input: simulated 1 of ")
    assert last.endswith(" tilings that might be best in 0 s; --time-limit inf for all")
    assert "time-limit inf" not in tile(*QUICK)[2]


def test_a_call_of_the_bias_alone_has_no_kernel_to_search(tmp_path: Path) -> None:
    """The command is refused in one line; a sweep of such calls runs each with what it has."""
    shapes = {"input": {"shape": [2, 16, 8, 8], "dtype": "float16"}, "weight": {"shape": [16, 16, 3, 3]}, "bias_sizes": [16]}
    entries = {"operator": "convolution_backward", "chip": "ascend910b3", **shapes, "output_mask": [False, False, True]}
    path = tmp_path / "bias.yaml"
    path.write_text(yaml.safe_dump(entries))
    code, text, said = tile(case=str(path))
    assert (code, text) == (2, "")
    assert said == "ascend-sim: this call has no cube kernel whose tiling can be set; it computes grad_bias\n"
    assert searched_tilings(load_case(path), load_chip("ascend910b3")) == {}


def test_a_search_has_a_time_limit_by_default() -> None:
    (option,) = (one for one in get_command(app).commands["tile"].params if one.name == "seconds")  # type: ignore[attr-defined]
    assert option.default == 20
