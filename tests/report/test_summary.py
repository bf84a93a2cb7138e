"""The answer of a run in a few lines, and where each of its figures is from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ops.case import load_case
from ascend_sim.report.html import report_html, summary_html
from ascend_sim.report.summary import KINDS, gain_words, head_words, lines_of, summary_of
from tests.support.cli.commands import run, write_case
from tests.support.launched import CHIP, move


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """A layer whose grad_input has a stand-in's tiling, and whose grad_weight has the library's."""
    return asim.run_case("resnet50_conv2_3x3", mode="timing").report.to_dict()


def test_parts_are_those_of_the_kernels(report: dict[str, Any]) -> None:
    """The oracle adds the kernels' times by hand."""
    times = {kernel["name"]: kernel["task_us"] for kernel in report["kernels"]}
    made = {"grad_input": "grad_input", "grad_weight": "grad_weight", "grad_bias": "ReduceSum_grad_bias"}
    parts = {one["part"]: one["us"] for one in report["summary"]["parts"]}
    assert {part: times[name] for part, name in made.items()} == {part: parts[part] for part in made}
    assert parts["layout"] == pytest.approx(sum(times.values()) - sum(parts[part] for part in made), abs=1e-3)
    assert [one["us"] for one in report["summary"]["parts"]] == sorted(parts.values(), reverse=True)
    assert report["summary"]["parts"][0]["share"] == pytest.approx(parts["layout"] / report["total_us"], abs=1e-4)


def test_an_advice_says_how_it_can_reach_a_device(report: dict[str, Any]) -> None:
    advice = report["summary"]["statements"]
    sources = {kernel["name"]: kernel["tiling_source"] for kernel in report["kernels"]}
    assert sources["grad_input"] == "stand-in" != sources["grad_weight"]
    for one in advice:
        sets = "tiling" in one["change"] or "block_dim" in one["change"]
        searches = " tile " in one["command"]
        stand_in = {sources[name] for name in one["kernels"]} == {"stand-in"}
        expected = ("stand-in" if stand_in else "own kernel") if sets else "simulated"
        assert one["kind"] == (("stand-in search" if stand_in else "search") if searches else expected)
        assert not (sets or searches) or "aclnn" in KINDS[one["kind"]]
    text = lines_of(report["summary"])
    for number, line in enumerate(text):
        if "--tiling" in line or " tile " in line:
            assert "aclnn" in text[number - 1]


def test_a_library_with_tuned_tables_has_another_way(report: dict[str, Any]) -> None:
    """The 950's library asks a table before it decides; a number of blocks is in no row of it."""
    by_table = asim.run_case("resnet50_conv2_3x3", mode="timing", chip="ascend950pr_9589").report
    kernels = [kernel for kernel in by_table.to_dict()["kernels"] if kernel.get("statements")]
    assert {kernel["name"] for kernel in kernels} == {"grad_input", "grad_weight"}
    for kernel in kernels:
        advised = summary_of(by_table.to_dict() | {"kernels": [kernel]})["statements"]
        for one in advised:
            if one["command"] and (" tile " in one["command"] or "tiling" in one["change"]):
                assert "tuned table" in KINDS[one["kind"]] or kernel["tiling_source"] == "stand-in"
        if kernel["tiling_source"] != "stand-in":
            said = dict(kernel["statements"][0], change={"block_dim": {kernel["name"]: 2}}, at_most=False, gain=9)
            blocks = by_table.to_dict() | {"kernels": [dict(kernel, statements=[said])]}
            assert [one["kind"] for one in summary_of(blocks)["statements"]] == ["own kernel"]
    assert not any("table" in one["kind"] for one in report["summary"]["statements"])


def test_a_tiling_that_the_call_sets_is_not_the_librarys_choice() -> None:
    tiling = {"grad_input": {"baseN": 32}, "grad_weight": {"baseN": 288}}
    summary = asim.run_case("resnet50_conv2_3x3", mode="timing", tiling=tiling).to_dict()["summary"]
    kinds = {one["kind"] for one in summary["statements"]}
    assert "set search" in kinds and not kinds & {"search", "table search", "stand-in search", "stand-in"}
    assert not any("aclnn chooses" in line for line in lines_of(summary))


def test_one_change_that_helps_two_parts_counts_once(report: dict[str, Any]) -> None:
    kernels = [kernel for kernel in report["kernels"] if kernel["name"] == "grad_input"]
    said = dict(kernels[0]["statements"][0], change={"tiling": {"grad_input": {"baseN": 16}}}, gain=900, at_most=False)
    once, twice = (summary_of(report | {"kernels": [kernels[0] | {"statements": n * [said]}]}) for n in (1, 2))
    assert once["statements"] == twice["statements"] and len(once["statements"]) == 1


