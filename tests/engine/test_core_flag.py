"""Flags inside a core are one bit: a second set is lost, and the wait that counts on it never ends."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import DeadlockError
from tests.support.engine.machine import CHIP, program, quiet, run_one, task_of
from tests.support.engine.random_programs import SIZES

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("each_engine")]

QUIET = quiet(CHIP)


def flood(count: int) -> Any:
    def write(k: Any) -> None:
        flag = k.flag("MTE2", "MTE1", "busy")
        k.load_data_2d("L0A", 0, 0, 2, 128)  # MTE1 is busy while the sets come
        for _ in range(count):
            k.set_flag(flag)
        for _ in range(count):
            k.wait_flag(flag)

    return write


def test_a_flag_is_one_bit() -> None:
    """Of three sets without a wait between two are lost, so the second wait never ends."""
    assert CHIP.sync.flag_max == 1
    run_one(QUIET, "AIC", flood(1), SIZES)
    with pytest.raises(DeadlockError) as error:
        run_one(QUIET, "AIC", flood(3), SIZES)
    text = str(error.value).splitlines()
    assert text[1:] == [
        "  block 0 AIC: double set of flag 0 MTE2->MTE1: the set at row 2 comes while the flag is set and is lost (chip file, "
        "sync.flag_max: 1)",
        "  block 0 AIC MTE1: at 5 MTE1 wait_flag (source=MTE2, destination=MTE1, flag=0, armed=True) waits for flag 0 from "
        "MTE2, which has not set it",
    ]


def test_behind_a_lost_set_the_waits_take_later_ones() -> None:
    """Of three sets the second comes too early, so the second wait takes the third: it is over late enough for `other`."""

    def write(k: Any) -> None:
        flag, other = k.flag("MTE2", "MTE1", "busy"), k.flag("MTE1", "M", "other")
        k.load_data_2d("L0A", 0, 0, 2, 128)
        k.set_flag(flag), k.set_flag(flag)
        k.wait_flag(flag), k.set_flag(other)
        k.wait_flag(flag), k.set_flag(other)
        k.scalar(100_000)
        k.wait_flag(other), k.wait_flag(other)
        k.scalar(100_000)
        k.set_flag(flag), k.wait_flag(flag)

    with pytest.raises(DeadlockError, match="the set at row 2 comes while the flag is set") as error:
        run_one(QUIET, "AIC", write, SIZES)
    assert "double set of flag 0 MTE1->M" not in str(error.value)
    assert "block 0 AIC MTE1: at 12 MTE1 wait_flag" in str(error.value)


def test_blocks_that_lose_a_set_are_named_in_their_order() -> None:
    """The second block stands long before the first."""

    def late(k: Any) -> None:
        k.scalar(10_000)
        flood(2)(k)

    programs = [[program(QUIET, "AIC", write, block=b)] for b, write in enumerate((late, flood(2)))]
    with pytest.raises(DeadlockError) as error:
        Engine(Device(QUIET, with_values=False)).run([task_of(programs)])
    assert re.findall(r"block (\d) AIC: double set", str(error.value)) == ["0", "1"]


@pytest.mark.parametrize("name", ["busy", "other", "cross-core 2"])
def test_flags_count_where_a_wait_is_disarmed(name: str) -> None:
    """Else most experiments would end in a deadlock and not show which bytes are in danger."""

    def write(k: Any) -> None:
        other = k.flag("M", "FIX", "other")
        k.set_flag(other), k.wait_flag(other)
        flood(20)(k)
        if name == "cross-core 2":
            k.cross_core_set(2, 0, "M"), k.cross_core_wait(2, 0, "M")

    def run(disarm: str) -> int:
        device = Device(QUIET, with_values=False)
        return Engine(device).run([task_of([[program(QUIET, "AIC", write, disarm=[disarm])]])]).finish

    assert run(name) > 0
    with pytest.raises(DeadlockError, match="double set of flag 0 MTE2->MTE1"):
        run("nothing of this program")
