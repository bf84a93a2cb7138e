"""Flags between cores that nobody raises."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.errors import DeadlockError, SimError
from tests.support.engine.machine import CHIP, program, quiet, task_of

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("each_engine")]


QUIET = quiet(CHIP)


def test_a_cross_core_flag_that_nobody_raises() -> None:
    """Named are the cores of this task that did not raise their part, not those of a task that ran before."""

    def waits(k: Any) -> None:
        k.cross_core_wait(3, 0, "MTE2")

    def raises(k: Any) -> None:
        k.cross_core_set(3, 0, "MTE3")
        k.cross_core_wait(3, 0, "MTE2")

    fine = task_of([[program(QUIET, "AIV", raises, block=b)] for b in range(3)])
    bad = task_of([[program(QUIET, "AIV", waits if b == 1 else raises, block=b)] for b in range(3)])
    with pytest.raises(DeadlockError) as error:
        Engine(Device(QUIET, with_values=False)).run([fine, bad])
    text = str(error.value)
    assert "3 programs have not finished" in text
    for block in range(3):
        assert f"block {block} AIV0 MTE2: at" in text
    assert text.count("waits for cross-core flag 3 (mode 0) from block 1 AIV0\n") == 2
    with pytest.raises(SimError, match="3 programs wait for cross-core flags that nobody raises"):
        FunctionalEngine(Device(QUIET)).run([bad])
