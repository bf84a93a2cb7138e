"""The engine against the max-plus recurrence: every start, end and retirement, to the cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_sim
from ascend_sim import TensorSpec
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.lines import footprint
from ascend_sim.engine.timeline import Timeline
from ascend_sim.kernel.program import Program
from ascend_sim.memory.regions import Region
from tests.support.engine.machine import CHIP, FIVE, changed, ideal_memory, program, quiet, task_of
from tests.support.engine.maxplus import lines_touched, schedule
from tests.support.engine.random_programs import MOST_SETS, SIZES, RandomChip, Step, steps, variants, writer
from tests.support.sampling import part_of_cases, sampled

pytestmark = pytest.mark.usefixtures("each_engine")


def assert_same(timeline: Timeline, programs: Sequence[Program], bases: Sequence[int]) -> None:
    begin = timeline.programs[0].begin
    for run, expected in zip(timeline.programs, schedule(programs, bases), strict=True):
        for name in ("start", "end", "retire"):
            got = (getattr(run, name) - begin).tolist()
            wanted = getattr(expected, name)
            first = next((i for i, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]), None)
            assert first is None, f"{run.program.where} {run.program[first]}: {name} {got[first]} is not {wanted[first]}"
        assert run.finish - begin == expected.finish


def run_programs(chip: ChipSpec, programs: list[list[Program]], kind: str = "", **options: bool) -> tuple[Timeline, list[int]]:
    device = Device(chip, with_values=False)
    tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(SIZES * len(programs))]
    timeline = Engine(device, **options).run([task_of(programs, tensors, kind)])  # type: ignore[arg-type]
    return timeline, [tensor.base for tensor in tensors]


@sampled(40, 150)
@given(variants(), st.sampled_from(["AIC", "AIV"]), steps(), st.lists(st.integers(0, 11), max_size=3))
def test_random_programs(variant: RandomChip, kind: str, actions: list[Step], disarmed: list[int]) -> None:
    names = {f"{a}->{b} {i % 2}" for i in disarmed for a in ("MTE1", "MTE2", "V", "M") for b in ("M", "MTE2", "FIX", "V")}
    made = program(variant.chip, kind, writer(kind, actions), SIZES, disarm=names)
    timeline, bases = run_programs(variant.chip, [[made]], shared_gm=False)
    assert_same(timeline, [made], bases)


@sampled(30, 120)
@given(variants(), st.sampled_from(["AIC", "AIV"]), st.lists(steps(40), min_size=1, max_size=3))
def test_random_programs_with_memory_faster_than_ports(variant: RandomChip, kind: str, blocks: list[list[Step]]) -> None:
    """The transfers of several cores meet in the memory system, where nothing is scarce."""
    chip = ideal_memory(variant.chip)
    sizes = SIZES * len(blocks)
    made = [[program(chip, kind, writer(kind, steps, 2 * b), sizes, block=b)] for b, steps in enumerate(blocks)]
    timeline, bases = run_programs(chip, made)
    assert_same(timeline, [cores[0] for cores in made], bases)


@part_of_cases(3)
@pytest.mark.parametrize("mode", [0, 1, 2, 4])
@sampled(8, 25)
@given(
    variant=variants(), parts=st.lists(steps(12), min_size=6, max_size=6), rounds=st.integers(1, 3), stops=st.booleans()
)  # fmt: skip
def test_cross_core_flags(mode: int, variant: RandomChip, parts: list[list[Step]], rounds: int, stops: bool) -> None:
    """Two blocks of one AIC and two AIVs raise and wait for each other's flags between random work."""
    chip = changed(variant.chip, sync={"cross_wait_stops_issue": stops, "cross_one_vector_ids": 11})
    programs: list[list[Program]] = []
    for block in range(2):
        cores: list[Program] = []
        for kind, sub_block in (("AIC", 0), ("AIV", 0), ("AIV", 1)):
            work = writer(kind, parts[block * 3 + len(cores)])
            first, second = ("FIX", "MTE2") if kind == "AIC" else ("MTE3", "V")

            def write(k, work=work, kind=kind, first=first, second=second):  # type: ignore[no-untyped-def]
                for turn in range(rounds):
                    if turn == 0:
                        work(k)
                    if mode == 2 and kind == "AIV":
                        k.cross_core_wait(1, 2, second)
                        k.cross_core_set(2, 2, first)
                    elif mode == 2:
                        k.cross_core_set(1, 2, first)
                        k.cross_core_wait(2, 2, second)
                    elif mode == 4 and kind == "AIV":
                        k.cross_core_wait(1, 4, second)
                        k.cross_core_set(2, 4, first)
                    elif mode == 4:
                        for flag in (1, 17):
                            k.cross_core_set(flag, 4, first)
                        for flag in (18, 2):
                            k.cross_core_wait(flag, 4, second)
                    elif mode == 0 or kind == "AIV":
                        k.cross_core_set(1, mode, first)
                        k.cross_core_wait(1, mode, second)

            cores.append(program(chip, kind, write, SIZES, block=block, sub_block=sub_block))
        programs.append(cores)
    timeline, bases = run_programs(chip, programs, "MIX", shared_gm=False)
    assert_same(timeline, [core for cores in programs for core in cores], bases)


