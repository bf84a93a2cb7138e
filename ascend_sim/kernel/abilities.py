"""Abilities of a chip, which a kernel can ask for before it writes an instruction that not every chip has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL_BYTES
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.forms import can_say, copies_whole_blocks
from ascend_sim.isa.forms import reach as reach  # operators have it from here
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.transfer import DataCopy, Fill
from ascend_sim.kernel.operands import CopyLoop, matrix_window
from ascend_sim.kernel.program import InstructionTable


class Abilities:
    """Questions about a chip's instructions, answered by their declared forms (configs/instructions), and a copy that asks."""

    if TYPE_CHECKING:
        chip: ChipSpec
        table: InstructionTable
        data_copy: Any

    def can_copy(
        self, source: str, destination: str, row_bytes: int, rows: int = 1, src_stride: int = 0, dst_stride: int = 0
    ) -> bool:
        """Return True if one instruction can copy these rows; parameters as in `KernelBuilder.data_copy`. Cached."""
        shape = source, destination, row_bytes, rows, src_stride, dst_stride
        found = self.table.copies.get(shape)
        if found is None:
            found = self.table.copies[shape] = can_say(DataCopy(*shape), self.chip)
        return found

    @property
    def copies_whole_blocks(self) -> bool:
        """Return True if copies between GM and UB count whole 32-byte blocks, as on the 910 and 310P, not single bytes."""
        return copies_whole_blocks(self.chip)

    def copy_rows(
        self, path: str, dst: int, src: int, row_bytes: int, rows: CopyLoop, atomic_add: str = "", operand: str = ""
    ) -> None:
        """Copy rows along a path ("GM->L1") in one instruction, or in several where the chip's instructions cannot hold their
        number or gaps.

        The rows are halved until each part fits or is one row, which `data_copy` refuses if it does not fit. `operand` labels
        the counted bytes.
        """
        source, destination = path.split("->")
        if rows.times == 1 or self.can_copy(source, destination, row_bytes, *rows):
            self.data_copy(source, destination, dst, src, row_bytes, *rows, atomic_add, operand)
            return
        half = rows.times // 2
        for first, count in ((0, half), (half, rows.times - half)):
            to, start = dst + first * rows.dst_stride, src + first * rows.src_stride
            piece = rows._replace(times=count)
            self.copy_rows(path, to, start, row_bytes, piece, atomic_add, operand)

    def fill_unit(self, destination: str) -> int:
        """Return the bytes of which each multiple can be filled (`KernelBuilder.fill`): a block if the chip can fill a single
        one in `destination`, else a fractal (L0A and L0B of the 910B; all buffers but UB on the 910 and 310P).
        """
        return BLOCK_BYTES if can_say(Fill(destination, BLOCK_BYTES), self.chip) else FRACTAL_BYTES

    @property
    def turns_bytes_in_squares(self) -> bool:
        """Return True if only LoadDataWithTranspose can transpose a matrix of 1-byte items for the right operand."""
        window = LoadData3D("L0B", 1, *matrix_window(BLOCK_BYTES), 0, BLOCK_BYTES, 0, BLOCK_BYTES)
        squares = LoadData2D("L0B", 1, 1, transpose=True)
        return not can_say(window, self.chip) and can_say(squares, self.chip)

    @property
    def gemv_is_optional(self) -> bool:
        """Return True if the chip can multiply a single row without GEMV mode, its operand in fractals as for others."""
        return can_say(Mmad(1, 1, 1, "float16", False), self.chip)
