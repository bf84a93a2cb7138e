"""Words on the waits of a run."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ascend_sim.engine.critical_path import by_what, critical_path
from ascend_sim.report.what_if import ChangedRun, what_if
from ascend_sim.report.words import flag_waits, words
from tests.support.report.calls import call


@pytest.fixture(scope="module")
def result() -> Any:
    return call()


@pytest.fixture(scope="module")
def outcomes(result: Any) -> list[ChangedRun]:
    return what_if(result.recording)


def test_the_words_agree_with_the_runs(result: Any, outcomes: list[ChangedRun]) -> None:
    """Every change that a paragraph names is one of the runs, with its figure, the largest first."""
    report = result.report.to_dict()
    whole, *kernels = words(result.recording, report, critical_path(result.timeline), outcomes)
    assert f"{report['total_us']:.1f} us" in whole
    names = [kernel["name"] for kernel in report["kernels"]]
    seen = 0
    for text in (whole, *kernels):
        task = None if text is whole else next(i for i, name in enumerate(names) if f"In {name} " in text)
        told: list[float] = []
        for outcome in outcomes:
            match = re.search(re.escape(outcome.words) + r" \(([-+][\d.]+|0\.0) %\)", text)
            saved = outcome.saved if task is None else outcome.saved_by_task[task]
            if match:
                assert float(match[1]) == pytest.approx(-100 * saved, abs=0.051)
                told.append(saved)
        seen += len(told)
        every = [one.saved if task is None else one.saved_by_task[task] for one in outcomes]
        assert max(told) == max(every), "the bottleneck is what takes most off"
    assert seen >= 2 * (1 + len(kernels))


def test_the_words_agree_with_the_path(result: Any) -> None:
    path = critical_path(result.timeline)
    (whole, *_) = words(result.recording, result.report.to_dict(), path, None)
    assert "What would move" not in whole
    total = path[-1].end - path[0].begin
    what, cycles = next(iter(by_what(path).items()))
    assert f"{100 * cycles / total:.1f} %" in whole, what


def test_flag_waits_are_the_stalls_of_the_pipes(result: Any) -> None:
    """By pipe they add up to what the timeline counts as waiting for flags."""
    task = next(i for i, one in enumerate(result.tasks) if one.name == "grad_weight")
    runs = result.timeline.of(task)
    for pipe in ("MTE1", "MTE2", "M"):
        stalled = sum(run.stalls(pipe).get("flag", 0) for run in runs) / sum(run.finish - run.begin for run in runs)
        told = sum(wait.share for wait in flag_waits(result.recording, task) if wait.pipe == pipe)
        assert told == pytest.approx(stalled)


def test_a_call_without_kernels() -> None:
    result = call(channels=16, size=8)
    assert words(result.recording, result.report.to_dict(), [], None) == ["The call launched no kernel."]
