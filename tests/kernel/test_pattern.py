"""Programs of one pattern: built from the first of them they are the same as built row by row, and checked as well."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.engine.sharing import MovedProgram, SharedRows
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand

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
        assert plain.pattern is None and program.pattern is not None
    assert len({id(program.pattern) for program in programs}) == len({len(pieces) for pieces, _ in given_blocks})


@given(blocks)
def test_rows_are_shared_where_a_tensor_moves_as_a_whole(given_blocks: list[Block]) -> None:
    table, shared = InstructionTable(CHIP), SharedRows(len(SIZES))
    held = []
    for block in given_blocks:
        program = built(block, table)
        found = shared.share(program)
        assert [str(row) for row in found] == [str(row) for row in program]
        held.append((block, found))
    (first_pieces, first_alone), first = held[0]
    for (pieces, alone), found in held[1:]:
        steps = [
            np.subtract(mine, its) for mine, its in zip([*pieces, alone], [*first_pieces, first_alone], strict=False)
        ]
        alike = len(pieces) == len(first_pieces) and len({tuple(step) for step in steps}) == 1
        if alike:
            assert isinstance(found, MovedProgram) and found.rows is first.rows
            assert found.moved is not None and found.moved.tolist() == (steps[0] * KIB).tolist()
        elif len(pieces) == len(first_pieces):
            assert not isinstance(found, MovedProgram)


@pytest.mark.parametrize("wrong", [((0, 0), (64, 3)), ((1, 32), (5, 3))])
def test_a_wrong_address_is_told_of_a_later_program_as_of_the_first(wrong: tuple[Where, Where]) -> None:
    table, told = InstructionTable(CHIP), []
    first = built(([(0, 0)], (1, 1)), table)
    assert first.pattern in table.stamps.patterns.values()  # as long as it is held
    for one in (table, InstructionTable(CHIP)):
        with pytest.raises(SimError) as error:
            built(([wrong[0]], wrong[1]), one)
        told.append(str(error.value))
    assert told[0] == told[1] and "covers bytes" in told[0]


def test_other_rows_are_another_pattern() -> None:
    table = InstructionTable(CHIP)
    same, other, whole = (built(([(0, 0)], (1, 1)), table, tail=tail) for tail in (7, 8, 7))
    assert same.pattern is whole.pattern and same.pattern is not other.pattern
    assert same.with_rows(same.rows[::-1]).pattern is None


def test_a_flag_that_stays_raised_is_told_of_every_program() -> None:
    table = InstructionTable(CHIP)

    def write(waits: bool) -> Program:
        k = KernelBuilder(table, 0, "AIV", SIZES)
        flag = k.flag("MTE2", "V", "there")
        k.set_flag(flag)
        if waits:
            k.wait_flag(flag)
        return k.finish()

    first = write(True)
    assert first.pattern in table.stamps.patterns.values()
    with pytest.raises(SimError, match="still raised 1 times"):
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
            k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, source * KIB), 64, rows)
            queue.publish()
            k.data_copy("UB", "GM", gm_operand(1, target * KIB), queue.take(), 64, rows)
            queue.release()
        queue.close()
        return k.finish()

    return k.repeated(given_pieces, write)


def shape(given_pieces: Pieces) -> tuple[object, ...]:
    """What pieces have in common with the same pieces elsewhere."""
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
