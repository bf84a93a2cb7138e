"""State that a device keeps from run to run."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.task import Task
from ascend_sim.memory.gm import Allocation, gm_operand
from tests.support.engine.machine import CHIP, changed, program, quiet, run_one, task_of
from tests.support.engine.random_programs import SIZES

pytestmark = pytest.mark.usefixtures("each_engine")


QUIET = quiet(CHIP)


def test_clock_and_l2_live_in_the_device() -> None:
    def copy() -> Task:
        return task_of([[program(CHIP, "AIV", lambda k: k.data_copy("GM", "UB", 0, gm_operand(0, 0), 4096), [4096])]], [a])

    device = Device(QUIET, with_values=False)
    a = device.allocate(4096, "a")
    first = Engine(device).run([copy()])
    assert device.clock == first.finish
    second = Engine(device).run([copy()])
    assert second.programs[0].begin == first.finish
    assert second.finish - first.finish < first.finish  # now it hits
    alone = run_one(QUIET, "AIV", lambda k: k.data_copy("GM", "UB", 0, gm_operand(0, 0), 4096), SIZES, shared_gm=False)
    assert second.finish - first.finish == alone.finish


def lines(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def lines_of(allocation: Allocation) -> np.ndarray:
    return np.arange(allocation.base // 512, -(-(allocation.base + allocation.size) // 512))


def read(l2: L2Cache, *numbers: int, bypass: tuple[int, ...] = ()) -> tuple[int, int]:
    """(lines fetched, dirty lines written back)."""
    return l2.read(lines(*numbers), lines(*bypass))[:2]


def write(l2: L2Cache, *numbers: int, partial: tuple[int, ...] = ()) -> tuple[int, int]:
    return l2.write(lines(*numbers), lines(*partial))


def test_warm_tensor_is_there_and_clean_as_far_as_it_fits() -> None:
    chip = changed(CHIP, memory={"l2_bytes": 10 * 512})
    device = Device(chip, with_values=False)
    first, second = device.allocate(4 * 512, "a"), device.allocate(8 * 512 - 1, "b")
    device.warm(first)
    device.warm(second)
    held = [*lines_of(first)[2:], *lines_of(second)]
    assert device.l2.resident(lines_of(first)).tolist() == [False] * 2 + [True] * 2
    assert read(device.l2, *held) == (0, 0)
    assert read(device.l2, *range(20, 30)) == (10, 0)


@pytest.mark.parametrize("dirty", [False, True])
def test_lines_survive_kernels_and_new_readers(dirty: bool) -> None:
    """The cache belongs to the device: what one run leaves, the next one finds."""
    device = Device(CHIP, with_values=False)
    (write if dirty else read)(device.l2, 7)
    assert read(device.l2, 7) == (0, 0)


def test_a_kernel_leaves_what_it_moved_and_what_it_wrote_is_dirty() -> None:
    """Ten lines: reading six and writing four of another tensor fills them; reading six more drives the first six out."""
    chip = changed(CHIP, memory={"l2_bytes": 10 * 512})
    device = Device(chip, with_values=False)
    source, target, other = (device.allocate(count * 512, name) for count, name in ((6, "a"), (4, "b"), (10, "c")))
    assert device.pass_over([(source, False), (target, True)]) == 0
    assert device.l2.resident(np.append(lines_of(source), lines_of(target))).all()
    assert device.pass_over([(other, False)]) == 4
    assert read(device.l2, *lines_of(source), *lines_of(target)) == (10, 0)


def test_kernels_before_a_run_leave_its_own_tensors_in_the_l2() -> None:
    chip = changed(CHIP, memory={"l2_bytes": 10 * 512})
    device = Device(chip, with_values=False)
    own = device.allocate(4 * 512, "own")
    device.replay([(("x", 4 * 512, True),), (("own", 4 * 512, False), ("x", 4 * 512, False))], {"own": own})
    assert device.l2.resident(np.arange(4)).all()
    assert read(device.l2, 100, 101, 102, 103, 104, 105) == (6, 4)  # the lines of x, which came first, are dirty
