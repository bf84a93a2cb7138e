"""`ascend-sim explain-status`: every rule of a call, up to the one that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
