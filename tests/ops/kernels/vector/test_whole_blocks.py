"""Rows that are not whole blocks: what a 910A is told instead, and that every byte but theirs stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.vector.common import Loop, TaskWords, work_task
from ascend_sim.ops.kernels.vector.whole_blocks import Merge, load_backed_off, load_rows, store_end, store_rows, with_whole_end
from ascend_sim.runtime import Device
from tests.support.sampling import sampled

OLD, NEW = load_chip("ascend910a"), load_chip("ascend910b3")
Body = Callable[[KernelBuilder], None]


def ran(body: Body, source: np.ndarray, size: int, chip: Any = OLD) -> tuple[np.ndarray, list[DataCopy]]:
    """The target of `size` bytes and its slack, which were all 7, and the copies of the program."""
    device = Device(chip)
    tensors = [device.allocate(source.nbytes, "x"), device.allocate(size, "y")]
    for tensor, values in zip(tensors, (source.view(np.uint8), np.full(size, 7, np.uint8)), strict=True):
        assert tensor.memory is not None
        tensor.memory[:] = 7
        tensor.memory[: tensor.size] = values
    work = Loop(1, lambda block: [], lambda k, pieces: body(k))
    task = work_task(chip, TaskWords("Own", "own"), work, tensors)
    copies = [one for one in task.build(0)[0].table.instructions if isinstance(one, DataCopy)]
    FunctionalEngine(device).run([task])
    assert tensors[1].memory is not None
    return tensors[1].memory, copies


def flags(k: KernelBuilder) -> tuple[Any, Any]:
    """Order a load before the store of its bytes."""
    flag = k.flag("MTE2", "MTE3", "loaded")
    return k.set_flag(flag), k.wait_flag(flag)


def copied(k: KernelBuilder, size: int, rows: CopyLoop, load: Any, store: Any) -> None:
    """Rows of x to y, whose strides are those of `rows`, by way of UB."""
    pitch = -(-size // 32) * 32
    room = k.allocate("UB", rows.times * pitch, "rows")
    load(k, room, gm_operand(0, 0), size, CopyLoop(rows.times, rows.src_stride, pitch))
    flags(k)
    store((gm_operand(1, 0), room, size, CopyLoop(rows.times, pitch, rows.dst_stride)))


def expected(source: np.ndarray, size: int, rows: CopyLoop, total: int) -> np.ndarray:
    found = np.full(total, 7, np.uint8)
    for row in range(rows.times):
        found[row * rows.dst_stride :][:size] = source[row * rows.src_stride :][:size]
    return found


def bytes_of(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(8, 255, count).astype(np.uint8)


@sampled(25, 200)
@given(st.integers(32, 200), st.integers(1, 9), st.integers(0, 70), st.integers(0, 70))
def test_rows_that_back_off_leave_the_rest_alone(size: int, times: int, apart: int, gap: int) -> None:
    rows = CopyLoop(times, size + apart, size + gap)
    source, total = bytes_of((times - 1) * (size + apart) + size), (times - 1) * (size + gap) + size
    for chip in (OLD, NEW):
        got, copies = ran(
            lambda k: copied(k, size, rows, load_backed_off, lambda move: store_rows(k, move)), source, total, chip
        )
        assert got[:total].tobytes() == expected(source, size, rows, total).tobytes()
        assert (got[total:] == 7).all()
        assert chip is NEW or all(one.row_bytes % 32 == 0 for one in copies)


@sampled(25, 200)
@given(st.integers(1, 70), st.integers(1, 9), st.integers(0, 70))
def test_rows_that_merge_put_back_what_follows_them(size: int, times: int, gap: int) -> None:
    rows = CopyLoop(times, size, size + gap)
    source, total = bytes_of(times * size), (times - 1) * (size + gap) + size
    got, copies = ran(lambda k: copied(k, size, rows, load_rows, lambda move: Merge(k, times).store(*move)), source, total)
    assert got[:total].tobytes() == expected(source, size, rows, total).tobytes()
    assert (got[total:] == 7).all()
    assert all(one.row_bytes % 32 == 0 for one in copies)


@sampled(15, 100)
@given(st.integers(1, 70), st.integers(1, 9))
def test_rows_without_gaps_merge_into_the_next_ones_and_the_slack(size: int, times: int) -> None:
    rows, source = CopyLoop(times, size, size), bytes_of(times * size)
    got, _ = ran(lambda k: copied(k, size, rows, load_rows, lambda move: Merge(k).store(*move)), source, times * size)
    assert got[: times * size].tobytes() == source.tobytes()


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
def test_the_end_of_a_tensor_is_rounded_up_into_its_slack(size: int) -> None:
    source = bytes_of(size)

    def body(k: KernelBuilder) -> None:
        room = k.allocate("UB", 128, "rows")
        load_rows(k, room, gm_operand(0, 0), size)
        flags(k)
        store_end(k, gm_operand(1, 0), room, size)

    got, copies = ran(body, source, size)
    assert got[:size].tobytes() == source.tobytes()
    assert (got[-(-size // 32) * 32 :] == 7).all()
    assert {one.row_bytes for one in copies} == {-(-size // 32) * 32}


def test_the_last_piece_of_a_row_has_a_block() -> None:
    assert with_whole_end([(0, 3)], 16) == [(0, 3)]
    assert with_whole_end([(0, 32), (32, 16)], 16) == [(0, 32), (32, 16)]
    assert with_whole_end([(0, 32), (32, 32), (64, 15)], 16) == [(0, 32), (32, 16), (48, 31)]
