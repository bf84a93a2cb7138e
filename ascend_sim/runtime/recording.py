"""A recorded run, whose programs can be simulated again on a chip with other numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Cached, Device
from ascend_sim.engine.engine import Engine, Progress
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import ceil_div
from ascend_sim.isa.sync import Scalar
from ascend_sim.kernel.program import InstructionTable, Program


@frozen(eq=False, repr=False)
class Recording:
    """Recorded run on `chip`: `tasks` in the order in which the engine was given them, and their `timeline`.

    `cached` is what the L2 held before, oldest first; `repeated` is True if the same tasks ran just before.
    """

    chip: ChipSpec
    timeline: Timeline
    tasks: Sequence[Task]
    cached: Sequence[Cached] = ()
    repeated: bool = False

    def __repr__(self) -> str:
        """Return one line: the chip, the number of kernels and of instructions."""
        rows = sum(len(run.program) for run in self.timeline.programs)
        return f"<Recording on {self.chip.name}: {len(self.tasks)} kernels, {rows:,} instructions>"

    def rerun(self, chip: ChipSpec, progress: Progress | None = None) -> Timeline:
        """Return the timeline of the same programs on `chip`; `progress` as in `Engine`.

        Raises SimError for an instruction that `chip` lacks: a path, an operation, a dtype, a field's range. Only time is
        simulated, with the same lines in the L2 and the same warm code. Tilings stay, whatever a kernel would choose on `chip`,
        and so do the cycles by which a wait for a unit flag ends early.
        """
        tables = {(id(p.table), p.core_kind): p for p in (run.program for run in self.timeline.programs)}
        faster = {key: _on(chip, program) for key, program in tables.items()}
        programs: list[dict[int, list[Program]]] = [{} for _ in self.tasks]
        for run in self.timeline.programs:
            again = replace(run.program, table=faster[id(run.program.table), run.program.core_kind])
            programs[run.task].setdefault(run.program.block, []).append(again)
        device = Device(chip, with_values=False)
        device.cache(self.cached)
        tasks = [replace(task, build=_builder(made)) for task, made in zip(self.tasks, programs, strict=True)]
        device.repeat(tasks if self.repeated else ())
        return Engine(device, progress=progress).run(tasks)

    def programs_of(self, index: int) -> dict[int, list[Program]]:
        """Return {block: its programs} of the task with that index."""
        found: dict[int, list[Program]] = {}
        for run in self.timeline.of(index):
            found.setdefault(run.program.block, []).append(run.program)
        return found

    def without_kernels(self) -> Recording:
        """Return a copy that can be pickled and `rerun`: without the builders of programs and the columns of times."""
        tasks = [replace(task, build=not_built) for task in self.tasks]
        spans = [replace(run, task=task) for run, task in zip(self.timeline.tasks, tasks, strict=True)]
        programs = [replace(run, columns={}) for run in self.timeline.programs]
        return replace(self, timeline=Timeline(spans, programs), tasks=tasks)


def without_recording(mode: str) -> str:
    """Return the reason, in words, why a run in `mode` has no recording: functional mode, or no timeline kept."""
    if mode == "functional":
        return "a run in functional mode has no times to show"
    return "this run kept no timeline; run it with timeline=True"


def not_built(block: int) -> list[Program]:
    """Raise SimError: stands in for the builder of programs in recorded tasks, which have no kernel."""
    raise SimError("a recorded task has no kernel to build its programs; Recording.rerun runs them again")


def _on(chip: ChipSpec, program: Program) -> InstructionTable:
    """Return the program's instruction table with the costs of `chip`.

    Scalar work scales with the cycles of an issue, rounded up.
    """
    table = program.table
    other = InstructionTable(chip, table.kind)
    before, after = program.issue_cycles, chip.scalar.issue_cycles[program.core_kind]  # type: ignore[index]
    for key in table.index:
        if key[0] is Scalar and before:
            key = (Scalar, ceil_div(key[1] * after, before))
        other.add(key)
    return other


def _builder(programs: dict[int, list[Program]]) -> Callable[[int], Sequence[Program]]:
    """Return a builder of programs that returns kept programs by the block's number."""
    return programs.__getitem__
