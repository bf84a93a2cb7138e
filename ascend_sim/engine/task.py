"""A task: one kernel launch, as the engines see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import mutable
from ascend_sim.isa.sync import CrossCore
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import Allocation


@mutable(eq=False)
class Task:
    """`block_dim` blocks of a kernel on the tensors `tensors` (the GM slots of its programs).

    `build(block)` makes the programs of one block: one for "AIC", "AIV" or "AI_CORE" kernels, one AIC and its AIVs for "MIX",
    one for "MIX_VECTOR_CORE", whose blocks are dealt to AI Cores and vector-only cores (`Cores.vector_kind`). `stream` orders
    tasks; `wait_events` must have been recorded before it starts, `record_events` are recorded when it ends. `all_cores`
    marks a kernel with an all-core barrier, which must have all its blocks on cores at once. `template` says which of the
    operator's compiled kernels it stands for (chip file, launch.prologue_us); "" is op_type. `vector_cores` is how many AIVs a
    block of a "MIX" kernel has; None: all of its AIC. `info` is for reports and `binary`: dtypes, formats, tiling, products.
    """

    name: str
    op_type: str
    core_kind: str
    block_dim: int
    tensors: Sequence[Allocation]
    build: Callable[[int], Sequence[Program]]
    stream: int = 0
    wait_events: Sequence[str] = ()
    record_events: Sequence[str] = ()
    all_cores: bool = False
    template: str = ""
    vector_cores: int | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def binary(self) -> object:
        """Return the key of the task's code: tasks of equal operator, template, dtypes and formats run the same code."""
        return self.op_type, self.template, str(self.info.get("dtypes")), str(self.info.get("formats"))

    @property
    def main_kind(self) -> str:
        """Return the kind of core whose number and launch costs count: AIC for "MIX", AI_CORE for "MIX_VECTOR_CORE".

        It is `core_kind` itself for all others.
        """
        return {"MIX": "AIC", "MIX_VECTOR_CORE": "AI_CORE"}.get(self.core_kind, self.core_kind)

    def cores(self, chip: ChipSpec, block: int) -> list[CrossCore]:
        """Return the cores that block `block` takes, each as (block, kind, sub-block)."""
        if self.core_kind == "MIX_VECTOR_CORE":
            return [(block, chip.cores.vector_kind(block), 0)]
        if self.core_kind != "MIX":
            return [(block, self.core_kind, 0)]
        vectors = chip.cores.aiv_per_aic if self.vector_cores is None else self.vector_cores
        return [(block, "AIC", 0), *((block, "AIV", sub_block) for sub_block in range(vectors))]

    def __repr__(self) -> str:
        return f"<Task {self.name}: {self.op_type}, {self.block_dim} blocks on {self.core_kind}>"

    def where(self, order: int) -> str:
        """Return "block N KIND" of a program for messages ("block 3 AIV1" for AIVs); `order` is its number from `order_of`."""
        kind = {"MIX": "AIC", "MIX_VECTOR_CORE": "AI_CORE"}.get(self.core_kind, self.core_kind)
        block, sub_block = order >> _PART_BITS & (1 << _BLOCK_BITS) - 1, order & (1 << _PART_BITS) - 1
        return f"block {block} {f'AIV{sub_block - 1}' if sub_block else kind}"


_PART_BITS, _BLOCK_BITS = 3, 21


def order_of(task: int, program: Program) -> int:
    """Return the sort key of a program in its run: by task, block, cube before vector cores, and sub-block of these."""
    part = program.sub_block + 1 if program.core_kind == "AIV" else 0
    return (task << _BLOCK_BITS + _PART_BITS) + (program.block << _PART_BITS) + part


def task_of(order: int) -> int:
    """Return the task's index from a sort key of `order_of`."""
    return order >> _BLOCK_BITS + _PART_BITS
