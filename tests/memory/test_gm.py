"""Global memory: random allocation and freeing against a list of live ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.errors import SimError
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT, Allocation, GlobalMemory, gm_operand
from ascend_sim.memory.local import POISON
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

UNIT = 512
SLACK = 32


def lines_of(size: int) -> int:
    """Units of an allocation: its bytes in whole 32, and 32 more."""
    return next(n for n in range(1, 99) if n * UNIT >= math.ceil(size / 32) * 32 + SLACK)


@sampled(50, 200)
@given(
    st.integers(1, 40),
    st.lists(st.one_of(st.tuples(st.just("take"), st.integers(0, 9000)), st.tuples(st.just("give"), st.integers(0, 50)))),
)
def test_against_a_list_of_ranges(lines: int, steps: list[tuple[str, int]]) -> None:
    """First fit: every allocation lies at the lowest place that is free for it, and only then is one refused."""
    memory = GlobalMemory(lines * UNIT + 100, UNIT)
    live: list[Allocation] = []
    highest = 0
    for verb, number in steps:
        if verb == "give":
            if live:
                memory.free(live.pop(number % len(live)))
            continue
        need = lines_of(number)
        taken = {line for a in live for line in range(a.base // UNIT, a.base // UNIT + lines_of(a.size))}
        fits = [s for s in range(lines - need + 1) if not taken & set(range(s, s + need))]
        if not fits:
            with pytest.raises(SimError, match=rf"x needs {number:,} bytes"):
                memory.allocate(number, "x")
            continue
        got = memory.allocate(number, "x")
        assert (got.base, got.size) == (fits[0] * UNIT, number)
        live.append(got)
        highest = max(highest, fits[0] * UNIT + need * UNIT)
    assert memory.high_water == highest
    for allocation in live:
        memory.free(allocation)
    assert memory.allocate(lines * UNIT - SLACK, "all").base == 0


def test_fresh_memory_is_poisoned_also_when_it_was_used_before() -> None:
    memory = GlobalMemory(8 * UNIT, UNIT)
    first = memory.allocate(700, "a")
    assert first.data is not None
    assert (first.data == POISON).all()
    first.data[:] = 1
    memory.free(first)
    assert first.data is None
    again = memory.allocate(700, "b")
    assert again.base == first.base
    assert again.data is not None
    assert (again.data == POISON).all()
    assert len(again.data) == 700
    assert again.memory is not None
    assert (again.room, len(again.memory)) == (704 + SLACK, 704 + SLACK)
    assert np.shares_memory(again.memory, again.data)


def test_addresses_without_bytes() -> None:
    memory = GlobalMemory(1 << 36, UNIT)
    tensor = memory.allocate(1 << 35, "large", with_data=False)
    assert tensor.data is None


@pytest.mark.parametrize("with_data", [True, False])
@pytest.mark.parametrize("size", [-1, -512, -(2**70), True, 64.0, np.nan, "64", None, np.int64(-8), np.bool_(False)])
def test_what_is_no_size_takes_nothing(size: Any, with_data: bool) -> None:
    memory = GlobalMemory(8 * UNIT, UNIT)
    with pytest.raises(SimError, match=r"device memory: the size in bytes of x is .*; allowed is a whole number from 0"):
        memory.allocate(size, "x", with_data=with_data)
    assert memory.allocate(8 * UNIT - SLACK, "all").base == 0


def test_sizes_of_numpy_and_tensors_without_elements() -> None:
    """A tensor without elements has a place of its own all the same."""
    memory = GlobalMemory(8 * UNIT, UNIT)
    small = memory.allocate(np.uint8(200), "x")  # type: ignore[arg-type]
    empty, behind = memory.allocate(0, "nothing"), memory.allocate(1, "y")
    assert (small.size, type(small.size), empty.size) == (200, int, 0)
    assert (small.base, empty.base, behind.base) == (0, UNIT, 2 * UNIT)


def test_freeing_twice() -> None:
    memory = GlobalMemory(8 * UNIT, UNIT)
    tensor = memory.allocate(10, "weights")
    memory.free(tensor)
    with pytest.raises(SimError, match="weights at 0x0 is freed twice"):
        memory.free(tensor)


def test_the_message_of_a_full_memory() -> None:
    memory = GlobalMemory(8 * UNIT, UNIT)
    memory.allocate(3 * UNIT - SLACK, "a")
    with pytest.raises(SimError, match=r"b needs 3,000 bytes, the largest free range is 2,560 of 4 KiB .*memory.hbm_bytes"):
        memory.allocate(3000, "b")


@given(st.integers(0, 1000), st.integers(0, OFFSET_MASK))
def test_operands_name_slot_and_offset(slot: int, offset: int) -> None:
    operand = gm_operand(slot, offset)
    assert (operand >> SLOT_SHIFT, operand & OFFSET_MASK) == (slot, offset)
