"""Rows that are stamps at their places are those that are written one by one, and are checked as well."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel import sheet
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.kernel.stamp import Stamp
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT, gm_operand

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")
KIB = 1024
SIZES = (1 << 16, 1 << 15)

Where = tuple[int, int]
Block = tuple[list[Where], Where]
"""Places of stamped pieces and of copies written one by one: KiB of the first tensor, and of the second."""
places = st.tuples(st.integers(0, 63), st.integers(0, 31))
blocks = st.lists(st.tuples(st.lists(places, max_size=4), places), min_size=1, max_size=6)


def built(block: Block, table: InstructionTable, stamping: bool = True, tail: int = 7) -> Program:
    """A queue that is used in a stamped loop and outside of it."""
    pieces, alone = block
    k = KernelBuilder(table, 0, "AIV", SIZES)
    k.stamping = stamping
    queue = BufferQueue(k, "x", "MTE2", "MTE3", [k.allocate("UB", KIB, f"x[{i}]") for i in range(2)])

    def copy(source: int, target: int) -> None:
        k.next_tile()
        k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, source * KIB), 64)
        queue.publish()
        k.data_copy("UB", "GM", gm_operand(1, target * KIB), queue.take(), 64)
        queue.release()

    for _, (source, target) in k.stamped(("piece", where) for where in pieces):
        copy(source, target)
    k.scalar(tail)
    copy(*alone)
    queue.close()
    return k.finish()


@given(blocks)
def test_rows_are_those_of_a_program_that_is_built_alone(given_blocks: list[Block]) -> None:
    table, of_plain = InstructionTable(CHIP), InstructionTable(CHIP)
    programs = [built(block, table) for block in given_blocks]
    for block, program in zip(given_blocks, programs, strict=True):
        plain = built(block, of_plain, stamping=False)
        assert np.array_equal(plain.rows, program.rows) and plain.tiles == program.tiles
        assert np.array_equal(program.counts(), np.bincount(program.rows[:, 0], minlength=len(table.instructions)))
        assert len(program) == len(program.rows)


@settings(max_examples=25)
@given(blocks, st.sampled_from([1, 2, 3, 4096]))
def test_rows_are_the_same_however_many_stamps_are_looked_at_together(given_blocks: list[Block], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sheet, "_AT_ONCE", at_once)
        table, of_plain = InstructionTable(CHIP), InstructionTable(CHIP)
        for block in given_blocks:
            assert np.array_equal(built(block, of_plain, stamping=False).rows, built(block, table).rows)


@pytest.mark.parametrize("wrong", [((0, 0), (64, 3)), ((1, 32), (5, 3)), ((64, 1), (5, 3))])
@pytest.mark.parametrize("at_once", [1, 4096])
def test_a_wrong_address_is_told_of_a_later_program_as_of_the_first(
    wrong: tuple[Where, Where], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheet, "_AT_ONCE", at_once)
    table, told = InstructionTable(CHIP), []
    built(([(0, 0)], (1, 1)), table)
    for one, stamping in ((table, True), (InstructionTable(CHIP), True), (InstructionTable(CHIP), False)):
        with pytest.raises(SimError) as error:
            built(([(3, 4), wrong[0]], wrong[1]), one, stamping)
        told.append(str(error.value))
    assert len(set(told)) == 1 and "covers bytes" in told[0]


@pytest.mark.parametrize("ahead", [(0, 4096), (4096, 0)])
@pytest.mark.parametrize("last", [63, 64])
def test_of_rows_that_move_alike_each_stays_in_its_tensor(ahead: Where, last: int) -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", (64 * KIB + 4096, 64))
    place = k.allocate("UB", 64, "x")
    for _, where in k.stamped([(0, 0), (0, last), (0, 0)]):
        for offset in ahead:
            k.data_copy("GM", "UB", place, gm_operand(0, where * KIB + offset), KIB)
    if last == 63:
        k.finish()
    else:
        with pytest.raises(SimError, match="covers bytes 69632 to 70656 of 69632"):
            k.finish()


@given(st.lists(st.tuples(st.integers(-2, 100), st.integers(-2, 64)), min_size=1, max_size=4), st.sampled_from([1, 8, 32]))
@example([(-1, 0)], 32)
@example([(0, 0), (0, -1)], 32)
@example([(3, 5), (4, 4)], 8)
@example([(100, 40)], 32)
def test_addresses_are_judged_by_their_places_as_row_by_row(given_places: list[Where], step: int) -> None:
    """A number that moves in two directions, and one in a single one; some leave their space or are not aligned."""

    def written(table: InstructionTable, stamping: bool, moves: list[Where]) -> str:
        k = KernelBuilder(table, 0, "AIV", (8192, 4096))
        k.stamping = stamping
        for _, (one, other) in k.stamped([(0, where) for where in moves]):
            k.data_copy("GM", "UB", other * step, gm_operand(0, one * 64 + other * 32), 64)
        try:
            return str(k.finish().rows.tolist())
        except SimError as error:
            return str(error)

    table = InstructionTable(CHIP)
    written(table, True, [(1, 32)])  # the stamp is looked at where nothing is wrong
    assert written(table, True, given_places) == written(InstructionTable(CHIP), False, given_places)


def test_instructions_of_a_stamp_count_as_often_as_it_stands_there() -> None:
    program = built(([(i, i) for i in range(20)], (1, 1)), InstructionTable(CHIP))
    assert np.array_equal(program.counts(), np.bincount(program.rows[:, 0], minlength=len(program.table.instructions)))
    assert len(program.sheet.which) > len(set(program.sheet.which))


def test_a_copy_for_another_process_has_the_rows() -> None:
    program = built(([(0, 0), (3, 1)], (1, 1)), InstructionTable(CHIP))
    other = pickle.loads(pickle.dumps(program))
    assert np.array_equal(other.rows, program.rows) and len(other) == len(program)
    assert np.array_equal(other.counts(), program.counts()) and not other.table.stamps.known


def test_a_flag_that_stays_raised_is_told_of_every_program() -> None:
    table = InstructionTable(CHIP)

    def write(waits: bool) -> Program:
        k = KernelBuilder(table, 0, "AIV", SIZES)
        flag = k.flag("MTE2", "V", "there")
        k.set_flag(flag)
        if waits:
            k.wait_flag(flag)
        return k.finish()

    write(True)
    with pytest.raises(SimError, match="still raised at the end of the block; sets without a wait: 1"):
        write(False)


# -- programs that are one loop (`KernelBuilder.repeated`) ---------------------------------------------------------------

Pieces = list[tuple[int, Where]]
"""Rows of a piece, 64 bytes each, and its place."""
pieces = st.lists(st.tuples(st.integers(1, 2), places), max_size=4)


def looped(
    given_pieces: Pieces, table: InstructionTable, written: list[Pieces], alone: int = -1, stamping: bool = True
) -> Program:
    """A loop of copies, noted in `written` where it is written, behind a copy from KiB `alone` if that is not negative."""
    k = KernelBuilder(table, 0, "AIV", SIZES)
    k.stamping = stamping

    def write() -> Program:
        written.append(given_pieces)
        queue = BufferQueue(k, "x", "MTE2", "MTE3", [k.allocate("UB", KIB, f"x[{i}]") for i in range(2)])
        if alone >= 0:
            k.data_copy("GM", "UB", k.allocate("UB", 64, "y"), gm_operand(0, alone * KIB), 64)
        for rows, (source, target) in k.stamped(given_pieces):
            k.next_tile()
            k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, source * KIB), 64, rows, 64, 64)
            queue.publish()
            k.data_copy("UB", "GM", gm_operand(1, target * KIB), queue.take(), 64, rows, 64, 64)
            queue.release()
        queue.close()
        return k.finish()

    return k.repeated(given_pieces, write)


def test_places_have_as_many_numbers_each() -> None:
    with pytest.raises(ValueError, match="as many numbers each"):
        looped([(1, (0, 0)), (1, (0,)), (1, (1, 1, 1))], InstructionTable(CHIP), [])  # type: ignore[list-item]


def shape(given_pieces: Pieces) -> tuple[object, ...]:
    """Return the shape of pieces: equal for the same pieces elsewhere."""
    begin = given_pieces[0][1]
    return tuple((rows, where[0] - begin[0], where[1] - begin[1]) for rows, where in given_pieces)


@given(st.lists(pieces, min_size=1, max_size=6), st.integers(-1, 3))
@example([[(1, (0, 0))], [(2, (3, 1))], [(1, (5, 5))]], -1)
@example([[(1, (0, 0)), (1, (1, 1))], [(1, (4, 0)), (1, (7, 1))], [(1, (5, 5)), (1, (6, 6))]], 0)
def test_a_program_that_is_moved_is_the_one_that_would_be_written(blocks_of: list[Pieces], alone: int) -> None:
    """With an address in GM outside the loop, which need not move with it, nothing is moved."""
    table, of_plain, written = InstructionTable(CHIP), InstructionTable(CHIP), []  # type: ignore[var-annotated]
    kept = [looped(block, table, written, alone + index * (alone >= 0)) for index, block in enumerate(blocks_of)]
    for index, (block, program) in enumerate(zip(blocks_of, kept, strict=True)):
        plain = looped(block, of_plain, [], alone + index * (alone >= 0), stamping=False)
        assert np.array_equal(plain.rows, program.rows)
        assert (plain.tiles, plain.flags) == (program.tiles, program.flags)
    some = [block for block in blocks_of if block]
    expected = len({shape(block) for block in some}) + len(blocks_of) - len(some) if alone < 0 else len(blocks_of)
    assert len(written) == expected


def test_a_moved_program_that_leaves_its_tensor_is_refused_as_a_written_one() -> None:
    table, written = InstructionTable(CHIP), []  # type: ignore[var-annotated]
    first = looped([(1, (0, 0)), (1, (1, 1))], table, written)
    with pytest.raises(SimError) as of_moved:
        looped([(1, (63, 0)), (1, (64, 1))], table, written)
    assert len(written) == 1 and len(first.rows)
    with pytest.raises(SimError) as of_written:
        looped([(1, (63, 0)), (1, (64, 1))], InstructionTable(CHIP), [], stamping=False)
    assert str(of_moved.value) == str(of_written.value)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=5),
    st.tuples(st.integers(-50, 50), st.integers(-50, 50)),
)
@example([(1, 0, 0), (2, 4, 8)], (2, -1))
@example([(1, 2, 4)], (-2, 40))
def test_how_far_a_sheet_moves_is_how_far_it_is_right(given_pieces: list[tuple[int, int, int]], by: Where) -> None:
    """Addresses in UB move by 16 bytes, where 32 are asked for, and end with UB; those in GM end with their tensor."""
    table = InstructionTable(CHIP)
    k = KernelBuilder(table, 0, "AIV", SIZES)
    end = CHIP.buffers["UB"] - 60 * 16 - 192
    for rows, (ub, gm) in k.stamped([(rows, (2 * ub, gm)) for rows, ub, gm in given_pieces]):
        for copy in range(rows):
            k.data_copy("GM", "UB", end % 32 + ub * 16 + copy * 64, gm_operand(0, (gm + ub) * 768 + copy), 64)
            k.data_copy("GM", "UB", end // 32 * 32 - ub * 16, gm_operand(1, gm * 768), 64)
    try:
        first = k.finish().sheet
    except SimError:
        return
    moved = first.moved(np.array([place + step for place, step in zip(first.where, by * len(given_pieces), strict=True)]))
    assert first.may_move(by) == moved.is_right(table.limits(), SIZES)


# -- sheets of any rows, against a loop over them --------------------------------------------------------------------------

UB = CHIP.buffers["UB"]
AXES = 2


def table_of_copies() -> InstructionTable:
    """Copies into UB and out of it by turns, of several sizes, and behind them what has no operand."""
    table = InstructionTable(CHIP)
    k = KernelBuilder(table, 0, "AIV", SIZES)
    for size in (32, 64, 4096):
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), size)
        k.data_copy("UB", "GM", gm_operand(0, 0), 0, size)
    k.scalar(3)
    return table


def mostly(usual: st.SearchStrategy[int], rarely: st.SearchStrategy[int]) -> st.SearchStrategy[int]:
    """One in twenty is of the rare ones, which are mostly wrong: a sheet of many operands shall be right now and then."""
    return st.integers(0, 19).flatmap(lambda n: usual if n else rarely)


in_ub = mostly(st.integers(20, 64).map(lambda n: 32 * n), st.one_of(st.integers(UB - 4200, UB - 4000), st.just(16)))
in_gm = st.builds(
    lambda slot, offset: (slot << SLOT_SHIFT) + offset,
    mostly(st.integers(0, 1), st.just(2)),
    mostly(st.integers(640, 2000), st.one_of(st.integers(SIZES[1] - 4100, SIZES[1]), st.integers(-2, 0))),
)


@st.composite
def rows_of_copies(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """A row of one of the copies, whose operands are mostly right, or of the scalar unit, which has none."""
    instruction = draw(st.integers(0, 6))
    ub, gm = draw(in_ub), draw(in_gm)
    return (instruction, gm, ub, -9) if instruction % 2 else (instruction, ub, gm, -9)


stamps = st.tuples(
    st.lists(rows_of_copies(), min_size=1, max_size=4),
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(1, 2), st.integers(0, AXES - 1), mostly(st.sampled_from([32, 64, -32]), st.just(16))
        ),
        max_size=5,
        unique_by=lambda move: move[:3],
    ),
)
"""Rows of instruction and operands, and moves: row, column, axis, step."""
steps = mostly(st.integers(0, 10), st.integers(-30, 40))
where = st.tuples(steps, steps)


def sheet_of(
    table: InstructionTable, given_stamps: Sequence, puts: Sequence[tuple[int, tuple[int, int]]], own: Sequence
) -> Sheet:
    """Stamps at their places, and behind them rows of its own."""
    known = []
    for rows, moves in given_stamps:
        cells = sorted((row * 5 + column, axis, step) for row, column, axis, step in moves if row < len(rows))
        found = np.array([(*row, 0) for row in rows], np.int64)
        known.append(table.stamps.add(Stamp(found, np.array(cells, np.int64).reshape(-1, 3), 0, AXES)))
    sheet = Sheet(table.stamps)
    for which, place in puts:
        sheet.put(known[which % len(known)], place, 0)
    for row in own:
        sheet.written.extend((*row, 0))
    sheet.close()
    return sheet


def is_right(rows: Sequence[Sequence[int]], limits: list[list[list[int]]]) -> bool:
    """Return True if every operand of these rows lies where it may, one by one."""
    for kind, *operands, _ in rows:
        for operand, address in enumerate(operands):
            extent, limit, unit = limits[kind][operand]
            if not extent:
                continue
            if limit < 0:
                slot, address = address >> SLOT_SHIFT, address & OFFSET_MASK
                limit = SIZES[slot] if 0 <= slot < len(SIZES) else -1
            if not 0 <= address <= limit - extent or address % unit:
                return False
    return True


def rows_at(
    given_stamps: Sequence, puts: Sequence[tuple[int, tuple[int, int]]], own: Sequence, by: tuple[int, int]
) -> list[list[int]]:
    """All rows, each stamp `by` further on, in whole numbers of any size."""
    rows = []
    for which, place in puts:
        of_stamp, moves = given_stamps[which % len(given_stamps)]
        here = [[*row, 0] for row in of_stamp]
        for row, column, axis, step in moves:
            if row < len(here):
                here[row][column] += step * (place[axis] + by[axis])
        rows += here
    return rows + [[*row, 0] for row in own]


@given(
    st.lists(stamps, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), where), max_size=6),
    st.lists(rows_of_copies(), max_size=1),
)
@example([([(0, 0, 0, 0)], [(0, 1, 0, 32), (0, 2, 1, 64)])], [(0, (0, 0)), (0, (3, 5))], [])
@example([([(0, 0, 0, 0)], [(0, 1, 0, 16)])], [(0, (1, 0))], [])  # not aligned there
@example([([(0, 0, 0, 0)], [(0, 2, 0, -64)])], [(0, (1, 0))], [])  # before its tensor
@example([([(6, -9, -9, -9)], [(0, 1, 0, 7)])], [(0, (1, 0))], [])  # no operand
@example([([(0, 0, 2 << SLOT_SHIFT, 0)], [])], [(0, (0, 0))], [])  # no such tensor
@example([([(0, 0, 0, 0)], [])], [], [(0, 31, 0, 0)])
@example([([(0, 0, 0, 0), (0, 64, 0, 0), (0, 32, 0, 0)], [(0, 1, 0, 32), (1, 1, 0, 32), (2, 1, 0, 32)])], [(0, (0, 0))], [])
@example([([(0, 0, 0, 0)], [(0, 1, 0, 32)])], [(0, (5, 0)), (0, (2, 0)), (0, (9, 0)), (0, (4, 0))], [])  # down by 2, up from 9
@example([([(0, 0, 0, 0)], [(0, 1, 0, 32)])], [(0, (0, 0)), (0, (-1, 0))], [])
@example([([(0, 0, 0, 0)], [(0, 1, 0, 32)])], [(0, (0, 0)), (0, (UB // 32, 0))], [])
@example([([(0, -(1 << 63), 0, 0), (0, (1 << 63) - 8, 0, 0)], [])], [(0, (0, 0))], [])
@example([([(0, (1 << 63) - 32, 0, 0)], [(0, 1, 0, 1 << 62)])], [(0, (3, 0)), (0, (2, 0))], [])
@example([([(0, 16, 0, 0)], [(0, 1, 0, 16)])], [(0, (1, 0)), (0, (2, 0))], [])  # right at one of two places
@example([([(0, -32, 0, 0)], [(0, 1, 0, 32)])], [(0, (1, 0))], [])  # right there, and not without its place
@example([([(0, 32 * start, 0, 0)], [(0, 1, 0, 32)]) for start in (0, 9, 3)], [(n, (0, 0)) for n in range(3)], [])
def test_a_sheet_is_right_where_every_row_is(given_stamps: list, puts: list, own: list) -> None:
    table = table_of_copies()
    sheet = sheet_of(table, given_stamps, puts, own)
    limits = table.limits().tolist()
    for _ in range(2):  # the second time the stamps were looked at
        found = sheet.is_right(table.limits(), SIZES)
        assert found is is_right(rows_at(given_stamps, puts, own, (0, 0)), limits)
    for by in ((0, 1), (1, 0), (-3, 2), (40, -1), (0, 5000)) if found else ():
        assert sheet.may_move(by) is is_right(rows_at(given_stamps, puts, own, by), limits)


def test_a_sheet_of_many_axes_and_ways_may_move() -> None:
    """Stamps of nine axes, and 65 numbers of one that move in other steps each."""
    table = table_of_copies()
    axes = 9
    far = Stamp(np.array([[0, 0, 0, 0, 0]]), np.array([[1, axes - 1, 32]]), 0, axes)
    sheet = Sheet(table.stamps)
    sheet.put(table.stamps.add(far), (0,) * (axes - 1) + (3,), 0)
    assert sheet.is_right(table.limits(), SIZES) and sheet.may_move((0,) * 9)
    assert not sheet.may_move((0,) * 8 + (UB // 32,))
    rows = np.array([[0, 0, 0, 0, 0]] * 65)
    ways = Stamp(rows, np.array([[row * 5 + 1, 0, 32 * (row + 1)] for row in range(65)]), 0, 1)
    sheet = Sheet(table.stamps)
    sheet.put(table.stamps.add(ways), (1,), 0)
    assert sheet.is_right(table.limits(), SIZES) and sheet.may_move((1,)) and not sheet.may_move((-2,))


def test_no_program_is_taken_for_right_because_another_one_was() -> None:
    """A stamp's resting rows are looked at once for a task, what moves of it at each of its places."""
    table = table_of_copies()
    rows, moves = [(0, 0, 0, 0)], [(0, 1, 0, 32)]
    right = sheet_of(table, [(rows, moves)], [(0, (0, 0))], [])
    assert right.is_right(table.limits(), SIZES)
    wrong = Sheet(table.stamps)
    wrong.put(table.stamps.known[0], (UB // 32, 0), 0)
    assert not wrong.is_right(table.limits(), SIZES)
    resting = sheet_of(table, [([(0, UB, 0, 0)], [])], [(0, (0, 0))], [])
    assert not resting.is_right(table.limits(), SIZES) and not resting.is_right(table.limits(), SIZES)
