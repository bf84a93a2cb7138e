"""Vector instructions with a file each: `k.vector("NAME", dst, src)` emits the INSTRUCTION of NAME.py.

The builder, recorded runs, the reference page and the tests of all instructions find them here, so no other file has to name a
new one. The cost of it, and its formats, are a row of the architectures' chip files (vector.ops). After that `python
tools/instruction_reference.py` writes the reference page anew.
"""

from __future__ import annotations

import pkgutil
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import ClassVar, Protocol, Self, runtime_checkable

from ascend_sim.errors import SimError
from ascend_sim.isa.vector.base import VectorInstruction


@runtime_checkable
class Operand(Protocol):
    """Properties of a tensor in the Unified Buffer that an instruction needs (`kernel.local_tensor.LocalTensor`)."""

    @property
    def dtype(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def packed(self) -> bool: ...


class NamedInstruction(VectorInstruction):
    """Base of the instructions with a file each: frozen dataclasses whose `name` is that of file and row of vector.ops."""

    example: ClassVar[tuple[tuple[int, ...] | tuple[tuple[int, ...], str] | float, ...]]
    """Example operands, dst first, for the reference page and the tests: a shape, (shape, format), or a number."""
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float16")
    """Formats in which shapes of `example` without a format are tried."""

    @classmethod
    @abstractmethod
    def of(cls, dst: Operand, *sources: Operand | float) -> Self:
        """Return the instruction on these operands, `sources` in order. Raises SimError if their shapes or formats do not go
        together.
        """

    @classmethod
    def operands(cls, dtype: str) -> list[tuple[tuple[int, ...], str] | float]:
        """Return the operands of `example`: (shape, format) for a tensor, `dtype` unless it has a format of its own, or a
        number.
        """
        found: list[tuple[tuple[int, ...], str] | float] = []
        for one in cls.example:
            has_format = isinstance(one, tuple) and isinstance(one[-1], str)
            found.append(one if has_format or not isinstance(one, tuple) else (one, dtype))  # type: ignore[arg-type]
        return found

    @classmethod
    def run(cls, dtype: str, operand: Operand | float) -> int:
        """Return the number of elements of an operand in UB.

        Raises SimError for a number, another format than `dtype`, or gaps.
        """
        if not isinstance(operand, Operand):
            raise SimError(f"{cls.name}: {operand!r} stands where a tensor in UB is taken")
        if operand.dtype != dtype:
            raise SimError(f"{cls.name}: operands must have one format; there are {dtype} and {operand}")
        if not operand.packed:
            raise SimError(f"{cls.name}: takes elements one behind the other; there are gaps between the rows of {operand}")
        return operand.rows * operand.columns


@cache
def named() -> Mapping[str, type[NamedInstruction]]:
    """Return {name of the file: its instruction class} of all named instructions, whose files are imported once."""
    files = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: import_module(f"{__name__}.{name}").INSTRUCTION for name in files}
