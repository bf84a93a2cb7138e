"""Stamped loops: a moving integer is right wherever it is, and a loop with stamps writes what it writes without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.stamp import Moving, Placed, Stamps, absolute, moved, placed, relative
from ascend_sim.memory.gm import gm_operand
from tests.support.sampling import sampled

CHIP = load_chip("ascend910b3")
KIB = 1024
STEPS = st.lists(st.tuples(st.sampled_from(["+", "-", "r-", "*", "//", "neg"]), st.integers(-7, 7)), max_size=6)


def computed(value: Any, steps: list[tuple[str, int]]) -> Any:
    """`value` through arithmetic that is affine in it."""
    for operation, other in steps:
        if operation == "//":
            value = value * 12 // (other or 1) if 12 % (other or 1) == 0 else value
        else:
            value = {
                "+": lambda v, o: v + o,
                "-": lambda v, o: v - o,
                "r-": lambda v, o: o - v,
                "*": lambda v, o: v * o,
                "neg": lambda v, o: -v,
            }[operation](value, other)
    return value


def at(value: Any, where: tuple[int, int]) -> int:
    """Return the value of a moving integer at a place."""
    if not isinstance(value, Moving):
        return int(value)
    return value.start + sum(step * place for step, place in zip(value.steps, where, strict=True))


@given(STEPS, STEPS, st.tuples(st.integers(-99, 99), st.integers(0, 99)))
def test_a_moving_integer_is_the_integer(first: list[Any], second: list[Any], where: tuple[int, int]) -> None:
    one, other = (computed(Moving.along(axis, 2), steps) for axis, steps in enumerate((first, second)))
    real, real_other = computed(where[0], first), computed(where[1], second)
    assert at(one, where) == real
    assert at(one + other, where) == real + real_other
    assert at(one - other, where) == real - real_other
    assert at(other - one + 3, where) == real_other - real + 3


@given(st.integers(-50, 50), st.integers(1, 9), st.integers(-99, 99), st.integers(-99, 99))
def test_what_is_the_same_everywhere_can_be_asked(start: int, step: int, where: int, other: int) -> None:
    moving = Moving((step,), start)
    assert moving % step == (step * where + start) % step
    assert at(moving // step, (where, 0)[:1]) == (step * where + start) // step
    assert (moving < moving + other) == (other > 0)
    assert (moving == moving + other) == (other == 0)
    assert gm_operand(3, Moving((step,), 64)).start == gm_operand(3, 64)


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m < 4, lambda m: m == 4, lambda m: m >= 4, lambda m: m % 2, lambda m: m // 2, lambda m: bool(m),
        lambda m: m * m, lambda m: m | 1, lambda m: m | 64, lambda m: min(m, 7), lambda m: m == 2 * m, hash,
    ],
)  # fmt: skip
def test_what_is_not_the_same_everywhere_is_refused(ask: Callable[[Moving], object]) -> None:
    with pytest.raises(SimError, match="pass it in `what`"):
        ask(Moving.along(0, 1))


def test_one_step_that_does_not_divide_is_refused() -> None:
    with pytest.raises(SimError, match="pass it in `what`"):
        (2 * Moving.along(0, 2) + Moving.along(1, 2)) % 2


PLACES = st.tuples(st.integers(-99, 99), st.integers(-99, 99))


@given(PLACES, st.integers(-99, 99), PLACES, PLACES)
def test_a_phase_is_the_same_wherever_it_is_left(
    steps: tuple[int, int], start: int, where: tuple[int, int], by: tuple[int, int]
) -> None:
    """A number that moves, carried in a tuple: as it was at its place, and seen from another one."""
    further = (where[0] + by[0], where[1] + by[1])
    here, there = ((Placed.of(steps, start + steps[0] * down + steps[1] * right), 7) for down, right in (where, further))
    assert relative(here, where) == relative(there, further) == relative((Moving(steps, start), 7), where)
    again = absolute(relative(here, where), placed(where))
    assert again == here and again[0].steps == steps
    seen = moved(relative(here, where), by)
    assert absolute(seen, placed(by)) == (start, 7)


@pytest.mark.parametrize("ask", [range, int, lambda m: [1, 2][m]])
def test_a_moving_integer_is_no_integer(ask: Callable[[Moving], object]) -> None:
    with pytest.raises(TypeError):
        ask(Moving.along(0, 1))


# -- loops ---------------------------------------------------------------------------------------------------------------

Items = list[tuple[tuple[int, bool], int]]


def copies(
    items: Items,
    stamping: bool = True,
    size: int = 1 << 20,
    table: InstructionTable | None = None,
    disarm: tuple[str, ...] = (),
) -> Program:
    """Pieces of (copies, whether it begins a tile) at blocks of GM through a queue of three buffers."""
    k = KernelBuilder(table or InstructionTable(CHIP), 0, "AIV", [size], disarm=disarm)
    k.stamping = stamping
    queue = BufferQueue(k, "x", "MTE2", "MTE3", [k.allocate("UB", KIB, f"x[{i}]") for i in range(3)])
    k.scalar(7)
    for (count, begins), block in k.stamped(items):
        if begins:
            k.next_tile()
        for i in range(count):
            k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, block * KIB + i * 32), 32)
            queue.publish()
            k.data_copy("UB", "GM", gm_operand(0, block * KIB + 512), queue.take(), 32)
            queue.release()
    k.scalar(9)
    queue.close()
    return k.finish()


@given(st.lists(st.tuples(st.tuples(st.integers(0, 4), st.booleans()), st.integers(0, 99)), max_size=30))
def test_rows_are_those_of_the_same_loop_without_stamps(items: Items) -> None:
    plain, stamped = copies(items, stamping=False), copies(items)
    assert np.array_equal(plain.rows, stamped.rows)
    assert plain.tiles == stamped.tiles and plain.table.instructions == stamped.table.instructions


def test_two_loops_over_the_same_pieces_have_rows_of_their_own() -> None:
    def written(stamping: bool) -> Program:
        k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 20])
        k.stamping = stamping
        for _, block in k.stamped([(0, i) for i in range(4)]):
            k.data_copy("GM", "UB", 0, gm_operand(0, block * KIB), 32)
        for _, block in k.stamped([(0, i) for i in range(4)]):
            k.data_copy("GM", "UB", 0, gm_operand(0, block * KIB), 64)
        return k.finish()

    assert [str(row) for row in written(True)] == [str(row) for row in written(False)]


def test_a_body_runs_once_for_each_phase() -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 20])
    queue = BufferQueue(k, "x", "MTE2", "MTE3", [k.allocate("UB", KIB, f"x[{i}]") for i in range(2)])
    runs = 0
    for _, block in k.stamped([("piece", i) for i in range(50)]):
        runs += 1
        k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, block * KIB), 32)
        queue.publish()
        queue.take()
        queue.release()
    assert runs == 4  # two buffers that are fresh, and then free again


@pytest.mark.parametrize("wrong", [0, 1, 17])
def test_an_address_that_is_wrong_in_one_repetition_is_told_as_without_stamps(wrong: int) -> None:
    items: Items = [((2, True), 1023 if i == wrong else i % 9) for i in range(20)]
    told = []
    for stamping in (False, True):
        with pytest.raises(SimError) as error:
            copies(items, stamping, size=1 << 19)
        told.append(str(error.value))
    assert told[0] == told[1] and "dst covers bytes 1048064 to 1048096 of 524288" in told[0]


def test_programs_that_share_their_instructions_share_no_stamps_of_other_tensors_and_waits() -> None:
    table, items = InstructionTable(CHIP), [((2, True), block) for block in (1, 5, 9, 700)]
    copies(items, table=table)
    told = [copies(items, stamping=stamping, table=table, disarm=("x[1] full",)) for stamping in (True, False)]
    assert np.array_equal(told[0].rows, told[1].rows)
    assert any(getattr(row.instruction, "armed", True) is False for row in told[0])
    with pytest.raises(SimError, match=r"covers bytes 71.* of 524288"):
        copies(items, size=1 << 19, table=table)


class Other(NamedTuple):
    """Differences between two programs of a task that go through the same loop."""

    core_kind: str = "AIV"
    sub_block: int = 0
    sizes: tuple[int, ...] = (1 << 20,)
    buffer_before: bool = False
    flags: tuple[str, ...] = ("a", "b")
    disarm: tuple[str, ...] = ()
    repeated: bool = False
    copies: bool = True


def of_any_core(other: Other, table: InstructionTable, stamping: bool) -> Program:
    """A loop whose rows depend on all of it."""
    k = KernelBuilder(table, 0, other.core_kind, list(other.sizes), sub_block=other.sub_block, disarm=other.disarm)  # type: ignore[arg-type]
    k.stamping = stamping
    buffer = {"AIV": "UB", "AIC": "L1"}[other.core_kind]
    target = {"AIV": "MTE3", "AIC": "MTE1"}[other.core_kind]
    items = [((1, False), block) for block in (1, 2, 5, 9)]

    def write() -> Program:
        if other.buffer_before:
            k.allocate(buffer, 4096, "before")
        place = k.allocate(buffer, 4096, "x") if other.copies else 0
        flags = [k.flag("MTE2", target, name) for name in other.flags]
        for _, block in k.stamped(items, other.copies):
            k.scalar(1 + k.sub_block + 2 * (k.core_kind == "AIC"))
            if other.copies:
                k.data_copy("GM", buffer, place, gm_operand(len(other.sizes) - 1, block * KIB), 128 * len(other.sizes))
            for flag in flags:
                k.set_flag(flag)
                k.wait_flag(flag)
        return k.finish()

    return k.repeated(items, write, other.buffer_before, other.flags, other.copies) if other.repeated else write()


VALUES: dict[str, list[Any]] = {
    "core_kind": ["AIV", "AIC"],
    "sub_block": [0, 1],
    "sizes": [(1 << 20,), (1 << 20, 1 << 20), (9216,)],
    "buffer_before": [False, True],
    "flags": [("a", "b"), ("b", "a"), ("a",)],
    "disarm": [(), ("a",), ("b",)],
    "repeated": [False, True],
    "copies": [False, True],
}


@st.composite
def nearly_alike(draw: st.DrawFn) -> list[Other]:
    """Some that differ in one thing each from the first."""
    first = Other(*[draw(st.sampled_from(values)) for values in VALUES.values()])
    changed = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=5))
    return [first, *[first._replace(**{name: draw(st.sampled_from(VALUES[name]))}) for name in changed]]


@sampled(100, 300)
@given(nearly_alike())
@example(
    [Other("AIV", 0, sizes, False, ("a",), (), False, True) for sizes in ((1 << 20,), (9216,))]
)  # it ends in the first alone
def test_a_loop_of_programs_that_are_not_alike(others: list[Other]) -> None:
    """They share a table, and no stamps but of what is the same."""
    tables = InstructionTable(CHIP), InstructionTable(CHIP)
    kept = []
    for other in others:
        told = []
        for table, stamping in zip(tables, (False, True), strict=True):
            try:
                kept.append(of_any_core(other, table, stamping))
                told.append([str(row) for row in kept[-1]])
            except SimError as error:
                told.append([str(error)])
        assert told[0] == told[1]


def refused(body: Callable[[KernelBuilder, Any], object], words: str) -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 20])
    with pytest.raises(SimError, match=words):
        for _, block in k.stamped([(0, 1), (0, 2)]):
            body(k, block)


def test_what_a_body_may_not_do() -> None:
    refused(lambda k, block: k.allocate("UB", 32, "late"), "allocation of late in a stamped loop")
    refused(lambda k, block: k.flag("MTE2", "V", "late"), "flag 'late' in a stamped loop")
    refused(lambda k, block: k.carry(k, "late"), "carry of late in a stamped loop")


@pytest.mark.parametrize("by", [0.5, 32.0, np.float32(32)])
def test_an_address_that_moves_by_a_fraction_is_named(by: float) -> None:
    refused(
        lambda k, block: k.data_copy("GM", "UB", block * by, gm_operand(0, 0), 32), r"data_copy: dst is .*0\.0\)?; an address"
    )


def test_a_refused_row_leaves_nothing_behind() -> None:
    """A body that catches the error writes on, and its next row moves by its own addresses alone."""
    found = []
    for stamping in (False, True):
        k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 20])
        k.stamping = stamping
        for _, block in k.stamped([(0, 1), (0, 2), (0, 5)]):
            with pytest.raises(SimError, match=r"src0 is 0\.5; an address"):
                k.data_copy("GM", "UB", block * 32, 0.5, 32)  # type: ignore[arg-type]
            k.data_copy("GM", "UB", 0, gm_operand(0, block * 32), 32)
        found.append([str(row) for row in k.finish()])
    assert found[0] == found[1]


@pytest.mark.parametrize("later", [(1,), (1, 2, 3)])
def test_places_of_one_piece_have_as_many_numbers(later: tuple[int, ...]) -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 20])
    with pytest.raises(SimError) as told:
        for _, place in k.stamped([(0, (1, 2)), (0, later)]):
            k.data_copy("GM", "UB", place[0] * 32, gm_operand(0, 0), 32)
    assert str(told.value) == f"stamped loop: place {later} has {len(later)} numbers; an earlier one of its piece has 2"


def test_a_loop_that_is_left_early_is_refused() -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 20])
    for _ in k.stamped([(0, 1), (0, 2)]):
        k.scalar(1)
        break
    with pytest.raises(SimError, match="left before the end"):
        k.finish()


def test_a_place_is_not_used_behind_its_loop() -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 20])
    places = []
    for _, block in k.stamped([(0, 1), (0, 2)]):
        places.append(block)
        k.scalar(1)
    with pytest.raises(SimError, match="used after the loop"):
        k.data_copy("GM", "UB", 0, gm_operand(0, places[0] * KIB), 32)


def test_single_rows_are_kept_up_to_a_number() -> None:
    stamps = Stamps()
    rows = [np.full((1, 5), number, np.int64) for number in range(300)]
    first = stamps.single(rows[0], (32,))
    assert stamps.single(rows[0].copy(), (32,)) is first and stamps.single(rows[0], (64,)) is not first
    kept = [stamps.single(one, (32,)) for one in rows]
    assert len({*map(id, kept)}) == 300
    assert stamps.single(rows[0], (32,)) is not first, "256 others came since"
    many = np.zeros((513, 5), np.int64)
    assert stamps.single(many, ()) is not stamps.single(many, ())
