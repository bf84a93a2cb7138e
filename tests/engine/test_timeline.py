"""Sums of a Timeline, and changes that must not change it: order of cores, a second run, values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim import TensorSpec
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.replay import replay
from ascend_sim.engine.timeline import Timeline
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, FIVE, changed, columns, program, quiet, random_bytes, run_one, task_of
from tests.support.engine.random_programs import SIZES

pytestmark = pytest.mark.usefixtures("each_engine")


def test_causes_on_paper() -> None:
    """FIX waits for M, M for nobody; the queue of M, two places deep, fills and holds the scalar unit."""
    chip = changed(quiet(CHIP), sync={"queue_depth": CHIP.sync.queue_depth | {"M": 2}}, scalar=FIVE)

    def write(k: Any) -> None:
        done = k.flag("M", "FIX", "done")
        for _ in range(4):
            k.mmad(0, 0, 0, 160, 16, 160, "float16", False)  # 100 cycles of work
        k.set_flag(done)
        k.wait_flag(done)
        k.fixpipe(gm_operand(1, 0), 0, 16, 16, 16, "float16", 16, 512)

    run = run_one(chip, "AIC", write, SIZES, shared_gm=False)
    # M: 5 issued, 126 = 5 + 21 + 100, then 110 each. The fourth mmad is issued when the second starts, the set when the
    # third does, and the wait one issue later.
    assert run.start.tolist()[:4] == [5, 126, 236, 346]
    assert run.end.tolist()[:4] == [126, 236, 346, 456]
    assert run.queue_full == (126 - 20) + (236 - 131)
    assert run.stalls("S")["queue full"] == run.queue_full
    assert run.stalls("M") == {"nothing to do": 5 + run.finish - 456}
    flag = 456 + 2 + 16
    assert (run.start[5], run.end[5]) == (241, flag)
    assert run.stalls("FIX") == {"flag": flag - 241, "nothing to do": 241 + run.finish - run.end[6]}


def test_cycles_before_a_long_wait_are_not_the_wait() -> None:
    """The wait is issued at 15 and over when the flag is there: 5 + 21 + 100, 2 cycles of latency, 16 of the flag."""

    def write(k: Any) -> None:
        done = k.flag("M", "FIX", "done")
        k.mmad(0, 0, 0, 160, 16, 160, "float16", False)
        k.set_flag(done)
        k.wait_flag(done)

    run = run_one(changed(quiet(CHIP), scalar=FIVE), "AIC", write, SIZES, shared_gm=False)
    assert (run.start[2], run.end[2], run.finish) == (15, 144, 144)
    assert run.stalls("FIX") == {"flag": 129, "nothing to do": 15}


def test_issuing_keeps_the_scalar_unit_busy() -> None:
    def write(k: KernelBuilder) -> None:
        k.scalar(7)
        for _ in range(3):
            k.vector_duplicate(0, "float32", 64)

    one = run_one(CHIP, "AIV", write, ())
    assert one.busy()["S"] == 3 * CHIP.scalar.issue_cycles["AIV"] + int(one.end[0] - one.start[0])
    assert one.end[0] - one.start[0] >= 7


def test_the_outstanding_limit_is_a_cause() -> None:
    chip = changed(quiet(CHIP), sync={"outstanding": CHIP.sync.outstanding | {"MTE2": 1}})
    run = run_one(chip, "AIV", lambda k: [k.data_copy("GM", "UB", 0, gm_operand(0, 0), 512) for _ in range(3)], SIZES)
    assert run.start[1:].tolist() == run.retire[:-1].tolist()
    assert run.stalls("MTE2")["outstanding limit"] == int((run.start[1:] - run.end[:-1]).sum())


def test_a_barrier_for_all_waits_for_a_transfer_that_is_the_last_of_its_pipe() -> None:
    """Also when another pipe becomes idle after the transfer has begun, and for a wait that is the last of its pipe."""

    def write(k: Any) -> None:
        flag = k.flag("V", "MTE3", "x")
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 32768)
        k.vector_duplicate(65536, "float32", 64)
        k.set_flag(flag)
        k.wait_flag(flag)
        k.pipe_barrier("ALL")
        k.vector_duplicate(65536, "float32", 64)

    for shared in (True, False):
        run = run_one(CHIP, "AIV", write, SIZES, shared_gm=shared)
        assert run.end[4] == max(run.retire[:4]) + CHIP.sync.barrier_latency
        assert run.start[5] >= run.end[4]


# -- what must not change a timeline ---------------------------------------------------------------------------------------


def call(chip: ChipSpec, **options: Any) -> Any:
    return ascend_sim.convolution_backward(
        TensorSpec((1, 32, 16, 16), "float16"),
        TensorSpec((1, 32, 16, 16), "float16"),
        TensorSpec((32, 32, 3, 3), "float16"),
        [32],
        [1, 1],
        [1, 1],
        [1, 1],
        False,
        [0, 0],
        1,
        [True, True, True],
        chip=chip,
        mode="timing",
        **options,
    )


def waves(device: Device) -> list[Any]:
    """80 blocks of unequal work that share the memory, on 40 cores."""
    tensors = [device.allocate(1 << 20, "in"), device.allocate(1 << 20, "out")]

    def write(k: Any) -> None:
        for i in range(1 + k.block % 3):
            k.data_copy("GM", "UB", 0, gm_operand(0, k.block * 8192 + i * 512), 2048 + 64 * (k.block % 5))
            k.pipe_barrier("ALL")
            k.data_copy("UB", "GM", gm_operand(1, k.block * 8192), 0, 2048)

    return [task_of([[program(CHIP, "AIV", write, [1 << 20] * 2, block=b)] for b in range(80)], tensors)]


def run_waves(**options: Any) -> Timeline:
    device = Device(CHIP, with_values=False)
    return Engine(device, **options).run(waves(device))


def test_which_core_takes_which_block_changes_nothing() -> None:
    plain, reversed_, shuffled = (
        run_waves(core_order=order)
        for order in (
            None,
            lambda count: list(reversed(range(count))),
            lambda count: np.random.default_rng(1).permutation(count).tolist(),
        )
    )
    assert columns(plain) == columns(reversed_) == columns(shuffled)
    assert [run.core for run in plain.programs] != [run.core for run in reversed_.programs]


def test_two_runs_are_equal() -> None:
    assert columns(run_waves()) == columns(run_waves())
    first, second = call(CHIP), call(CHIP)
    assert columns(first.timeline) == columns(second.timeline)


def test_a_call_does_not_depend_on_the_order_of_cores() -> None:
    result = call(CHIP)
    again = []
    for order in (lambda count: list(range(count)), lambda count: list(reversed(range(count)))):
        again.append(columns(Engine(Device(CHIP, with_values=False), core_order=order).run(result.tasks)))
    assert again[0] == again[1]


def test_values_do_not_change_time() -> None:
    """`full` replays values on a finished timeline; a device with bytes gives the same one."""
    timelines = []
    for with_values in (False, True):
        device = Device(CHIP, with_values=with_values)
        tasks = waves(device)
        timeline = Engine(device).run(tasks)
        before = columns(timeline)
        if with_values:
            device_values = random_bytes(device, 64, "unused")
            assert device_values.data is not None
            replay(device, tasks, timeline.programs)
            assert columns(timeline) == before
        timelines.append(before)
    assert timelines[0] == timelines[1]


def test_full_and_timing_calls_agree() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float16) for shape in ((1, 16, 8, 8), (1, 16, 8, 8), (16, 16, 3, 3))]
    specs = [TensorSpec(a.shape, "float16") for a in arrays]
    arguments = ([16], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True])
    full = ascend_sim.convolution_backward(*arrays, *arguments, chip=CHIP, mode="full")
    timing = ascend_sim.convolution_backward(*specs, *arguments, chip=CHIP, mode="timing")
    assert full.timeline is not None
    assert timing.timeline is not None
    assert columns(full.timeline) == columns(timing.timeline)


def test_a_copy_at_port_speed_may_take_more_cycles_than_32_bits_count() -> None:
    """64 KiB at 2**-15 bytes a cycle are 2**31 cycles."""
    slow = changed(quiet(CHIP), paths={"bytes_per_cycle": 2.0**-15})
    device = Device(slow, with_values=False)
    tensor = device.allocate(1 << 20, "t")
    task = task_of([[program(slow, "AIV", lambda k: k.data_copy("GM", "UB", 0, gm_operand(0, 0), 65536), [1 << 20])]], [tensor])
    (one,) = Engine(device, shared_gm=False).run([task]).programs
    assert int(one.end[-1] - one.start[-1]) > 1 << 31
