"""Runs side by side: what differs is marked and adds up, and it does not matter where a run comes from."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import ascend_sim
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.report.timeline_file import load_timeline, write_timeline
from ascend_sim.studies.compare.facts import RunComparison
from ascend_sim.studies.compare.run import compare_runs
from tests.support.report.calls import call
from tests.support.studies.compared_runs import kernel_of, shown

pytestmark = pytest.mark.fast

CASE = """
operator: convolution_backward
input: {shape: [2, 32, 12, 12], dtype: float16}
weight: {shape: [32, 32, 3, 3]}
padding: [1, 1]
"""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text(CASE + "output_mask: [true, true, false]\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(one: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ascend_sim.report.run_files import write_run

    out = tmp_path_factory.mktemp("run") / "out"
    write_run(out, one.report, one.recording, "gradients", {})
    return out


def differing(comparison: RunComparison, name: str, group: str) -> set[str]:
    return {fact.name for fact in kernel_of(comparison, name).groups[group] if fact.differs}


def test_differences_of_a_waterfall_add_up_to_that_of_the_cycles(planted: RunComparison, folder: Path) -> None:
    """The cycles are those of the timeline's columns, which no waterfall went through."""
    compared = 0
    for kernel in planted.kernels:
        cycles = kernel.fact("kernel", "cycles")
        assert cycles.values[0] == timeline_cycles(folder, kernel.name)
        if "waterfall" in kernel.groups:
            parts = [fact.differences[1] for fact in kernel.groups["waterfall"]]
            assert sum(parts) == cycles.differences[1]
            compared += bool(cycles.differences[1])
    assert compared == 1, "one cube kernel has other blocks"


def timeline_cycles(folder: Path, name: str) -> int:
    tasks = load_timeline(folder / "timeline.npz").tasks
    row = tasks["name"].tolist().index(name)
    return int(tasks["finish"][row] - tasks["launch"][row])


def test_equal_runs_show_no_difference(one: Any, case: Path, folder: Path) -> None:
    """Wherever they come from: simulated here, read from a folder, from a timeline alone, made in Python."""
    comparison = compare_runs(case, folder, folder / "timeline.npz", one)
    assert [run.kind for run in comparison.runs] == ["case", "folder", "timeline", "result"]
    assert comparison.same
    for kernel in comparison.kernels:
        for fact in (fact for facts in kernel.groups.values() for fact in facts):
            assert len(set(fact.values)) == 1, f"{kernel.name} {fact.name}: known to all, and the same"
    text = shown(compare_runs(folder, folder))
    assert "No difference" in text and "*" not in text


def test_a_timeline_knows_that_its_l2_was_warm(tmp_path: Path) -> None:
    """The bounds of a warm run are lower: its operands need not come from HBM."""
    warm = call(channels=32, size=12, l2="warm")
    write_timeline(tmp_path / "timeline.npz", warm.recording, warm.report.to_dict())
    comparison = compare_runs(warm, tmp_path / "timeline.npz", call(channels=32, size=12))
    made, read, cold = ([kernel["roofline"] for kernel in run.report["kernels"]] for run in comparison.runs)
    assert made == read != cold


def test_the_blocks_that_were_changed_are_marked(planted: RunComparison) -> None:
    assert not planted.same
    assert {kernel.name for kernel in planted.kernels if kernel.differs} == {"grad_input"}
    assert "blocks" in differing(planted, "grad_input", "kernel")
    assert differing(planted, "grad_input", "tiling") == {"coreNum"}
    blocks = kernel_of(planted, "grad_input").fact("kernel", "blocks")
    assert blocks.values[1] == 1 and blocks.differences == (0, 1 - blocks.values[0])
    assert {fact.name for fact in planted.call if fact.differs} == {"total us"}


def test_the_tiling_field_that_was_changed_is_marked(case: Path, tmp_path: Path, one: Any) -> None:
    """A file such as `tile` writes, with every field as it was but one."""
    own = next(kernel for kernel in one.report.kernels if kernel["name"] == "grad_input")["tiling"]
    path = tmp_path / "best.yaml"
    path.write_text(yaml.safe_dump({"grad_input": {"al1Pbuffer": 3 - own["al1Pbuffer"]}}), encoding="utf-8")
    comparison = compare_runs(case, path, case=case)
    assert [run.kind for run in comparison.runs] == ["case", "tiling"]
    assert "al1Pbuffer" in differing(comparison, "grad_input", "tiling")
    assert "baseM" not in differing(comparison, "grad_input", "tiling")
    assert not kernel_of(comparison, "grad_weight").differs
    lines = shown(comparison).splitlines()
    assert [line for line in lines if re.match(r"\* al1Pbuffer +2 +1 +-1 ", line)]


def test_chips_are_compared_with_a_case(case: Path, tmp_path: Path) -> None:
    chip = tmp_path / "mine.yaml"
    chip.write_text("extends: ascend910b3\n", encoding="utf-8")
    comparison = compare_runs("ascend910b3", chip, "ascend910b1", case=case)
    assert [run.report["chip"] for run in comparison.runs] == ["ascend910b3", "mine", "ascend910b1"]
    assert all(kernel.fact("kernel", "cycles").differences[1] == 0 for kernel in comparison.kernels)
    assert next(fact for fact in comparison.call if fact.name == "chip").differs


