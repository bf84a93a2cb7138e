"""The compiled machine beside SimPy: C runs the cores and the traffic, SimPy the streams, tasks, blocks and cross-core flags.

A block hands its programs to C (`CompiledCore.run`). C runs ahead to just before the next SimPy event, and reports programs
that ended or that stand at a cross-core flag. These flags are handled in `cross.py`, for both engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_int64, c_uint8, c_void_p
from typing import Any
from weakref import finalize

import numpy as np
import simpy
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.columns import FEW, PIECE, ColumnStore, Packed, Written
from ascend_sim.engine.compiled import library as c
from ascend_sim.engine.compiled.shapes import Table
from ascend_sim.engine.compiled.watch import Reader, read_gm
from ascend_sim.engine.cross import CrossFlags
from ascend_sim.engine.hazards import LIMIT, Hazards
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.timeline import OF_ALL, OF_MOVES, ProgramRun
from ascend_sim.engine.totals import ProgramTotals
from ascend_sim.engine.traffic import SETTLE, Timer, scaled
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPES
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.stamp import address_of

_NEVER = 1 << 62
_AT_ONCE = 1 << 21
"""Int64 numbers that are allocated together for columns."""
_BATCH = 2048
"""Rows of a program without kept columns that C collects before it searches them for hazards; also accesses to GM of all
programs.
"""


class _Room:
    """Allocator of column arrays that are cut from a large one: the system gives out large pages faster than small ones."""

    def __init__(self) -> None:
        self._left = np.empty(0, np.int64)

    def take(self, count: int, number: int) -> NDArray[np.int64]:
        """Return an uninitialised array [count, number] of int64; very short and very long ones are allocated alone."""
        size = count * number
        if not FEW <= count <= _AT_ONCE // number:
            return np.empty((count, number), np.int64)
        if size > len(self._left):
            self._left = np.empty(_AT_ONCE, np.int64)
        found, self._left = self._left[:size].reshape(count, number), self._left[size:]
        return found


class CompiledMachine:
    """Machine in C with the interface of `SimpyMachine`: the cores and the shared GM of one device for one run.

    Raises SimError for a chip with numbers that C's integers cannot hold (`headroom_fault`).
    """

    def __init__(
        self,
        env: simpy.Environment,
        chip: ChipSpec,
        l2: L2Cache,
        shared_gm: bool,
        store: ColumnStore | None,
        watch: bool,
        last: int | None = None,
    ) -> None:
        fault = chip.headroom_fault()
        if fault:
            raise SimError(fault)
        self.env = env
        self._chip_of_gm = chip if shared_gm else None
        self._l2 = l2
        numbers = c.GmNumbers(
            shared_gm,
            chip.memory.l2_line_bytes,
            scaled(chip.l2_read_bytes_per_cycle()),
            scaled(chip.l2_write_bytes_per_cycle()),
            scaled(chip.hbm_bytes_per_cycle()),
            chip.memory.hbm_latency,
            scaled(chip.memory.same_line_read_ratio - 1),
            scaled(chip.memory.write_back_ratio),
        )
        self._c = c.Handle(numbers, int(env.now), _NEVER if last is None else min(last, _NEVER))
        self.lib = self._c.lib
        self._tables: dict[int, Table] = {}
        self._cores: dict[int, CompiledCore] = {}
        self._begun = 0
        self._lent: tuple[NDArray[Any], ...] = ()
        self._room = _Room()
        self._bases: tuple[Sequence[int], NDArray[np.int64], int] = (), np.empty(0, np.int64), 0
        self.reader = Reader()
        self._event = c.EventStruct()
        self._timer = -1
        self._armed: set[int] = set()
        self._unsettled = False
        self.hbm_bytes = 0
        self.store, self.watch = store, watch
        if watch:
            self._c.checked(self.lib.machine_watch(self._c.pointer, LIMIT, _BATCH))
        self._lend_l2()

    @property
    def tables(self) -> list[InstructionTable]:
        """Return the instruction tables of all programs; their positions are the table numbers in hazards."""
        return [table.table for table in self._tables.values()]

    def in_gm(self, tasks: int) -> dict[int, Hazards]:
        """Return {index of the later access's task: hazards in GM} of a finished watched run of `tasks` tasks."""
        return read_gm(self.lib.machine_gm(self._c.pointer), tasks)

    def totals(self, running: CompiledCore, run: ProgramRun, gm_bases: Sequence[int]) -> ProgramTotals:
        """Return the totals and hazards of a finished program of a watched run, as C took them; see `Machine.totals`."""
        assert running.totals is not None
        return running.totals

    def close(self) -> None:
        """Free the machine's memory; the L2 keeps the state that the run left, `hbm_bytes` the bytes that HBM moved."""
        if self._c.pointer:
            self._l2.clock = self.lib.machine_l2_clock(self._c.pointer)
            self.hbm_bytes = self.lib.machine_hbm_bytes(self._c.pointer)
            self._c.free()

    def keep_no_more(self) -> None:
        """Keep no columns of programs that begin from now on."""
        self.store = None

    def core(self, program: Program, begin: int, order: int, cross: CrossFlags, gm_bases: Sequence[int]) -> CompiledCore:
        """Return `program` on a core of this machine, to start at cycle `begin`, not yet started; see `Machine.core`."""
        table = self._tables.get(id(program.table))
        if table is None:
            table = self._tables[id(program.table)] = Table(self._c, program.table, self._chip_of_gm)
        return CompiledCore(self, table, program, begin, order, cross, gm_bases)

    def room_for_columns(self, count: int, transfers: int) -> Written:
        """Return uninitialised columns for a program; C writes every number of them."""
        moves = 0 if self._chip_of_gm is None else transfers
        return Written(self._room.take(count, len(OF_ALL)), self._room.take(moves, 1 + len(OF_MOVES)))

    def bases_of(self, bases: Sequence[int]) -> tuple[NDArray[np.int64], int]:
        """Return the addresses of a task's tensors as an array, and that array's address for C.

        The arrays of the last task are kept for its next program.
        """
        if self._bases[0] is not bases:
            numbers = np.array(bases, np.int64)
            self._bases = bases, numbers, address_of(numbers)
        return self._bases[1:]

    def next_number(self) -> int:
        """Return a new number, by which C refers to the next program."""
        self._begun += 1
        return self._begun

    def _lend_l2(self, reach: int = 0) -> None:
        """Hand the L2's arrays, extended to lines below `reach`, to C, which works on them in place."""
        l2 = self._l2
        stamp, dirty = l2.arrays(reach)
        read_until = np.zeros(len(stamp), np.int64)
        if self._lent:
            before = self._lent[1]
            read_until[: len(before)] = before
        self._lent = stamp, read_until, dirty
        places = [address_of(one) for one in self._lent]
        self._c.checked(self.lib.machine_lend_l2(self._c.pointer, *places[:2], len(stamp), places[2], l2.capacity, l2.clock))

    def begin(self, core: CompiledCore) -> None:
        """Start a program in C, which computes ahead as far as it can, and handle the events that C reports."""
        self._cores[core.number] = core
        found = c_void_p()
        self._c.advanced(self.lib.core_begin(self._c.pointer, core.table.handle, core.c_program, c.byref(found)))
        core.handle = found.value
        self._go_on()

    def survey(self, table: Table, program: c.ProgramStruct) -> int:
        """Register the shapes of a program's transfers in C; return the number of transfers.

        The L2's arrays are extended to the lines reached.
        """
        at, transfers, reach = c_int64(0), c_int64(0), c_int64(0)
        found = c.byref(at), c.byref(transfers), c.byref(reach)
        while at.value < program.count:
            self._c.checked(self.lib.program_survey(self._c.pointer, table.handle, program, *found))
        if reach.value > len(self._lent[0]):
            self._lend_l2(reach.value)
        return transfers.value

    def forget(self, core: CompiledCore) -> None:
        """Release a finished program, all of whose results have been read."""
        self.lib.core_free(self._c.pointer, core.handle)
        core.handle = None
        del self._cores[core.number]

    def pass_by(self, core: CompiledCore, pipe: int, over: int) -> None:
        """Notify C that the wait for a cross-core flag on pipe number `pipe` of `core` is over at cycle `over`."""
        self._c.advanced(self.lib.core_pass(self._c.pointer, core.handle, pipe, over))

    # -- SimPy side, as in `Traffic`: a timer to the next instant, then, behind everything else of it, the settling --------

    def go_on(self) -> None:
        """Fetch all events of cores that C has ready, and let each core handle its own."""
        event = self._event
        while self.lib.machine_hear(self._c.pointer, event):
            self._cores[event.core].hear(event)

    def _arm(self) -> None:
        """Set a timer to the next cycle at which C has something to do, unless one is earlier or the traffic is unsettled."""
        when = self.lib.machine_next(self._c.pointer)
        if self._unsettled or when >= _NEVER or 0 <= self._timer <= when:
            return
        self._timer = when
        if when not in self._armed:
            self._armed.add(when)
            Timer(self.env, self._instant, simpy.events.NORMAL, when - self.env.now)

    def _go_on(self) -> None:
        self.go_on()
        self._arm()

    def _instant(self, _: simpy.Event) -> None:
        """Let C compute the present cycle, handle its events, and settle the traffic; nothing if the timer was set anew."""
        now = int(self.env.now)
        self._armed.discard(now)
        if now != self._timer:
            return
        self._timer = -1
        self._c.advanced(self.lib.machine_instant(self._c.pointer, now))
        self.go_on()
        self._settle_last()

    def _settle_last(self) -> None:
        """Settle the traffic now, or after all other events of this instant, since they may still request transfers."""
        if self.env.peek() <= self.env.now:
            if not self._unsettled:
                self._unsettled = True
                Timer(self.env, self._settle, SETTLE)
        else:
            self._settle()

    def _settle(self, _: simpy.Event | None = None) -> None:
        """Let C run up to the next SimPy event, handling the events that it reports, until traffic settles; set the timer."""
        self._unsettled = False
        while True:
            until = self.env.peek()
            spoken = self._c.advanced(self.lib.machine_run(self._c.pointer, int(min(until, _NEVER))))
            if spoken == c.SETTLED:
                break
            if spoken == c.SPOKEN:
                self.go_on()
                if self.env.peek() <= self.env.now:
                    self._settle_last()
                    return
        self._timer = -1
        self._arm()


class CompiledCore:
    """One program on one core, computed in C from cycle `begin` on; it has the interface of `CoreRun`."""

    def __init__(
        self,
        machine: CompiledMachine,
        table: Table,
        program: Program,
        begin: int,
        order: int,
        cross: CrossFlags,
        gm_bases: Sequence[int],
    ) -> None:
        table.extend()
        self.program = program
        self.begin = self.finish = begin
        self.queue_full = 0
        self.totals: ProgramTotals | None = None
        self.cross = cross
        self.table = table
        self.handle: Any = None
        self.number = machine.next_number()
        self._machine = machine
        self._over = simpy.Event(machine.env)
        count = len(program)
        self._bases, bases_in_c = machine.bases_of(gm_bases)
        self._columns: Mapping[str, NDArray[np.int64]] = {}
        self._packed = machine.store is not None and machine.watch and count >= FEW
        self._file = machine.store.file() if machine.store is not None and self._packed else None
        self.c_program = c.ProgramStruct(
            **program.sheet.addresses(),
            bases=bases_in_c,
            count=count,
            tensors=len(self._bases),
            begin=begin,
            issue=program.issue_cycles,
            order=order,
            number=self.number,
            flag_max=program.flag_max,
            packed=self._packed,
            file=-1 if self._file is None else self._file.descriptor(),
        )
        transfers = machine.survey(table, self.c_program)
        if machine.store is not None and not self._packed:
            self._columns = columns = machine.room_for_columns(count, transfers)
            self.c_program.times, self.c_program.moves = address_of(columns.times), address_of(columns.moves)

    def run(self) -> simpy.Event:
        """Start the program; the returned event fires at its `finish`."""
        self._machine.begin(self)
        return self._over

    def hear(self, event: c.EventStruct) -> None:
        """Handle an event of this core from C: the end of its program, a set of a cross-core flag, or a wait for one."""
        if event.what == c.FINISHED:
            self._note_the_end(event.time)
            self._over._ok, self._over._value = True, None
            env = self._machine.env
            env.schedule(self._over, delay=max(event.time - int(env.now), 0))
            return
        flag = self.program.table.instructions[event.instruction]
        if event.what == c.RAISES:
            assert isinstance(flag, CrossCoreSetFlag)
            self.cross.set(self.program, flag, event.time)
            return
        assert isinstance(flag, CrossCoreWaitFlag)
        if event.what == c.PASSES_BY:
            self.cross.pass_by(self.program, flag, event.time)
        else:
            self._take(event.pipe, flag, event.time)

    def _take(self, pipe: int, flag: CrossCoreWaitFlag, time: int) -> None:
        """Take a cross-core flag for a wait of `pipe` from cycle `time` on, and report its end to C; try again when raised."""
        over = self.cross.take(self.program, flag, time)
        if over is not None:
            self._machine.pass_by(self, pipe, over)
            return

        def again(_: simpy.Event) -> None:
            self._take(pipe, flag, time)
            self._machine._go_on()

        self.cross.sleep(self._machine.env, self.program, flag).callbacks.append(again)  # type: ignore[union-attr]

    # -- after the run -------------------------------------------------------------------------------------------------

    def columns(self) -> Mapping[str, NDArray[np.int64]]:
        """Return the columns of `ProgramRun`, as arrays or packed; an empty mapping if the run does not keep them."""
        return self._columns

    def _note_the_end(self, finish: int) -> None:
        """Read the results of the finished program from C, columns and totals included, and release it there."""
        lib, program = self._machine.lib, self.program
        self.finish = finish
        self.queue_full = lib.core_queue_full(self.handle)
        if self._packed:
            size, begins = c_int64(), np.empty(-(-len(program) // PIECE), np.int64)
            found = lib.core_kept(self.handle, c.byref(size), address_of(begins))
            packed = np.empty(0, np.uint8)
            if found:
                held = (c_uint8 * size.value).from_address(found)
                finalize(held, lib.kept_drop, found)
                packed = np.frombuffer(memoryview(held), np.uint8)
            self._columns = Packed(len(program), packed, begins, self._file)
        if self._machine.watch:
            self.totals = self._machine.reader.read(lib.core_watched, self.handle)
        self._machine.forget(self)

    def lost_sets(self) -> dict[tuple[str, str, int], int]:
        """Return {flag (source, destination, number): number of its first lost set, from 0}; {} after the program's end."""
        found: dict[tuple[str, str, int], int] = {}
        flag = c_int64(0)
        while self.handle and (lost := self._machine.lib.core_lost_set(self.handle, c.byref(flag))) >= 0:
            found[self.table.flags[flag.value]] = lost
            flag.value += 1
        return found

    def issue_on(self) -> bool:
        """Return False: C always issues every instruction that has a place in a queue."""
        return False

    def stuck(self) -> list[tuple[str, int, bool]]:
        """Return (pipe, row at its head, True if that row was issued) for every pipe but S that has not finished its rows.

        [] before `run` and after the end.
        """
        heads: list[tuple[str, int, bool]] = []
        if self.handle is None:
            return heads
        issued, left = c_int64(), c_int64()
        of_row = self.program.per_row("pipe")
        for p in range(1, len(PIPES)):
            self._machine.lib.core_progress(self.handle, p, c.byref(issued), c.byref(left))
            rows = np.flatnonzero(of_row == p)
            if left.value < len(rows):
                heads.append((PIPES[p], int(rows[left.value]), left.value < issued.value))
        return heads

    def issued_until(self) -> int:
        """Return the cycle up to which the scalar unit has issued; after the end the finish."""
        return self.finish if self.handle is None else int(self._machine.lib.core_issued_until(self.handle))

    def scalar_stuck(self) -> tuple[int, str] | None:
        """Return (row before which the scalar unit is held up, the pipe whose queue is full); None if it is not held up.

        The pipe is "ALL" at a barrier or ScalarWait, "S" at a wait of its own.
        """
        if self.handle is None:
            return None
        row = c_int64()
        pipe = self._machine.lib.core_scalar_wants(self.handle, c.byref(row))
        return None if pipe < 0 else (row.value, (*PIPES, "ALL")[pipe])