@sampled(75, 300)
@given(
    st.integers(1, 1500), st.integers(0, 2000), st.integers(1, 4), st.integers(0, 5000), st.integers(1, 3),
    st.integers(0, 511), st.integers(0, 600), st.booleans(),
)  # fmt: skip
def test_lines_of_a_transfer(
    row_bytes: int, gap: int, rows: int, plane_stride: int, planes: int, phase: int, offset: int, tight: bool
) -> None:
    region = Region("src0", "GM", row_bytes, row_bytes if tight else row_bytes + gap, rows, plane_stride + 9000, planes, offset)
    assert footprint(region, phase, 512).touched == lines_touched(region, phase, 512)


def test_the_recurrence_itself() -> None:
    """A timeline worked out on paper: 5 cycles of issue, mmads of 9 with heads 21 and 10, flags of 16."""

    def write(k):  # type: ignore[no-untyped-def]
        done = k.flag("M", "FIX", "done")
        k.mmad(0, 0, 0, 48, 16, 48, "float16", False)
        k.mmad(0, 0, 0, 48, 16, 48, "float16", False)
        k.set_flag(done)
        k.wait_flag(done)

    made = program(changed(quiet(CHIP), scalar=FIVE), "AIC", write)
    times = schedule([made], [])[0]
    assert times.start == [5, 35, 54, 20]
    assert times.end == [35, 54, 54, 72]
    assert times.retire == [37, 56, 56, 72]


@part_of_cases(4)
@pytest.mark.parametrize("seed", range(12))
def test_long_random_programs(seed: int) -> None:
    """Hundreds of rows, on the real numbers of the chip but with short queues."""
    rng = np.random.default_rng(seed)
    kind = "AIC" if seed % 2 else "AIV"
    verbs = np.array(["work"] * 5 + ["set", "wait", "wait"] + ["scalar"] + (["barrier", "all"] if seed % 3 else []))
    actions = [(str(rng.choice(verbs)), *rng.integers(0, 12, 3).tolist()) for _ in range(500)]
    short = dict.fromkeys(("MTE1", "MTE2", "MTE3", "M", "V", "FIX"), 1 + seed % 5)
    chip = changed(quiet(CHIP), sync={"queue_depth": short, "outstanding": short, "flag_max": MOST_SETS})
    made = program(chip, kind, writer(kind, actions), SIZES)
    for faster, shared in ((chip, False), (ideal_memory(chip), True)):
        made = program(faster, kind, writer(kind, actions), SIZES)
        timeline, bases = run_programs(faster, [[made]], shared_gm=shared)
        assert_same(timeline, [made], bases)


CALLS: dict[str, dict[str, Any]] = {
    "plain": {"input": (2, 32, 14, 14), "weight": (32, 32, 3, 3), "padding": [1, 1]},
    "strided": {"input": (1, 16, 15, 15), "weight": (48, 16, 3, 3), "padding": [1, 1], "stride": [2, 2]},
    "grouped": {"input": (1, 64, 9, 9), "weight": (64, 32, 3, 3), "groups": 2},
    "dilated": {"input": (1, 16, 20, 20), "weight": (16, 16, 3, 3), "dilation": [2, 2]},
}


@part_of_cases(6)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_kernels_of_convolution_backward(name: str, dtype: str, deterministic: bool) -> None:
    """All kernels of the call, each alone: cube kernels, StreamK with its vector cores, layout changes, sums."""
    call = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1} | CALLS[name]
    n, _, h, w = call["input"]
    c_out, _, kh, kw = call["weight"]
    out = [
        (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
        for size, k, pad, dilation, stride in zip(
            (h, w), (kh, kw), call["padding"], call["dilation"], call["stride"], strict=True
        )
    ]
    chip = quiet(CHIP)
    result = ascend_sim.convolution_backward(
        TensorSpec((n, c_out, *out), dtype), TensorSpec(call["input"], dtype), TensorSpec(call["weight"], dtype), [c_out],
        call["stride"], call["padding"], call["dilation"], False, [0, 0], call["groups"], [True, True, True],
        chip=chip, mode="timing", deterministic=deterministic,
    )  # fmt: skip
    seen = {task.op_type[-14:] for task in result.tasks if "Backprop" in task.op_type}
    assert seen == {"DBackpropInput", "BackpropFilter"}
    for task in result.tasks:
        timeline = Engine(Device(chip, with_values=False), shared_gm=False).run([task])
        assert len({run.begin for run in timeline.programs}) == 1  # no waves
        assert_same(timeline, [run.program for run in timeline.programs], [t.base for t in task.tensors])
