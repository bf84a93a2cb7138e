"""Looking at a sheet in C finds what numpy finds: whether every operand is right, and how far the sheet may move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel import look
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.look import FreeSpan, NotInC
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.kernel.stamp import Stamp
from ascend_sim.memory.gm import SLOT_SHIFT, gm_operand

pytestmark = [
    pytest.mark.fast,
    pytest.mark.skipif(look._library() is None, reason="no C compiler"),
]

CHIP = load_chip("ascend910b3")
SIZES = (1 << 16, 1 << 15)
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
            st.integers(0, 3),
            st.integers(1, 2),
            st.integers(0, AXES - 1),
            mostly(st.sampled_from([32, 64, -32]), st.just(16)),
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


def by_c(sheet: Sheet, table: InstructionTable, sizes: Sequence[int] = SIZES) -> list[FreeSpan] | None:
    """What C finds, its steps cut to the axes that there are."""
    counts = len(sheet.which), len(table.stamps.known), len(sheet.own)
    found = look.look(sheet.addresses(), counts, table.stamps.looked(), table.limits(), sizes)
    if found is None:
        return None
    assert not any(any(span.steps[AXES:]) for span in found)
    return sorted(span._replace(steps=span.steps[:AXES]) for span in found)


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
@example(
    [([(0, 0, 0, 0), (0, 64, 0, 0), (0, 32, 0, 0)], [(0, 1, 0, 32), (1, 1, 0, 32), (2, 1, 0, 32)])], [(0, (0, 0))], []
)
@example(
    [([(0, 0, 0, 0)], [(0, 1, 0, 32)])], [(0, (5, 0)), (0, (2, 0)), (0, (9, 0)), (0, (4, 0))], []
)  # down by 2, up from 9
@example([([(0, 0, 0, 0)], [(0, 1, 0, 32)])], [(0, (0, 0)), (0, (-1, 0))], [])
@example([([(0, 0, 0, 0)], [(0, 1, 0, 32)])], [(0, (0, 0)), (0, (UB // 32, 0))], [])
@example([([(0, -(1 << 63), 0, 0), (0, (1 << 63) - 8, 0, 0)], [])], [(0, (0, 0))], [])
@example([([(0, (1 << 63) - 32, 0, 0)], [(0, 1, 0, 1 << 62)])], [(0, (3, 0)), (0, (2, 0))], [])
@example([([(0, 16, 0, 0)], [(0, 1, 0, 16)])], [(0, (1, 0)), (0, (2, 0))], [])  # right at one of two places
@example([([(0, 32 * start, 0, 0)], [(0, 1, 0, 32)]) for start in (0, 9, 3)], [(n, (0, 0)) for n in range(3)], [])
def test_c_finds_what_numpy_finds(given_stamps: list, puts: list, own: list) -> None:
    table = table_of_copies()
    sheet = sheet_of(table, given_stamps, puts, own)
    first, second = by_c(sheet, table), by_c(sheet, table)  # the second time the resting rows were looked at
    expected = sheet.room_by_numpy(table.limits(), SIZES)
    assert first == second == (None if expected is None else sorted(expected))
    assert sheet.is_right(table.limits(), SIZES) is (expected is not None)


def test_numpy_takes_over_where_c_has_no_room() -> None:
    """Stamps of more axes, and numbers that move in more ways."""
    table = table_of_copies()
    axes = 9
    far = Stamp(np.array([[0, 0, 0, 0, 0]]), np.array([[1, axes - 1, 32]]), 0, axes)
    sheet = Sheet(table.stamps)
    sheet.put(table.stamps.add(far), (0,) * (axes - 1) + (3,), 0)
    with pytest.raises(NotInC):
        by_c(sheet, table)
    assert sheet.is_right(table.limits(), SIZES) and sheet.may_move((0,) * 9)
    assert not sheet.may_move((0,) * 8 + (UB // 32,))

    count = look._SPANS + 1
    rows = np.array([[0, 0, 0, 0, 0]] * count)
    ways = Stamp(rows, np.array([[row * 5 + 1, 0, 32 * (row + 1)] for row in range(count)]), 0, 1)
    sheet = Sheet(table.stamps)
    sheet.put(table.stamps.add(ways), (1,), 0)
    with pytest.raises(NotInC):
        by_c(sheet, table)
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


def test_without_a_compiler_numpy_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "_library", lambda: None)
    table = table_of_copies()
    assert sheet_of(table, [([(0, 0, 0, 0)], [])], [(0, (0, 0))], []).is_right(table.limits(), SIZES)
    k = KernelBuilder(table, 0, "AIV", SIZES)
    k.data_copy("GM", "UB", UB, gm_operand(0, 0), 32)
    with pytest.raises(SimError, match="dst covers bytes"):
        k.finish()
