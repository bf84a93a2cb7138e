"""Order the slow way: a graph of starts and retirements, and for each two accesses a search and a comparison of bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_WAIT, PIPES, SET, WAIT
from ascend_sim.isa.scalar import ScalarLoad
from ascend_sim.isa.sync import ScalarWait
from ascend_sim.kernel.program import Program
from ascend_sim.memory.regions import Region, row_starts

WAITS = (WAIT, CROSS_WAIT)
Node = tuple[str, int]
"""("start" or "retire", row)"""


def edges(program: Program, left_out: Collection[int] = ()) -> Iterator[tuple[Node, Node]]:
    """Yield the edges of the order between neighbours; rows `left_out` wait for nothing and hold nobody."""
    kinds, pipes = program.per_row("kind").tolist(), program.per_row("pipe").tolist()
    sets: dict[tuple[str, str, int], list[int]] = {}
    taken: dict[tuple[str, str, int], int] = {}
    for row, (kind, pipe) in enumerate(zip(kinds, pipes, strict=True)):
        one = program[row].instruction
        yield ("start", row), ("retire", row)
        later = [other for other in range(row + 1, len(kinds)) if pipes[other] == pipe]
        if later:
            yield ("start", row), ("start", later[0])
            if kind in (WAIT, CROSS_WAIT, BARRIER, BARRIER_ALL) and row not in left_out:  # held until they are over
                yield ("retire", row), ("start", later[0])
        if kind not in WAITS:  # what stands before a wait may still be in flight when it is over
            yield from ((("retire", row), ("retire", other)) for other in later if kinds[other] not in WAITS)
        key = (getattr(one, "source", ""), getattr(one, "destination", ""), getattr(one, "flag", 0))
        if kind == SET:
            sets.setdefault(key, []).append(row)
        if kind == WAIT:
            turn = taken.get(key, 0)
            taken[key] = turn + 1
            if row not in left_out:
                yield ("retire", sets[key][turn]), ("retire", row)
        if kind in WAITS and not pipe and row not in left_out:  # the scalar unit issues what comes later when it is over
            yield from ((("retire", row), ("start", other)) for other in range(row + 1, len(kinds)) if pipes[other])
        if kind == BARRIER_ALL and row not in left_out:
            held = (PIPES.index(one.on),) if isinstance(one, ScalarWait) else range(1, len(PIPES))
            for other, its in enumerate(pipes):
                if other < row and its in held:
                    yield ("retire", other), ("retire", row)
                if other > row and its:
                    yield ("retire", row), ("start", other)


def touched(program: Program, row: int) -> Iterator[tuple[str, bool, bool, set[int]]]:
    """(space, writes, atomic, bytes) of an instruction; bytes of GM behind each other by tensor."""
    view = program[row]
    for writes, regions in ((False, view.instruction.reads()), (True, view.instruction.writes())):
        for region in regions:
            yield region.space, writes, view.instruction.atomic, set(_bytes(region, getattr(view, region.operand)))


def _bytes(region: Region, address: int) -> Iterator[int]:
    for start in row_starts(region).tolist():
        yield from range(address + start, address + start + region.row_bytes)


def _after(program: Program, left_out: Collection[int] = ()) -> dict[Node, list[Node]]:
    after: dict[Node, list[Node]] = {}
    for one, other in edges(program, left_out):
        after.setdefault(one, []).append(other)
    return after


def retired_before(program: Program, left_out: Collection[int] = ()) -> dict[int, set[int]]:
    """For every row those that have retired when it starts."""
    after = _after(program, left_out)
    found: dict[int, set[int]] = {row: set() for row in range(len(program))}
    for row in found:
        for kind, other in _reached(("retire", row), after):
            if kind == "start":
                found[other].add(row)
    return found


def unordered(program: Program) -> set[tuple[int, int, str]]:
    """(earlier row, later row, space) of accesses to the same bytes that are in no order, or in flight together."""
    after = _after(program)
    found = set()
    accesses = [(row, *access) for row in range(len(program)) for access in touched(program, row)]
    reach = {row: _reached(("retire", row), after) for row in {access[0] for access in accesses}}
    pipes = program.per_row("pipe")
    for i, (a, space, writes, atomic, bytes_) in enumerate(accesses):
        for b, other_space, other_writes, other_atomic, other_bytes in accesses[i + 1 :]:
            if a == b or space != other_space or not (writes or other_writes) or (atomic and other_atomic):
                continue
            if isinstance(program[a].instruction, ScalarLoad):  # nothing behind it is issued before it is over
                continue
            if not bytes_ & other_bytes or ("start", b) in reach[a] or ("start", a) in reach[b]:
                continue
            if pipes[a] == pipes[b] == PIPES.index("S"):
                continue
            if pipes[a] == pipes[b] and (not writes or (space == "L0C" and PIPES[pipes[a]] == "M")):
                continue
            found.add((a, b, space))
    return found


def _reached(start: Node, after: dict[Node, list[Node]]) -> set[Node]:
    found, ends = {start}, [start]
    while ends:
        new = [node for node in after.get(ends.pop(), ()) if node not in found]
        found.update(new)
        ends += new
    return found


def pairs_of(told: dict[str, tuple[np.ndarray, np.ndarray]], rows: dict[str, np.ndarray]) -> set[tuple[int, int, str]]:
    """Return the pairs that a check calls unordered, in the same form."""
    return {
        (min(a, b), max(a, b), space)
        for space, (first, second) in told.items()
        for a, b in zip(rows[space][first].tolist(), rows[space][second].tolist(), strict=True)
    }


__all__: Sequence[str] = ("pairs_of", "retired_before", "unordered")
