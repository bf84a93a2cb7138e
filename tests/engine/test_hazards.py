"""Hazards: found exactly where sets of bytes over time find them; and what the message says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.engine.device import Device
from ascend_sim.engine.hazards import HAZARD, LIMIT, Hazards
from ascend_sim.engine.values import Finding
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import MapWindow, Span
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, KIB, program, task_of, watched_run
from tests.support.engine.overlaps import SIZES, Action, actions, brute_force, said, vector_writer
from tests.support.engine.random_programs import RandomChip, variants
from tests.support.sampling import sampled

pytestmark = pytest.mark.usefixtures("each_engine")


def test_hazards_are_equal_where_number_and_records_are() -> None:
    one = np.zeros(1, HAZARD)
    later = one.copy()
    later["start"] = 7
    assert Hazards(one, 1) == Hazards(one.copy(), 1)
    assert Hazards(one, 1) != Hazards(one, 2)
    assert Hazards(one, 1) != Hazards(later, 1)
    assert Hazards(one, 1) != 1


@pytest.mark.parametrize(("place", "findings"), [(0, 1), (256, 1), (512, 0)])
def test_a_bias_that_is_loaded_anew_while_a_product_reads_it(place: int, findings: int) -> None:
    """The product reads 512 bytes of BT from 0 on; no operand of its row says so."""

    def write(k: KernelBuilder) -> None:
        k.fill("L1", 0, 512)
        k.fill("L0A", 0, 16 * KIB), k.fill("L0B", 0, 32 * KIB)
        filled, ready = k.flag("MTE2", "MTE1", "filled"), k.flag("MTE1", "M", "ready")
        k.set_flag(filled), k.wait_flag(filled)
        k.load_bias(0, 0, 128, "float32")
        k.set_flag(ready), k.wait_flag(ready)
        k.mmad(0, 0, 0, 64, 128, 128, "float16", False, bias=0)
        k.pipe_barrier("MTE1")
        k.scalar(40)
        k.load_bias(place, 0, 128, "float32")

    device = Device(CHIP, with_values=False)
    task = task_of([[program(CHIP, "AIC", write, [])]], [])
    _, found = watched_run(device, [task])
    assert len(found) == findings and all(" BT " in one.text for one in found)


@sampled(40, 150)
@given(variants(), st.lists(actions, min_size=1, max_size=2))
def test_vector_programs_against_sets_of_bytes(variant: RandomChip, blocks: list[list[Action]]) -> None:
    device = Device(variant.chip, with_values=False)
    tensors = [device.allocate(size, "t") for size in SIZES]
    made = [[program(variant.chip, "AIV", vector_writer(todo), SIZES, block=b)] for b, todo in enumerate(blocks)]
    task = task_of(made, tensors)
    timeline, findings = watched_run(device, [task])
    wanted = brute_force(timeline.programs, [tensor.base for tensor in tensors])
    if len(wanted) <= LIMIT:
        assert said(findings) == wanted
    else:
        assert said(findings[:LIMIT]) <= wanted


cube_actions = st.lists(
    st.tuples(
        st.sampled_from(["fill", "left", "right", "slide", "mmad", "mmad", "drain", "barrier", "sync"]),
        st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(1, 2),
    ),
    min_size=1, max_size=10,
)  # fmt: skip


def cube_writer(todo: list[Action]) -> Any:
    def write(k: KernelBuilder) -> None:
        for verb, a, b, c, n in todo:
            if verb == "fill":
                k.fill("L1", a * 256, 32 * (1 + b))
            elif verb == "left":
                k.load_data_2d("L0A", a * 512, b * 256, 2, n, 2)
            elif verb == "right":
                k.load_data_2d("L0B", a * 512, b * 256, 2, n)
            elif verb == "slide":
                window = MapWindow(height=3, width=4, k_h=2, k_w=2, out_height=2, out_width=3)
                k.load_data_3d("L0A", a * 512, b * 32, 2, window, Span(0, 6), Span(16 * c, 16 * n))
            elif verb == "mmad":
                k.mmad(a * 1024, b * 512, c * 512, 16, 16 * n, 160 if c == 3 else 16, "float16", bool(n % 2))
            elif verb == "drain":
                k.fixpipe(gm_operand(1, b * 192), a * 1024, 12, 16 * n, 16, "float16", 16, 608, bool(c % 2))
            elif verb == "barrier":
                k.pipe_barrier(("MTE1", "M", "FIX", "ALL")[a])
            else:
                pipes = ("MTE2", "MTE1", "M", "FIX")
                flag = k.flag(pipes[a], pipes[(a + 1) % 4], f"{a}")
                k.set_flag(flag)
                k.wait_flag(flag)

    return write


@sampled(40, 150)
@given(variants(), cube_actions)
def test_cube_programs_against_sets_of_bytes(variant: RandomChip, todo: list[Action]) -> None:
    device = Device(variant.chip, with_values=False)
    tensors = [device.allocate(size, "t") for size in SIZES]
    task = task_of([[program(variant.chip, "AIC", cube_writer(todo), SIZES)]], tensors)
    timeline, findings = watched_run(device, [task])
    wanted = brute_force(timeline.programs, [tensor.base for tensor in tensors])
    assert said(findings) == wanted


def hazards(kind: str, write: Any, blocks: int = 1) -> list[Finding]:
    device = Device(CHIP, with_values=False)
    tensors = [device.allocate(size, "t") for size in SIZES]
    task = task_of([[program(CHIP, kind, write, SIZES, block=b)] for b in range(blocks)], tensors, name="kernel")
    return watched_run(device, [task])[1]


def test_the_message_names_cores_instructions_bytes_and_cycles() -> None:
    def write(k: KernelBuilder) -> None:
        k.data_copy("GM", "UB", 64, gm_operand(0, 0), 128)
        k.vector_duplicate(128, "float16", 64)

    (finding,) = hazards("AIV", write)
    assert finding.task == "kernel"
    assert re.fullmatch(
        r"block 0 AIV0: V 1 V duplicate dst=UB\+0x80 .* writes UB bytes 128 to 192 from cycle \d+, while block 0 AIV0 MTE2 "
        r"0 MTE2 data_copy dst=UB\+0x40 src0=GM\[0\]\+0x0 .* writes them until cycle \d+",
        finding.text,
    )


def test_two_blocks_that_write_the_same_bytes_of_gm() -> None:
    def write(k: KernelBuilder) -> None:
        k.data_copy("UB", "GM", gm_operand(1, 100 * k.block), 0, 128)

    (finding,) = hazards("AIV", write, blocks=2)
    assert "GM bytes" in finding.text
    assert "block 1 AIV0" in finding.text


@pytest.mark.parametrize("atomic", ["", "float32"])
def test_atomics_of_many_blocks_are_no_hazard(atomic: str) -> None:
    def write(k: KernelBuilder) -> None:
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, 128, atomic_add=atomic)

    found = hazards("AIV", write, blocks=4)
    assert bool(found) != bool(atomic)


def test_the_list_of_each_task_is_limited_and_says_how_many_there_are() -> None:
    def write(k: KernelBuilder) -> None:
        for _ in range(30):
            k.vector_duplicate(0, "float16", 64)
            k.data_copy("UB", "GM", gm_operand(1, 0), 0, 128)

    device = Device(CHIP, with_values=False)
    tensors = [device.allocate(size, "t") for size in SIZES]
    names = ("first", "second")
    tasks = [task_of([[program(CHIP, "AIV", write, SIZES)]], tensors, name=name) for name in names]
    timeline, findings = watched_run(device, tasks)
    runs = timeline.programs
    for name, run in zip(names, runs, strict=True):
        *told, beyond = (one for one in findings if one.task == name)
        everything = brute_force([run], [tensor.base for tensor in tensors])
        assert len(told) == LIMIT
        assert len(said(told)) == LIMIT and said(told) <= everything
        assert beyond.text == f"{len(everything) - LIMIT} more hazards; the first {LIMIT} are listed"
