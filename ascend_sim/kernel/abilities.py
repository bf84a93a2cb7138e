"""What a kernel can ask of its chip before it writes an instruction that not every chip has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL_BYTES
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.forms import can_say
from ascend_sim.isa.transfer import DataCopy, Fill


class Abilities:
    """Questions that the declared forms of the instructions answer (configs/instructions)."""

    if TYPE_CHECKING:
        chip: ChipSpec

    def can_copy(
        self, source: str, destination: str, row_bytes: int, rows: int = 1, src_stride: int = 0, dst_stride: int = 0
    ) -> bool:
        """Whether the chip has one instruction for these rows; see `KernelBuilder.data_copy`."""
        return can_say(DataCopy(source, destination, row_bytes, rows, src_stride, dst_stride), self.chip)

    def fill_unit(self, destination: str) -> int:
        """Bytes that `KernelBuilder.fill` counts in a buffer: a block, or on the 910 and 310P a fractal."""
        return BLOCK_BYTES if can_say(Fill(destination, BLOCK_BYTES), self.chip) else FRACTAL_BYTES

    @property
    def gemv_is_optional(self) -> bool:
        """Whether a product of one row can read fractals, as products of more rows do."""
        return can_say(Mmad(1, 1, 1, "float16", False), self.chip)
