"""Settings for all tests."""

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from ascend_sim.built import built_file
from ascend_sim.engine import engine
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

# Under sanitizers, which look at C alone, C runs for SimPy too: what both say is compared where no sanitizer watches.
if "COMPILED_ALONE" in os.environ:
    engine.chosen_engine = lambda asked=None: "compiled"

# A busy machine must not fail a test: how long an example takes is no property of the code. CI draws the same ones each time.
settings.register_profile("no-deadline", deadline=None, max_examples=50 if "CI" in os.environ else 100)
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

    gc.disable()  # nearly all that is made from here on stays
    sampling.WHOLE = config.getoption("markexpr") == "slow"
    if config.getoption("markexpr") == "fast":  # it replaces the usual "not slow"
        config.option.markexpr = "fast and not slow"


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Any:
    """The cases of one test come together here: those that the suite leaves out are marked slow."""
    from tests.support import sampling

    found = yield
    if isinstance(found, list):
        sampling.mark_cases(found)
    return found


def pytest_collection_finish() -> None:
    """Search for garbage less often, and never among the collected tests: a million objects that stay."""
    gc.enable()
    gc.freeze()
    gc.collect()  # counts what is left, so that kernels of C++, whose processes end with them, are still found
    gc.set_threshold(100_000, 5, 4)
