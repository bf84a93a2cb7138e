"""PairReduceSum: sums of neighbours."""

from __future__ import annotations

from typing import Any, Self

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector.base import rows_of, size_of, view
from ascend_sim.isa.vector.named import NamedInstruction, Operand
from ascend_sim.memory.regions import Region


@frozen
class PairReduceSum(NamedInstruction):
    """dst[i] = src[2 i] + src[2 i + 1], rounded once to the format (PairReduceSum of asc-devkit, vcpadd).

    `count` elements of dst come from twice as many of src, one behind the other.
    """

    dtype: str
    count: int

    name = "pair_reduce_sum"
    example = ((512,), (1024,))

    @classmethod
    def of(cls, dst: Operand, *sources: Operand | float) -> Self:
        (src,) = sources
        count = cls.run(dst.dtype, dst)
        if cls.run(dst.dtype, src) != 2 * count:
            raise SimError(f"{cls.name}: src must have twice the elements of dst; it is {src}, dst {dst}")
        return cls(dst.dtype, count)

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, 2 * self.count * size_of(self.dtype)

    def reads(self) -> tuple[Region, ...]:
        return rows_of("src0", self.dtype, 2 * self.count)

    def writes(self) -> tuple[Region, ...]:
        return rows_of("dst", self.dtype, self.count)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        pairs = view(memory, src0, self.dtype, 2 * self.count)
        return memory.model.settled(pairs[::2] + pairs[1::2])

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        view(memory, dst, self.dtype, self.count)[...] = pending


INSTRUCTION = PairReduceSum
