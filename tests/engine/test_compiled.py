"""The compiled engine against the SimPy engine: everything that a run leaves behind must be equal."""

from __future__ import annotations

import pytest
from random_runs import Run

from ascend_sim.engine.compiled import library

pytestmark = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")


def assert_equal(seed: int) -> None:
    run = Run(seed)
    expected, found = run.outcome("simpy"), run.outcome("compiled")
    assert list(found) == list(expected), f"Run({seed})"
    for name, value in expected.items():
        assert found[name] == value, f"Run({seed}): {name}"


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_runs_are_equal(first: int) -> None:
    for seed in range(first, first + 40):
        assert_equal(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 4000, 100))
def test_many_random_runs_are_equal(first: int) -> None:
    for seed in range(first, first + 100):
        assert_equal(seed)
