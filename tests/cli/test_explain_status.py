"""`ascend-sim explain-status`: every rule of a call, up to the one that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ascend_sim import AclnnError, TensorSpec, convolution_backward
from tests.support.cli.commands import run, write_case


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
    assert len(text.splitlines()) <= 15 and text.endswith("more: --full, --json\n")
    full = run("explain-status", case, "--full").out.splitlines()
    assert len(full) >= len(of) + 2 and any(line.split()[:2] == ["plan", "pass"] for line in full)


def test_explain_status_stops_at_the_rule_that_fails(case: Path) -> None:
    code, told, of = verdicts(case, "--cube-math-type", 9)
    assert (code, told["status"]) == (2, 161002) and "cubeMathType = 9" in told["error"]
    names = list(of)
    at = names.index("cube_math_type")
    assert of["cube_math_type"] == "fail" and {of[name] for name in names[at + 1 :]} == {"not reached"}
    assert "fail" not in {of[name] for name in names[:at]}
    printed = run("explain-status", case, "--cube-math-type", 9).out
    rows = [line.split()[:2] for line in printed.splitlines()]
    assert rows[rows.index(["verdict", "rules"]) + 1] == ["fail", "1"]
    assert len(rows) <= 24
    assert " ".join(printed.split()).startswith(f"status 161002: {told['error']}")


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


X, W = [4, 32, 14, 14], [32, 32, 3, 3]
ODD: dict[str, dict[str, Any]] = {
    "channels": {"input": [4, 33, 14, 14], "weight": [32, 1, 3, 3], "groups": 32},
    "groups": {"groups": 5},
    "no groups": {"groups": 0},
    "stride": {"stride": [0, 1]},
    "padding": {"padding": [-1, 0]},
    "rank of the weight": {"weight": [32, 32, 3]},
    "a kernel too large": {"weight": [32, 32, 30, 3], "grad_output": [4, 32, 1, 12]},
    "grad_output": {"grad_output": [4, 32, 9, 9]},
    "values of stride": {"stride": [1, 1, 1]},
    "rank": {"input": [4, 32], "grad_output": [4, 32]},
    "output_padding": {"output_padding": [1, 1]},
    "mask": {"output_mask": [True]},
    "dtype": {"dtype": "float64"},
    "bias": {"bias_sizes": [31]},
    "an axis of input": {"input": [4, 32, -14, 14]},
    "an axis of weight": {"weight": [32, 32, -3, 3]},
    "an axis of grad_output": {"grad_output": [4, -32, 12, 12]},
    "channels of weight": {"weight": [-32, 32, 3, 3]},
}
"""Calls that contradict themselves: what differs from a plain convolution of X and W."""


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_every_status_is_that_of_the_call(tmp_path: Path, odd: dict[str, Any]) -> None:
    """The oracle is the call from Python, whose arguments no case has looked at."""
    told = {"input": X, "weight": W, "dtype": "float16"} | odd
    dims = len(told["input"]) - 2
    with pytest.raises(AclnnError) as refusal:
        convolution_backward(
            TensorSpec(told.get("grad_output", [4, 32, 12, 12]), told["dtype"]),
            TensorSpec(told["input"], told["dtype"]),
            TensorSpec(told["weight"], told["dtype"]),
            told.get("bias_sizes"), told.get("stride", (1,) * dims), told.get("padding", (0,) * dims), (1,) * dims, False,
            told.get("output_padding", (0,) * dims), told.get("groups", 1), told.get("output_mask", (True,) * 3),
            chip="ascend910b3", mode="timing",
        )  # fmt: skip
    entries = {name: value for name, value in odd.items() if name not in ("input", "weight", "dtype")}
    tensors = {name: {"shape": told[name], "dtype": told["dtype"]} for name in ("input", "weight")}
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump({"operator": "convolution_backward", **tensors, **entries}))
    code, found, _ = verdicts(path)
    assert (code, found["status"]) == (2, refusal.value.status)
    assert found["error"].split(" (rule ")[1] == refusal.value.message.split(" (rule ")[1]
    ran = run("run", path)
    assert ran.code == 2 and (str(path) in ran.err or "bias_sizes" in odd)  # a case that is run is refused as a file


@pytest.mark.parametrize(
    ("entries", "rule"),
    [
        ({"bias": [-32]}, "bias_sizes.value"),
        ({"bias": [31]}, "bias_sizes.value"),
        ({"dtype": "int8"}, "dtype.list"),
        ({"dtype": "int8", "input": [4, 32, -14, 14]}, "shape.negative"),
        ({"operator": "convolution", "bias": [-32]}, "shape.negative"),
    ],
)
def test_a_file_may_give_what_no_call_takes(tmp_path: Path, entries: dict[str, Any], rule: str) -> None:
    """A bias is the bias_sizes of its call; a dtype of the whole file is that of every tensor without one."""
    path = tmp_path / "case.yaml"
    told = {"operator": "convolution_backward", "dtype": "float16", "input": X, "weight": W} | entries
    path.write_text(yaml.safe_dump(told))
    code, found, of = verdicts(path)
    assert (code, found["status"], of.get(rule)) == (2, 161002, "fail")
    assert str(path) in run("run", path).err


@pytest.mark.parametrize("status", [0, 161001, 161002, 561103])
def test_a_status_alone_is_explained(status: int) -> None:
    from ascend_sim.acl.enums import CODE_NAMES

    told = run("explain-status", status)
    assert told.code == 0 and told.out.splitlines()[0] == f"status {status}, {CODE_NAMES[status]}"
    assert "a call's first phase: " in told.out and "explain-status CASE names the rule" in told.out


def test_a_status_of_acl_is_explained_too() -> None:
    told = json.loads(run("explain-status", 200005, "--json").out)
    assert told["name"] == "ACL_ERROR_INVALID_RESOURCE_HANDLE" and len(told["meanings"]) == 3
    assert "an internal error" in run("explain-status", 561101).out


def test_no_status_and_a_file_with_a_number_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = run("explain-status", 7)
    assert told.code == 2 and "no such status" in told.err and "161002" in told.err
    monkeypatch.chdir(tmp_path)
    write_case(tmp_path).rename("161002")
    assert run("explain-status", 161002).out.startswith("status 0")


def test_other_operators_too(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    tensors = "input: {shape: [7, 2, 16], dtype: float16}\nweight: {shape: [3, 15, 16]}\n"
    path.write_text(f"operator: conv_tbc_backward\n{tensors}pad: -1\n")
    assert verdicts(path)[1]["status"] == 161002
    path.write_text("operator: convolution\ninput: {shape: [7, 2, 16], dtype: float16}\nweight: {shape: [3, 15, 16]}\n")
    assert "input has 2 channels" in verdicts(path)[1]["error"]
    path.write_text(f"operator: conv_tbc_backward\n{tensors}pads: 1\n")
    assert "unknown key" in run("explain-status", path).err
