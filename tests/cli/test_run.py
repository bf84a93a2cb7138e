"""The command line: what it prints and writes, its exit codes, and one line for everything a user can do wrong."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_sim
from ascend_sim.calls import run as calls
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.report.timeline_file import load_recording
from tests.support.cli.commands import names, run, save, write_case

# -- what a user can do ------------------------------------------------------------------------------------------------


def test_a_shipped_case_to_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    ran = run("run", "document_example_2d", "--chip", "ascend910b3", "--cube-math-type", 0, "--out", out, "--full")
    assert ran.code == 0 and ran.err == ""
    assert names(out) == ["gradients.npz", "report.json", "timeline.npz", "trace.json.gz"]
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert report["problem"]["compute_dtype"] == "float32" and report["total_us"] > 0
    for row in report["kernels"]:
        assert row["op_type"] in ran.out and row["name"] in ran.out
    assert ran.out.count("correct") == 3 and f"{report['total_us']:.2f} us" in ran.out
    assert all(name in ran.out.rpartition("wrote")[2] for name in names(out))
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
    """The gradients equal those of the Python call, bit for bit; bfloat16 travels as bit patterns."""
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
    ran = run("run", case, "--mode", "functional", "--out", tmp_path / "out", "--full")
    assert ran.code == 0 and "no times in functional mode" in ran.out
    assert "no times" in run("run", case, "--mode", "functional").out
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
    assert [report["outputs"][name]["correct"] for name in ("grad_input", "grad_weight", "grad_bias")] == [True, False, True]


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
    said = ran.err.lower() if part == "case" else ran.err  # releases of typer spell it CASE, too
    assert part in said and ran.err.startswith("ascend-sim: ") and ran.err.count("\n") == 1
    if "case" not in part:
        ran = run(*arguments, "--json")
        assert ran.code == 2 and ran.err == "" and part in json.loads(ran.out)["error"]


# -- one number --------------------------------------------------------------------------------------------------------


# -- explain-status ---------------------------------------------------------------------------------------------------
