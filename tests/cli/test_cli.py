"""The command line: what it prints and writes, its exit codes, and one line for everything a user can do wrong."""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_sim
from ascend_sim.calls import run as calls
from ascend_sim.cli import app
from ascend_sim.cli.app import COMMANDS
from ascend_sim.engine import engine
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.report.timeline_file import load_recording
from tests.support.cli.commands import names, run, save, write_case

# -- what a user can do ------------------------------------------------------------------------------------------------


def test_a_shipped_case_to_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    ran = run("run", "document_example_2d", "--chip", "ascend910b3", "--cube-math-type", 0, "--out", out)
    assert ran.code == 0 and ran.err == ""
    assert names(out) == ["gradients.npz", "report.json", "timeline.npz", "trace.json.gz"]
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert report["problem"]["compute_dtype"] == "float32" and report["total_us"] > 0
    for row in report["kernels"]:
        assert row["op_type"] in ran.out and row["name"] in ran.out
    assert ran.out.count("correct") == 3 and f"{report['total_us']:.2f} us" in ran.out
    assert all(name in ran.out.partition("wrote ")[2] for name in names(out))
    with np.load(out / "gradients.npz") as gradients:
        assert (gradients["grad_input"] == 2).all()  # all ones: two channels, and 2 x 7 x 7 pixels
        assert (gradients["grad_weight"] == 98).all() and (gradients["grad_bias"] == 98).all()
    events = json.loads(gzip.decompress((out / "trace.json.gz").read_bytes()))["traceEvents"]
    assert any(event["ph"] == "X" for event in events)


@pytest.mark.fast
def test_json_is_the_report_and_nothing_else() -> None:
    ran = run("run", "document_example_2d", "--json")
    report = json.loads(ran.out)
    assert ran.code == 0 and ran.err == ""
    assert report["chip"] == "ascend910b3" and report["problem"]["compute_dtype"] == "hf32"
    assert report["kernels"][0]["op_type"] == "ReduceSum"


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_tensors_in_and_gradients_out(tmp_path: Path, dtype: Any) -> None:
    """The same gradients as the Python call, bit for bit; bfloat16 travels as bit patterns."""
    name = np.dtype(dtype).name
    case = write_case(tmp_path, input={"shape": [1, 16, 6, 6], "dtype": name})
    rng = np.random.default_rng(0)
    shapes = {"grad_output": (1, 16, 6, 6), "input": (1, 16, 6, 6), "weight": (16, 16, 3, 3)}
    own = {key: rng.standard_normal(shape).astype(dtype) for key, shape in shapes.items()}
    if name == "bfloat16":
        stored: dict[str, Any] = {key: array.view(np.uint16) for key, array in own.items()}
        save(tmp_path / "in.npz", stored | {f"{key}_dtype": np.array("bfloat16") for key in own})
    else:
        save(tmp_path / "in.npz", own)
    ran = run("run", case, "--input", tmp_path / "in.npz", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    expected = ascend_sim.convolution_backward(
        own["grad_output"], own["input"], own["weight"], None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True,) * 3
    ).outputs
    with np.load(tmp_path / "out" / "gradients.npz", allow_pickle=False) as found:
        for key, gradient in expected.items():
            array = found[key]
            if name == "bfloat16":
                assert str(found[f"{key}_dtype"]) == "bfloat16" and array.dtype == np.uint16
                array = array.view(ml_dtypes.bfloat16)
            assert array.dtype == gradient.dtype and np.array_equal(array, gradient)


def test_timing_with_a_tiling(case: Path, tmp_path: Path) -> None:
    """On the command line and in a YAML file; then the report says that it is the user's."""
    (tmp_path / "tiling.yaml").write_text("grad_input: {baseM: 32, baseN: 16}\ngrad_weight: {baseK: 16}\n")
    for text in ("grad_input.baseM=32,grad_input.baseN=16, grad_weight.baseK=16", tmp_path / "tiling.yaml"):
        ran = run("run", case, "--mode", "timing", "--tiling", text, "--json", "--out", tmp_path / "out")
        assert ran.code == 0
        rows = {row["name"]: row for row in json.loads(ran.out)["kernels"]}
        assert rows["grad_input"]["tiling"]["baseM"] == 32 and rows["grad_input"]["tiling"]["baseN"] == 16
        assert rows["grad_weight"]["tiling"]["baseK"] == 16
        assert {rows[name]["tiling_source"] for name in ("grad_input", "grad_weight")} == {"manual"}
        assert names(tmp_path / "out") == ["report.json", "timeline.npz", "trace.json.gz"]


