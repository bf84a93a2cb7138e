"""Moves between NCDHW and the cube's layouts against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.direct import DataCopyDn2Nz, FixpipeDn
from ascend_sim.isa.forms import form_of
from ascend_sim.memory.gm import gm_operand
from tests.support.isa.workbench import Workbench

pytestmark = pytest.mark.fast


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.sampled_from([1, 2, 4]), st.integers(1, 3), st.integers(0, 60))
def test_channels_become_blocks(channels: int, pixels: int, itemsize: int, count: int, offset: int) -> None:
    """Missing channels of the last block become zero; gaps between pixels, blocks and matrices stay what they were."""
    bench = Workbench(3)
    channel_stride, pixel_stride, c0 = pixels * itemsize + 3, 64, 32 // itemsize
    block_stride = pixels * pixel_stride + 32
    blocks = -(-channels // c0)
    src_step, dst_step = channels * channel_stride + 5, blocks * block_stride + 64
    source, wanted = bench.memory.gm[1].copy(), bench.memory.buffers["L1"].copy()
    if offset + count * src_step > len(source) or 64 + count * dst_step > len(wanted):
        return
    move = DataCopyDn2Nz(channels, pixels, itemsize, channel_stride, pixel_stride, block_stride, count, src_step, dst_step)
    bench.do(move, 64, gm_operand(1, offset))
    for i, pixel, channel in np.ndindex(count, pixels, blocks * c0):
        block, lane = divmod(channel, c0)
        to = 64 + i * dst_step + block * block_stride + pixel * pixel_stride + lane * itemsize
        at = offset + i * src_step + channel * channel_stride + pixel * itemsize
        wanted[to : to + itemsize] = source[at : at + itemsize] if channel < channels else 0
    np.testing.assert_array_equal(bench.memory.buffers["L1"], wanted)


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize(("first", "columns"), [(3, 13), (3, 30), (0, 32)])
@pytest.mark.parametrize(
    ("dtype", "row_stride", "column_stride"),
    [("float32", 4, 100), ("float32", 480, 36), ("float16", 2, 60), ("int32", 480, 36)],
)
def test_a_tile_goes_out_element_by_element(
    dtype: str, row_stride: int, column_stride: int, first: int, columns: int, atomic: bool
) -> None:
    bench = Workbench(4)
    rows, padded = 11, 16
    item = np.dtype(dtype).itemsize
    held = "int32" if dtype == "int32" else "float32"
    values = np.arange(3 * padded * 16, dtype=held).reshape(3, padded, 16)  # [16 columns][row]
    bench.put("L0C", 1024, values)
    places = {(i, j): gm_operand(1, 96 + i * row_stride + j * column_stride) for i in range(rows) for j in range(columns)}
    for place in places.values():
        bench.put("GM", place, np.ones(1, dtype))
    bench.do(FixpipeDn(rows, columns, padded, first, dtype, row_stride, column_stride, atomic), gm_operand(1, 96), 1024)
    for (i, j), place in places.items():
        block, lane = divmod(first + j, 16)
        assert bench.get("GM", place, dtype, 1)[0] == values[block, i, lane] + atomic
    assert item == bench.get("GM", gm_operand(1, 96), dtype, 1).itemsize


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
def test_sums_of_bytes_leave_as_they_are_alone(chip: str) -> None:
    def drain(dtype: str) -> FixpipeDn:
        return FixpipeDn(16, 16, 16, 0, dtype, 64, 4 if dtype == "int32" else 1)

    assert form_of(drain("int32"), load_chip(chip)) is not None
    with pytest.raises(SimError, match="float32 of L0C to int8 without a scale"):
        form_of(drain("int8"), load_chip(chip))


def test_a_turn_keeps_below_a_rate_that_it_is_given() -> None:
    chip = load_chip("ascend950pr_9589")
    path = chip.path("GM", "L1", "dn2nz").bytes_per_cycle
    for most, rate in ((0, path), (path / 4, path / 4), (path * 4, path)):
        access = DataCopyDn2Nz(16, 4, 2, 8, 32, 128, most_bytes_per_cycle=most).gm_access(chip)
        assert access is not None and access.rate == rate


def test_only_the_950_turns_channels_on_the_way() -> None:
    move = DataCopyDn2Nz(16, 4, 2, 8, 32, 128)
    assert move.pipe(load_chip("ascend950pr_9589")) == "MTE2"
    with pytest.raises(SimError, match="GM->L1:dn2nz"):
        move.pipe(load_chip("ascend910b3"))
