"""Trials of a call's changes: what they promise comes true in the call, and the unchanged call is not simulated again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ascend_sim import run_case
from ascend_sim.calls import trials as trials_module
from ascend_sim.calls.trials import Trials
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.ops.case import load_case
from ascend_sim.ops.case_entries import Case

CASE = "fp32_keep"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield a list that grows by one for each block whose program is made."""
    made: list[int] = []
    begin = KernelBuilder.__init__

    def counted(self: KernelBuilder, table: object, block: int, *rest: object, **named: object) -> None:
        made.append(block)
        begin(self, table, block, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(KernelBuilder, "__init__", counted)
    yield made


def larger(case: Case, times: int) -> Case:
    """The case with a batch so many times as large."""
    entries = case.model_dump(exclude_unset=True)
    batch, *rest = entries["input"]["shape"]
    entries["input"] = {**entries["input"], "shape": [times * batch, *rest]}
    return type(case).model_validate(entries)


def trials_of(result: object) -> Trials:
    return result.report.advise.keywords["trials"]  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("kernel", ["grad_input", "grad_weight"])
def test_the_unchanged_call_is_not_built_again(kernel: str, whole: bool, built: list[int]) -> None:
    result = run_case(CASE, mode="timing")
    assert built
    built.clear()
    cycles = trials_of(result)._cycles(kernel, {}, whole)
    assert not built
    alone = trials_of(run_case(CASE, mode="timing", timeline=False))
    built.clear()
    assert alone._cycles(kernel, {}, whole) == cycles
    assert built


def test_a_changed_call_is_built(built: list[int]) -> None:
    result = run_case(CASE, mode="timing")
    built.clear()
    assert trials_of(result).added("grad_weight", {"batch": 2}, whole=True)
    assert built


LARGE = "resnet50:conv2_1_1x1_out"
"""Its tensors take twice the L2."""


@pytest.mark.parametrize(
    ("case", "chip", "kernel", "change", "state"),
    [
        ("depthwise", "ascend910a", "grad_input", {"tiling": {"grad_input": {"baseM": 96}}}, {}),
        ("fp32_keep", "ascend910b3", "grad_input", {"tiling": {"grad_input": {"baseM": 64}}}, {}),
        ("fp32_keep", "ascend910b3", "grad_weight", {"cube_math_type": 2}, {"l2": "warm"}),
        ("fp32_keep", "ascend910b3", "grad_input", {"batch": 2}, {"l2": "warm", "launches": "warm"}),
        (LARGE, "ascend910b3", "grad_weight", {"batch": 2}, {}),
        (LARGE, "ascend910b3", "grad_weight", {"tiling": {"grad_weight": {"baseN": 64}}}, {"launches": "warm"}),
        (LARGE, "ascend910b3", "grad_input", {"batch": 2}, {"l2": "warm"}),
    ],
)
def test_a_change_saves_in_the_call_what_its_trial_says(
    case: str, chip: str, kernel: str, change: dict[str, Any], state: dict[str, Any]
) -> None:
    """The oracle runs the whole call with and without the change."""
    before = run_case(case, chip=chip, mode="timing", **state)
    if "batch" in change:
        after = run_case(larger(load_case(case), change["batch"]), chip=chip, mode="timing", **state)
    else:
        after = run_case(case, chip=chip, mode="timing", **state, **change)
    spans = [next(one for one in each.timeline.tasks if one.task.name == kernel) for each in (before, after)]
    cycles = [span.finish - span.launch for span in spans]
    assert cycles[0] != cycles[1]
    assert trials_of(before).added(kernel, change, whole=True) == (cycles[1] - cycles[0], True)


def test_both_kernels_of_a_large_call_are_tried_in_one_course(built: list[int]) -> None:
    """grad_weight goes on where grad_input ended; no kernel is built twice."""
    trials = trials_of(run_case(LARGE, mode="timing"))
    counts = []
    for kernel in ("grad_input", "grad_weight", "grad_weight"):
        built.clear()
        assert trials.added(kernel, {"batch": 2}, whole=True)
        counts.append(len(built))
    alone = trials_of(run_case(LARGE, mode="timing"))
    built.clear()
    alone.added("grad_weight", {"batch": 2}, whole=True)
    assert counts[0] > 0 < counts[1] and counts[0] + counts[1] == len(built) and counts[2] == 0


def test_a_kernel_beyond_the_limit_is_told_from_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts what is built: a tiling of one kernel builds that kernel alone, a batch also all before it."""
    result = run_case(LARGE, mode="timing")
    lengths = {run.task.name: 0 for run in result.timeline.tasks}
    for program in result.timeline.programs:
        lengths[result.timeline.tasks[program.task].task.name] += len(program.program)
    names = list(lengths)
    last = sum(lengths[name] for name in names[: names.index("grad_weight") + 1])
    tiling = {"tiling": {"grad_weight": {"baseN": 64}}}
    for limit, change, whole in (
        (lengths["grad_weight"], tiling, True),
        (lengths["grad_weight"] - 1, tiling, False),
        (2 * last, {"batch": 2}, True),
        (2 * last - 1, {"batch": 2}, False),
    ):
        monkeypatch.setattr(trials_module, "_MOST", limit)
        added = trials_of(result).added("grad_weight", change, whole=True)
        assert added is not None and added.whole == whole


def test_a_step_of_another_batch_is_not_known(tmp_path: Path) -> None:
    """A tiling is tried in the L2 that the step left; what it leaves with another batch is told from one block."""
    path = tmp_path / "two.yaml"
    shape = "dtype: float32, input: {shape: [32, 64, 56, 56]}, weight: {shape: [64, 64, 1, 1]}"
    path.write_text(f"name: two\nlayers:\n- {{name: first, {shape}}}\n- {{name: last, {shape}}}\n", encoding="utf-8")
    change = {"tiling": {"grad_input": {"baseN": 32}}}
    before, after = (run_case(f"{path}:last", mode="timing", chip="ascend910b2", l2="step", **more) for more in ({}, change))
    cycles = [
        span.finish - span.launch for run in (before, after) for span in run.timeline.tasks if span.task.name == "grad_input"
    ]
    trials = trials_of(before)
    assert trials.added("grad_input", change, whole=True) == (cycles[1] - cycles[0], True)
    batch = trials.added("grad_input", {"batch": 2}, whole=True)
    assert batch is not None and not batch.whole


def test_trials_keep_no_run_in_memory(built: list[int]) -> None:
    result = run_case(CASE, mode="timing")
    trials = trials_of(result)
    del result
    built.clear()
    assert trials._cycles("grad_weight", {}, False)
    assert built
