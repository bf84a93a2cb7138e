"""Memory for values, and choices of the value model where the chip's arithmetic is an option or not known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.host import one_thread
from ascend_sim.isa.moves import Moves
from ascend_sim.memory.data_cache import DataCache
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.local import LocalMemory
from ascend_sim.numerics import cast
from ascend_sim.numerics.accumulate import ACCUMULATIONS

MASK_REGISTER_BYTES = 16
"""Bytes of the vector unit's mask register (CMPMASK): a bit for each element of 2 bytes of a repeat."""


@frozen
class ValueModel:
    """Choices about values that the chip offers or that are not published; no cost depends on them.

    `accumulate` names a model of the cube's additions (`numerics.accumulate`); `saturate`: infinities, NaN and overflow become
    finite numbers (chip file, overflow). `effects` caches the `Moves` of each instruction (`Instruction.described`), None for
    one without.
    """

    chip: ChipSpec
    accumulate: str
    saturate: bool
    effects: dict[Any, Moves | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, chip: ChipSpec, accumulate: str = "chunk", overflow: str | None = None) -> ValueModel:
        """Return the model of a chip; `overflow` is "inf_nan", "saturate" or None (the chip's default).

        Raises SimError for another name, and for an overflow mode that the chip lacks.
        """
        if accumulate not in ACCUMULATIONS:
            raise SimError(f"accumulate {accumulate!r}: allowed are {', '.join(ACCUMULATIONS)}")
        modes = chip.overflow.modes
        if overflow is not None and overflow not in modes:
            raise SimError(
                f"overflow {overflow!r}: {chip.name} ({chip.identity.arch}) has {' and '.join(modes)} "
                f"({chip.overflow.modes_source}; chip file, overflow.modes)"
            )
        return cls(chip, accumulate, (overflow or chip.overflow.default) == "saturate")

    @property
    def overflow(self) -> str:
        """Return the name of the overflow mode, "saturate" or "inf_nan"."""
        return "saturate" if self.saturate else "inf_nan"

    def one_order(self) -> AbstractContextManager[object]:
        """Return a context in which BLAS uses one thread, so that its products have one order of additions; an empty one for
        "chunk".
        """
        return one_thread() if self.accumulate != "chunk" else nullcontext()

    def settled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return floating-point `values`: as they are or, if the model saturates and one is not finite, a copy of finite
        numbers.

        That sums saturate so is inferred.
        """
        if not self.saturate or np.isfinite(values.sum(dtype=np.float64)):
            return values
        return cast(values, values.dtype, saturate=True)

    def fixpipe_saturates(self, itemsize: int) -> bool:
        """Return True if the Fixpipe saturates results of `itemsize` bytes: in saturating mode, or 2-byte results on some
        chips.
        """
        return self.saturate or (itemsize == 2 and self.chip.overflow.fixpipe_16bit_saturates)


class Memory:
    """Memory of one program for values: buffers by name, tensors by slot, the scalar unit's data cache, the mask register."""

    __slots__ = ("buffers", "cache", "gm", "local", "mask_register", "model")

    def __init__(self, local: LocalMemory, gm: Sequence[NDArray[np.uint8]], model: ValueModel) -> None:
        self.local = local
        self.model = model
        self.buffers = local.buffers
        self.gm = gm
        self.cache = DataCache(gm, model.chip.scalar.data_cache_line_bytes)
        self.mask_register = np.zeros(MASK_REGISTER_BYTES, np.uint8)

    def array(
        self, space: str, address: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Return a view of `shape` (writes go to memory) at a byte address of a buffer, or at a GM operand (slot and offset).

        `strides` are in bytes; None: elements adjoin.
        """
        if space == "GM":
            buffer = self.gm[address >> SLOT_SHIFT]
            return np.ndarray(shape, dtype, buffer, address & OFFSET_MASK, strides)
        return np.ndarray(shape, dtype, self.buffers[space], address, strides)
