"""Fixtures of the C interface: every test starts in a process that has not called aclInit."""

import pytest

from ascend_sim.acl import state
from tests.support.acl.acl_calls import open_device


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    for name in ("CHIP", "CONFORMANCE", "MODE", "OUT"):
        monkeypatch.delenv(f"ASCEND_SIM_{name}", raising=False)
    state.PROCESS.__init__()
    yield
    state.PROCESS.__init__()


@pytest.fixture
def stream():
    """Return the default stream of an open device."""
    return open_device()
