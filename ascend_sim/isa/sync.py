"""Instructions that order or wait: flags inside a core, cross-core flags, barriers, and scalar time."""

from __future__ import annotations

from collections.abc import Iterable

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, DISARMED, SCALAR, SET, WAIT, Instruction


@frozen
class SetFlag(Instruction):
    """Raise flag `flag` of the pair (source, destination) once everything earlier on the source pipe has retired."""

    source: str
    destination: str
    flag: int

    name = "set_flag"
    kind = SET
    has_values = False

    def pipe(self, chip: ChipSpec) -> str:
        return self.source


@frozen
class WaitFlag(Instruction):
    """Hold the destination pipe until the flag was raised, and lower it.

    For experiments a wait can be disarmed (`armed` false): it still lowers the flag but holds nothing.
    """

    source: str
    destination: str
    flag: int
    armed: bool = True

    name = "wait_flag"
    has_values = False

    @property
    def kind(self) -> int:  # type: ignore[override]
        return WAIT if self.armed else DISARMED

    def pipe(self, chip: ChipSpec) -> str:
        return self.destination


@frozen
class WaitUnitFlag(WaitFlag):
    """Hold a pipe until the last user of a tile of L0C is so far that the next can follow fractal by fractal without
    overtaking.

    That is `early` cycles before a flag raised behind the tile's last user would arrive. The Fixpipe counts as busy
    while it waits: its profiler counter runs (inferred from measured rows), while the cube's counts products only.
    """

    early: int = 0

    name = "wait_unit_flag"

    @property
    def lead(self) -> int:  # type: ignore[override]
        return self.early

    @property
    def at_work(self) -> bool:  # type: ignore[override]
        return self.destination == "FIX"


@frozen
class PipeBarrier(Instruction):
    """Hold the next instruction on pipe `on` until everything earlier on it has retired; "ALL": on any pipe, until everything
    has.
    """

    on: str

    name = "pipe_barrier"
    has_values = False

    @property
    def kind(self) -> int:  # type: ignore[override]
        return BARRIER_ALL if self.on == "ALL" else BARRIER

    def pipe(self, chip: ChipSpec) -> str:
        return "S" if self.on == "ALL" else self.on


@frozen
class ScalarWait(Instruction):
    """Hold the scalar unit's issue until everything earlier on the pipe `on` has retired."""

    on: str

    name = "scalar_wait"
    kind = BARRIER_ALL
    has_values = False

    def pipe(self, chip: ChipSpec) -> str:
        return "S"


@frozen
class CrossCoreSetFlag(Instruction):
    """Raise a cross-core flag once everything earlier on the pipe `on` has retired.

    Mode 0 joins all cores of the kind, 1 the vector cores of a block, 2 cube <-> vector, 4 cube <-> one vector core.
    """

    flag: int
    mode: int
    on: str

    name = "cross_core_set_flag"
    kind = CROSS_SET
    has_values = False

    def pipe(self, chip: ChipSpec) -> str:
        return self.on


CrossCounter = tuple[int, int, str, int]
"""A counter between cores: (flag, mode, kind of the raising cores, block or -1 for all).

In mode 4 the flag is the cube's number.
"""
CrossCore = tuple[int, str, int]
"""A core as (block, kind, sub-block)."""
ONE_VECTOR = 4
"""Mode of cross-core flags that joins a cube core and one of its vector cores."""
SECOND_VECTOR = 16
"""Offset in mode 4, on the cube core, of the flag numbers that belong to the second vector core."""


def cross_counter(instruction: CrossCoreSetFlag | CrossCoreWaitFlag, core: CrossCore) -> CrossCounter:
    """Return the counter an instruction raises or waits for on `core`: (flag, mode, kind of raising cores, block or -1).

    In mode 4 a flag of the second vector core gets the cube's number, 16 more.
    """
    block, kind, sub_block = core
    flag, mode = instruction.flag, instruction.mode
    if mode == ONE_VECTOR and kind == "AIV":
        flag += sub_block * SECOND_VECTOR
    if isinstance(instruction, CrossCoreWaitFlag):
        kind = across(kind, mode)
    return (flag, mode, kind, -1 if mode == 0 else block)


def across(kind: str, mode: int) -> str:
    """Return the kind of core at the other end of a cross-core flag: "AIV" or "AIC", the other one, in modes 2 and 4, else
    `kind`.
    """
    return ("AIV" if kind == "AIC" else "AIC") if mode in (2, ONE_VECTOR) else kind


def cross_members(counter: CrossCounter, cores: Iterable[CrossCore], waiters: bool = False) -> list[int]:
    """Return the indices in `cores` of the cores that raise a counter together or, with `waiters`, wait for it.

    In mode 4 that is the cube core, or the one vector core that the flag's number names.
    """
    flag, mode, kind, block = counter
    if waiters:
        kind = across(kind, mode)
    only = flag // SECOND_VECTOR if mode == ONE_VECTOR and kind == "AIV" else None
    return [
        index
        for index, (its_block, its_kind, sub_block) in enumerate(cores)
        if its_kind == kind and block in (-1, its_block) and only in (None, sub_block)
    ]


def cross_name(flag: int) -> str:
    """Return the name of a cross-core flag in listings: "cross-core N"."""
    return f"cross-core {flag}"


@frozen
class CrossCoreWaitFlag(Instruction):
    """Hold a pipe until the cross-core flag was raised by all cores that its mode names.

    On chips with sync.cross_wait_stops_issue the scalar unit waits, and nothing later is issued to any pipe. For experiments it
    can be disarmed like `WaitFlag`.
    """

    flag: int
    mode: int
    on: str
    armed: bool = True

    name = "cross_core_wait_flag"
    kind = CROSS_WAIT
    has_values = False

    def pipe(self, chip: ChipSpec) -> str:
        return "S" if chip.sync.cross_wait_stops_issue else self.on


@frozen
class Scalar(Instruction):
    """Occupy the scalar unit for `cycles` cycles: loop control and address arithmetic."""

    cycles: int

    name = "scalar"
    kind = SCALAR
    has_values = False

    def pipe(self, chip: ChipSpec) -> str:
        return "S"