def test_a_call_of_python_says_who_chooses_its_tilings(report: dict[str, Any]) -> None:
    """A call without a case has the advice of the case, with lines of Python for commands."""
    shapes = ((32, 64, 56, 56), (32, 64, 56, 56), (64, 64, 3, 3))
    specs = [asim.TensorSpec(shape, "float16") for shape in shapes]
    mine = asim.convolution_backward(*specs, padding=(1, 1), bias_sizes=[64], mode="timing").to_dict()["summary"]
    ours = report["summary"]["statements"]
    assert [one | {"command": ""} for one in mine["statements"]] == [one | {"command": ""} for one in ours]
    assert all(one["command"].startswith("ascend_sim.") for one in mine["statements"])


def test_equal_changes_and_searches_of_a_kernel_are_one_advice(report: dict[str, Any]) -> None:
    """The batch helps both kernels; its gain is that of both, for the work of one call."""
    advice = report["summary"]["statements"]
    (batch,) = (one for one in advice if "batch" in one["change"])
    assert batch["kernels"] == ["grad_input", "grad_weight"] and "batch 64 " in batch["what"]
    gain = 0.0
    for kernel in report["kernels"]:
        for said in kernel.get("statements", ()):
            if said["change"] == {"batch": 2}:
                gain += said["gain"] / 2 * kernel["task_us"] / sum(kernel["waterfall"].values())
    assert batch["gain_us"] == pytest.approx(gain, abs=1e-3)
    commands = [one["command"] for one in advice]
    assert len(commands) == len(set(commands))
    kinds = [one["kind"] in ("simulated", "stand-in", "own kernel") for one in advice]
    assert kinds == sorted(kinds, reverse=True)  # what was simulated stands first


@pytest.mark.parametrize(
    ("gain", "words"), [(60.08, "about -60 us"), (123.4, "about -120 us"), (4.04, "about -4.0 us"), (9.96, "about -10 us")]
)
def test_an_estimate_is_told_as_one(report: dict[str, Any], gain: float, words: str) -> None:
    (kernel,) = (one for one in report["kernels"] if one["name"] == "grad_input")
    cycles = gain * sum(kernel["waterfall"].values()) / kernel["task_us"]
    change = {"tiling": {"grad_input": {"baseN": 16}}}
    said = dict(kernel["statements"][0], change=change, at_most=False, gain=cycles, estimated=True)
    summary = summary_of(report | {"kernels": [kernel | {"statements": [said]}]})
    (line,) = (line for line in lines_of(summary) if line.startswith("1  "))
    assert line.endswith(f"   {words}   (estimated from one block on a stand-in; aclnn cannot set it)")
    assert f"<b>{words}</b>" in summary_html(report | {"summary": summary})
    (sure,) = summary_of(report | {"kernels": [kernel | {"statements": [said | {"estimated": False}]}]})["statements"]
    assert gain_words(sure) == f"-{gain:.1f} us" and "(simulated" not in line


def test_one_estimate_makes_a_sum_of_gains_one(report: dict[str, Any]) -> None:
    batch = {"change": {"batch": 2}, "gain": 900, "at_most": False}
    kernels = [
        kernel | {"statements": [dict(kernel["statements"][0], **batch, estimated=kernel["name"] == "grad_weight")]}
        for kernel in report["kernels"]
        if kernel.get("statements")
    ]
    (one,) = summary_of(report | {"kernels": kernels})["statements"]
    assert len(one["kernels"]) == 2 and one["estimated"]


def test_a_vector_kernel_that_takes_a_quarter_of_the_call_is_spoken_of(report: dict[str, Any]) -> None:
    """The oracle is the call without the bias: it saves most of the kernel's time, and not more."""
    layer = load_case("unet:1")
    layer = layer.model_copy(update={"input": layer.input.model_copy(update={"shape": (2, 3, 128, 128)})})
    summary = asim.run_case(layer, mode="timing").report.to_dict()["summary"]
    (bias,) = (one for one in summary["statements"] if one["kind"] == "mask")
    part = next(one for one in summary["parts"] if one["part"] == "grad_bias")
    assert bias["kernels"] == ["grad_bias"] and bias["gain_us"] == part["us"] and part["share"] >= 0.25
    assert f"ReduceSum takes {100 * part['share']:.0f} % of the call" in bias["what"]
    assert any("grad_bias: ReduceSum takes" in line and "masks" in line for line in lines_of(summary))
    without = asim.run_case(layer.model_copy(update={"bias": None}), mode="timing", timeline=False).report.total_us
    assert without is not None
    assert bias["gain_us"] / 2 < summary["total_us"] - without <= bias["gain_us"] + 0.001
    assert not any(one["kind"] == "mask" for one in report["summary"]["statements"])  # a fifth of that call
    short = asim.run_case(layer, mode="timing", timeline=False).report.to_dict()["summary"]
    assert short["statements"] == []


def test_a_change_that_costs_more_than_it_saves_is_no_advice() -> None:
    """Twice the batch in one launch would take longer here: one kernel gains, the other loses more."""
    longer = asim.run_case("resnet50:conv2_1_1x1_out", mode="timing").report.to_dict()
    batch = [said for one in longer["kernels"] for said in one.get("statements", ()) if "batch" in said["change"]]
    assert sum(said["gain"] for said in batch) < 0 and all(" more than two of these" in said["text"] for said in batch)
    said = summary_of(longer)["statements"]
    assert said and not any("batch" in one["what"] for one in said)
    assert all(one["gain_us"] is None or one["gain_us"] > 0 for one in said)


