"""Tests for both engines."""

from collections.abc import Iterator

import pytest

from ascend_sim.engine.choice import VARIABLE
from ascend_sim.engine.compiled import library


@pytest.fixture(scope="module", params=["simpy", "compiled"])
def each_engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """What `Engine(device)` is in the tests of a module that uses this."""
    if request.param == "compiled" and library.load() is None:
        pytest.skip("the compiled engine was not built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, request.param)
        yield request.param