def test_a_kernel_of_one_run_alone_is_shown_as_such(one: Any, folder: Path) -> None:
    forward = ascend_sim.convolution(
        ascend_sim.TensorSpec((1, 16, 6, 6), "float16"),
        ascend_sim.TensorSpec((16, 16, 3, 3), "float16"),
        None,
        (1, 1),
        (1, 1),
        (1, 1),
        False,
        (0, 0),
        1,
        mode="timing",
    )
    comparison = compare_runs(folder, forward)
    only = kernel_of(comparison, "grad_input")
    assert only.rows[1] is None and only.missing and only.differs and not comparison.same
    assert all(fact.values[1] is None and not fact.differs for facts in only.groups.values() for fact in facts)
    names = {row["name"] for run in comparison.runs for row in run.report["kernels"]}
    assert {kernel.name for kernel in comparison.kernels} == names, "none is left out"
    assert "grad_input, only in A" in shown(comparison, kernels=["grad_input"])


def test_verdicts_stand_side_by_side() -> None:
    """Wrong values in one run: without its flag the cube does not wait for L0."""
    shapes = (1, 16, 4, 4), (1, 16, 4, 4), (16, 16, 3, 3)
    generator = np.random.default_rng(0)
    tensors = [generator.standard_normal(shape).astype(np.float16) for shape in shapes]
    rest = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, False, False))
    right = ascend_sim.convolution_backward(*tensors, *rest)
    wrong = ascend_sim.convolution_backward(*tensors, *rest, disarm={"grad_input": ["L0[0] full"]})
    assert not wrong.report.passed
    comparison = compare_runs(right, wrong)
    findings = next(fact for fact in comparison.call if fact.name == "findings")
    assert findings.values == (0, len(wrong.report.findings))
    verdict = next(fact for fact in comparison.outputs if fact.name == "grad_input")
    assert verdict.values == ("correct", "WRONG") and verdict.differs
    assert "WRONG" in shown(comparison)


@pytest.fixture
def refused(tmp_path: Path, folder: Path, case: Path) -> Iterator[dict[str, tuple[tuple[Any, ...], dict[str, Any]]]]:
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    report = old / "report.json"
    report.write_text(report.read_text(encoding="utf-8").replace('"version": 1', '"version": 0'), encoding="utf-8")
    (tmp_path / "empty").mkdir()
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    (damaged / "gradients.npz").write_bytes(b"PK\x03\x04" + bytes(300))  # a zip file that was cut
    (tmp_path / "other.yaml").write_text("a: 1\n", encoding="utf-8")
    (tmp_path / "flat.yaml").write_text("grad_input: 3\n", encoding="utf-8")
    yield {
        "1 given": ((folder,), {}),
        "no such file or folder": ((folder, tmp_path / "nowhere"), {}),
        "did you mean by_hand": ((folder, "by_hnd"), {}),
        "no report.json": ((folder, tmp_path / "empty"), {}),
        "a report of version 0": ((folder, old), {}),
        "gradients.npz: damaged .npz file": ((folder, damaged), {}),
        "no such file or folder, and no case": ((folder, "a" * 300), {}),
        "neither a case": ((folder, tmp_path / "other.yaml"), {}),
        "give its case with --case": ((folder, "ascend910a"), {}),
        "maps each kernel to fields": ((folder, tmp_path / "flat.yaml"), {"case": case}),
        "none of the runs uses it": ((folder, folder), {"case": case}),
        "--chip ascend910a": ((folder, folder), {"chip": "ascend910a"}),
        "a int given": ((folder, 3), {}),
    }


def test_bad_input_is_one_line(refused: dict[str, tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
    for text, (runs, options) in refused.items():
        with pytest.raises(ascend_sim.SimError, match=re.escape(text)) as error:
            compare_runs(*runs, **options)
        assert "\n" not in str(error.value)


def test_runs_without_kernels_are_nothing_to_compare() -> None:
    empty = ascend_sim.TensorSpec((0, 16, 6, 6), "float16")
    weight = ascend_sim.TensorSpec((16, 16, 3, 3), "float16")
    ones, mask = (1, 1), (True, False, False)
    nothing = ascend_sim.convolution_backward(
        empty, empty, weight, None, ones, ones, ones, False, (0, 0), 1, mask, mode="timing"
    )
    with pytest.raises(ascend_sim.SimError, match="nothing to compare"):
        compare_runs(nothing, nothing)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_of_two_runs_are_compared_with_the_first(dtype: str, tmp_path: Path) -> None:
    """The oracle is numpy on the gradients themselves; from folders and from results alike."""
    case = load_case("by_hand").in_dtype(dtype)
    tensors = make_tensors(case)
    changed = {name: array.copy() for name, array in tensors.items()}
    changed["weight"].flat[0] += 1
    runs = [ascend_sim.run_case(case, values=values) for values in (tensors, changed)]
    for name, run in zip("ab", runs, strict=True):
        run.write(tmp_path / name)
    first, second = (run.outputs["grad_input"].astype(np.float64) for run in runs)
    for given in (runs, [tmp_path / "a", tmp_path / "b"]):
        facts = {fact.name: fact.values for fact in ascend_sim.compare_runs(*given).outputs}
        assert facts["grad_input equal bits with A"] == (None, (first == second).mean())
        assert (
            facts["grad_input largest |A - this|"] == (None, np.abs(first - second).max()) and 0 < (first == second).mean() < 1
        )
        assert facts["grad_weight equal bits with A"] == (None, 1.0)


def test_a_case_made_in_python_is_compared_as_its_file() -> None:
    loaded = load_case("by_hand")
    own = compare_runs("ascend910b3", "ascend910b4", loaded, case=loaded)
    named = compare_runs("ascend910b3", "ascend910b4", "by_hand", case="by_hand")
    assert own.call == named.call and [run.label for run in own.runs][2] == "convolution_backward"
    assert [run.title for run in named.runs] == [
        "by_hand on ascend910b3 (chip)",
        "by_hand on ascend910b4 (chip)",
        "by_hand (case) on ascend910b3",
    ]
