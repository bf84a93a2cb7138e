"""Runs that the tests of comparisons share."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.studies.compare.facts import RunComparison
from ascend_sim.studies.compare.run import compare_runs
from tests.support.report.calls import call

SMALL = {"channels": 32, "size": 12}


@pytest.fixture(scope="module")
def one() -> Any:
    """The call of CASE, as Python makes it."""
    return call(**SMALL, block_dim=None)


@pytest.fixture(scope="module")
def other() -> Any:
    return call(**SMALL, block_dim={"grad_input": 1})


@pytest.fixture(scope="module")
def planted(one: Any, other: Any) -> RunComparison:
    return compare_runs(one, other)
