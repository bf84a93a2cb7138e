"""The L2: cold, hit, first in first out, warm, dirty lines that leave, partial lines, tails; against a plain list."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.lines import footprint
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from ascend_sim.memory.regions import Region
from tests.support.engine.machine import CHIP, program, task_of
from tests.support.engine.naive_memory import Cache, NaiveTransfer, begin, bytes_of
from tests.support.sampling import sampled

NONE = np.empty(0, np.int64)


def lines(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def read(l2: L2Cache, *numbers: int, bypass: tuple[int, ...] = ()) -> tuple[int, int]:
    """(lines fetched, dirty lines written back)."""
    return l2.read(lines(*numbers), lines(*bypass))[:2]


def write(l2: L2Cache, *numbers: int, partial: tuple[int, ...] = ()) -> tuple[int, int]:
    return l2.write(lines(*numbers), lines(*partial))


def test_cold_then_hit() -> None:
    l2 = L2Cache(4)
    assert read(l2, 1, 2) == (2, 0)
    assert read(l2, 1, 2, 3) == (1, 0)
    assert l2.resident(lines(0, 1, 2, 3)).tolist() == [False, True, True, True]


def test_to_know_more_lines_changes_nothing_of_those_that_are_known() -> None:
    l2 = L2Cache(4)
    write(l2, 1, 1000)
    l2.know(5000)
    l2.know(10)
    assert l2.resident(lines(0, 1, 1000, 4999, 100_000)).tolist() == [False, True, True, False, False]
    assert read(l2, 4999, 1000) == (1, 0)


@pytest.mark.usefixtures("each_engine")
def test_a_run_need_not_learn_how_far_its_tensors_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for the state of lines is there before the first is asked for, up to the last line of the last tensor."""

    def write(k: KernelBuilder) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(1, 0), 65536)

    device = Device(CHIP, with_values=False)
    tensors = [device.allocate(size, name) for size, name in ((1 << 24, "far"), (65536, "behind"))]
    monkeypatch.setattr(L2Cache, "_reach", lambda *_: pytest.fail("the lines are moved"))
    assert Engine(device).run([task_of([[program(CHIP, "AIV", write, [1 << 24, 65536])]], tensors)]).finish


def test_first_in_first_out_whatever_was_used_last() -> None:
    l2 = L2Cache(3)
    read(l2, 1, 2, 3)
    read(l2, 1)  # a hit does not move line 1 back
    assert read(l2, 4) == (1, 0)
    assert l2.resident(lines(1, 2, 3, 4)).tolist() == [False, True, True, True]
    assert read(l2, 1) == (1, 0)
    assert l2.resident(lines(1, 2, 3, 4)).tolist() == [True, False, True, True]


def test_written_lines_are_written_back_once_when_they_leave() -> None:
    l2 = L2Cache(3)
    assert write(l2, 1, 2) == (0, 0)  # whole lines: nothing is fetched
    assert read(l2, 3) == (1, 0)
    assert read(l2, 4) == (1, 1)
    assert read(l2, 5, 6) == (2, 1)
    assert read(l2, 7, 8, 9) == (3, 0)


def test_a_hit_makes_a_clean_line_dirty() -> None:
    l2 = L2Cache(2)
    read(l2, 1, 2)
    assert write(l2, 2) == (0, 0)
    assert read(l2, 3) == (1, 0)
    assert read(l2, 4) == (1, 1)


def test_an_absent_partial_line_is_fetched_first() -> None:
    l2 = L2Cache(8)
    assert write(l2, 1, 2, 3, partial=(0, 2)) == (2, 0)
    assert write(l2, 1, 2, 3, partial=(0, 2)) == (0, 0)


def test_a_tail_is_fetched_every_time_and_not_kept() -> None:
    l2 = L2Cache(8)
    assert read(l2, 1, 2, bypass=(1,)) == (2, 0)
    assert l2.resident(lines(1, 2)).tolist() == [True, False]
    assert read(l2, 2) == (1, 0)
    assert read(l2, 1, 2, bypass=(1,)) == (1, 0)  # even when it is there


def test_more_lines_than_the_cache_holds() -> None:
    l2 = L2Cache(3)
    assert write(l2, 1, 2, 3, 4, 5) == (0, 2)
    assert l2.resident(lines(1, 2, 3, 4, 5)).tolist() == [False, False, True, True, True]


def test_far_addresses() -> None:
    l2 = L2Cache(4)
    assert read(l2, 5, 100_000) == (2, 0)
    assert l2.resident(lines(5, 4000, 100_000)).tolist() == [True, False, True]


regions = st.builds(
    Region,
    st.just("src0"),
    st.just("GM"),
    st.integers(1, 2000),
    st.integers(2000, 3000),
    st.integers(1, 3),
    st.integers(9000, 12_000),
    st.integers(1, 2),
    st.integers(0, 600),
)


@sampled(75, 300)
@given(regions, st.integers(0, 511))
def test_footprint_against_sets_of_bytes(region: Region, phase: int) -> None:
    found = footprint(region, phase, 512)
    runs = bytes_of(region, phase)
    covered = [byte for first, end in runs for byte in range(first, end)]
    wanted = sorted({byte // 512 for byte in covered})
    assert found.lines.tolist() == wanted
    assert found.touched == sum(len({byte // 512 for byte in range(first, end)}) for first, end in runs)
    counts = np.bincount(np.array(covered) // 512, minlength=wanted[-1] + 1)
    assert [wanted[i] for i in found.partial] == [line for line in wanted if counts[line] < 512]
    tails = {(end - 1) // 512 for first, end in runs if end - first >= 512 and end % 512 and first // 512 < (end - 1) // 512}
    assert {wanted[i] for i in found.tails} == tails


@sampled(50, 200)
@given(
    st.integers(1, 30), st.booleans(),
    st.lists(st.tuples(st.sampled_from(["read", "write", "atomic"]), regions, st.integers(0, 12_000)), max_size=15),
)  # fmt: skip
def test_against_a_plain_list(capacity: int, refetch: bool, requests: list[tuple[str, Region, int]]) -> None:
    l2, cache = L2Cache(capacity), Cache(capacity)
    for direction, region, address in requests:
        shape = footprint(region, address % 512, 512)
        touched = shape.lines + address // 512
        if direction == "read":
            got = l2.read(touched, shape.tails if refetch else NONE)[:2]
        elif direction == "write":
            got = l2.write(touched, shape.partial)
        else:
            fetched, left, _ = l2.read(touched, NONE)
            got = fetched, left + l2.write(touched, NONE)[1]
        move = NaiveTransfer(0, 0, direction, region, address, 1)  # type: ignore[arg-type]
        begin(move, cache, 512, refetch, Fraction(1), Fraction(1))
        assert got == (move.fetched, move.victims)
        assert [bool(x) for x in l2.resident(np.arange(80))] == [line in cache.lines for line in range(80)]
    contents = l2.contents()
    held = [(line, dirty) for lines, dirty in contents for line in range(lines.start, lines.stop)]
    assert held == [(line, dirty) for line, (dirty, _) in cache.lines.items()]
    again = L2Cache(capacity)
    for lines, dirty in contents:
        again.write(lines, NONE) if dirty else again.read(lines, NONE)
    assert again.contents() == contents
