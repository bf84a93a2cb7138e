"""Programs of the same task, built row by row and with stamps, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.runtime import Task


@contextmanager
def row_by_row() -> Iterator[None]:
    """Programs built in this block have no stamps."""
    KernelBuilder.stamping = False
    try:
        yield
    finally:
        KernelBuilder.stamping = True


def built(task: Task) -> list[Program]:
    """All programs of a task."""
    return [program for block in range(task.block_dim) for program in task.build(block)]


def repeated(programs: Sequence[Program]) -> int:
    """Rows that were not written but came from a stamp that an earlier tile has written."""
    tables = {id(program.table): program.table for program in programs}.values()
    written = sum(len(stamp.rows) for t in tables for loop, _ in t.stamps.of_loops.values() for stamp in loop.values())
    return sum(map(len, programs)) - written


def difference(plain: Sequence[Program], stamped: Sequence[Program]) -> str:
    """The first thing that two builds of the same task do not have in common, else ""."""
    if len(plain) != len(stamped):
        return f"{len(plain)} and {len(stamped)} programs"
    for one, other in zip(plain, stamped, strict=True):
        if one.rows.shape != other.rows.shape:
            return f"{one.where}: {len(one)} and {len(other)} rows"
        wrong = np.argwhere(one.rows != other.rows)
        if len(wrong):
            row = int(wrong[0, 0])
            return f"{one.where}: {one[row]} and {other[row]} (tiles {one[row].tile} and {other[row].tile})"
        for what in ("block", "core_kind", "sub_block", "tiles", "flags"):
            if getattr(one, what) != getattr(other, what):
                return f"{one.where}: {what} is {getattr(one, what)} and {getattr(other, what)}"
        noted = [
            [(list(map(n.line, range(len(n.rows)))), n.allocated, n.queues) for n in (each.notes,) if n]
            for each in (one, other)
        ]
        if noted[0] != noted[1]:
            return f"{one.where}: other lines, or other pieces of buffers"
        if one.table.instructions != other.table.instructions:
            return f"{one.where}: other instructions, or in another order"
    return ""


def difference_of(make: Callable[[], Task]) -> tuple[str, int]:
    """Return the difference between the builds of a fresh task with and without stamps, and the number of rows that stamps
    repeated.
    """
    with row_by_row():
        plain = built(make())
    stamped = built(make())
    return difference(plain, stamped), repeated(stamped)