def test_at_most_fifteen_lines_on_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    write_case(tmp_path)
    for case in ("resnet50_conv2_3x3", "resnet50:conv1", "mobilenet_v2:9"):
        ran = run("run", case, "--mode", "timing")
        lines = ran.out.splitlines()
        assert len(lines) <= 15 and lines[0].startswith(f"convolution_backward  {case}  ascend910b3   "), case
        assert "values: not computed   mode timing   L2 cold, code cold at the start" in lines
        assert lines[-1] == "more: --full, --html page.html"
    lines = run("run", "case.yaml", "--chip", "ascend910a", "--l2", "warm").out.splitlines()
    assert lines[0].startswith("convolution_backward  case.yaml  ascend910a   ")
    assert "values: correct   mode full   L2 warm, code cold at the start" in lines
    assert run("run", "case.yaml", "--mode", "functional").out.splitlines()[1:] == [
        "values: correct   mode functional",
        "more: --full",
    ]


def test_what_is_wrong_stands_before_advice() -> None:
    ran = run("run", "by_hand", "--disarm", "dX.L0C[0] full")
    lines = ran.out.splitlines()
    assert ran.code == 1 and lines[2].startswith("values: WRONG")
    assert any(line.startswith("grad_input: ") and " wrong; first [" in line for line in lines)
    assert any(line.startswith("warning: an experiment") for line in lines)
    x = np.zeros((4, 64), np.float32)
    launched = asim.launch(move, 1, x, asim.empty(x.shape, "float32"), chip=CHIP, expected=x + 1)
    assert "y: 256 of 256 wrong; first [0, 0]: got 0, expected 1" in str(launched)


def test_trouble_leaves_less_room_for_advice(report: dict[str, Any]) -> None:
    summary = report["summary"] | {name: [f"{name} {n}" for n in range(9)] for name in ("wrong", "findings", "warnings")}
    lines = lines_of(summary, "more")
    assert len(lines) == 15 and lines[-1] == "more" and lines[3:6] == ["wrong 0", "wrong 1", "... and 7 more wrong outputs"]


def test_python_and_json_have_the_same_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = asim.run_case("by_hand")
    text = str(result).splitlines()
    printed = run("run", "by_hand").out.splitlines()
    assert text[:-1] == printed[:-1] and str(result.report).splitlines() == text[:-1]
    assert run("run", "by_hand", "--out", tmp_path).code == 0
    stored = json.loads((tmp_path / "report.json").read_text())
    assert lines_of(stored["summary"]) == text[:-1]
    assert summary_of(stored, "by_hand") == stored["summary"]
    assert result.to_dict() == result.report.to_dict() and result.to_dict()["summary"] == stored["summary"]
    figures = result.report.to_dict(statements=False)
    assert "summary" not in figures and report_html(figures, str(result))


def test_a_printed_result_keeps_to_its_width_but_for_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = str(asim.run_case("resnet18:conv3_1_a", mode="timing")).splitlines()
    assert max(len(line) for line in lines if not line.startswith("   ascend-sim ")) <= 100 < max(map(len, lines)) + 40
    assert any(line.startswith("   (") for line in lines), "no line is long enough to be wrapped"


def test_how_sure_a_time_is() -> None:
    interval = {"of_us": 10.0, "low_us": 5.0, "high_us": 20.4, "unmeasured_us": {}, "other_chips_us": {}}
    assert head_words(10.0, interval) == "10.0 us   (80 %: 5 to 20 us)"
    assert head_words(10.0, interval | {"other_chips_us": {"b2": 6.0}}).endswith("; measured mostly on b2)")
    several = head_words(10.0, interval | {"other_chips_us": {"ascend910_9381, ascend910b1": 6.0}})
    assert several.endswith("; measured mostly on 910_9381, 910b1)")
    assert head_words(10.0, interval | {"other_chips_us": {"b2": 4.0}}).endswith("20 us)")
    assert "never measured" in head_words(10.0, interval | {"unmeasured_us": {"A": 3.0, "B": 3.0}})
    assert (head_words(None, None), head_words(0.0, interval | {"of_us": 0.0})) == ("no times", "0.0 us")


def test_channels_that_are_filled_up_are_no_gain_in_time() -> None:
    """No advice saves more than its call takes; 3 channels become 16 in the same time."""
    summary = asim.run_case("resnet50:conv1", mode="timing").report.to_dict()["summary"]
    assert all((one["gain_us"] or 0.0) < summary["total_us"] for one in summary["statements"])
    (filled,) = (one for one in summary["statements"] if "channels" in one["change"])
    assert (filled["kind"], filled["gain_us"]) == ("room", None) and "no shorter" in KINDS["room"]
    assert filled is summary["statements"][-1]
