"""Pairs of waits and the sets that end them in a run: inside a core by counting, between cores by the part raised last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.isa.base import CROSS_SET, CROSS_WAIT, WAIT
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag, CrossCounter, SetFlag, WaitFlag, cross_counter
from ascend_sim.numerics.distinct import distinct

Place = tuple[int, int]
"""A row of a run: (index of its program among the runs, the row)."""


def flag_pairs(run: ProgramRun) -> dict[int, int]:
    """Return {row of an armed wait: row of its set}: the k-th wait for a flag, disarmed ones counted, waits for its k-th set.

    Raises ValueError for a flag with more sets than waits, or fewer.
    """
    program = run.program
    table, arguments = program.table, program.rows[:, 0]
    flags: dict[tuple[str, str, int], tuple[list[int], list[int]]] = {}
    for argument in distinct(arguments).tolist():
        instruction = table.instructions[argument]
        if isinstance(instruction, SetFlag | WaitFlag):
            key = (instruction.source, instruction.destination, instruction.flag)
            flags.setdefault(key, ([], []))[isinstance(instruction, WaitFlag)].append(argument)
    pairs: dict[int, int] = {}
    armed = program.per_row("kind") == WAIT
    for sets, waits in flags.values():
        set_rows, wait_rows = (np.flatnonzero(np.isin(arguments, group)).tolist() for group in (sets, waits))
        for set_row, wait_row in zip(set_rows, wait_rows, strict=True):
            if armed[wait_row]:
                pairs[wait_row] = set_row
    return pairs


def cross_pairs(runs: Sequence[ProgramRun]) -> dict[Place, Place]:
    """Return {wait for a cross-core flag: the set that ended it}, each as (index in `runs`, row).

    The k-th wait needs the k-th set of every member; the one that retired last counts. Waits without a set are left out;
    disarmed ones have theirs, though it did not hold them.
    """
    raised: dict[tuple[int, CrossCounter], dict[int, list[tuple[int, int]]]] = {}
    waiting: list[tuple[tuple[int, CrossCounter], int, Place]] = []
    for index, run in enumerate(runs):
        taken: dict[tuple[int, CrossCounter], int] = {}
        program = run.program
        core = (program.block, program.core_kind, program.sub_block)
        for row in np.flatnonzero(np.isin(program.per_row("kind"), (CROSS_SET, CROSS_WAIT))).tolist():
            flag = program.table.instructions[int(program.rows[row, 0])]
            assert isinstance(flag, CrossCoreSetFlag | CrossCoreWaitFlag)
            key = (run.task, cross_counter(flag, core))
            if isinstance(flag, CrossCoreSetFlag):
                raised.setdefault(key, {}).setdefault(index, []).append((int(run.retire[row]), row))
            else:
                waiting.append((key, taken.get(key, 0), (index, row)))
                taken[key] = taken.get(key, 0) + 1
    pairs: dict[Place, Place] = {}
    for key, turn, wait in waiting:
        parts = [(*parts[turn], setter) for setter, parts in raised.get(key, {}).items() if turn < len(parts)]
        if parts:
            _, row, setter = max(parts)
            pairs[wait] = (setter, row)
    return pairs
