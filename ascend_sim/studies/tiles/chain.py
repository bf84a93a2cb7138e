"""The end of a program that has the machine to itself: times as a max-plus recurrence, without events.

Every time of the engine is a max or a sum of earlier ones, transfers that share the L2 and HBM only take longer, and nothing
here is counted that the engine does not count. So this is a lower bound for the block that runs the program, and a sharper
one than its work on each pipe: it knows what waits for what.
"""

from __future__ import annotations

from ascend_sim.isa.base import BARRIER, BARRIER_ALL, DISARMED, LOCAL, PIPES, SCALAR, SET, TRANSFER, WAIT
from ascend_sim.isa.sync import Scalar, SetFlag, WaitFlag
from ascend_sim.kernel.program import InstructionTable, Program

_Row = tuple[int, int, int, int, tuple[str, str, int]]


def least_cycles(program: Program) -> int:
    """Cycles from the first issue of `program` to its end that no order of the other cores can shorten.

    Left out, and so free: places in queues, instructions in flight, longer heads of idle pipes, cross-core flags.
    """
    chip = program.table.chip
    issue, flag_latency, barrier_latency = program.issue_cycles, chip.sync.flag_latency, chip.sync.barrier_latency
    known: dict[int, _Row] = {}
    free, retired = [0] * len(PIPES), [0] * len(PIPES)
    raised: dict[tuple[str, str, int], list[int]] = {}
    taken: dict[tuple[str, str, int], int] = {}
    scalar = 0
    for index in program.rows[:, 0].tolist():
        row = known.get(index)
        if row is None:
            row = known[index] = _row(program.table, index)
        kind, pipe, cycles, latency, flag = row
        scalar += issue
        begin = free[pipe]
        if scalar > begin:
            begin = scalar
        if kind in (LOCAL, TRANSFER):
            begin += cycles
            free[pipe] = begin
            if begin + latency > retired[pipe]:
                retired[pipe] = begin + latency
        elif kind == SET:
            free[pipe] = begin
            up = retired[pipe]
            raised.setdefault(flag, []).append((up if up > begin else begin) + flag_latency)
        elif kind == WAIT:
            number = taken.get(flag, 0)
            taken[flag] = number + 1
            up = raised[flag][number] - cycles
            free[pipe] = up if up > begin else begin
        elif kind == DISARMED:
            taken[flag] = taken.get(flag, 0) + 1
        elif kind == SCALAR:
            scalar += cycles
        elif kind == BARRIER:
            free[pipe] = max(begin, retired[pipe]) + barrier_latency
        elif kind == BARRIER_ALL:
            scalar = max(scalar, *free, *retired) + barrier_latency
    return max(scalar, *free, *retired)


def _row(table: InstructionTable, index: int) -> _Row:
    """(kind, pipe, cycles on the pipe or the scalar unit (of a wait its lead), latency, flag) of a distinct instruction."""
    instruction, cost, access = table.instructions[index], table.costs[index], table.accesses[index]
    cycles = min(cost.head_first, cost.head_stream) + cost.work
    if access is not None:
        cycles += int(access.region.total / access.rate)
    if isinstance(instruction, Scalar):
        cycles = instruction.cycles
    flag = ("", "", 0)
    if isinstance(instruction, SetFlag | WaitFlag):
        cycles = instruction.lead
        flag = (instruction.source, instruction.destination, instruction.flag)
    return table.kinds[index], table.pipes[index], cycles, cost.latency, flag
