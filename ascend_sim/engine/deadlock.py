"""Report on a deadlock: pipes that wait although nothing can happen any more, and what each waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ascend_sim.engine.core_flag import double_set
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.sync import CrossCoreWaitFlag, WaitFlag

if TYPE_CHECKING:
    from ascend_sim.engine.machine import RunningProgram


def describe(runs: Sequence[RunningProgram], events: Sequence[tuple[Task, str]], tasks: Sequence[Task]) -> str:
    """Return the text of a deadlock: lost sets, then for each waiting pipe its row and what it waits for, then circles of
    waiting.

    `runs` are the unfinished programs; `events` are (task, name of the other stream's event that it waits for).
    """
    lines = [
        f"deadlock: nothing can happen any more and {len(runs)} programs have not finished"
        + (f", {len(events)} tasks not begun" if events else "")
    ]
    for run in runs:  # what may be the cause of all that follows
        for flag, number in sorted(run.lost_sets().items()):
            lines.append(f"  {run.program.where}: {double_set(run.program, flag, number)}")
    for run in runs:
        edges: dict[str, str] = {}
        for pipe, row, issued in run.stuck():
            view = run.program[row]
            instruction = view.instruction
            if not issued:
                reason = "its issue: the scalar unit stands before it"
                edges[pipe] = "S"
            else:
                reason = _lack(run, pipe, instruction, edges)
            lines.append(f"  {run.program.where} {pipe}: at {view} waits for {reason}")
        scalar = run.scalar_stuck()
        if scalar is not None:
            row, pipe = scalar
            if pipe == "S":
                reason = _lack(run, pipe, run.program[row].instruction, edges)
            else:
                reason = "every pipe to be idle" if pipe == "ALL" else f"a place in the queue of {pipe}"
                held = [stuck for stuck, source in edges.items() if source != "S"]
                edges["S"] = pipe if pipe != "ALL" else next(iter(held), "S")
            lines.append(f"  {run.program.where} S: {'at' if pipe == 'S' else 'before'} {run.program[row]} waits for {reason}")
        circle = _circle(edges)
        if circle:
            lines.append(f"  {run.program.where}: they wait in a circle: {' -> '.join(circle)}")
    for task, event in events:
        recorders = ", ".join(other.name for other in tasks if event in other.record_events)
        lines.append(f"  stream {task.stream}: {task.name} waits for event {event!r} from {recorders or 'nobody'}")
    return "\n".join(lines)


def _lack(run: RunningProgram, pipe: str, instruction: Instruction, edges: dict[str, str]) -> str:
    """Return in words what `pipe` waits for, a flag or a cross-core flag; the pipe that owes an inner flag is noted in
    `edges`.
    """
    if isinstance(instruction, WaitFlag):
        edges[pipe] = instruction.source
        return f"flag {instruction.flag} from {instruction.source}, which has not set it"
    assert isinstance(instruction, CrossCoreWaitFlag)
    missing = run.cross.expected(run.program, instruction)
    names = ", ".join(f"block {b} {k}{s}" for b, k, s in missing[:4])
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    return f"cross-core flag {instruction.flag} (mode {instruction.mode}) from {names or 'nobody'}{more}"


def _circle(edges: dict[str, str]) -> list[str]:
    """Return a circle in `edges`, {pipe: pipe that it waits for}, that ends with its first pipe again; [] if there is none."""
    for start in edges:
        path = [start]
        while path[-1] in edges:
            following = edges[path[-1]]
            if following in path:
                return [*path[path.index(following) :], following]
            path.append(following)
    return []
