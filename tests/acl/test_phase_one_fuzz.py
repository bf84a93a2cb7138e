"""Random calls of both GetWorkspaceSize functions, planning and tiling included, end in a status (`tools/fuzz`)."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from places import TOOLS

SCRIPT = TOOLS / "fuzz_calls.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("fuzz_calls", SCRIPT)
    module = sys.modules["fuzz_calls"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("operator", ["aclnnConvolutionBackward", "aclnnConvTbcBackward"])
@pytest.mark.parametrize("count", [800, pytest.param(100_000, marks=pytest.mark.slow)])
def test_every_call_of_phase_one_ends_in_a_status(script, operator, count):
    summary = script.fuzz(operator, count, seed=7, per_process=50)
    assert not summary.wrong
    assert summary.statuses.total() == count
    assert set(summary.statuses) >= script.STATUSES - {561103}  # the calls are neither all good nor all bad
