"""Totals of a run's programs for a report, without their columns: for one program, and summed over those of a task.

`engine/watch.py` finds them. Nothing here grows with the instructions nor, apart from cores, with the blocks.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip.sections import CoreParts
from ascend_sim.engine.hazards import Hazards
from ascend_sim.engine.timeline import CAUSES
from ascend_sim.engine.values import Finding
from ascend_sim.frozen import frozen, mutable
from ascend_sim.isa.base import PIPE_INDEX, PIPES
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.touches import SPACES

_SHARE_BITS = 32
"""Fraction bits of a mean over time while means are summed: integers, so that the order of blocks does not matter."""
_AT_ONCE = 1024
"""Programs that are summed up together."""

PIPE_TOTALS = np.dtype(
    [(name, np.int64) for name in ("rows", "busy", "end")]
    + [("stalls", np.int64, len(CAUSES)), ("l2_wait", np.int64), ("hbm_wait", np.int64), ("bank_conflicts", np.int64)]
)
TOTALS = np.dtype(
    [("pipes", PIPE_TOTALS, len(PIPES))]
    + [(name, np.int64) for name in ("hbm_bytes", "l2_hits", "l2_misses", "hazards")]
    + [(name, np.int64, len(SPACES)) for name in ("peak", "area")]
)
"""Totals of one program, as in C (`Totals` of compiled/watch.h): cycles by pipe, and cycles that it stood still by pipe and
cause, as in `ProgramRun`. `rows` instructions of each pipe; `l2_wait` and `hbm_wait` cycles in which others held its transfers
back, `bank_conflicts` those by which conflicts lengthened its instructions; of a buffer the most bytes held at once (`peak`),
and the bytes held summed over the cycles (`area`).
"""


_Added = tuple[int, int, tuple[int, int, int], NDArray[np.void]]
"""A finished program: (instructions, core, span, TOTALS)."""


@frozen
class ProgramTotals:
    """Totals of one program: `numbers`, a record of dtype TOTALS, and the hazards in its buffers."""

    numbers: NDArray[np.void]
    hazards: Hazards


@mutable
class PipeTotals:
    """Totals of one pipe over a task's programs, times in cycles; `cores` are the numbers of the cores that ran them.

    `span` is the sum of the programs' times from begin to finish.
    """

    cores: set[int] = field(default_factory=set)
    rows: int = 0
    span: int = 0
    busy: int = 0
    stalls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    l2_wait: int = 0
    hbm_wait: int = 0
    bank_conflicts: int = 0


@mutable
class BufferTotals:
    """Use of one buffer by a task's cores: `peak`, the most bytes that any held, and sums for the mean over programs and time.

    `shares` is the sum over `programs` of each one's average bytes, in a binary fraction.
    """

    peak: int = 0
    programs: int = 0
    shares: int = 0

    @property
    def mean(self) -> int:
        """Return the mean of the bytes held, over time and programs, rounded (a half to even); 0 without programs."""
        if not self.programs:
            return 0
        whole, rest = divmod(self.shares, each := self.programs << _SHARE_BITS)
        return whole + (2 * rest + whole % 2 > each)  # a half goes to the even number


@mutable
class TaskTotals:
    """Totals over the programs of a task; `core_cycles` are the cycles from dispatch to end of blocks by (kind, core), `pipes`
    are by (kind, pipe).

    Added programs count after `settle`, which sums up many at a time.
    """

    programs: int = 0
    instructions: int = 0
    core_cycles: dict[tuple[str, int], int] = field(default_factory=dict)
    pipes: dict[tuple[str, str], PipeTotals] = field(default_factory=dict)
    buffers: dict[str, BufferTotals] = field(default_factory=dict)
    hbm_bytes: int = 0
    l2_hits: int = 0
    l2_misses: int = 0
    _waiting: dict[str, list[_Added]] = field(default_factory=dict, repr=False, compare=False)
    _parts: dict[str, CoreParts] = field(default_factory=dict, repr=False, compare=False)

    def add(self, program: Program, core: int, span: tuple[int, int, int], totals: ProgramTotals) -> None:
        """Add one finished program of core number `core`; `span` has the cycles of its dispatch, begin and end."""
        kind = program.core_kind
        self._parts[kind] = program.table.chip.cores.kinds[kind]  # type: ignore[index]
        waiting = self._waiting.setdefault(kind, [])
        waiting.append((len(program), core, span, totals.numbers))
        if len(waiting) == _AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Sum up the programs added since the last call; until then they do not count."""
        for kind, waiting in self._waiting.items():
            self._sum_up(kind, self._parts[kind], waiting)
        self._waiting.clear()

    def _sum_up(self, kind: str, parts: CoreParts, waiting: list[_Added]) -> None:
        """Add the totals of `waiting` programs, all on cores of `kind`, to the sums: rows, core cycles, pipes, buffers, bytes
        of HBM, L2 hits and misses. `parts` names the pipes and buffers of `kind`.
        """
        rows, on, spans, numbers = zip(*waiting, strict=True)
        found, cores = np.frombuffer(b"".join(numbers), TOTALS), set(on)  # np.concatenate compares all fields by name
        self.programs += len(rows)
        self.instructions += sum(rows)
        for core, (launch, _, finish) in zip(on, spans, strict=True):
            self.core_cycles[kind, core] = self.core_cycles.get((kind, core), 0) + finish - launch
        lengths = [finish - begin for _, begin, finish in spans]
        for name in parts.pipes:
            pipe, own = self.pipes.setdefault((kind, name), PipeTotals()), found["pipes"][:, PIPE_INDEX[name]]
            pipe.cores |= cores
            pipe.rows += int(own["rows"].sum())
            pipe.span += sum(lengths)
            pipe.busy += int(own["busy"].sum())
            pipe.l2_wait += int(own["l2_wait"].sum())
            pipe.hbm_wait += int(own["hbm_wait"].sum())
            pipe.bank_conflicts += int(own["bank_conflicts"].sum())
            for cause, cycles in zip(CAUSES, own["stalls"].sum(axis=0).tolist(), strict=True):
                pipe.stalls[cause] += cycles
        for space in parts.buffers:
            buffer, place = self.buffers.setdefault(space, BufferTotals()), SPACES.index(space)
            buffer.peak = max(buffer.peak, int(found["peak"][:, place].max()))
            buffer.programs += len(rows)
            area = found["area"][:, place].tolist()
            buffer.shares += sum((held << _SHARE_BITS) // max(length, 1) for held, length in zip(area, lengths, strict=True))
        self.hbm_bytes += int(found["hbm_bytes"].sum())
        self.l2_hits += int(found["l2_hits"].sum())
        self.l2_misses += int(found["l2_misses"].sum())


@mutable
class Watched:
    """Totals by task and findings of a run, which need no columns."""

    of_task: list[TaskTotals]
    findings: list[Finding]
