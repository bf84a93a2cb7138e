"""Trials of a call's changes: the unchanged call runs with the programs of its run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ascend_sim import run_case
from ascend_sim.calls.trials import Trials
from ascend_sim.kernel.builder import KernelBuilder

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


@pytest.mark.parametrize(
    ("case", "chip", "field", "value"),
    [("depthwise", "ascend910a", "baseM", 96), ("fp32_keep", "ascend910b3", "baseM", 64)],
)
def test_a_change_saves_in_the_call_what_its_trial_says(case: str, chip: str, field: str, value: int) -> None:
    """The oracle runs the whole call with and without the change."""
    tiling = {"grad_input": {field: value}}
    before, after = (run_case(case, chip=chip, mode="timing", tiling=fields) for fields in (None, tiling))
    spans = [next(one for one in each.timeline.tasks if one.task.name == "grad_input") for each in (before, after)]
    cycles = [span.finish - span.launch for span in spans]
    assert cycles[0] != cycles[1]
    assert trials_of(before).added("grad_input", {"tiling": tiling}, whole=True) == cycles[1] - cycles[0]


def test_trials_keep_no_run_in_memory(built: list[int]) -> None:
    result = run_case(CASE, mode="timing")
    trials = trials_of(result)
    del result
    built.clear()
    assert trials._cycles("grad_weight", {}, True)
    assert built
