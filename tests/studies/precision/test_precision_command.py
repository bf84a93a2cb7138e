"""The command precision: what it prints, writes and refuses."""

import csv
import io
import json
import sys
from dataclasses import replace

import pytest

from ascend_sim.studies.precision import run as precision_run
from ascend_sim.studies.precision.pages import csv_text, notes
from tests.support.studies.precision_cases import TBC, invoke


def test_the_command_prints_the_table(tmp_path):
    (tmp_path / "tbc.yaml").write_text(TBC)
    options = ("--chips", "ascend910b3,ascend910_9391", "--accumulate", "blas,exact_group")
    result = invoke("precision", str(tmp_path / "tbc.yaml"), *options, "--full")
    assert result.exit_code == 0, result.output
    for text in ("exact_group", "ascend910_9391", "161002", "as type 1", "hf32", "Side by side", "12 bits dropped"):
        assert text in result.output
    assert "WRONG" not in result.output


def test_options_reach_the_bench(asked):
    for arguments in (("--accumulate", "--csv"), ("--csv", "--accumulate"), ("--accumulate", "all")):
        assert invoke("precision", "x", *arguments).exit_code == 0
        assert asked.pop()["accumulate"] == "all"
    invoke("precision", "x", "--accumulate", "blas,chunk", "--inputs", "relu", "--overflow", "saturate")
    assert asked[0]["accumulate"] == ["blas", "chunk"] and asked[0]["chips"] is None
    assert (asked[0]["inputs"], asked[0]["overflow"]) == ("relu", "saturate")


def test_json_and_csv_hold_the_same_figures(asked, table):
    result = invoke("precision", "x", "--json")
    assert result.exit_code == 0
    data = json.loads(result.output)
    assert data["rows"] == json.loads(json.dumps(table.to_dict()))["rows"] and data["notes"] == notes(table)
    printed = invoke("precision", "x", "--csv").output
    assert printed == csv_text(table)
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert len(rows) == 2 + 10 * 3  # two refused rows, three gradients each
    by_key = {(row["dtype"], str(row["cube_math_type"])): row["outputs"] for row in data["rows"]}
    for row in rows:
        if row["gradient"]:
            figures = by_key[row["dtype"], row["cube_math_type"]][row["gradient"]]
            assert float(row["rmse"]) == figures["rmse"] and row["correct"] == str(figures["correct"])


def test_exit_code_1_when_a_gradient_is_wrong(monkeypatch, table):
    row = table.rows[0]
    bias = {**row.outputs["grad_bias"], "correct": False}
    wrong = replace(table, rows=(replace(row, outputs={**row.outputs, "grad_bias": bias}), *table.rows[1:]))
    monkeypatch.setattr(precision_run, "precision", lambda case, **options: wrong)
    result = invoke("precision", "x")
    assert result.exit_code == 1 and "WRONG" in result.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--inputs", "gauss"), "inputs 'gauss': allowed are uniform, normal, relu, wide, ones, adversarial"),
        (("--accumulate", "kahan"), "accumulate 'kahan': allowed are blas, chunk, exact_group"),
        (("--chips", "ascend910b3,abacus"), "'abacus' is not a known chip"),
        (("--chips", "ascend910a", "--overflow", "inf_nan"), "overflow 'inf_nan': ascend910a (dav-1001) has saturate"),
        (("--json", "--csv"), "--json and --csv: give only one of them"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(case, arguments, line):
    result = invoke("precision", case, *arguments)
    assert result.exit_code == 2 and line in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_the_picture(asked, tmp_path):
    pytest.importorskip("matplotlib")
    result = invoke("precision", "x", "--plot", str(tmp_path / "errors.png"))
    assert result.exit_code == 0 and f"wrote {tmp_path / 'errors.png'}" in result.output
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    wrong = invoke("precision", "x", "--plot", "errors.svg")
    assert wrong.exit_code == 2 and "--plot errors.svg: give a file that ends in .png" in wrong.output


def test_without_matplotlib_there_is_one_clear_line(asked, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke("precision", "x", "--plot", str(tmp_path / "errors.png"))
    assert result.exit_code == 2 and "--plot needs matplotlib" in result.output and "pip install matplotlib" in result.output


def test_run_takes_the_two_options(case):
    result = invoke("run", case, "--accumulate", "exact_group", "--overflow", "saturate", "--json")
    problem = json.loads(result.output)["problem"]
    assert result.exit_code == 0 and (problem["accumulate"], problem["overflow"]) == ("exact_group", "saturate")
