"""What a report needs of the programs of a run, without their columns: of one program, and summed over those of a task.

`engine/watch.py` finds it. Nothing here grows with the instructions, nor, cores apart, with the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ascend_sim.engine.hazards import Hazards
from ascend_sim.engine.timeline import CAUSES
from ascend_sim.engine.values import Finding
from ascend_sim.kernel.program import Program

_SHARE_BITS = 32
"""Of a mean over time while means are summed: whole numbers, so that no order of blocks matters."""


@dataclass(frozen=True)
class ProgramTotals:
    """One program: cycles by pipe, and cycles that it stood still by pipe and cause, as in `ProgramRun`.

    `rows` instructions of each pipe; `l2_wait` and `hbm_wait` cycles in which others held its transfers back; `buffers` the
    most bytes held at once, and the bytes held summed over the cycles.
    """

    rows: Mapping[str, int]
    busy: Mapping[str, int]
    stalls: Mapping[str, Mapping[str, int]]
    l2_wait: Mapping[str, int]
    hbm_wait: Mapping[str, int]
    hbm_bytes: int
    l2_hits: int
    l2_misses: int
    buffers: Mapping[str, tuple[int, int]]
    hazards: Hazards


@dataclass
class PipeTotals:
    """One pipe of a task, in cycles summed over the programs whose core has it; `cores` are those cores."""

    cores: set[int] = field(default_factory=set)
    rows: int = 0
    span: int = 0
    busy: int = 0
    stalls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    l2_wait: int = 0
    hbm_wait: int = 0


@dataclass
class BufferTotals:
    """One buffer of a task's cores: the most bytes that any held, and the mean over programs and time."""

    peak: int = 0
    programs: int = 0
    shares: int = 0

    @property
    def mean(self) -> int:
        """Bytes, rounded."""
        return round(Fraction(self.shares, self.programs << _SHARE_BITS)) if self.programs else 0


@dataclass
class TaskTotals:
    """The programs of a task. `core_cycles` from dispatch to end of their blocks, by (kind, core)."""

    programs: int = 0
    instructions: int = 0
    core_cycles: dict[tuple[str, int], int] = field(default_factory=dict)
    pipes: dict[tuple[str, str], PipeTotals] = field(default_factory=dict)
    buffers: dict[str, BufferTotals] = field(default_factory=dict)
    hbm_bytes: int = 0
    l2_hits: int = 0
    l2_misses: int = 0

    def add(self, program: Program, core: int, launch: int, begin: int, finish: int, totals: ProgramTotals) -> None:
        """One more program, which ran on `core`; its block was dispatched at cycle `launch`."""
        kind, parts = program.core_kind, program.table.chip.cores.kinds[program.core_kind]  # type: ignore[index]
        self.programs += 1
        self.instructions += len(program)
        self.core_cycles[kind, core] = self.core_cycles.get((kind, core), 0) + finish - launch
        for name in parts.pipes:
            pipe = self.pipes.setdefault((kind, name), PipeTotals())
            pipe.cores.add(core)
            pipe.rows += totals.rows[name]
            pipe.span += finish - begin
            pipe.busy += totals.busy[name]
            pipe.l2_wait += totals.l2_wait[name]
            pipe.hbm_wait += totals.hbm_wait[name]
            for cause, cycles in totals.stalls[name].items():
                pipe.stalls[cause] += cycles
        for space in parts.buffers:
            buffer = self.buffers.setdefault(space, BufferTotals())
            peak, held = totals.buffers[space]
            buffer.peak = max(buffer.peak, peak)
            buffer.programs += 1
            buffer.shares += (held << _SHARE_BITS) // max(finish - begin, 1)
        self.hbm_bytes += totals.hbm_bytes
        self.l2_hits += totals.l2_hits
        self.l2_misses += totals.l2_misses


@dataclass
class Watched:
    """What is known of a run without its columns: totals by task, and the hazards in words."""

    of_task: list[TaskTotals]
    findings: list[Finding]
