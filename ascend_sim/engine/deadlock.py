"""A run in which nothing can happen any more although somebody has not finished: who waits for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_sim.errors import SimError
from ascend_sim.isa.sync import CrossCoreWaitFlag, WaitFlag

if TYPE_CHECKING:
    from ascend_sim.engine.core import CoreRun
    from ascend_sim.engine.cross import CrossFlags


class DeadlockError(SimError):
    """No event is left and a block is unfinished; the message lists every pipe that stands still."""


def describe(runs: list[CoreRun], cross: dict[int, CrossFlags]) -> str:
    """Per pipe: its head instruction, what it waits for and who would provide it; then the cycle of waiting, if any."""
    lines = [f"deadlock: nothing can happen any more and {len(runs)} programs have not finished"]
    for run in runs:
        edges: dict[str, str] = {}
        for pipe, row in run.stuck():
            view = run.program[row]
            instruction = view.instruction
            if isinstance(instruction, WaitFlag):
                reason = f"flag {instruction.flag} from {instruction.source}, which has not set it"
                edges[pipe] = instruction.source
            elif isinstance(instruction, CrossCoreWaitFlag):
                missing = [core for flags in cross.values() for core in flags.expected(run.program, instruction)]
                names = ", ".join(f"block {b} {k}{s}" for b, k, s in missing[:4])
                reason = f"cross-core flag {instruction.flag} (mode {instruction.mode}) from {names or 'nobody'}"
            else:
                reason = "its issue: the scalar unit stands before it"
            lines.append(f"  {run.program.where} {pipe}: at {view} waits for {reason}")
        circle = _circle(edges)
        if circle:
            lines.append(f"  {run.program.where}: they wait in a circle: {' -> '.join(circle)}")
    return "\n".join(lines)


def _circle(edges: dict[str, str]) -> list[str]:
    for start in edges:
        path = [start]
        while path[-1] in edges:
            following = edges[path[-1]]
            if following in path:
                return [*path[path.index(following) :], following]
            path.append(following)
    return []
