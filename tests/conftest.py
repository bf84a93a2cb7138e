"""Settings for all tests."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from ascend_sim.built import built_file
from ascend_sim.engine.choice import VARIABLE
from ascend_sim.engine.compiled import library
from tests.support.places import ROOT

# pytest runs with --import-mode=importlib, which adds no folder; the processes that tests start import `tests.support` too.
sys.path.append(str(ROOT))

# Processes of pytest-xdist are told the width of a terminal of 80 columns; what the commands print goes to a pipe.
os.environ.pop("COLUMNS", None)

# Without a compiler SimPy serves, and every process would say so.
if built_file() is None:
    os.environ.setdefault(VARIABLE, "simpy")

# A busy machine must not fail a test: how long an example takes is no property of the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture(scope="module", params=["simpy", "compiled"])
def each_engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Set the engine of `Engine(device)` in the tests of a module that uses this."""
    if request.param == "compiled" and library.load() is None:
        pytest.skip("the compiled engine was not built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, request.param)
        yield request.param


def pytest_configure(config: pytest.Config) -> None:
    """Before tests are collected: what has a sample of its examples in the suite has all of them under `-m slow`."""
    from tests.support import sampling

    sampling.WHOLE = config.getoption("markexpr") == "slow"


def pytest_itemcollected(item: pytest.Item) -> None:
    """`-m fast` replaces the usual `-m "not slow"`: a test that is both would run in the tier that it is too slow for."""
    from tests.support import sampling

    if {"fast", "slow"} <= {mark.name for mark in item.iter_markers()} and not sampling.WHOLE:
        raise pytest.UsageError(f"{item.nodeid}: marked fast and slow")
