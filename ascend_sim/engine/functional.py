"""Values without time: blocks in block order, the programs of a block in turn at its cross-core flags.

The same instructions on the same memory as in `full` mode; only the order differs, so results are bit-equal for kernels
whose sums do not depend on arrival order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.choice import chosen_engine
from ascend_sim.engine.compiled.values import Workspace, rows_for_python
from ascend_sim.engine.device import Device
from ascend_sim.engine.task import Task
from ascend_sim.engine.values import BlockShadow, Finding, ProgramValues, raise_fault
from ascend_sim.errors import DeadlockError, SimError
from ascend_sim.isa.base import CROSS_SET, CROSS_WAIT
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.sync import (
    CrossCoreSetFlag,
    CrossCoreWaitFlag,
    CrossCounter,
    WaitFlag,
    cross_counter,
    cross_members,
)
from ascend_sim.kernel.execution_order import rows_in_order
from ascend_sim.kernel.program import Program

_Raised = dict[CrossCounter, Counter[tuple[int, int]]]
"""Number of times that each core (block, sub-block) has raised its part of a cross-core flag."""
_CROSS = (CrossCoreSetFlag, CrossCoreWaitFlag)
_AHEAD = 8
"""Blocks that are built together; few, so that a run of many blocks stays small."""


class FunctionalEngine:
    """Runs tasks in the given order for their values; `findings` lists what went wrong.

    `on_program` is called with a task's index, the task and each of its programs, in block order. `engine` as in `Engine`: the
    compiled one runs in C what moves bytes.
    """

    def __init__(
        self,
        device: Device,
        progress: Callable[[str, int, int], None] | None = None,
        model: ValueModel | None = None,
        on_program: Callable[[int, Task, Program], None] | None = None,
        engine: str | None = None,
    ) -> None:
        self.device = device
        self.findings: list[Finding] = []
        self._on_program = on_program
        self._progress = progress
        self._model = model or ValueModel.of(device.chip)
        self._compiled = chosen_engine(engine) == "compiled"

    def run(self, tasks: Sequence[Task]) -> None:
        """Execute every task; raises SimError when programs wait for each other for ever."""
        # Infinities and NaN are ordinary values of a machine.
        with (
            threadpool_limits(limits=1, user_api="blas"),
            np.errstate(over="ignore", invalid="ignore", divide="ignore"),
        ):
            for index, task in enumerate(tasks):
                self._run_task(index, task)

    def _run_task(self, index: int, task: Task) -> None:
        raised: _Raised = defaultdict(Counter)
        shadow = BlockShadow()
        work = Workspace(self.device.chip, self._model) if self._compiled else None
        waiting: list[Iterator[bool]] = []
        for block, programs in enumerate(_built_ahead(task)):
            for program in programs:
                if self._on_program:
                    self._on_program(index, task, program)
                values = ProgramValues(task, program, self.device.chip, self.findings, shadow, self._model)
                waiting.append(_execute(values, raised, task, work))
            waiting, _ = _advance(waiting)
            if self._progress:
                self._progress(task.name, block + 1, task.block_dim)
        progressed = True
        while waiting:
            if not progressed:
                raise SimError(f"{task.name}: {len(waiting)} programs wait for cross-core flags that nobody raises")
            waiting, progressed = _advance(waiting)


def _built_ahead(task: Task) -> Iterator[Sequence[Program]]:
    """Yield the programs of each block; a few blocks are built ahead of the one that runs.

    Most programs are copies of another one with moved addresses, which must still exist (`KernelBuilder.repeated`).
    """
    for first in range(0, task.block_dim, _AHEAD):
        blocks = [task.build(block) for block in range(first, min(first + _AHEAD, task.block_dim))]
        while blocks:
            yield blocks.pop(0)


def _advance(programs: list[Iterator[bool]]) -> tuple[list[Iterator[bool]], bool]:
    """Advance every program until it ends or waits; return those that wait, and True if any advanced."""
    left = []
    progressed = False
    for program in programs:
        try:
            progressed = next(program) or progressed
            left.append(program)
        except StopIteration:
            progressed = True
    return left, progressed


def _execute(values: ProgramValues, raised: _Raised, task: Task, work: Workspace | None) -> Iterator[bool]:
    """Run one program as a generator that yields at each wait for a cross-core flag that is not yet raised.

    It yields True if the program advanced since the last yield. With a workspace C runs the rows it can.
    """
    program = values.program
    table, memory = program.table, values.memory
    taken: dict[CrossCounter, int] = defaultdict(int)
    core = (program.block, program.core_kind, program.sub_block)
    kinds, instructions = table.kinds, table.instructions
    got_on = True
    matters = np.asarray([i.has_values or isinstance(i, _CROSS) for i in instructions], np.bool_)[program.rows[:, 0]]
    index = np.flatnonzero(matters)
    ordered = rows_in_order(program)
    if ordered is not None:
        order, stuck = ordered
        if stuck:
            raise _deadlock(task, program, stuck)
        index = order[matters[order]]
    for row in index.tolist() if work is None else rows_for_python(values, work, index):
        argument, dst, src0, src1, _ = program.rows[row].tolist()
        kind = kinds[argument]
        instruction = instructions[argument]
        if instruction.has_values:
            key = values.key(argument, dst, src0, src1)
            known = key in values.retired
            if not known:
                values.at_start(row, key)
            try:
                instruction.commit(memory, dst, instruction.read(memory, dst, src0, src1))
            except Exception as error:
                raise_fault(error, values, row)
            if not known:
                values.at_retirement(row, key)
        elif kind == CROSS_SET:
            assert isinstance(instruction, CrossCoreSetFlag)
            raised[cross_counter(instruction, core)][program.block, program.sub_block] += 1
        elif kind == CROSS_WAIT:
            assert isinstance(instruction, CrossCoreWaitFlag)
            flag = cross_counter(instruction, core)
            parts = _parts(task, flag, table.chip)
            while sum(count > taken[flag] for count in raised[flag].values()) < parts:
                yield got_on
                got_on = False
            got_on = True
            taken[flag] += 1
    memory.cache.clean()


def _deadlock(task: Task, program: Program, stuck: Sequence[int]) -> DeadlockError:
    """Return the error for pipes that stand at the rows `stuck`, which wait for flags."""
    lines = [f"deadlock: {task.name}: {len(stuck)} pipes of {program.where} wait for flags that are never set"]
    for row in stuck:
        flag = program[row].instruction
        assert isinstance(flag, WaitFlag)
        lines.append(
            f"  {program.where} {flag.destination}: at {program[row]} waits for flag {flag.flag} from {flag.source}"
        )
    return DeadlockError("\n".join(lines))


def _parts(task: Task, counter: CrossCounter, chip: ChipSpec) -> int:
    """Return how many programs must raise a counter together: of one block, or for a counter of all cores of all
    blocks.
    """
    block = max(counter[3], 0)
    return len(cross_members(counter, task.cores(chip, block))) * (task.block_dim if counter[3] < 0 else 1)
