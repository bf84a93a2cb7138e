"""One program on one core: the scalar unit issues, the pipes work; SimPy processes that talk in timestamps.

Inside a core every time follows from earlier ones by max and plus: an instruction starts when it was issued, when its pipe
is free and when its flag arrived. A process therefore computes ahead of the SimPy clock for as long as it knows its inputs
and sleeps on an event only when another process has not yet worked out what it needs. What a process finds out while the
SimPy clock shows t never lies before t, so a GM transfer, which must meet the transfers of all other cores at its true
instant, can always be handed to `Traffic` in time.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from ascend_sim.engine.core_flag import CoreFlag
from ascend_sim.engine.cross import CrossFlags
from ascend_sim.engine.lines import footprint
from ascend_sim.engine.timeline import stall_columns
from ascend_sim.engine.traffic import FRACTION, Traffic, scaled
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, DISARMED, LOCAL, PIPES, SET, TRANSFER, WAIT
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag, ScalarWait, SetFlag, WaitFlag
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.touches import OPERAND_COLUMN
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.numerics.distinct import distinct

Process = Generator[simpy.Event, Any, None]
NO_WAIT = -1
CHUNK = 4096
"""Rows of a pipe that are Python numbers at a time; the rest stays in arrays, which are a quarter as large."""


class CoreRun:
    """The timeline of one program that begins at cycle `begin`.

    After the run `start`, `end` and `retire` hold one cycle count per row (`end` is the end of occupancy; for waits the instant
    the wait is over), `finish` the last retirement, end or issue. `traffic` None means that every transfer runs at port speed.
    """

    def __init__(
        self,
        env: simpy.Environment,
        program: Program,
        begin: int,
        order: int,
        traffic: Traffic | None,
        cross: CrossFlags,
        gm_bases: Sequence[int],
    ) -> None:
        self.env = env
        self.program = program
        self.begin = begin
        self.finish = begin
        self._order = order * len(PIPES)
        self._traffic = traffic
        self.cross = cross
        self._bases = gm_bases
        chip = program.table.chip
        self._barrier_latency = chip.sync.barrier_latency
        self._issue = program.issue_cycles
        count = len(program)
        self.start = array("q", [begin]) * count
        self.end = array("q", [begin]) * count
        self.retire = array("q", [begin]) * count
        self.shared: dict[int, tuple[int, ...]] = {}
        self.limited: dict[int, int] = {}
        self.queue_full = 0
        self._t = begin
        self._address = self._addresses()
        self._prepare(chip)

    def _prepare(self, chip: Any) -> None:
        program = self.program
        instructions = program.table.instructions
        pipe = program.per_row("pipe")
        kind = program.per_row("kind")
        latency = program.per_row("latency")
        work = program.per_row("work") + program.bank_cycles().sum(axis=0)
        first = work + program.per_row("head_first")
        stream = work + program.per_row("head_stream")
        if self._traffic is None:
            self._add_port_time(first, stream)
        flags: dict[tuple[str, str, int], int] = {}
        number = np.zeros(len(instructions), np.int64)
        for argument in distinct(program.rows[:, 0]):
            instruction = instructions[argument]
            if isinstance(instruction, SetFlag | WaitFlag):
                key = (instruction.source, instruction.destination, instruction.flag)
                number[argument] = flags.setdefault(key, len(flags))
        self._flags = [CoreFlag(key, program.flag_max, chip.sync.flag_latency) for key in flags]
        is_flag = (kind == SET) | (kind == WAIT) | (kind == DISARMED)
        first = np.where(is_flag, number[program.rows[:, 0]], first)
        stream = np.where(is_flag, program.per_row("lead"), stream)
        arguments = program.rows[:, 0]
        self._queues: list[list[NDArray[np.int64]]] = []
        self._lengths: list[int] = []
        for p in range(len(PIPES)):
            index = np.flatnonzero(pipe == p)
            columns = (index, kind[index], first[index], stream[index], latency[index], arguments[index])
            self._queues.append([np.asarray(column, np.int64) for column in columns])
            self._lengths.append(len(index))
        self._issue_pipe = pipe.astype(np.uint8).tobytes()
        self._depth = [chip.sync.queue_depth.get(name, 0) for name in PIPES]
        self._outstanding = [chip.sync.outstanding.get(name, 0) for name in PIPES]
        self._issued = [array("q") for _ in PIPES]
        # When the n-th instruction of a pipe finds its place in the queue free: at once for the first ones, then when an
        # earlier one leaves the queue.
        self._left = [array("q", [self.begin]) * depth for depth in self._depth]
        self._sleeping: list[simpy.Event | None] = [None] * len(PIPES)
        self._position = [0] * len(PIPES)
        self._drained = [self.begin] * len(PIPES)
        self._hungry = 0
        self._want_pipe = NO_WAIT
        self._want_slot = 0
        self._want: simpy.Event | None = None
        self._drain: simpy.Event | None = None
        self._drain_pipes: Sequence[int] = range(1, len(PIPES))
        self._held_at = NO_WAIT

    def _add_port_time(self, first: Any, stream: Any) -> None:
        """Add to each transfer's cost the time of its lines at the speed of its port, for a run without shared GM."""
        table, rows = self.program.table, self.program.rows
        line = table.chip.memory.l2_line_bytes
        known: dict[tuple[int, int], int] = {}
        for row, address in self._address.items():
            argument = int(rows[row, 0])
            access = table.accesses[argument]
            assert access is not None
            phase = address % line
            if (argument, phase) not in known:
                touched = footprint(access.region, phase, line).touched
                known[argument, phase] = -(-(touched * line << FRACTION) // scaled(access.rate))
            first[row] += known[argument, phase]
            stream[row] += known[argument, phase]

    def _addresses(self) -> dict[int, int]:
        """Return {row: absolute GM address} of every row that is a transfer."""
        program = self.program
        rows = np.flatnonzero(program.per_row("kind") == TRANSFER)
        columns = np.asarray([OPERAND_COLUMN[a.region.operand] if a else 0 for a in program.table.accesses], np.int64)
        values = program.rows[rows, columns[program.rows[rows, 0]]]
        found = np.asarray(self._bases, np.int64)[values >> SLOT_SHIFT] + (values & OFFSET_MASK)
        return dict(zip(rows.tolist(), found.tolist(), strict=True))

    # -- processes -----------------------------------------------------------------------------------------------------

    def run(self) -> simpy.Event:
        """Start the program; the returned event fires at its `finish`."""
        return self.env.process(self._life())

    def _life(self) -> Process:
        processes = [self.env.process(self._pipe(p)) for p in range(1, len(PIPES)) if self._lengths[p]]
        processes.append(self.env.process(self._scalar()))
        for process in processes:
            yield process
        if self.finish > self.env.now:
            yield self.env.timeout(self.finish - self.env.now)

    def _scalar(self) -> Process:
        """Issue in order, at issue time and a free slot in the pipe's queue each; execute the rows of pipe S here."""
        issue, issued, lefts = self._issue, self._issued, self._left
        scalar_rows = self._rows_of(0)
        t = self.begin
        for p in self._issue_pipe:
            if p == 0:
                i, kind, first, _, _, argument = next(scalar_rows)
                self.start[i] = t
                if kind == BARRIER_ALL:
                    t += issue
                    self._wake_pipes()
                    self._drain_pipes = self._waits_for(i)
                    if not self._all_drained():
                        self._t = t
                        self._drain = self.env.event()
                        self._drain_row = i
                        yield self._drain
                    t = max(t, *(self._drained[q] for q in self._drain_pipes)) + self._barrier_latency
                elif kind == SET:
                    t += issue
                    self.start[i] = t
                    self._raise(self._flags[first], t)
                elif kind == WAIT:
                    t += issue
                    self.start[i] = t
                    flag = self._flags[first]
                    while (arrived := flag.next_arrival()) is None:
                        self._t, self._held_at = t, i
                        self._wake_pipes()
                        flag.sleeper = self.env.event()
                        yield flag.sleeper
                    self._held_at = NO_WAIT
                    t = max(t, arrived)
                    flag.taken.append(t)
                elif kind == DISARMED:
                    t += issue
                    self.start[i] = t
                    self._flags[first].taken.append(t)
                elif kind == CROSS_SET:
                    t += issue
                    self.start[i] = t
                    raising = self.program.table.instructions[argument]
                    assert isinstance(raising, CrossCoreSetFlag)
                    self.cross.set(self.program, raising, t)
                elif kind == CROSS_WAIT:
                    t += issue
                    self.start[i] = t
                    waiting = self.program.table.instructions[argument]
                    assert isinstance(waiting, CrossCoreWaitFlag)
                    if waiting.armed:
                        while (over := self.cross.take(self.program, waiting, t)) is None:
                            self._t, self._held_at = t, i
                            self._wake_pipes()
                            yield self.cross.sleep(self.env, self.program, waiting)
                        self._held_at = NO_WAIT
                        t = over
                    else:
                        self.cross.pass_by(self.program, waiting, t)
                else:
                    t += issue + self._scalar_cycles(i, first)
                self.end[i] = self.retire[i] = t
                continue
            t += issue
            queue, left = issued[p], lefts[p]
            n = len(queue)
            if n >= len(left):
                self._want_pipe, self._want_slot = p, n
                self._want, self._t = self.env.event(), t - issue
                self._wake_pipes()
                yield self._want
            if left[n] > t:
                self.queue_full += left[n] - t
                t = left[n]
            queue.append(t)
        self._wake_pipes()
        self._t = t
        self.finish = max(self.finish, t)

    @staticmethod
    def _raise(flag: CoreFlag, time: int) -> None:
        """Note that `flag` is set at cycle `time`, which arrives after its latency, and wake the process that waits for it."""
        flag.arrivals.append(time + flag.latency)
        if flag.sleeper is not None:
            waiter, flag.sleeper = flag.sleeper, None
            waiter.succeed()

    def _rows_of(self, p: int) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Yield (row, kind, cycles when idle before, cycles back to back, latency, instruction number) of pipe `p`'s rows.

        Rows of flags have the number of the flag and the wait's lead in place of the two cycles.
        """
        columns = self._queues[p]
        return chain.from_iterable(
            zip(*(column[at : at + CHUNK].tolist() for column in columns), strict=True)
            for at in range(0, self._lengths[p], CHUNK)
        )

    def _scalar_cycles(self, row: int, work: int) -> int:
        instruction = self.program.table.instructions[int(self.program.rows[row, 0])]
        return int(getattr(instruction, "cycles", work))

    def _wake_pipes(self) -> None:
        for p, sleeper in enumerate(self._sleeping):
            if sleeper is not None and len(self._issued[p]) > self._position[p]:
                self._sleeping[p] = None
                self._hungry -= 1
                sleeper.succeed()

    def _waits_for(self, row: int) -> Sequence[int]:
        """Return the numbers of the pipes whose earlier work the barrier in `row` waits for: one for a ScalarWait, else all but
        S.
        """
        instruction = self.program.table.instructions[int(self.program.rows[row, 0])]
        return (PIPES.index(instruction.on),) if isinstance(instruction, ScalarWait) else range(1, len(PIPES))

    def _all_drained(self) -> bool:
        return all(self._position[p] == len(self._issued[p]) for p in self._drain_pipes)

    def _wake_scalar(self) -> None:
        """Wake the scalar unit if its place in a queue is known by now and some pipe is idle.

        As long as no pipe is idle it can wait, and many instructions are then issued in one step.
        """
        if self._want is not None and self._hungry and len(self._left[self._want_pipe]) > self._want_slot:
            want, self._want = self._want, None
            want.succeed()

    def _idle(self, p: int, position: int, over: int) -> None:
        """Note that pipe `p` has finished all `position` rows issued to it, the last at cycle `over`, and wake waiters."""
        self._position[p] = position
        self._drained[p] = over
        self._hungry += 1
        self._wake_scalar()
        if self._drain is not None and self._all_drained():
            drain, self._drain = self._drain, None
            drain.succeed()

    def _pipe(self, p: int) -> Process:
        """Run pipe `p`: take its rows in order, compute start, end and retirement, and sleep while an input is unknown."""
        env, start_of, end_of, retire_of = self.env, self.start, self.end, self.retire
        issued, left, limit = self._issued[p], self._left[p], self._outstanding[p]
        flags, barrier_latency, accesses = self._flags, self._barrier_latency, self.program.table.accesses
        free = self.begin  # when the pipe can take its next instruction
        busy_until = -1  # end of the last work, to know whether the next is the first of a stream
        last_retire = self.begin
        retired = deque([self.begin] * limit, limit)  # the last `limit` retirements bound what may be in flight
        known = self.begin  # when the flag of the last wait had come in, which a wait with a lead does not wait for
        left_at, retired_at = left.append, retired.append
        position = available = 0
        for i, kind, first, stream, latency, argument in self._rows_of(p):
            if position == available:
                available = len(issued)
                while position == available:
                    sleeper = self._sleeping[p] = env.event()
                    self._idle(p, position, max(last_retire, free))
                    yield sleeper
                    available = len(issued)
            t = issued[position]
            position += 1
            if free > t:
                t = free
            if kind == LOCAL:
                if retired[0] > t:
                    self.limited[i] = retired[0] - t
                    t = retired[0]
                left_at(t if t > known else known)
                busy_until = free = t + (first if t > busy_until else stream)
                if free + latency > last_retire:
                    last_retire = free + latency
                retired_at(last_retire)
                start_of[i] = t
                end_of[i] = free
                retire_of[i] = last_retire
            elif kind == SET:
                left.append(max(t, known))
                free = t
                start_of[i] = end_of[i] = t
                raised = retire_of[i] = last_retire if last_retire > t else t
                self._raise(flags[first], raised)
            elif kind == WAIT:
                flag = flags[first]
                start_of[i] = t
                # Where the scalar unit sets it, it has to go on, though no pipe has worked off its queue.
                of_scalar = flag.key[0] == "S"
                while (arrived := flag.next_arrival()) is None:
                    self._hungry += of_scalar
                    self._wake_scalar()
                    waiter = flag.sleeper = env.event()
                    yield waiter
                    self._hungry -= of_scalar
                if stream:
                    known = max(known, arrived)
                    arrived -= stream
                if arrived > t:
                    t = arrived
                flag.taken.append(t)
                left.append(max(t, known))
                free = end_of[i] = t
                retire_of[i] = max(t, known)
            elif kind == TRANSFER:
                if retired[0] > t:
                    self.limited[i] = retired[0] - t
                    t = retired[0]
                left.append(max(t, known))
                start_of[i] = t
                cycles = first if t > busy_until else stream
                if self._traffic is None:
                    free = t + cycles
                else:
                    access = accesses[argument]
                    transfer = self._traffic.request(t + cycles, self._order + p, access, self._address[i])  # type: ignore[arg-type]
                    self._wake_scalar()
                    yield transfer.done
                    free = int(env.now)
                    self.shared[i] = (
                        transfer.wait_l2, transfer.wait_hbm, transfer.hits, transfer.allocated, transfer.hbm_bytes,
                    )  # fmt: skip
                    if transfer.ready > free:
                        latency += transfer.ready - free
                busy_until = free
                if free + latency > last_retire:
                    last_retire = free + latency
                retired.append(last_retire)
                end_of[i] = free
                retire_of[i] = last_retire
            elif kind == BARRIER:
                left.append(max(t, known))
                start_of[i] = t
                if last_retire > t:
                    t = last_retire
                t += barrier_latency
                free = end_of[i] = retire_of[i] = t
            elif kind == DISARMED:
                flags[first].taken.append(t)
                left.append(max(t, known))
                free = t
                start_of[i] = end_of[i] = retire_of[i] = t
            elif kind == CROSS_SET:
                left.append(max(t, known))
                free = t
                start_of[i] = end_of[i] = t
                raised = retire_of[i] = max(last_retire, t)
                instruction = self.program.table.instructions[argument]
                assert isinstance(instruction, CrossCoreSetFlag)
                self.cross.set(self.program, instruction, raised)
            elif kind == CROSS_WAIT:
                start_of[i] = t
                waiting = self.program.table.instructions[argument]
                assert isinstance(waiting, CrossCoreWaitFlag)
                if waiting.armed:
                    while (over := self.cross.take(self.program, waiting, t)) is None:
                        self._wake_scalar()
                        yield self.cross.sleep(env, self.program, waiting)
                    t = over
                else:
                    self.cross.pass_by(self.program, waiting, t)
                left.append(max(t, known))
                free = end_of[i] = retire_of[i] = t
        self._idle(p, position, max(last_retire, free))
        self._hungry -= 1  # it has all that it will ever get
        self.finish = max(self.finish, last_retire, free)

    # -- after the run -------------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, NDArray[np.int64]]:
        """Return the columns of `ProgramRun` (`timeline.TIMES`), computed from the recorded times."""
        start, end, retire = (np.asarray(column, np.int64) for column in (self.start, self.end, self.retire))
        stall, cause = stall_columns(self.program, self.begin, start, end, self.limited)
        shared = np.zeros((5, len(self.program)), np.int64)
        if self.shared:
            shared[:, list(self.shared)] = np.asarray(list(self.shared.values()), np.int64).T
        names = ("l2_wait", "hbm_wait", "l2_hits", "l2_misses", "hbm_bytes")
        columns = {"start": start, "end": end, "retire": retire, "stall": stall, "cause": cause}
        return columns | dict(zip(names, shared, strict=True))

    def issue_on(self) -> bool:
        """Wake the scalar unit of a stuck run if the place in a queue that it waits for is free; return False otherwise.

        It issues when SimPy runs again; `stuck` then sees all instructions that can be issued.
        """
        if self._want is None or len(self._left[self._want_pipe]) <= self._want_slot:
            return False
        want, self._want = self._want, None
        want.succeed()
        return True

    def issued_until(self) -> int:
        """Return the last cycle of the scalar unit that was computed."""
        return self._t

    def stuck(self) -> list[tuple[str, int, bool]]:
        """Return (pipe, row at its head, True if that row was issued) for every pipe but S that has not finished its rows."""
        heads = []
        for p in range(1, len(PIPES)):
            done = len(self._left[p]) - self._depth[p]
            if done < self._lengths[p]:
                heads.append((PIPES[p], int(self._queues[p][0][done]), done < len(self._issued[p])))
        return heads

    def scalar_stuck(self) -> tuple[int, str] | None:
        """Return (row before which the scalar unit is held up, the pipe whose queue is full); None if it is not held up.

        The pipe is "ALL" at a barrier or ScalarWait, "S" at a wait of its own.
        """
        if self._held_at != NO_WAIT:
            return self._held_at, "S"
        p = self._want_pipe
        if self._want is not None and len(self._left[p]) <= self._want_slot:
            return int(self._queues[p][0][self._want_slot]), PIPES[p]
        return (self._drain_row, "ALL") if self._drain is not None else None

    def lost_sets(self) -> dict[tuple[str, str, int], int]:
        """Return {flag (source, destination, number): number of its first lost set, from 0}, for flags that lost a set."""
        return {flag.key: lost for flag in self._flags if (lost := flag.lost_set()) >= 0}
