"""What is checked: a task with its programs, their order, their accesses, and the cycles of a run where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ascend_sim.check.accesses import Accesses, Ints, Questions, Shapes, gather, sharing_pairs
from ascend_sim.check.findings import Place
from ascend_sim.check.order import TaskOrder
from ascend_sim.check.regions import Stack, stacks
from ascend_sim.check.sync_rows import SyncRows
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.execution_order import rows_in_order
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import Allocation


@dataclass
class Subject:
    """One task to be checked, the `index`-th that is launched; `shapes` are shared by all tasks of a check."""

    chip: ChipSpec
    task: Task
    programs: Sequence[Program]
    shapes: Shapes = field(default_factory=Shapes)
    index: int = 0

    @cached_property
    def synced(self) -> list[SyncRows]:
        """The rows that synchronise, by program."""
        return [SyncRows(program) for program in self.programs]

    @cached_property
    def stacks(self) -> list[Stack]:
        """All rows, of many programs at a time."""
        return list(stacks(enumerate(self.programs)))

    @cached_property
    def order(self) -> TaskOrder:
        """What happens before what."""
        return TaskOrder(self.task, self.synced)

    @cached_property
    def accesses(self) -> dict[str, Accesses]:
        """Who touches what, by space."""
        return gather(self.stacks, self.synced, self.shapes, self.task.tensors)

    @cached_property
    def questions(self) -> dict[str, Questions]:
        """What must be in order, by space."""
        return {space: Questions(a, *sharing_pairs(a, self.shapes)) for space, a in self.accesses.items()}

    @cached_property
    def unordered(self) -> dict[str, tuple[Ints, Ints]]:
        """Pairs of accesses that nothing orders, by space."""
        return {space: asked.unordered(self.order.clocks_in(space)) for space, asked in self.questions.items()}

    @cached_property
    def ranks(self) -> dict[int, Ints]:
        """The place of each row in an order that flags allow, by program; programs whose order of issue is one are left out."""
        orders = {number: rows_in_order(program) for number, program in enumerate(self.programs)}
        return {number: np.argsort(found[0]) for number, found in orders.items() if found is not None}

    def place(self, program: int, row: int, access: str = "", address: int | None = None) -> Place:
        """A row of a program, for a finding."""
        one = self.programs[program]
        view = one[row]
        return Place(
            one.block,
            one.core_kind,
            one.sub_block if one.core_kind == "AIV" else 0,
            view.pipe,
            row,
            view.instruction.name,
            access,
            address,
            None if one.notes is None else one.notes.line(row),
            task=self.index,
        )

    def line_key(self, program: int, row: int) -> tuple[object, ...]:
        """Equal for rows that the same line of the kernel wrote for the same kind of core."""
        one = self.programs[program]
        line = None if one.notes is None else one.notes.line(row)
        return (
            one.core_kind,
            line,
            one.table.instructions[int(one.rows[row, 0])].name,
            int(self.synced[program].pipe[row]),
        )

    def tensor_at(self, address: int) -> tuple[Allocation | None, int]:
        """The tensor of the task in which an address of GM lies, and the offset in it."""
        for tensor in self.task.tensors:
            if tensor.base <= address < tensor.base + max(tensor.size, 1):
                return tensor, address - tensor.base
        return None, address

    def spot(self, space: str, address: int) -> str:
        """A place in words: "0x40 on GM in weight"."""
        if space != "GM":
            return f"{address:#x} on {space} in {self.task.name}"
        tensor, offset = self.tensor_at(address)
        return f"{address:#x} on GM in {self.task.name}" + (
            f", {tensor.name}+{offset:#x}" if tensor is not None else ""
        )


def pipe_of(owner: int) -> str:
    """The name of a pipe from its number among all programs' pipes."""
    return PIPES[owner % len(PIPES)]
