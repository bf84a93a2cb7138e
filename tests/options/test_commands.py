"""Commands that go on from a run have the settings of that run."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

import ascend_sim as asim
from ascend_sim import TensorSpec
from ascend_sim.calls.cases import commands_of
from ascend_sim.ops.case import load_case
from ascend_sim.options.commands import PythonCalls, ShellCommands, changed
from tests.support.cli.commands import run

SETTINGS = [
    ["--deterministic"],
    ["--no-deterministic", "--chip", "910b2"],
    ["--block-dim", "7", "--cube-math-type", "1"],
    ["--tiling", "dX.baseN=16,dW.baseK=32", "--l2", "warm"],
    ["--launches", "warm", "--conformance", "library"],
]


def shown(*words: str) -> dict[str, Any]:
    return json.loads(run(*words, "--json").out)


@pytest.mark.parametrize("settings", SETTINGS, ids=" ".join)
def test_a_command_of_a_statement_runs_what_it_was_found_in(settings: list[str]) -> None:
    """The oracle is the report of the command: its problem is that of the run, but for the change that the statement names."""
    first = shown("run", "strided", "--mode", "timing", *settings)
    seen = set()
    for said in [said for kernel in first["kernels"] for said in kernel.get("statements", ())]:
        _, verb, *words = shlex.split(said["command"]) or ("", "", "")
        seen.add(verb)
        if verb == "run":
            again = shown(verb, *words)
            kept = set(first["problem"]) - set(said["change"])
            assert {name: again["problem"][name] for name in kept} == {name: first["problem"][name] for name in kept}
            assert again["chip"] == first["chip"] and again["mode"] == "timing"
            blocks = {kernel["name"]: kernel["block_dim"] for kernel in again["kernels"] if "waterfall" in kernel}
            changed_blocks = said["change"].get("block_dim", {})
            if "--block-dim" in settings:
                assert blocks == dict.fromkeys(blocks, 7) | changed_blocks
    assert seen & {"run", "tile", "sweep"}


def test_a_sweep_says_the_run_s_options_as_fields(tmp_path: Any) -> None:
    given: Any = {"deterministic": True, "l2": "warm", "tiling": {"grad_input": {"baseN": 16}}, "block_dim": {"grad_input": 3}}
    line = ShellCommands("strided", given, given).sweep("batch", [2])
    found = shown(*shlex.split(line)[1:], "--out", str(tmp_path))
    assert found["rows"][0]["us"] == asim.run_case("strided", mode="timing", **given).report.total_us


def test_a_sweep_runs_the_version_of_the_library_that_it_names(tmp_path: Any) -> None:
    given: Any = {"library": "9.0.0", "chip": "ascend950pr_9579"}
    line = ShellCommands("conv_3d", given, given).sweep("batch", [1])
    assert "--library 9.0.0" in line
    found = shown(*shlex.split(line)[1:], "--out", str(tmp_path))
    newest = asim.run_case("conv_3d", mode="timing", chip=given["chip"]).report.total_us
    assert found["rows"][0]["us"] == asim.run_case("conv_3d", mode="timing", **given).report.total_us != newest


def test_a_search_begins_as_its_run_did() -> None:
    given = {"l2": "warm", "launches": "warm"}
    line = ShellCommands("strided", given, given).tile("grad_input")
    assert line == "ascend-sim tile strided --kernel grad_input --l2 warm --launches warm"
    (found,) = shown(*shlex.split(line)[1:], "--limit", "0")
    assert (found["l2"], found["launches"]) == ("warm", "warm")
    assert "code warm: " in run(*shlex.split(line)[1:], "--limit", "0").out.splitlines()[0]
    assert ShellCommands("strided", {}, {}).tile("grad_input") == "ascend-sim tile strided --kernel grad_input"


@pytest.mark.parametrize("given", [{"disarm": {"grad_input": ["L0"]}}, {"l2": "step"}], ids=str)
def test_no_command_answers_another_question(given: dict[str, Any]) -> None:
    commands = ShellCommands("strided", given, given)
    assert commands.tile("grad_input") == commands.sweep("batch", [1, 2]) == ""
    assert commands.run({"cube_math_type": 1})


def test_fields_of_a_change_join_those_of_the_run() -> None:
    own = {"tiling": {"dX": {"baseM": 16, "baseN": 32}, "grad_weight": {"baseK": 64}}, "block_dim": 4}
    found = changed(
        own, {"tiling": {"grad_input": {"baseN": 64}}, "block_dim": {"grad_input": 9}}, ("grad_input", "grad_weight")
    )
    assert found["tiling"] == {"grad_input": {"baseM": 16, "baseN": 64}, "grad_weight": {"baseK": 64}}
    assert found["block_dim"] == {"grad_input": 9, "grad_weight": 4}


def test_lines_of_python_run() -> None:
    shapes = ((4, 32, 14, 14), (4, 32, 14, 14), (32, 32, 3, 3))
    specs = [TensorSpec(shape, "float16") for shape in shapes]
    result = asim.convolution_backward(*specs, padding=(1, 1), mode="timing", deterministic=True, library="9.0.0")
    commands = result.report.commands
    assert commands is not None and result.case().deterministic
    line = commands.run({"tiling": {"grad_input": {"bl1Pbuffer": 1}}})
    again = eval(f"{line[:-1]}, mode='timing')", {"result": result, "ascend_sim": asim})
    assert again.report.problem["library"] == "9.0.0" and again.report.problem["deterministic"]
    assert "library='9.0.0'" in commands.tile("grad_input")
    assert commands.sweep("batch", [1]).endswith(", {'batch': [1]}, library='9.0.0')")
    assert PythonCalls("case", {}).sweep("batch", [1]) == "ascend_sim.sweep(case, {'batch': [1]})"


@pytest.mark.parametrize(("layer", "then"), [("", ":batch=64"), (":batch=8", ":batch=64"), (":forward", ":batch=64:forward")])
def test_a_larger_batch_behind_a_step_is_an_address(layer: str, then: str) -> None:
    """No sweep begins behind the step of a network; its layer with another batch does."""
    given: Any = {"l2": "step", "mode": "timing"}
    commands = commands_of(f"resnet18:layer{layer}", load_case("by_hand"), given)
    assert commands is not None
    assert commands.sweep("batch", [32, 64]) == f"ascend-sim run resnet18:layer{then} --mode timing --l2 step"
    assert commands.sweep("groups", [1, 2]) == ""
