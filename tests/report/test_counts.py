"""Counts against naive sums over the rows of the programs, and against numbers worked out by hand."""

from collections import Counter

import pytest

from ascend_sim.engine.device import Device
from ascend_sim.isa.cube import Mmad
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import gm_operand
from ascend_sim.report.counts import Counts, bytes_of
from tests.support.report.small_kernels import CHIP, KIB, cast_task, cube_task, mixed_task

pytestmark = pytest.mark.fast


def built(task):
    return [program for block in range(task.block_dim) for program in task.build(block)]


def tasks():
    device = Device(CHIP, with_values=False)
    wide = device.allocate(1024 * KIB, "wide")
    return [cube_task(device), cast_task(device, wide), mixed_task(device)]


@pytest.mark.parametrize("index", range(3))
def test_counts_are_naive_sums_over_rows(index):
    task = tasks()[index]
    names, moved = Counter(), Counter()
    for program in built(task):
        for row in program:
            one = row.instruction
            names[one.name] += 1
            if one.path():
                gm = [r for r in (*one.reads(), *one.writes()) if r.space == "GM"]
                size = sum(r.total for r in (gm or one.writes()))
                moved[one.path()] += size
                if one.label():
                    moved[f"{one.path()}:{one.label()}"] += size
    counts = Counts(task, built(task)).as_dict()
    assert counts["instructions"] == names
    assert counts["bytes"] == moved
    assert list(counts["bytes"]) == sorted(moved)


def test_the_cube_loop_by_hand():
    """Blocks 0 and 2 take 8 steps and 2 drains, block 1 half of it."""
    task = tasks()[0]
    counts = Counts(task, built(task)).as_dict()
    assert counts["tiles"] == 5
    assert counts["instructions"]["mmad"] == 20 and counts["instructions"]["fixpipe"] == 5
    assert counts["bytes"] == {
        "GM->L1": 20 * 32 * KIB,
        "GM->L1:A": 20 * 16 * KIB,
        "GM->L1:B": 20 * 16 * KIB,
        "L1->L0A": 20 * 16 * KIB,
        "L1->L0B": 20 * 16 * KIB,
        "L0C->GM": 5 * 128 * 128 * 2,
    }
    assert Counts(task, built(task)).cube_work_cycles() == [8 * 256, 4 * 256, 8 * 256]


def test_padding_does_not_count_as_bytes_from_gm():
    """nd2nz of 10 x 20 half: 400 bytes leave GM, 2 blocks of 10 x 32 bytes arrive in L1. load_data_2d: what arrives."""
    table = InstructionTable(CHIP)
    k = KernelBuilder(table, 0, "AIC", [4096])
    k.data_copy_nd2nz(0, gm_operand(0, 0), 10, 20, 2, 40, 16, operand="B")
    k.load_data_2d("L0B", 0, 0, 2, 1)
    program = k.finish()
    task = tasks()[0]
    assert Counts(task, [program]).as_dict()["bytes"] == {"GM->L1": 400, "GM->L1:B": 400, "L1->L0B": 512}
    assert bytes_of(table, 0) == 400


def test_cube_work_is_in_block_order_and_leaves_heads_out():
    task = tasks()[0]
    programs = built(task)
    work = [sum(row.instruction.work_cycles(CHIP) for row in p if isinstance(row.instruction, Mmad)) for p in programs]
    assert Counts(task, programs).cube_work_cycles() == work
    assert Counts(task, programs[::-1]).cube_work_cycles() == work
    assert Counts(task, built(tasks()[1])).cube_work_cycles() == []


def test_tiles_of_a_mixed_kernel_are_counted_once():
    task = tasks()[2]
    assert Counts(task, built(task)).as_dict()["tiles"] == task.block_dim
