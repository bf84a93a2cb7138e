"""Loads, stores and cleans of the scalar unit: bytes, cycles, and what the unit cannot reach."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import CleanDataCache, ScalarLoad, ScalarStore, bits_of_number
from ascend_sim.memory.gm import gm_operand
from ascend_sim.numerics.hifloat8 import decode_hifloat8
from tests.support.isa.workbench import Workbench

pytestmark = pytest.mark.fast
CHIP = load_chip("ascend910b3")


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float32", -1.5), ("float16", 0.1), ("int8", -3), ("uint16", 65535), ("int64", -(1 << 62)), ("uint64", (1 << 64) - 1)],
)
def test_a_store_writes_one_element(dtype: str, value: float) -> None:
    bench, held = Workbench(), np.dtype(dtype)
    before = bench.memory.buffers["UB"].copy()
    bench.do(ScalarStore("UB", held.itemsize), 48, bits_of_number(value, dtype))
    assert bench.get("UB", 48, held, 1)[0] == held.type(value)
    changed = np.flatnonzero(before != bench.memory.buffers["UB"])
    assert set(changed.tolist()) <= set(range(48, 48 + held.itemsize))


def test_a_float_is_rounded_once_to_the_format_of_its_element() -> None:
    """bfloat16: just above the middle of two numbers, where float32 lies on it; hifloat8: its own code, no whole number."""
    assert bits_of_number(1 + 2**-8 + 2**-40, "bfloat16") == 0x3F81
    codes = [bits_of_number(value, "hifloat8") for value in (3.0, -3.0, 0.75)]
    assert decode_hifloat8(np.array(codes, np.uint8)).tolist() == [3.0, -3.0, 0.75]


def test_a_store_to_gm_waits_in_the_cache_for_a_clean() -> None:
    bench, at = Workbench(), gm_operand(1, 196)
    before = bench.memory.gm[1].copy()
    bench.do(ScalarStore("GM", 4), at, bits_of_number(7.0, "float32"))
    assert (bench.memory.gm[1] == before).all()
    bench.do(CleanDataCache(False), gm_operand(1, 192))
    assert bench.get("GM", at, np.float32, 1)[0] == 7 and np.count_nonzero(bench.memory.gm[1] != before) <= 4
    bench.do(ScalarStore("GM", 1), at, 9)
    bench.do(CleanDataCache(True))
    assert bench.get("GM", at, np.uint8, 1)[0] == 9


def test_a_load_returns_what_the_cache_holds() -> None:
    bench, at = Workbench(), gm_operand(0, 64)
    old = bench.get("GM", at, np.uint8, 4)
    assert (ScalarLoad("GM", 4).read(bench.memory, 0, at, 0) == old).all()
    bench.put("GM", at, old + 1)
    assert (ScalarLoad("GM", 4).read(bench.memory, 0, at, 0) == old).all()
    CleanDataCache(False).commit(bench.memory, at, at)
    assert (ScalarLoad("GM", 4).read(bench.memory, 0, at, 0) == old + 1).all()


def test_cycles_are_those_of_the_chip_file() -> None:
    costs = CHIP.scalar
    assert ScalarLoad("UB", 4).cost(CHIP).work == ScalarStore("UB", 2).cost(CHIP).work == costs.ub_cycles
    assert ScalarLoad("GM", 4).cost(CHIP).work == costs.gm_line_cycles > costs.gm_cached_cycles
    assert ScalarStore("GM", 4, True).cost(CHIP).work == costs.gm_cached_cycles
    assert CleanDataCache(False).cost(CHIP).work == costs.clean_line_cycles
    assert CleanDataCache(True).cost(CHIP).work == costs.clean_all_cycles


@pytest.mark.parametrize("space", ["L1", "L0A", "L0C"])
def test_other_buffers_are_out_of_reach(space: str) -> None:
    with pytest.raises(SimError, match=f"cannot reach {space}; it reads and writes UB and GM .asc-devkit"):
        ScalarLoad(space, 4)


def test_an_element_of_three_bytes_is_refused() -> None:
    with pytest.raises(SimError, match="an element of 3 bytes; elements of 1, 2, 4 and 8 bytes are possible"):
        ScalarStore("UB", 3)


def test_the_910_cannot_clean_its_cache() -> None:
    with pytest.raises(SimError, match=r"ascend910a .dav-1001. has no such instruction"):
        CleanDataCache(True).pipe(load_chip("ascend910a"))
    assert CleanDataCache(True).pipe(load_chip("ascend310p3")) == "S"