def test_functional_mode_has_no_timeline(case: Path, tmp_path: Path) -> None:
    ran = run("run", case, "--mode", "functional", "--out", tmp_path / "out")
    assert ran.code == 0 and "no times in functional mode" in ran.out
    assert names(tmp_path / "out") == ["gradients.npz", "report.json"]


def test_a_folder_never_mixes_two_runs(case: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("run", case, "--out", out).code == 0
    (out / "notes.txt").write_text("mine")
    assert run("run", case, "--mode", "timing", "--out", out).code == 0
    assert names(out) == ["notes.txt", "report.json", "timeline.npz", "trace.json.gz"]
    assert run("run", case, "--mode", "functional", "--out", out).code == 0
    assert names(out) == ["gradients.npz", "notes.txt", "report.json"]


def test_options_reach_the_call(case: Path) -> None:
    plain = json.loads(run("run", case, "--mode", "timing", "--json").out)
    ran = run(
        "run",
        case,
        "--mode",
        "timing",
        "--json",
        "--l2",
        "warm",
        "--deterministic",
        "--conformance",
        "library",
        "--chip",
        "ascend910b1",
        "--block-dim",
        "grad_input=3",
    )
    report = json.loads(ran.out)
    problem = report["problem"]
    assert (problem["l2"], problem["deterministic"], problem["conformance"]) == ("warm", True, "library")
    assert (plain["problem"]["l2"], plain["problem"]["deterministic"]) == ("cold", False)
    rows = {row["name"]: row for row in report["kernels"]}
    assert report["chip"] == "ascend910b1" and rows["grad_input"]["block_dim"] == 3
    assert rows["grad_weight"]["op_type"] == "Conv3DBackpropFilter"
    both = json.loads(run("run", case, "--mode", "timing", "--json", "--block-dim", 2).out)["kernels"]
    assert [row["block_dim"] for row in both if row["name"] in ("grad_input", "grad_weight")] == [2, 2]


def test_what_the_case_says_holds_until_an_option_says_otherwise(tmp_path: Path) -> None:
    case = write_case(
        tmp_path,
        l2="warm",
        deterministic=True,
        block_dim={"grad_input": 2},
        tiling={"grad_input": {"baseM": 32}},
        cube_math_type=1,
    )
    report = json.loads(run("run", case, "--mode", "timing", "--json").out)
    rows = {row["name"]: row for row in report["kernels"]}
    assert (report["problem"]["l2"], report["problem"]["deterministic"]) == ("warm", True)
    assert (rows["grad_input"]["block_dim"], rows["grad_input"]["tiling"]["baseM"]) == (2, 32)
    options = ("--l2", "cold", "--no-deterministic", "--block-dim", 1, "--tiling", "grad_input.baseM=16")
    report = json.loads(run("run", case, "--mode", "timing", "--json", *options).out)
    rows = {row["name"]: row for row in report["kernels"]}
    assert (report["problem"]["l2"], report["problem"]["deterministic"]) == ("cold", False)
    assert (rows["grad_input"]["block_dim"], rows["grad_input"]["tiling"]["baseM"]) == (1, 16)


def test_flags_are_listed_and_can_be_taken_away(case: Path, tmp_path: Path) -> None:
    """Without the flag that tells of filled L0A and L0B the multiplies begin too early: a race, and a wrong gradient."""
    listed = run("run", case, "--flags")
    flags = [flag for line in listed.out.splitlines() for flag in shlex.split(line)]  # as a shell reads what is pasted
    assert listed.code == 0 and "grad_input.L0[0] full" in flags and len(set(flags)) == len(flags)
    by_kernel = json.loads(run("run", case, "--flags", "--json").out)
    assert flags == [f"{kernel}.{flag}" for kernel, named in by_kernel.items() for flag in named]
    whole = json.loads(run("run", case, "--json").out)
    broken = run("run", case, "--disarm", "grad_input.L0[0] full", "--lines", "--json", "--out", tmp_path / "out")
    report = json.loads(broken.out)
    assert broken.code == 1 and whole["findings"] == []
    assert {one["task"] for one in report["findings"]} == {"grad_input"}
    assert any("mmad" in one["text"] and "L0A" in one["text"] for one in report["findings"])
    assert [report["outputs"][name]["correct"] for name in ("grad_input", "grad_weight")] == [False, True]
    recording, _ = load_recording(tmp_path / "out" / "timeline.npz")
    assert all(one.program.notes is not None for one in recording.timeline.programs)
    assert report["problem"]["disarmed"] == ["grad_input.L0[0] full"] and "disarmed" not in whole["problem"]
    assert len(report["warnings"]) == len(whole["warnings"]) + 1 and "L0[0] full" in report["warnings"][-1]
    assert json.loads((tmp_path / "out" / "report.json").read_text())["warnings"] == report["warnings"]


def test_the_trace_limit_leaves_cores_out(case: Path, tmp_path: Path) -> None:
    def events(*options: object) -> list[Any]:
        assert run("run", case, "--mode", "timing", "--out", tmp_path / "out", *options).code == 0
        return list(json.loads(gzip.decompress((tmp_path / "out" / "trace.json.gz").read_bytes()))["traceEvents"])

    everything = [event for event in events() if event["ph"] == "X"]
    some = [event for event in events("--trace-limit", 100) if event["ph"] == "X"]
    assert 0 < len(some) <= 100 < len(everything)


def test_chips() -> None:
    listed = run("chips")
    assert listed.code == 0 and all(
        f"ascend910{name}" in listed.out for name in ("b1", "b2", "b2c", "b3", "b4", "b4-1")
    )
    one = run("chips", "ascend910b3")
    assert one.code == 0 and "platform_config/Ascend910B3.ini" in one.out and "1800" in one.out


@pytest.mark.parametrize("command", [[], ["run"], ["chips"]])
def test_help_has_an_example(command: list[str]) -> None:
    ran = run(*command, "--help")
    assert ran.code == 0 and "ascend-sim" in ran.out and "Example" in ran.out


# -- exit code 1 -------------------------------------------------------------------------------------------------------


@pytest.mark.fast
def test_a_wrong_gradient_is_exit_code_1(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All results are written, for the user to look at."""
    original = calls.output_of

    def wrong(call: Any, allocation: Any, name: str) -> Any:
        return original(call, allocation, name) + (name == "grad_weight")

    monkeypatch.setattr(calls, "output_of", wrong)
    ran = run("run", case, "--out", tmp_path / "out")
    assert ran.code == 1 and "wrong" in ran.out.lower()
    assert "gradients.npz" in names(tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert [report["outputs"][name]["correct"] for name in ("grad_input", "grad_weight", "grad_bias")] == [
        True,
        False,
        True,
    ]


@pytest.mark.fast
def test_a_hazard_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that forgets to wait for its operands in L1; in timing mode too, where there are no values to be wrong."""
    original = KernelBuilder.wait_flag

    def forgetful(self: KernelBuilder, flag: Any, *lead: Any) -> None:
        self._disarm = frozenset({"A1[0] full", "B1[0] full"})
        original(self, flag, *lead)

    monkeypatch.setattr(KernelBuilder, "wait_flag", forgetful)
    ran = run("run", write_case(tmp_path), "--mode", "timing")
    assert ran.code == 1 and "hazard" in ran.out


# -- as a program ------------------------------------------------------------------------------------------------------


def program(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ascend_sim", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_as_a_program(case: Path, tmp_path: Path) -> None:
    fine = program("run", "document_example_2d", "--json", folder=tmp_path)
    assert fine.returncode == 0 and fine.stderr == "" and json.loads(fine.stdout)["status"] == 0
    wrong = program("run", case, "--mode", "fast", folder=tmp_path)
    assert wrong.returncode == 2 and wrong.stdout == ""
    assert wrong.stderr == "ascend-sim: --mode fast: allowed are full, functional, timing\n"
    assert names(tmp_path) == ["case.yaml"]


# -- what click would print in a box -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run", "document_example_2d", "--nonsense"], "--nonsense"),
        (["run", "document_example_2d", "--max-cycles", "many"], "--max-cycles"),
        (["run", "document_example_2d", "--trace-limit", "0"], "--trace-limit"),
        (["run"], "case"),
        (["run", "one", "two"], "two"),
        (["precision"], "case"),
        (["runn", "document_example_2d"], "'run'"),
        (["run", "document_example_2d", "--out", ""], "--out: nothing given"),
        (["run", "document_example_2d", "--out="], "--out: nothing given"),
        (["run", "document_example_2d", "--input", ""], "--input: nothing given"),
        (["run", ""], "nothing given"),
        (["run", "document_example_2d", "--block-dim", "grad_input=1,grad_input=2"], "grad_input is given twice"),
    ],
)
def test_a_wrong_option_is_one_line(arguments: list[str], part: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2 and ran.out == ""
    assert part in ran.err and ran.err.startswith("ascend-sim: ") and ran.err.count("\n") == 1
    if "case" not in part:
        ran = run(*arguments, "--json")
        assert ran.code == 2 and ran.err == "" and part in json.loads(ran.out)["error"]


def test_a_tiling_file_with_a_field_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tiling.yaml"
    file.write_text("grad_input:\n  baseM: 16\n  baseM: 32\n", encoding="utf-8")
    ran = run("run", "document_example_2d", "--tiling", file)
    assert ran.code == 2 and "line 3" in ran.err and "'baseM' is given twice" in ran.err


# -- one number --------------------------------------------------------------------------------------------------------


def test_one_number_as_text_and_as_a_page(case: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = run("explain", case, "--weight", "3,4,1,1", "--html", page)
    assert ran.code == 0 and ran.err == ""
    assert ran.out.startswith("grad_weight[3, 4, 1, 1] of convolution_backward on ascend910b3")
    assert f"wrote {page}" in ran.out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_one_number_as_json(case: Path) -> None:
    ran = run("explain", case, "--element", "0,3,5,5", "--json")
    data = json.loads(ran.out)
    assert ran.code == 0 and data["element"] == "grad_input[0, 3, 5, 5]"
    assert float(data["steps"][-1]["value"]) == pytest.approx(data["value"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--element", "0,0,6,0"], "no element [0, 0, 6, 0]"),
        (["--element", "0,0,x,0"], "whole numbers with commas"),
        (["--weight", "0"], "4 numbers"),
        (["--weight", "0,0,0,0", "--element", "0,0,0,0"], "one at a time"),
        (["--html", "."], "name of a file"),
        (["--html", "no/such/folder.html"], "name of a file"),
    ],
)
def test_a_number_that_cannot_be_followed(case: Path, arguments: list[str], message: str) -> None:
    ran = run("explain", case, *arguments)
    assert ran.code == 2 and ran.out == ""
    assert message in ran.err and ran.err.count("\n") == 1


# -- explain-status ---------------------------------------------------------------------------------------------------


def verdicts(*arguments: object) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Exit code, the JSON, and every rule's verdict."""
    ran = run("explain-status", *arguments, "--json")
    told = json.loads(ran.out)
    return ran.code, told, {row["rule"]: row["verdict"] for row in told["rules"]}


def test_explain_status_shows_every_rule_and_the_plan(case: Path) -> None:
    code, told, of = verdicts(case)
    assert (code, told["status"], told["error"]) == (0, 0, None)
    assert set(of.values()) == {"pass", "skipped"} and list(of)[-1] == "plan" and of["plan"] == "pass"
    text = run("explain-status", case).out
    assert text.startswith("status 0") and all(rule in text for rule in of)


def test_explain_status_stops_at_the_rule_that_fails(case: Path) -> None:
    code, told, of = verdicts(case, "--cube-math-type", 9)
    assert (code, told["status"]) == (2, 161002) and "cubeMathType = 9" in told["error"]
    names = list(of)
    at = names.index("cube_math_type")
    assert of["cube_math_type"] == "fail" and {of[name] for name in names[at + 1 :]} == {"not reached"}
    assert "fail" not in {of[name] for name in names[:at]}
    printed = run("explain-status", case, "--cube-math-type", 9).out
    assert f"status 161002: {told['error']}" in " ".join(printed.split())


def test_explain_status_tells_of_a_problem_that_no_tiling_fits(tmp_path: Path) -> None:
    """The checks pass; `run` ends in 561103, so this does too: no strip holds a stride of 70,000."""
    row = {"input": {"shape": [1, 16, 1, 140000], "dtype": "float16"}, "weight": {"shape": [16, 16, 1, 3]}}
    long = write_case(tmp_path, **row, padding=[0, 0], stride=[1, 70000])
    code, told, of = verdicts(long, "--chip", "ascend910_95")
    assert (code, told["status"], of["plan"]) == (2, 561103, "fail") and set(of.values()) == {"pass", "skipped", "fail"}
    refused = run("run", long, "--chip", "ascend910_95", "--mode", "timing", "--json")
    assert (refused.code, json.loads(refused.out)["status"]) == (2, 561103)


def test_explain_status_has_the_products_determinism_and_warnings(tmp_path: Path) -> None:
    path = write_case(tmp_path, input={"shape": [1, 16, 6, 6], "dtype": "bfloat16"}, cube_math_type=2)
    code, told, _ = verdicts(path, "--conformance", "library")
    assert (code, told["status"]) == (0, 0) and "USE_FP16 casts bfloat16" in told["warnings"][0]
    assert "warning: USE_FP16" in run("explain-status", path, "--conformance", "library").out


@pytest.mark.fast
def test_a_command_is_a_module() -> None:
    """What `ascend-sim run-network` does stands in `cli/run_network.py`, and no other command with it."""
    assert run("--help").code == 0  # which imports them all
    assert len(app.registered_commands) == len(COMMANDS)
    for command in app.registered_commands:
        callback = command.callback
        assert callback is not None
        name = command.name or callback.__name__
        assert callback.__module__ == f"ascend_sim.cli.{name.replace('-', '_')}"


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["--version"], {"numpy", "pydantic", "rich", "simpy", "ml_dtypes", "yaml", "ascend_sim.cli.run"}),
        (
            ["run", "document_example_2d", "--mode", "timing", "--json"],
            {"rich", "ascend_sim.check", "ascend_sim.ops.verdicts", "ascend_sim.studies", "ascend_sim.cli.tile"},
        ),
    ],
)
def test_a_command_imports_what_it_uses(arguments: list[str], unused: set[str]) -> None:
    """A start is mostly imports: what costs the most is not loaded for commands that do without."""
    code = f"""
import sys
from ascend_sim.cli import main
sys.argv = ["ascend-sim", *{arguments}]
try:
    main()
except SystemExit as end:
    print("loaded:", end.code, *sorted({unused} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: 0"


def test_the_version_names_the_engine_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_SIM_ENGINE", "simpy")
    assert run("--version").out.endswith(", engine simpy\n")
    assert run("--engine", "simpy", "--version").out.startswith("ascend-sim 0.")
    bad = run("--engine", "fast", "chips")
    assert (bad.code, bad.out, bad.err) == (2, "", "ascend-sim: engine 'fast': allowed are auto, simpy, compiled\n")
    monkeypatch.setenv("ASCEND_SIM_ENGINE", "quick")
    assert "ASCEND_SIM_ENGINE 'quick': allowed are auto, simpy, compiled" in run("--version").err


def test_a_warning_is_one_line() -> None:
    code = """
import os, sys
from ascend_sim.cli import main
from ascend_sim.engine import choice
os.environ.pop("ASCEND_SIM_ENGINE", None)
choice.built_file = lambda: None
sys.argv = ["ascend-sim", "--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    assert line.startswith("ascend-sim: warning: ascend-sim was installed without a C compiler: ")


def test_an_engine_for_the_whole_command(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    new = engine.new_machine
    monkeypatch.setattr(engine, "new_machine", lambda name, *given: used.append(name) or new(name, *given))
    monkeypatch.setenv("ASCEND_SIM_ENGINE", "auto")  # taken back after the test
    assert run("--engine", "simpy", "run", case, "--mode", "timing").code == 0
    assert set(used) == {"simpy"}
