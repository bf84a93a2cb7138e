"""dX, dW and db stand for the gradients' names in options, case files and searches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ascend_sim
from ascend_sim import SimError
from ascend_sim.ops.case import load_case
from ascend_sim.options.short_names import full_column, full_name, with_full_names
from ascend_sim.studies.network.tuning import read_tilings
from tests.support.cli.commands import run

pytestmark = pytest.mark.fast


def test_names_in_any_case_and_other_names() -> None:
    given = ("dX", "dx", "dW", "db", "grad_input", "output", None)
    assert [full_name(name) for name in given] == [
        "grad_input", "grad_input", "grad_weight", "grad_bias", "grad_input", "output", None,
    ]  # fmt: skip


def test_a_gradient_that_is_named_twice_is_refused() -> None:
    with pytest.raises(SimError, match=r"^tiling: dX, grad_input given; two of these names are one gradient$"):
        with_full_names("tiling", {"dX": 1, "grad_input": 2})


def test_options_of_a_run() -> None:
    options = {"mode": "timing", "chip": "ascend910b3"}
    short = ascend_sim.run_case("by_hand", tiling={"dX": {"baseM": 32}}, block_dim={"dW": 2}, **options)
    full = ascend_sim.run_case("by_hand", tiling={"grad_input": {"baseM": 32}}, block_dim={"grad_weight": 2}, **options)
    assert short.report.to_dict() == full.report.to_dict()
    assert short.report.to_dict() != ascend_sim.run_case("by_hand", **options).report.to_dict()


def test_flags_of_a_run() -> None:
    ran = run("run", "by_hand", "--mode", "timing", "--json", "--disarm", "dX.A1[0] full")
    assert "disarmed" in json.loads(ran.out)["warnings"][0]


def test_a_case_file(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    plain = "operator: convolution_backward\ninput: {shape: [1, 16, 8, 8], dtype: float16}\nweight: [16, 16, 3, 3]\n"
    path.write_text(plain + "tiling: {dX: {baseM: 16}}\nblock_dim: {dW: 2}\n")
    case = load_case(path)
    assert (case.tiling, case.block_dim) == ({"grad_input": {"baseM": 16}}, {"grad_weight": 2})
    path.write_text(plain + "tiling: {dX: {baseM: 16}, grad_input: {baseM: 32}}\n")
    with pytest.raises(SimError, match="two of these names are one gradient"):
        load_case(path)


def test_a_file_of_tilings(tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    path.write_text("dX: {baseM: 16}\n")
    assert read_tilings(path, ["one"]) == {"one": {"grad_input": {"baseM": 16}}}


def test_a_search_and_a_sweep() -> None:
    (outcome,) = ascend_sim.search_tilings("by_hand", "dX", fields=["dX.baseM=16"], seconds=0)
    assert outcome.kernel.name == "grad_input"
    found = ascend_sim.sweep("by_hand", {"dX.baseM": [16], "block_dim.dW": [1, 2]})
    assert all(row["status"] == 0 for row in found.rows)


def test_columns_of_a_sweep_and_kernels_of_a_comparison(tmp_path: Path) -> None:
    assert [full_column(name) for name in ("dX_us", "DW_l1", "us", "dX.baseM", "l1_us")] == [
        "grad_input_us", "grad_weight_l1", "us", "dX.baseM", "l1_us",
    ]  # fmt: skip
    shown = run("sweep", "by_hand", "--vary", "batch=1", "--columns", "dW_us", "--out", tmp_path, "--jobs", 1)
    assert shown.code == 0 and "grad_weight us" in shown.out
    one = run("compare", "by_hand", "document_example_2d", "--kernel", "dX")
    assert one.code == 0 and "\ngrad_input\n" in one.out and "\ngrad_weight\n" not in one.out
