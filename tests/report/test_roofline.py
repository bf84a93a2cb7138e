"""Rooflines: what they are for small kernels by hand, and that no kernel beats them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import gm_operand
from ascend_sim.report.roofline import LeastWork, Rooflines
from tests.support.report.small_kernels import CHIP, KIB, cast_task, cube_task, mixed_task, run_three
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast


def built(task):
    return [program for block in range(task.block_dim) for program in task.build(block)]


def work(task):
    return LeastWork.of(CHIP, task, built(task))


def spans(timeline, index):
    """Cycles from the first instruction of a kernel to its end."""
    return timeline.tasks[index].finish - min(run.begin for run in timeline.of(index))


def check(tasks, timeline, cold):
    rooflines = Rooflines(CHIP, cold=cold)
    for index, task in enumerate(tasks):
        bounds = rooflines.of(LeastWork.of(CHIP, task, [run.program for run in timeline.of(index)]))
        assert bounds and max(bounds.values()) <= spans(timeline, index)
        for pipe, name in (("M", "cube"), ("MTE1", "mte1"), ("MTE2", "mte2"), ("FIX", "fixpipe"), ("S", "scalar")):
            busy = {}
            for run in timeline.of(index):
                busy[run.core, run.program.core_kind] = busy.get((run.core, run.program.core_kind), 0) + run.busy()[pipe]
            assert bounds.get(name, 0) <= max(busy.values())


@pytest.mark.parametrize("cold", [True, False])
def test_no_small_kernel_beats_its_roofline(cold):
    check(*run_three(), cold)


@sampled(5, 15)
@given(st.integers(1, 25), st.sampled_from([8, 16]), st.integers(1, 100), st.integers(1, 5))
def test_no_kernel_beats_its_roofline(cube_blocks, steps, blocks, pieces):
    device = Device(CHIP, with_values=False)
    wide = device.allocate(blocks * pieces * 8 * KIB, "wide")
    tasks = [cast_task(device, wide, blocks, pieces), cube_task(device, cube_blocks, steps), mixed_task(device)]
    check(tasks, Engine(device).run(tasks), cold=True)


def test_bounds_by_hand():
    """Two blocks of cast, one piece each: 16 KB in, 8 KB out."""
    device = Device(CHIP, with_values=False)
    task = cast_task(device, device.allocate(16 * KIB, "wide"), blocks=2, pieces=1)
    bounds = Rooflines(CHIP, cold=True).of(work(task))
    assert bounds["mte2"] == int(8192 / CHIP.path("GM", "UB").bytes_per_cycle)
    assert bounds["mte3"] == int(4096 / CHIP.path("UB", "GM").bytes_per_cycle)
    assert bounds["vec"] == CHIP.vector.cycles("cast", "float32", 8192)[1]
    assert bounds["L2 read"] == int(16384 / CHIP.l2_read_bytes_per_cycle())
    assert bounds["L2 write"] == int(8192 / CHIP.l2_write_bytes_per_cycle())
    assert bounds["HBM"] == int(16384 / CHIP.hbm_bytes_per_cycle())
    assert bounds["scalar"] == CHIP.scalar.issue_cycles["AIV"] * len(built(task)[0])


def test_what_is_added_in_gm_is_read_and_written():
    device = Device(CHIP, with_values=False)
    tensors = [device.allocate(16 * KIB, "sums")]

    def build(block):
        k = KernelBuilder(InstructionTable(CHIP), block, "AIV", [16 * KIB])
        k.data_copy("UB", "GM", gm_operand(0, 0), 0, 16 * KIB, atomic_add="float32")
        return [k.finish()]

    bounds = Rooflines(CHIP, cold=True).of(work(Task("add", "Add", "AIV", 1, tensors, build)))
    assert bounds["L2 read"] == int(16384 / CHIP.l2_read_bytes_per_cycle()) > 0
    assert bounds["L2 write"] == int(16384 / CHIP.l2_write_bytes_per_cycle()) > 0


def test_the_cube_bound_is_the_mmad_work_of_the_longest_block():
    device = Device(CHIP, with_values=False)
    task = cube_task(device)
    assert Rooflines(CHIP, cold=True).of(work(task))["cube"] == 8 * 256


def test_more_blocks_than_cores_share_the_work():
    """60 equal blocks on 20 cores: some core must run three."""
    device = Device(CHIP, with_values=False)
    task = cube_task(device, blocks=60)
    cube = Rooflines(CHIP, cold=True).of(work(task))["cube"]
    assert cube == (30 * 8 + 30 * 4) * 256 // 20 > 8 * 256


def test_what_an_earlier_kernel_used_need_not_come_from_hbm_again():
    device = Device(CHIP, with_values=False)
    wide = device.allocate(40 * 3 * 8 * KIB, "wide")
    first, second = cast_task(device, wide, blocks=40), cast_task(device, wide, blocks=40)
    cold = Rooflines(CHIP, cold=True)
    assert cold.of(work(first))["HBM"] > 0
    assert "HBM" not in cold.of(work(second))
    assert "HBM" not in Rooflines(CHIP, cold=False).of(work(first))


def test_lines_are_counted_once_and_exactly():
    """Left operand: 8 of its 16 blocks of 16 KB. Right: 64 of each 1024 bytes, at 0, 128 and 256: one line each."""
    device = Device(CHIP, with_values=False)
    task = cube_task(device)
    lines = work(task).lines
    read, written = lines.read, lines.written
    left, right, out = (tensor.base // 512 for tensor in task.tensors)
    assert np.flatnonzero(read).tolist() == sorted([*range(left, left + 256), *range(right, right + 512, 2)])
    assert np.flatnonzero(written).tolist() == list(range(out, out + 192))
