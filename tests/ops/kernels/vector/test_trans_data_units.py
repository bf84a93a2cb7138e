"""Units of weights and of their gradients: how they are cut and dealt out, by hand and over random shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.isa.vector.rearrangement import TransposeBlocks
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape, filter_work
from ascend_sim.ops.kernels.vector.trans_data_units import C0, ITEM, MovedWeights, WeightUnits

pytestmark = pytest.mark.fast

UB = 192 * 1024


@pytest.mark.parametrize(
    ("shape", "cores", "dealt", "unit"),
    [
        # Units of 16 output channels, of a channel block, of all positions; the axis with the busiest cores is dealt out.
        ((64, 64, 1, 9), 48, (0, 4, 4), (16, 9)),
        ((64, 65, 1, 9), 48, (1, 5, 5), (16, 9)),  # 5 channel blocks against 4 times 16 output channels
        ((16, 1024, 1, 9), 48, (1, 64, 32), (16, 9)),
        ((768, 64, 1, 9), 48, (0, 48, 48), (16, 9)),  # a full round counts twice: 96 against 4
        ((784, 752, 1, 9), 48, (0, 49, 25), (16, 9)),  # 49 units are 48 and 1, against 47
        ((784, 1552, 1, 9), 48, (0, 49, 25), (16, 9)),  # 97 channel blocks are 48 and 1 too: the first axis
        ((784, 1568, 1, 9), 48, (1, 98, 33), (16, 9)),
        ((5, 3, 1, 9), 48, (0, 1, 1), (5, 9)),
        ((64, 64, 3, 9), 48, (0, 4, 4), (16, 27)),  # planes count
        # From 32 positions on one output channel, and several where there are more than cores: as a line of 3056 holds.
        ((48, 3, 1, 49), 48, (0, 48, 48), (1, 49)),
        ((64, 3, 1, 49), 48, (0, 2, 2), (47, 49)),
        ((768, 3, 1, 256), 48, (0, 70, 35), (11, 256)),
        ((64, 64, 2, 16), 48, (1, 4, 4), (64, 32)),  # 95 of 32 positions would fit
        ((3, 2, 1, 31), 48, (0, 1, 1), (3, 31)),
        ((3, 2, 1, 32), 48, (0, 3, 3), (1, 32)),
        ((1, 2, 1, 10000), 48, (2, 4, 4), (1, 3056)),
    ],
)
def test_what_is_dealt_out(
    shape: tuple[int, int, int, int], cores: int, dealt: tuple[int, int, int], unit: tuple[int, int]
) -> None:
    weights = WeightUnits(*shape, cores, UB)
    axis, count, _ = weights.dealt
    assert (axis, count, weights.blocks) == dealt
    assert (weights.rows, weights.run) == unit


def test_a_line_is_a_sixteenth_of_half_of_what_the_library_uses() -> None:
    """1 KB of UB stays free, and of more than 256 KB no more is used."""
    lines = [WeightUnits(16, 16, 1, 9, 8, kb * 1024).line for kb in (192, 248, 256, 512)]
    assert lines == [3056, 3952, 4080, 4080]


@given(st.integers(1, 900), st.integers(1, 200), st.integers(1, 3), st.integers(1, 4000), st.sampled_from((8, 15, 40, 48)))
def test_every_weight_is_in_one_unit_that_fits(c_out: int, c_in: int, k_d: int, taps: int, cores: int) -> None:
    weights = WeightUnits(c_out, c_in, k_d, taps, cores, UB)
    assert 1 <= weights.blocks <= cores
    # Every axis on its own: each of its values as often as there are units of the other two.
    seen = [np.zeros(size, np.int64) for size in (c_out, weights.cin1, k_d * taps)]
    units = padding = 0
    for block in range(weights.blocks):
        found = 0
        for unit, (first, c1) in weights.units(block):
            found += 1
            if not unit.channels:
                padding += unit.rows * unit.positions
                lines = weights.cin1 * k_d * taps
                assert first == c_out and c1 + unit.positions <= lines and unit.positions <= -(-lines // weights.blocks)
                continue
            units += 1
            assert unit.channels == min(C0, c_in - c1 * C0)
            assert unit.positions * (unit.rows if weights.once else C0) <= weights.line
            for axis, (start, count) in enumerate(((first, unit.rows), (c1, 1), (unit.start, unit.positions))):
                seen[axis][start : start + count] += 1
        assert found
    cuts = [-(-c_out // weights.rows), weights.cin1, -(-k_d * taps // weights.run)]
    assert units == np.prod(cuts)
    for axis, counts in enumerate(seen):
        assert (counts == units // cuts[axis]).all()
    assert padding == (-c_out % 16 * weights.cin1 * k_d * taps if weights.once else 0)


@given(st.integers(1, 3000), st.integers(1, 300), st.sampled_from((8, 15, 40, 48)))
def test_every_weight_of_one_position_is_in_one_unit_that_fits(c_out: int, cin1: int, cores: int) -> None:
    weights = MovedWeights(c_out, cin1 * C0, 1, 1, cores, UB)
    assert 1 <= weights.blocks <= cores
    seen = np.zeros((c_out, cin1), np.int64)
    for block in range(weights.blocks):
        units = list(weights.units(block))
        assert units
        for unit, (first, c1) in units:
            assert first % 16 == 0 and -(-unit.rows // 16) * 16 * unit.channels * ITEM <= weights.room
            seen[first : first + unit.rows, c1 : c1 + unit.channels // C0] += 1
    assert (seen == 1).all()
    fitting = weights.room // (weights.channels * ITEM) // 16 * 16
    assert weights.rows == fitting or weights.blocks >= min(cores, -(-c_out // 16)) // 2


def test_one_position_of_whole_blocks_is_moved() -> None:
    """Not so where channels are not whole blocks, or two planes are two positions."""
    chip, space = load_chip("ascend910b2"), Allocation(0, 10**9, "weight", None)
    shapes = [(64, 64, 1, 1), (64, 60, 1, 1), (64, 64, 2, 1), (64, 64, 1, 2)]
    turned = []
    for shape in shapes:
        work = filter_work(chip, FilterShape(*shape, 1), BlockLayout.of(ITEM), True)
        task = work_task(chip, TaskWords("TransData", "TransData_weight"), work, [space, space])
        turned.append(any(isinstance(row.instruction, TransposeBlocks) for row in task.build(0)[0]))
    assert turned == [False, True, True, True]


def test_lines_of_a_part_leave_from_whole_blocks() -> None:
    """37 of 125 positions take 40 in UB: the channels behind the first begin at 32 bytes, too."""
    chip, space = load_chip("ascend910b2"), Allocation(0, 10**9, "grad_weight", None)
    work = filter_work(chip, FilterShape(16, 16, 5, 25, 1), BlockLayout.of(4, 16), False)
    task = work_task(chip, TaskWords("TransData", "TransData_grad_weight"), work, [space, space])
    moved = [row.instruction for block in range(2) for row in task.build(block)[0]]
    out = [(i.row_bytes, i.src_stride) for i in moved if isinstance(i, DataCopy) and i.destination == "GM"]
    assert out == [(352, 352)] * 16 + [(148, 160)] * 16


def test_what_takes_units() -> None:
    """Groups, other widths and other directions have kernels of their own."""
    chip, there, back = load_chip("ascend910b2"), True, False

    def blocks(to_c0: bool, groups: int, *layout: int) -> int:
        return filter_work(chip, FilterShape(64, 64 // groups, 1, 9, groups), BlockLayout.of(*layout), to_c0).blocks

    assert [blocks(there, 1, ITEM), blocks(there, 1, 4), blocks(there, 2, ITEM)] == [4, 8, 8]
    assert [blocks(back, 1, 4, 16), blocks(back, 1, 4), blocks(back, 1, ITEM)] == [4, 8, 8]
