"""Values without time: blocks in block order, the programs of a block in turn at its cross-core flags.

A program executes in its order until all programs wait for cross-core flags; then other pipes of its core go ahead.

The same instructions on the same memory as in `full` mode; only the order differs, so results are bit-equal for kernels
whose sums do not depend on arrival order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.choice import chosen_engine
from ascend_sim.engine.compiled.values import CompiledValues, Workspace, rows_for_python
from ascend_sim.engine.core_flag import lost_set_text
from ascend_sim.engine.device import Device
from ascend_sim.engine.shown_rows import ShownRows
from ascend_sim.engine.task import Task
from ascend_sim.engine.values import BlockShadow, Finding, ProgramValues, local_memory, raise_fault
from ascend_sim.errors import DeadlockError
from ascend_sim.isa.base import CROSS_SET, CROSS_WAIT
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.sync import CrossCounter, WaitFlag, cross_counter, cross_members
from ascend_sim.kernel.execution_order import Queues, lost_set, rows_in_order
from ascend_sim.kernel.program import Program
from ascend_sim.memory.local import LocalMemory

_Raised = dict[CrossCounter, Counter[tuple[int, int]]]
"""Counter of a cross-core flag -> how often each core (block, sub-block) has raised its part."""
_Order = tuple[NDArray[np.int64], list[int], int]
"""Rows with values or cross-core flags, in an order of execution; rows at which pipes deadlock; row of a lost set or -1."""
_Running = Generator[bool, bool | None, None]
"""A program that runs: it yields True if it advanced, and is sent True when all programs stand."""
_Waiting = tuple[_Running, "_CrossFlags"]
"""A program that runs, and its cross-core flags."""
_AHEAD = 8
"""Blocks that are built together; few, so that a run of many blocks needs little memory."""


class FunctionalEngine:
    """Runs tasks in the given order for their values; `findings` lists what went wrong.

    `on_program` is called with a task's index, the task and each of its programs, in block order. `engine` as in `Engine`: the
    compiled one moves bytes in C. With `keep` all built programs stay if their rows and orders take at most `keep` bytes:
    `run_again` then computes other values without building them again.
    """

    def __init__(
        self,
        device: Device,
        progress: Callable[[str, int, int], None] | None = None,
        model: ValueModel | None = None,
        on_program: Callable[[int, Task, Program], None] | None = None,
        engine: str | None = None,
        keep: int = 0,
    ) -> None:
        self.device = device
        self.findings: list[Finding] = []
        self._on_program = on_program
        self._progress = progress
        self._model = model or ValueModel.of(device.chip)
        self._compiled = chosen_engine(engine) == "compiled"
        self._work: Workspace | None = None
        self._shadow = BlockShadow()
        self._idle: dict[str, list[LocalMemory]] = defaultdict(list)
        self._tasks: Sequence[Task] = ()
        self._kept: list[list[list[_Ready]]] | None = [] if keep else None
        self._room = keep

    @property
    def kept_bytes(self) -> int | None:
        """Return the bytes of the kept programs' rows and orders; None if the run kept none or they became too many."""
        return None if self._kept is None else sum(one.nbytes for task in self._kept for block in task for one in block)

    def run_again(self) -> None:
        """Execute the tasks of a run that kept its programs on the present contents of their tensors.

        Findings stay those of the run; `on_program` and `progress` are dropped. Raises ValueError if nothing was kept.
        """
        if self._kept is None:
            raise ValueError("the programs of the run were not kept")
        found = list(self.findings)
        self._on_program = self._progress = None
        self._run(self._tasks, self._kept)
        self.findings[:] = found

    def run(self, tasks: Sequence[Task]) -> None:
        """Execute every task in the given order and add to `findings`; streams and events are ignored.

        Raises DeadlockError when programs wait for flags that no program raises, or a set is lost in any order of time;
        SimError for a row whose values cannot be computed; ValueError for tensors without bytes.
        """
        self._tasks = tasks
        self._run(tasks, None)

    def _run(self, tasks: Sequence[Task], kept: Sequence[Sequence[Sequence[_Ready]]] | None) -> None:
        # Infinities and NaN are ordinary values of a machine.
        with self._model.one_order(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for index, task in enumerate(tasks):
                if self._compiled and (self._work is None or self._kept is None):
                    self._work = Workspace(self.device.chip, self._model)
                self._run_task(task, self._ready(index, task) if kept is None else kept[index])

    def _ready(self, index: int, task: Task) -> Iterator[list[_Ready]]:
        """Yield the built programs of each block, after `on_program` was called for each; kept for `run_again` if they fit."""
        if self._kept is not None:
            self._kept.append([])
        orders: dict[tuple[str, int], tuple[object, _Order]] = {}
        for programs in _built_ahead(task):
            ready = []
            for program in programs:
                if self._on_program:
                    self._on_program(index, task, program)
                core, stamps = (program.core_kind, program.sub_block), program.sheet.which
                if core not in orders or orders[core][0] is not stamps:  # copies of a program execute in its order
                    orders[core] = stamps, _order(program)
                ready.append(_Ready(task, program, orders[core][1]))
            if self._kept is not None:
                self._kept[-1].append(ready)
                self._room -= sum(one.nbytes for one in ready)
                if self._room < 0:
                    self._kept = None
            yield ready

    def _run_task(self, task: Task, blocks: Iterable[Sequence[_Ready]]) -> None:
        """Execute a task's programs block by block, returning to those at cross-core flags; DeadlockError if all wait."""
        raised: _Raised = defaultdict(Counter)
        waiting: list[_Waiting] = []
        for block, programs in enumerate(blocks):
            for ready in programs:
                flags = _CrossFlags(ready, raised)
                waiting.append((self._execute(ready, flags), flags))
            waiting, _ = _advance(waiting)
            if self._progress:
                self._progress(task.name, block + 1, task.block_dim)
        stand = None
        while waiting:
            waiting, progressed = _advance(waiting, stand)
            if stand and not progressed:
                raise _all_wait(task, [flags for _, flags in waiting])
            stand = not progressed or None

    def _execute(self, ready: _Ready, flags: _CrossFlags) -> _Running:
        """Run one program as a generator that yields at each wait for a cross-core flag that is not raised yet.

        It yields True if the program advanced since the last yield. Once it is sent True, its pipes go on by their queues.
        Raises DeadlockError for inner flags never set, and for a set that is lost in any order of time.
        """
        task, program = ready.task, ready.program
        if ready.lost >= 0:
            lost = lost_set_text(program, ready.lost)
            raise DeadlockError(f"deadlock: {task.name}: a set of a flag is lost\n  {program.where}: {lost}")
        if ready.stuck:
            raise _deadlock(task, program, ready.stuck)
        idle = self._idle[program.core_kind]
        local = idle.pop() if idle else local_memory(self.device.chip, program.core_kind)
        values = ready.values
        if values is None:
            values = ProgramValues(task, program, self.device.chip, self.findings, self._shadow, self._model, local)
            ready.values = values
        else:
            values.run_again(local)
        got_on, stand = True, None
        for row in self._run_rows(ready, values, flags):
            while not stand and not flags.take(row):
                stand = yield got_on
                got_on = False
            if stand:
                break
            got_on = True
        if stand:
            queues = Queues(program, ready.rows_before(row), flags.take)
            while not queues.ended:
                rows = queues.go_on()
                for _ in self._run_rows(ready, values, flags, np.asarray(rows, np.int64)):
                    pass  # the queues have taken the flag
                yield bool(rows)
        values.memory.cache.clean()
        local.poison()
        idle.append(local)

    def _run_rows(
        self, ready: _Ready, values: ProgramValues, flags: _CrossFlags, rows: NDArray[np.int64] | None = None
    ) -> Iterator[int]:
        """Run a program's rows, or those of `rows`, in their order; yield each wait for a cross-core flag.

        C runs the rows that it can.
        """
        program, table, memory = values.program, values.program.table, values.memory
        for row in self._rows_for_python(ready, values, rows):
            argument, dst, src0, src1, _ = program.rows[row].tolist()
            instruction = table.instructions[argument]
            if instruction.has_values:
                key = values.key(argument, dst, src0, src1)
                values.at_start(row, key)
                try:
                    instruction.commit(memory, dst, instruction.read(memory, dst, src0, src1))
                except Exception as error:
                    raise_fault(error, values, row)
                values.at_retirement(row, key)
            elif table.kinds[argument] == CROSS_SET:
                flags.set(row)
            elif table.kinds[argument] == CROSS_WAIT:
                yield row

    def _rows_for_python(self, ready: _Ready, values: ProgramValues, rows: NDArray[np.int64] | None) -> Iterable[int]:
        """Return the rows that Python must run: all without the compiled engine, else an iterator that runs the others in C."""
        some = None if rows is None else rows[_matters(ready.program, rows)]
        if self._work is None:
            return (ready.order if some is None else some).tolist()
        if some is not None:
            return rows_for_python(CompiledValues(values, self._work, some), self._work)
        if ready.compiled is None:
            ready.compiled = CompiledValues(values, self._work, ready.order)
        else:
            ready.compiled.run_again()
        return rows_for_python(ready.compiled, self._work)


def _built_ahead(task: Task) -> Iterator[Sequence[Program]]:
    """Yield the programs of each block, building 8 blocks before the first of them runs.

    Most programs are copies of another one with moved addresses, which must still exist (`KernelBuilder.repeated`).
    """
    for first in range(0, task.block_dim, _AHEAD):
        blocks = [task.build(block) for block in range(first, min(first + _AHEAD, task.block_dim))]
        while blocks:
            yield blocks.pop(0)


def _advance(programs: list[_Waiting], stand: bool | None = None) -> tuple[list[_Waiting], bool]:
    """Advance every program until it ends or waits; return (programs that wait, True if any advanced).

    `stand` is sent to each: True if all of them wait.
    """
    left = []
    progressed = False
    for program, flags in programs:
        try:
            progressed = program.send(stand) or progressed
            left.append((program, flags))
        except StopIteration:
            progressed = True
    return left, progressed


class _CrossFlags:
    """Cross-core flags of a task as one of its programs sees them: the parts `raised` by all, and those that it has taken."""

    def __init__(self, ready: _Ready, raised: _Raised) -> None:
        self._task, self.program = ready.task, ready.program
        self._raised = raised
        self.stands = 0
        """Row of the last wait for a flag that was not raised."""
        self._taken: Counter[CrossCounter] = Counter()
        self._core = (self.program.block, self.program.core_kind, self.program.sub_block)

    def _instruction(self, row: int) -> Any:
        return self.program.table.instructions[self.program.rows[row, 0]]

    def set(self, row: int) -> None:
        """Raise the program's part of the flag that is set at `row`."""
        self._raised[cross_counter(self._instruction(row), self._core)][self._core[::2]] += 1

    def take(self, row: int) -> bool:
        """Take the flag for which `row` waits and return True; return False if it is not raised."""
        flag = cross_counter(self._instruction(row), self._core)
        parts = _parts(self._task, flag, self.program.table.chip)
        if sum(count > self._taken[flag] for count in self._raised[flag].values()) < parts:
            self.stands = row
            return False
        self._taken[flag] += 1
        return True


class _Ready:
    """A built program with its rows that have values or cross-core flags, in execution order, and after a run its C values."""

    def __init__(self, task: Task, program: Program, order: _Order) -> None:
        self.task, self.program = task, program
        self.values: ProgramValues | None = None
        self.compiled: CompiledValues | None = None
        self.order, self.stuck, self.lost = order

    def rows_before(self, row: int) -> NDArray[np.int64]:
        """Return all rows of the program that are executed before `row`, in their order of execution."""
        ordered = rows_in_order(self.program)
        return np.arange(row) if ordered is None else ordered[0][: int(np.flatnonzero(ordered[0] == row)[0])]

    @property
    def nbytes(self) -> int:
        """Return the bytes of the program's rows and of their order."""
        return int(self.program.rows.nbytes + self.order.nbytes)


def _order(program: Program) -> _Order:
    """Return (rows that have values or cross-core flags, in an order that a core can execute; rows at which pipes deadlock; row
    of a set that is lost in any order of time, -1 for none).
    """
    ordered, lost = rows_in_order(program), lost_set(program)
    if ordered is None:
        return np.flatnonzero(_matters(program)), [], lost
    order, stuck = ordered
    return order[_matters(program, order)], stuck, lost


def _matters(program: Program, rows: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.bool_]:
    """Return for each of `rows` True if it has values or a cross-core flag."""
    kinds = program.table.column("kind")
    matters = (program.table.column("has_values") > 0) | (kinds == CROSS_SET) | (kinds == CROSS_WAIT)
    return matters[program.rows[rows, 0]]


def _deadlock(task: Task, program: Program, stuck: Sequence[int]) -> DeadlockError:
    """Return the DeadlockError for a program whose pipes stand at the rows `stuck`, waits for flags that are never set."""
    rows = ShownRows()
    lines = [f"deadlock: {task.name}: {len(stuck)} pipes of {program.where} wait for flags that are never set"]
    for row in stuck:
        flag = program[row].instruction
        assert isinstance(flag, WaitFlag)
        at = rows.shown(task, program, row)
        lines.append(f"  {program.where} {flag.destination}: at {at} waits for flag {flag.flag} from {flag.source}")
    return DeadlockError("\n".join(lines))


def _all_wait(task: Task, stuck: Sequence[_CrossFlags]) -> DeadlockError:
    """Return the DeadlockError for programs that all wait for cross-core flags."""
    rows = ShownRows()
    lines = [f"deadlock: {task.name}: {len(stuck)} programs wait for cross-core flags that no core raises"]
    for one in stuck:
        view = one.program[one.stands]
        flag: Any = view.instruction
        at = rows.shown(task, one.program, one.stands)
        lines.append(f"  {one.program.where} {view.pipe}: at {at} waits for cross-core flag {flag.flag} (mode {flag.mode})")
    return DeadlockError("\n".join(lines))


def _parts(task: Task, counter: CrossCounter, chip: ChipSpec) -> int:
    """Return the number of programs that raise a counter together: of one block, or of all blocks for one of all cores."""
    block = max(counter[3], 0)
    return len(cross_members(counter, task.cores(chip, block))) * (task.block_dim if counter[3] < 0 else 1)
