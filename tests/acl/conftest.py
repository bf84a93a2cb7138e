"""Every test starts in a process that has not called aclInit."""

import sys
from pathlib import Path

import pytest

from ascend_sim.acl import state

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    monkeypatch.delenv("ASCEND_SIM_CHIP", raising=False)
    monkeypatch.delenv("ASCEND_SIM_CONFORMANCE", raising=False)
    state.PROCESS.__init__()
    yield
    state.PROCESS.__init__()
