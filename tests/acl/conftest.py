"""Every test starts in a process that has not called aclInit."""

import pytest

from ascend_sim.acl import state


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    for name in ("CHIP", "CONFORMANCE", "MODE", "OUT"):
        monkeypatch.delenv(f"ASCEND_SIM_{name}", raising=False)
    state.PROCESS.__init__()
    yield
    state.PROCESS.__init__()
