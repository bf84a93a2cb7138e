"""Flags inside a core are one bit: a second set is lost, and the wait that counts on it never ends."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import DeadlockError
from tests.support.engine.machine import CHIP, changed, program, quiet, run_one, task_of
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
    """Two of three sets without a wait between are lost, so the second wait never ends."""
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
    """The second of three sets comes too early, so the second wait takes the third: it is over late enough for `other`."""

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


def scalar_flags(k: Any) -> None:
    """V holds the scalar unit by a flag, and the scalar unit MTE2 by another one."""
    held, free = k.flag("V", "S", "held"), k.flag("S", "MTE2", "free")
    k.wait_flag(free), k.pipe_barrier("MTE2")
    k.vector_duplicate(0, "float32", 4096)
    k.set_flag(held)
    k.wait_flag(held)
    k.set_flag(free)
    k.scalar(1)


def test_the_scalar_unit_waits_for_a_flag_and_sets_one() -> None:
    chip = changed(QUIET, sync={"flag_latency": 7, "barrier_latency": 3}, scalar={"issue_cycles": {"AIC": 2, "AIV": 2}})
    ran = run_one(chip, "AIV", scalar_flags)
    wait, barrier, work, _, held, free, last = range(7)
    begun = int(ran.begin)
    assert ran.program[held].pipe == ran.program[free].pipe == "S"
    assert ran.start[held] - begun == 10
    assert ran.end[held] == ran.retire[work] + 7 > ran.start[held]
    assert ran.end[free] == ran.end[held] + 2 and ran.end[last] == ran.end[free] + 3
    assert ran.end[wait] == ran.end[free] + 7 and ran.end[barrier] == ran.end[wait] + 3
    assert ran.stalls("S")["flag"] == ran.end[held] - ran.start[held]
    assert sum(ran.stalls("S").values()) + ran.busy()["S"] == ran.finish - ran.begin


def test_a_scalar_unit_that_waits_for_ever_is_named() -> None:
    """The set of the flag is issued behind the wait."""

    def write(k: Any) -> None:
        held = k.flag("V", "S", "held")
        k.wait_flag(held)
        k.set_flag(held)

    with pytest.raises(DeadlockError, match=r"AIV0 S: at 0 S wait_flag .* waits for flag 0 from V, which has not set it"):
        run_one(QUIET, "AIV", write)


@asim.kernel_function(core="AIV")
def read_on_the_scalar_unit(k, x, y, *, wait=True):  # type: ignore[no-untyped-def]
    """All that is issued behind a wait of the scalar unit comes behind the load."""
    row = k.local_tensor(64, "float32", "row")
    k.gm_to_ub(row, x)
    if wait:
        loaded = k.flag("MTE2", "S", "loaded")
        k.set_flag(loaded), k.wait_flag(loaded)
    k.ub_to_gm(y, row)


@pytest.mark.parametrize("mode", ["full", "functional"])
def test_what_comes_behind_a_wait_of_the_scalar_unit_is_in_order(mode: str) -> None:
    x, y = np.arange(64, dtype=np.float32), asim.empty(64, "float32")
    given = asim.launch(read_on_the_scalar_unit, 1, x, y, mode=mode)
    assert given.findings == [] and np.array_equal(given.outputs["y"], x)
    for wait, kinds in ((True, set()), (False, {"RAW"})):
        found = asim.check_kernel(read_on_the_scalar_unit, 1, x, y, wait=wait).findings
        assert {one.kind for one in found} == kinds


@pytest.mark.parametrize("answered", [True, False])
def test_a_set_of_the_scalar_unit_waits_for_the_answer(answered: bool) -> None:
    """Else the second set may come while the flag is set."""

    @asim.kernel_function(core="AIV")
    def rounds(k, x):  # type: ignore[no-untyped-def]
        there, back = k.flag("S", "MTE2", "there"), k.flag("MTE2", "S", "back")
        for turn in range(3):
            k.set_flag(there), k.wait_flag(there)
            k.gm_to_ub(k.local_tensor(64, "float32", f"row {turn}"), x)
            if answered:
                k.set_flag(back), k.wait_flag(back)

    found = asim.check_kernel(rounds, 1, np.zeros(64, np.float32)).findings
    assert ("double set" in {one.kind for one in found}) != answered
