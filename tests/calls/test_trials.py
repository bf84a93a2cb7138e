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


def test_trials_keep_no_run_in_memory(built: list[int]) -> None:
    result = run_case(CASE, mode="timing")
    trials = trials_of(result)
    del result
    built.clear()
    assert trials._cycles("grad_weight", {}, True)
    assert built
