"""The timeline of programs as a max-plus recurrence: one pass over the rows in issue order, no event queue.

Written from the contract of programs and time, not from the engine: a set stands before its wait in issue order, so every
time of a row is a max or a sum of times of earlier rows. Transfers run at the speed of their port,
unless somebody says how long each one took.

- The scalar unit issues in order. A row costs the issue time, then waits for a place in its pipe's queue: the row `depth`
  places before it on that pipe must have left the queue. A row leaves when the pipe takes it up, a wait when it is over.
- Bank conflicts lengthen a row (tests/isa/vector/test_banks.py counts them by itself).
- The pipe takes a row up when it is issued, when the row before it no longer occupies the pipe, and, if it does work, when
  the row `outstanding` working rows before it has retired. It occupies the pipe for head + work; the head is the first one
  of a stream when the pipe did not come straight from other work.
- It retires `latency` after its occupancy, but never before the row before it on the pipe.
- A set raises its flag when everything before it on its pipe has retired; `flag_latency` later its wait is over. A
  disarmed wait counts but holds nothing. A wait for a unit flag is over some cycles before, but neither it nor a row behind it
  leaves the queue before the flag has come in.
- A barrier ends `barrier_latency` after everything before it (on its pipe, or on every pipe) is over.
- Cross-core flags go up when the last core that its mode names has raised its part, and wake `cross_latency` later. Where the
  chip says so the scalar unit is what waits for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ascend_sim.isa.base import Instruction
from ascend_sim.isa.scalar import CleanDataCache, ScalarAccess
from ascend_sim.isa.sync import (
    CrossCoreSetFlag,
    CrossCoreWaitFlag,
    PipeBarrier,
    Scalar,
    ScalarWait,
    SetFlag,
    WaitFlag,
    WaitUnitFlag,
)
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.regions import Region


@dataclass
class Pipe:
    """State of a pipe: its last cycles."""

    free: int
    worked_until: int | None = None
    retired: int = 0
    left: list[int] = field(default_factory=list)
    retirements: list[int] = field(default_factory=list)
    known: int = 0

    def leave(self, time: int) -> None:
        """A row leaves the queue."""
        self.left.append(max(time, self.known))


class CrossCounters:
    """Cross-core flags: times at which each core raised its part."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.cores = [(p.block, p.core_kind, p.sub_block) for p in programs]
        self.raised: dict[tuple[int, int, tuple[int, str, int]], list[int]] = defaultdict(list)

    def parts(self, program: Program, mode: int) -> list[tuple[int, str, int]]:
        """The cores that a wait of `program` hears."""
        kind = program.core_kind if mode != 2 else {"AIC": "AIV", "AIV": "AIC"}[program.core_kind]
        return [c for c in self.cores if c[1] == kind and (mode == 0 or c[0] == program.block)]

    def time(self, program: Program, flag: int, mode: int, number: int) -> int | None:
        """When every part was raised `number` + 1 times; in mode 4 the AIC adds 16 to the flags of the second AIV."""
        if mode == 4 and program.core_kind == "AIC":
            times = [self.raised[flag % 16, 4, (program.block, "AIV", flag // 16)]]
            return times[0][number] if len(times[0]) > number else None
        if mode == 4:
            times = [self.raised[flag + 16 * program.sub_block, 4, (program.block, "AIC", 0)]]
            return times[0][number] if len(times[0]) > number else None
        times = [self.raised[flag, mode, core] for core in self.parts(program, mode)]
        if any(len(t) <= number for t in times):
            return None
        return max(t[number] for t in times)


@dataclass
class Times:
    """Start, end of occupancy and retirement of every row, and the end of the program, from cycle 0."""

    start: list[int]
    end: list[int]
    retire: list[int]
    finish: int


def lines_touched(region: Region, address: int, line: int) -> int:
    """L2 lines, counted row by row, where rows that adjoin count as one."""
    runs: list[list[int]] = []
    for plane in range(region.planes):
        for row in range(region.rows):
            first = address + region.offset + plane * region.plane_stride + row * region.row_stride
            if runs and runs[-1][1] == first:
                runs[-1][1] = first + region.row_bytes
            else:
                runs.append([first, first + region.row_bytes])
    return sum((end - 1) // line - first // line + 1 for first, end in runs)


def port_cycles(program: Program, row: int, bases: Sequence[int]) -> int:
    """Cycles of a GM transfer that has its port to itself, in units of 2**-16 byte."""
    chip = program.table.chip
    access = program.table.instructions[int(program.rows[row, 0])].gm_access(chip)
    if access is None:
        return 0
    value = int(program.rows[row, {"dst": 1, "src0": 2, "src1": 3}[access.region.operand]])
    address = bases[value >> SLOT_SHIFT] + (value & OFFSET_MASK)
    size = lines_touched(access.region, address, chip.memory.l2_line_bytes) * chip.memory.l2_line_bytes
    return -(-size * 65536 // int(access.rate * 65536))


Moved = Mapping[tuple[int, int], tuple[int, int]]
"""(program, row) of a transfer -> the cycles that it took beyond its head, and how much later than usual it retires."""


def schedule(programs: Sequence[Program], bases: Sequence[int], moved: Moved | None = None) -> list[Times]:
    """The times of programs that begin together; programs of one task, all of its blocks at once."""
    cross = CrossCounters(programs)
    times = [Times([], [], [], 0) for _ in programs]
    known = moved or {}
    waiting = [
        _run(program, bases, cross, result, {row: took for (p, row), took in known.items() if p == index})
        for index, (program, result) in enumerate(zip(programs, times, strict=True))
    ]
    while waiting:
        answers = [(run, next(run, None)) for run in waiting]
        if all(got_on is False for _, got_on in answers):
            raise RuntimeError("the programs wait for each other")
        waiting = [run for run, got_on in answers if got_on is not None]
    return times


def _run(
    program: Program, bases: Sequence[int], cross: CrossCounters, times: Times, moved: Mapping[int, tuple[int, int]]
) -> Iterator[bool]:
    """One pass; yields at a cross-core wait whose end is not known yet, and whether it got on since it last did."""
    chip = program.table.chip
    sync = chip.sync
    pipes: dict[str, Pipe] = defaultdict(lambda: Pipe(0))
    raised: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    taken: dict[tuple[str, str, int], int] = defaultdict(int)
    heard: dict[tuple[int, int], int] = defaultdict(int)
    conflicts = program.bank_cycles().sum(axis=0).tolist()
    scalar = 0
    for row, view in enumerate(program):
        instruction: Instruction = view.instruction
        if view.pipe == "S":
            begin = scalar
            scalar += program.issue_cycles
            if isinstance(instruction, Scalar):
                scalar += instruction.cycles
            elif isinstance(instruction, ScalarAccess | CleanDataCache):
                scalar += instruction.cost(chip).work
            elif isinstance(instruction, PipeBarrier | ScalarWait):
                held = [pipes[instruction.on]] if isinstance(instruction, ScalarWait) else list(pipes.values())
                over = max((max(p.retired, p.free) for p in held), default=0)
                scalar = max(scalar, over) + sync.barrier_latency
            elif isinstance(instruction, SetFlag):
                begin = scalar
                raised[instruction.source, instruction.destination, instruction.flag].append(begin + sync.flag_latency)
            elif isinstance(instruction, WaitFlag):
                begin = scalar
                key = instruction.source, instruction.destination, instruction.flag
                if instruction.armed:
                    scalar = max(scalar, raised[key][taken[key]])
                taken[key] += 1
            elif isinstance(instruction, CrossCoreWaitFlag):
                begin = scalar
                number = heard[instruction.flag, instruction.mode]
                heard[instruction.flag, instruction.mode] += 1
                got_on = True
                while (up_at := cross.time(program, instruction.flag, instruction.mode, number)) is None:
                    yield got_on
                    got_on = False
                scalar = max(begin, up_at + sync.cross_latency)
            _note(times, begin, scalar, scalar)
            continue
        pipe = pipes[view.pipe]
        scalar += program.issue_cycles
        depth = sync.queue_depth[view.pipe]  # type: ignore[index]
        if len(pipe.left) >= depth:
            scalar = max(scalar, pipe.left[-depth])
        begin = max(scalar, pipe.free)
        if isinstance(instruction, SetFlag):
            pipe.leave(begin)
            pipe.free = begin
            up = max(begin, pipe.retired)
            raised[instruction.source, instruction.destination, instruction.flag].append(up + sync.flag_latency)
            _note(times, begin, begin, up)
        elif isinstance(instruction, WaitFlag):
            key = instruction.source, instruction.destination, instruction.flag
            over, early = begin, instruction.early if isinstance(instruction, WaitUnitFlag) else 0
            if instruction.armed:
                over = max(begin, raised[key][taken[key]] - early)
                pipe.known = max(pipe.known, raised[key][taken[key]] if early else 0)
            taken[key] += 1
            pipe.leave(over)
            pipe.free = over
            _note(times, begin, over, pipe.left[-1] if instruction.armed else over)
        elif isinstance(instruction, PipeBarrier):
            pipe.leave(begin)
            pipe.free = max(begin, pipe.retired) + sync.barrier_latency
            _note(times, begin, pipe.free, pipe.free)
        elif isinstance(instruction, CrossCoreSetFlag):
            pipe.leave(begin)
            pipe.free = begin
            up = max(begin, pipe.retired)
            cross.raised[instruction.flag, instruction.mode, (program.block, program.core_kind, program.sub_block)].append(up)
            _note(times, begin, begin, up)
        elif isinstance(instruction, CrossCoreWaitFlag):
            number = heard[instruction.flag, instruction.mode]
            heard[instruction.flag, instruction.mode] += 1
            got_on = True
            while (up_at := cross.time(program, instruction.flag, instruction.mode, number)) is None:
                yield got_on
                got_on = False
            over = max(begin, up_at + sync.cross_latency)
            pipe.leave(over)
            pipe.free = over
            _note(times, begin, over, over)
        else:
            limit = sync.outstanding[view.pipe]  # type: ignore[index]
            if len(pipe.retirements) >= limit:
                begin = max(begin, pipe.retirements[-limit])
            cost = instruction.cost(chip)
            head = cost.head_stream if pipe.worked_until == begin else cost.head_first
            pipe.leave(begin)
            took, late = moved[row] if row in moved else (port_cycles(program, row, bases), 0)
            pipe.free = begin + head + cost.work + conflicts[row] + took
            pipe.worked_until = pipe.free
            pipe.retired = max(pipe.retired, pipe.free + cost.latency + late)
            pipe.retirements.append(pipe.retired)
            _note(times, begin, pipe.free, pipe.retired)
    times.finish = max([scalar, *(max(p.retired, p.free) for p in pipes.values())])


def _note(times: Times, start: int, end: int, retire: int) -> None:
    times.start.append(start)
    times.end.append(end)
    times.retire.append(retire)
