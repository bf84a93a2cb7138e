"""The unit flag in checks: it orders a product and a drain at one tile of L0C, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ascend_sim.check.accesses import Shapes
from ascend_sim.check.redundancy import find_redundant
from ascend_sim.check.regions import SPACES
from ascend_sim.check.subject import Subject
from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.task import Task
from ascend_sim.isa.cube import Fixpipe, FixpipeUnitFlag
from ascend_sim.isa.sync import WaitUnitFlag
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import TilePiece
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.unit_flag import UnitFlagTiles
from ascend_sim.memory.gm import gm_operand
from tests.support.check.shipped import case_subject
from tests.support.kernel.unit_flags import product_into

CHIP = load_chip("ascend910b3")
M, N, K = 32, 48, 16
BYTES = M * N * 4


def subject_of(write: Callable[[KernelBuilder], None], disarm: tuple[str, ...] = ()) -> Subject:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIC", [4 * BYTES], disarm=disarm)
    write(k)
    program = k.finish()
    task = Task("tiles", "Tiles", "AIC", 1, [Device(CHIP, with_values=False).allocate(4 * BYTES, "out")], lambda _: [program])
    return Subject(CHIP, task, [program], Shapes(CHIP))


def three_tiles(k: KernelBuilder) -> None:
    tiles = UnitFlagTiles(k, "L0C", [0])
    for i in range(3):
        product_into(k, tiles, tiles.acquire(), (M, K, N), False)
        tiles.drain(gm_operand(0, i * BYTES), TilePiece(M, N, M), "float32", 16, M * 64)
    tiles.close()


def out_of_order(subject: Subject) -> set[str]:
    return {space for space, found in subject.disorder.items() if len(found.first)}


def test_tiles_are_in_order_and_need_every_wait() -> None:
    subject = subject_of(three_tiles)
    assert not out_of_order(subject)
    faults = subject.order.faults
    assert not (faults.sets or faults.waits or faults.overflows or faults.stuck)
    assert find_redundant(subject, True) == ([], [])


def test_a_drain_that_waits_as_the_one_before_it_is_no_finding() -> None:
    """Its mode clears the flag besides."""

    def write(k: KernelBuilder) -> None:
        k.mmad(0, 0, 0, M, K, N, "float16", False)
        for part in range(2):
            flag = k.unit_flag("M", "FIX", f"part {part} full")
            k.set_flag(flag)
            k.wait_flag(flag)
        k.fixpipe(gm_operand(0, 0), 0, M, N, M, "float32", 16, M * 64, unit_flag=True)

    assert find_redundant(subject_of(write), True) == ([], [])


@pytest.mark.parametrize("flag", ["L0C[0] full", "L0C[0] free"])
def test_without_one_of_its_halves_they_race(flag: str) -> None:
    assert out_of_order(subject_of(three_tiles, (flag,))) == {"L0C"}


def test_a_drain_without_the_unit_flag_is_not_ordered_by_it() -> None:
    subject = subject_of(three_tiles)
    (program,) = subject.programs
    found = program.table.instructions
    found[:] = [Fixpipe(**vars(one)) if isinstance(one, FixpipeUnitFlag) else one for one in found]
    assert out_of_order(Subject(CHIP, subject.task, [replace(program)], Shapes(CHIP))) == {"L0C"}


@pytest.mark.parametrize("by_unit_flag", [True, False])
def test_what_the_drain_wrote_to_gm_is_not_handed_over(by_unit_flag: bool) -> None:
    """FIX writes a tile, M knows of its tile of L0C and lets MTE2 read what the drain wrote: too early."""

    def write(k: KernelBuilder) -> None:
        tiles = UnitFlagTiles(k, "L0C", [0])
        flag = k.flag("M" if by_unit_flag else "FIX", "MTE2", "written")
        for i in range(2):
            product_into(k, tiles, tiles.acquire(), (M, K, N), False)
            if i and by_unit_flag:
                k.set_flag(flag)
            tiles.drain(gm_operand(0, i * BYTES), TilePiece(M, N, M), "float32", 16, M * 64)
        if not by_unit_flag:
            k.set_flag(flag)
        k.wait_flag(flag)
        k.data_copy("GM", "L1", 0, gm_operand(0, 0), BYTES)
        tiles.close()

    assert out_of_order(subject_of(write)) == ({"GM"} if by_unit_flag else set())


def test_shipped_gradients_use_it_and_are_in_order() -> None:
    made = case_subject("by_hand", "ascend910b3")
    used = set()
    for task in made.tasks:
        programs = [program for block in range(task.block_dim) for program in task.build(block)]
        if any(isinstance(one, WaitUnitFlag) for program in programs for one in program.table.instructions):
            used.add(task.op_type)
            assert not out_of_order(Subject(CHIP, task, programs, Shapes(CHIP)))
    assert used == {"Conv2DBackpropFilter", "Conv2DBackpropInput"}


def test_all_spaces_are_asked() -> None:
    assert set(subject_of(three_tiles).disorder) == set(SPACES)
