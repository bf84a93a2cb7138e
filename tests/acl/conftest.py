"""Every test starts in a process that has not called aclInit."""

import pytest

from ascend_sim.acl import state


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    monkeypatch.delenv("ASCEND_SIM_CHIP", raising=False)
    monkeypatch.delenv("ASCEND_SIM_CONFORMANCE", raising=False)
    state.PROCESS.__init__()
    yield
    state.PROCESS.__init__()
