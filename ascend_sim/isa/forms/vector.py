"""Translation of element-wise vector arithmetic to instruction fields and back; see configs/instructions/vector.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.forms.form import Way
from ascend_sim.isa.vector.arithmetic import VectorBinary, VectorUnary
from ascend_sim.isa.vector.base import Elementwise, size_of

Fields = Mapping[str, int]


class Adjoining(Way):
    """Translation of element-wise arithmetic whose blocks adjoin, without known fields: every one passes.

    Rows take as many instructions as their number and strides need.
    """

    kind: type[Instruction] = Elementwise

    def route(self, instruction: Any) -> str:
        return "UB->UB"

    def says(self, instruction: Any) -> bool:
        return not instruction.blocks

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        return VectorUnary("abs", item, BLOCK_BYTES // size_of(item))


class BlocksOfTwo(Adjoining):
    """Translation of element-wise arithmetic on dst and one source whose blocks lie apart: a block stride for each operand."""

    names: tuple[str, ...] = ("dst_block_stride", "src0_block_stride")

    def says(self, instruction: Any) -> bool:
        return len(instruction.blocks) == len(self.names)

    def values(self, instruction: Any) -> tuple[int, ...]:
        blocks: tuple[int, ...] = instruction.blocks
        return blocks

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        count = 2 * BLOCK_BYTES // size_of(item)
        return VectorUnary("abs", item, count, 1, 0, 0, None, tuple(fields[name] for name in self.names))


class BlocksOfThree(BlocksOfTwo):
    """Translation of element-wise arithmetic on dst and two sources whose blocks lie apart: a block stride for each operand."""

    kind = VectorBinary
    names = (*BlocksOfTwo.names, "src1_block_stride")

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        count = 2 * BLOCK_BYTES // size_of(item)
        return VectorBinary("add", item, count, 1, 0, 0, None, tuple(fields[name] for name in self.names))


WAYS: dict[str, Way] = {"adjoining": Adjoining(), "blocks_of_two": BlocksOfTwo(), "blocks_of_three": BlocksOfThree()}
