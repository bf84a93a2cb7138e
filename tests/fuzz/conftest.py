"""The package `fuzzing` of the tools, which is not installed."""

import importlib
import sys

import pytest

from ascend_sim.acl import state
from tests.support.places import TOOLS


@pytest.fixture(scope="session")
def fuzzing():
    """A function that imports one of its modules."""
    sys.path.insert(0, str(TOOLS))
    yield lambda part: importlib.import_module(f"fuzzing.{part}")
    sys.path.remove(str(TOOLS))


@pytest.fixture(autouse=True)
def fresh_process_afterwards():
    """Reset the process's settings of acl for the tests of other folders."""
    yield
    state.PROCESS.__init__()
