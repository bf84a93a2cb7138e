"""Machines that run programs: SimPy processes, for reading, or their compiled twin, equal to the cycle and faster.

An `Engine` deals with streams, tasks and blocks, whatever the machine; a machine runs programs on cores that share the GM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import simpy
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.columns import ColumnStore
from ascend_sim.engine.compiled.machine import CompiledMachine
from ascend_sim.engine.cross import CrossFlags
from ascend_sim.engine.hazards import Hazards
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.engine.totals import ProgramTotals
from ascend_sim.engine.traffic import Traffic
from ascend_sim.engine.watch import ColumnWatch
from ascend_sim.kernel.program import InstructionTable, Program


class RunningProgram(Protocol):
    """One program on one core while it runs; `CoreRun` explains its attributes."""

    program: Program
    begin: int
    finish: int
    queue_full: int
    cross: CrossFlags

    def run(self) -> simpy.Event:
        """Start the program, once; the returned event fires when it is over."""

    def columns(self) -> Mapping[str, NDArray]:
        """Return the columns of `ProgramRun`, a number for each row; an empty mapping if the machine keeps none."""

    def lost_sets(self) -> Mapping[tuple[str, str, int], int]:
        """Return {flag (source, destination, number): number of its first lost set, from 0}, for flags that lost a set.

        Asked of programs that have not finished.
        """

    def issue_on(self) -> bool:
        """Let a stuck run issue, when SimPy runs again, what has a place in a queue; return False if that is nothing more."""

    def issued_until(self) -> int:
        """Return the last cycle of the scalar unit that was computed."""

    def stuck(self) -> list[tuple[str, int, bool]]:
        """Return (pipe, row at its head, True if that row was issued) for every pipe but S that has not finished its rows."""

    def scalar_stuck(self) -> tuple[int, str] | None:
        """Return (row before which the scalar unit is held up, the pipe whose queue is full); None if it is not held up.

        The pipe is "ALL" at a barrier or ScalarWait, "S" at a wait of its own.
        """


class Machine(Protocol):
    """Interface of the cores and the shared GM of one device for one run."""

    @property
    def hbm_bytes(self) -> int:
        """Return the bytes that HBM moved in a run, after `close`."""

    def core(self, program: Program, begin: int, order: int, cross: CrossFlags, gm_bases: Sequence[int]) -> RunningProgram:
        """Return `program` on a core of this machine, to start at cycle `begin`.

        `order` breaks ties between cores, `gm_bases` are the addresses of its task's tensors.
        """

    def totals(self, running: Any, run: ProgramRun, gm_bases: Sequence[int]) -> ProgramTotals:
        """Return the totals and hazards of a finished program of this machine; called once for each program.

        `run` is the program with its columns, if the machine has any, `gm_bases` are the addresses of its task's tensors.
        """

    def in_gm(self, tasks: int) -> Mapping[int, Hazards]:
        """Return {index of the later access's task: hazards in GM} of a finished run of `tasks` tasks, after all `totals`."""

    @property
    def tables(self) -> Sequence[InstructionTable]:
        """Return the instruction tables of all programs; their positions are the table numbers in hazards."""

    def keep_no_more(self) -> None:
        """Keep no columns of programs that begin from now on."""

    def close(self) -> None:
        """Free what the machine holds, after the run; the L2 keeps its state."""


class SimpyMachine:
    """Machine in which every pipe is a SimPy process (`CoreRun`), and all request their GM transfers from one `Traffic`."""

    def __init__(self, env: simpy.Environment, chip: ChipSpec, l2: L2Cache, shared_gm: bool) -> None:
        self._env = env
        self._traffic = Traffic(env, chip, l2) if shared_gm else None
        self._watch = ColumnWatch()

    @property
    def hbm_bytes(self) -> int:
        """Return the bytes that HBM has moved; 0 if the GM is not shared."""
        return self._traffic.hbm_bytes if self._traffic else 0

    def core(self, program: Program, begin: int, order: int, cross: CrossFlags, gm_bases: Sequence[int]) -> RunningProgram:
        """Return `program` on a core of this machine, to run as SimPy processes from cycle `begin`, not yet started."""
        from ascend_sim.engine.core import CoreRun  # the compiled machine does without

        return CoreRun(self._env, program, begin, order, self._traffic, cross, gm_bases)

    def totals(self, running: Any, run: ProgramRun, gm_bases: Sequence[int]) -> ProgramTotals:
        """Return the totals and hazards of a finished program from its columns; see `Machine.totals`."""
        return self._watch.add(run, gm_bases)

    def in_gm(self, tasks: int) -> Mapping[int, Hazards]:
        """Return {index of the later access's task: hazards in GM} among all programs given to `totals`."""
        return self._watch.in_gm()

    @property
    def tables(self) -> Sequence[InstructionTable]:
        """Return the instruction tables of all programs given to `totals`."""
        return self._watch.tables

    def keep_no_more(self) -> None:
        """Do nothing (see `Machine.keep_no_more`): this machine has no store, a program's columns are its own."""

    def close(self) -> None:
        """Do nothing: this machine holds nothing that must be freed."""


def new_machine(
    engine: str,
    env: simpy.Environment,
    chip: ChipSpec,
    l2: L2Cache,
    shared_gm: bool,
    store: ColumnStore | None,
    watch: bool,
    last: int | None = None,
) -> Machine:
    """Return the machine of `engine` ("simpy" or "compiled") for one run.

    `shared_gm` as in `Engine`. The compiled machine keeps columns for `store` (None: keeps none), counts totals if `watch`,
    and need not compute instructions issued beyond cycle `last`, where the run is given up. SimPy's ignores these three.
    """
    if engine == "compiled":
        return CompiledMachine(env, chip, l2, shared_gm, store, watch, last)
    return SimpyMachine(env, chip, l2, shared_gm)
