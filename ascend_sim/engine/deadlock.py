"""Report on a deadlock: pipes that wait although nothing can happen any more, and what each waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ascend_sim.engine.core_flag import double_set
from ascend_sim.engine.shown_rows import ShownRows
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.sync import CrossCoreWaitFlag, ScalarWait, WaitFlag

if TYPE_CHECKING:
    from ascend_sim.engine.machine import RunningProgram


_MOST = 8
"""Most programs whose pipes are listed."""


def describe(runs: Mapping[RunningProgram, Task], events: Sequence[tuple[Task, str]], tasks: Sequence[Task]) -> str:
    """Return the text of a deadlock: lost sets; for each program the waiting pipes, their rows and what they wait for, and a
    circle of them; then tasks that wait for events.

    `runs` are the unfinished programs with their tasks; the pipes of the first 8 that wait are listed. `events` are (task,
    name of the event that it waits for), `tasks` all of the run, from which come those that record the event.
    """
    lines = [
        f"deadlock: nothing can happen any more and {len(runs)} programs have not finished"
        + (f", {len(events)} tasks not begun" if events else "")
    ]
    for run in runs:  # what may be the cause of all that follows
        for flag, number in sorted(run.lost_sets().items()):
            lines.append(f"  {run.program.where}: {double_set(run.program, flag, number)}")
    rows = ShownRows()
    standing = [(run, task) for run, task in runs.items() if run.stuck() or run.scalar_stuck() is not None]
    for run, task in standing[:_MOST]:
        lines += _waiting_lines(run, task, rows)
    if len(standing) > _MOST:
        lines.append(f"  and {len(standing) - _MOST} further programs")
    for task, event in events:
        recorders = ", ".join(other.name for other in tasks if event in other.record_events)
        lines.append(f"  stream {task.stream}: {task.name} waits for event {event!r} from {recorders or 'no task'}")
    return "\n".join(lines)


def _waiting_lines(run: RunningProgram, task: Task, rows: ShownRows) -> list[str]:
    """Return a line for each pipe of a program that waits, and one for a circle of them."""
    lines = []
    edges: dict[str, str] = {}
    awaited: list[str] = []  # pipes that the scalar unit waits for: of several, one may close a circle
    for pipe, row, issued in run.stuck():
        instruction = run.program[row].instruction
        if not issued:
            reason = "its issue: the scalar unit stands before it"
            edges[pipe] = "S"
        else:
            reason = _lack(run, pipe, instruction, edges)
        lines.append(f"  {run.program.where} {pipe}: at {rows.shown(task, run.program, row)} waits for {reason}")
    scalar = run.scalar_stuck()
    if scalar is not None:
        row, pipe = scalar
        if pipe == "S":
            reason = _lack(run, pipe, run.program[row].instruction, edges)
        else:
            barrier = run.program[row].instruction
            if pipe != "ALL":
                awaited, reason = [pipe], f"a place in the queue of {pipe}"
            elif isinstance(barrier, ScalarWait):
                awaited, reason = [barrier.on], f"{barrier.on} to be idle"
            else:
                awaited, reason = [stuck for stuck, source in edges.items() if source != "S"], "every pipe to be idle"
        before = "at" if pipe == "S" else "before"
        lines.append(f"  {run.program.where} S: {before} {rows.shown(task, run.program, row)} waits for {reason}")
    circle = next(filter(None, (_circle(edges | {"S": pipe}) for pipe in awaited)), _circle(edges))
    if circle:
        lines.append(f"  {run.program.where}: they wait in a circle: {' -> '.join(circle)}")
    return lines


def _lack(run: RunningProgram, pipe: str, instruction: Instruction, edges: dict[str, str]) -> str:
    """Return in words what `pipe` waits for, a flag or cross-core flag; `edges` notes the pipe that owes an inner flag."""
    if isinstance(instruction, WaitFlag):
        edges[pipe] = instruction.source
        return f"flag {instruction.flag} from {instruction.source}, which has not set it"
    assert isinstance(instruction, CrossCoreWaitFlag)
    missing = run.cross.expected(run.program, instruction)
    names = ", ".join(f"block {b} {k}{s}" for b, k, s in missing[:4])
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    return f"cross-core flag {instruction.flag} (mode {instruction.mode}) from {names or 'no core'}{more}"


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
