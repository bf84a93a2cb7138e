"""Translation of copies of rows, conversions to NZ and fills to fields and back; see configs/instructions/copies.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import gcd
from typing import Any

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL_BYTES
from ascend_sim.isa.base import Instruction, ceil_div
from ascend_sim.isa.direct import DataCopyDn2Nz
from ascend_sim.isa.forms.form import Way
from ascend_sim.isa.transfer import DataCopy, DataCopyNd2Nz, DataCopyPadded, DataCopyPlanes, Fill
from ascend_sim.isa.vector.base import size_of
from ascend_sim.isa.vector.movement import VectorCopy

Fields = Mapping[str, int]


def filled(size: int) -> int:
    """Return the bytes that a row of `size` bytes takes in a local buffer: rounded up to whole 32-byte blocks."""
    return ceil_div(size, BLOCK_BYTES) * BLOCK_BYTES


@cache
def itemsize(item: str) -> int:
    """Return the bytes of an item of format `item`."""
    return size_of(item)


class AnyRows(Way):
    """Translation of a row copy (DataCopy) whose instruction fields are not published: it has none, so every copy without
    planes or padding passes.
    """

    kind = DataCopy

    def says(self, instruction: Any) -> bool:
        return getattr(instruction, "planes", 1) == 1 and not isinstance(instruction, DataCopyPadded)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        source, destination = route.split("->")
        return DataCopy(source, destination, BLOCK_BYTES)


class BlockRows(AnyRows):
    """Translation of a copy of rows of whole blocks (DataCopy) to fields and back.

    The fields are row count, row length, and for each side the gap from the end of a row to the next one's start.
    """

    names = ("n_burst", "len_burst", "src_gap", "dst_gap")

    def values(self, instruction: DataCopy) -> tuple[int, ...]:
        i = instruction
        if i.rows == 1:
            return 1, i.row_bytes, 0, 0
        return i.rows, i.row_bytes, i.src_stride - i.row_bytes, i.dst_stride - i.row_bytes

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        source, destination = route.split("->")
        size = fields["len_burst"]
        return DataCopy(source, destination, size, fields["n_burst"], size + fields["src_gap"], size + fields["dst_gap"])


class AnyCopies(Way):
    """Translation of a copy within UB by elements (VectorCopy) whose instruction fields are not published: every one passes."""

    kind = VectorCopy

    def route(self, instruction: Any) -> str:
        return "UB->UB"

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        return VectorCopy(item, BLOCK_BYTES // size_of(item))


class CopiedRows(AnyCopies):
    """Translation of a copy within UB (VectorCopy) to the fields of `BlockRows` and back; it has no mask."""

    names = BlockRows.names

    def values(self, instruction: VectorCopy) -> tuple[int, ...]:
        i = instruction
        size = i.count * size_of(i.dtype)
        return (1, size, 0, 0) if i.rows == 1 else (i.rows, size, i.src_stride - size, i.dst_stride - size)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        size, rows = fields["len_burst"], fields["n_burst"]
        strides = (size + fields["dst_gap"], size + fields["src_gap"]) if rows > 1 else (0, 0)
        return VectorCopy(item, size // size_of(item), rows, *strides)

    def unmasked(self, i: VectorCopy) -> str:
        """Return the refusal of a mask, or ""."""
        return "" if i.mask is None else "a mask; the copy in UB by blocks has none"


class StartedRows(AnyRows):
    """Translation of a copy of rows of whole blocks (DataCopy) to fields and back; strides count from start to start."""

    names = ("n_burst", "len_burst", "src_stride", "dst_stride")

    def values(self, instruction: DataCopy) -> tuple[int, ...]:
        i = instruction
        return (1, i.row_bytes, 0, 0) if i.rows == 1 else (i.rows, i.row_bytes, i.src_stride, i.dst_stride)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        source, destination = route.split("->")
        f = fields
        return DataCopy(source, destination, f["len_burst"], f["n_burst"], f["src_stride"], f["dst_stride"])


class GmFractals(AnyRows):
    """Translation of loads of fractals from GM (DataCopy) to fields and back; one row may be several fractals that adjoin."""

    names = ("repeat", "src_stride", "dst_gap")

    def values(self, instruction: DataCopy) -> tuple[int, ...]:
        i = instruction
        if i.rows == 1:
            return i.row_bytes, FRACTAL_BYTES, 0
        return i.rows * FRACTAL_BYTES, i.src_stride, i.dst_stride - FRACTAL_BYTES

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        source, destination = route.split("->")
        count, size = fields["repeat"] // FRACTAL_BYTES, FRACTAL_BYTES
        strides = (fields["src_stride"], size + fields["dst_gap"]) if count > 1 else (0, 0)
        return DataCopy(source, destination, size, count, *strides)

    def single_fractals(self, i: DataCopy) -> str:
        """Return the refusal of several rows that are not one fractal each, or ""."""
        return f"rows of {i.row_bytes} bytes" if i.rows > 1 and i.row_bytes != FRACTAL_BYTES else ""


def _sides(i: DataCopy) -> tuple[int, int]:
    """Return the strides of a copy as (stride in GM, stride in the local buffer); the destination counts as GM unless the
    source is.
    """
    return (i.src_stride, i.dst_stride) if i.source == "GM" else (i.dst_stride, i.src_stride)


def _copied(route: str, size: int, rows: int, far: int, near: int) -> DataCopy:
    """Return the copy on a route with stride `far` in GM and `near` in the local buffer."""
    source, destination = route.split("->")
    return DataCopy(source, destination, size, rows, *((far, near) if source == "GM" else (near, far)))


class FilledRows(AnyRows):
    """Translation of a copy of rows of any bytes (DataCopy) to fields and back.

    Rows are filled up to blocks on the local side; the fields are the gaps in GM between rows, and locally between filled rows.
    """

    names: tuple[str, ...] = ("n_burst", "len_burst", "gm_gap", "local_gap")

    def values(self, instruction: DataCopy) -> tuple[int, ...]:
        i = instruction
        if i.rows == 1:
            return 1, i.row_bytes, 0, 0
        far, near = _sides(i)
        return i.rows, i.row_bytes, far - i.row_bytes, near - filled(i.held_bytes)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        size = fields["len_burst"]
        return _copied(route, size, fields["n_burst"], size + fields["gm_gap"], filled(size) + fields["local_gap"])


class SteppedRows(AnyRows):
    """Translation of a copy of rows of any bytes (DataCopy) to count, length and strides and back.

    Rows on the local side are filled up to blocks, or adjoin, by the form's rule.
    """

    names: tuple[str, ...] = ("n_burst", "len_burst", "gm_stride", "local_stride")

    def values(self, instruction: DataCopy) -> tuple[int, ...]:
        i = instruction
        return (1, i.row_bytes, 0, 0) if i.rows == 1 else (i.rows, i.row_bytes, *_sides(i))

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        return self.copied(route, fields)

    @staticmethod
    def copied(route: str, f: Fields) -> DataCopy:
        """Return the copy on `route` of the fields that `SteppedRows` names; others are ignored."""
        return _copied(route, f["len_burst"], f["n_burst"], f["gm_stride"], f["local_stride"])

    def rows_held(self, i: DataCopy) -> str:
        """Return the refusal of local rows that overlap when each is filled up to whole blocks, or ""."""
        near, held = _sides(i)[1], filled(i.held_bytes)
        if i.rows > 1 and near < held:
            return f"local_stride = {near}; a row of {i.held_bytes} bytes takes {held} there"
        return ""

    def rows_adjoin(self, i: DataCopy) -> str:
        """Return the refusal of local rows that do not adjoin (gaps or overlap), or ""."""
        near = _sides(i)[1]
        if i.rows > 1 and near != i.row_bytes:
            return f"local_stride = {near}; compact rows are {i.row_bytes} bytes apart"
        return ""


_PADS = ("left_pad", "right_pad")


class _Padding(AnyRows):
    """Base of translations of padded copies (DataCopyPadded): the fields of the rows, then each side's padding in items."""

    kind = DataCopyPadded

    def says(self, instruction: Any) -> bool:
        return True

    def values(self, instruction: Any) -> tuple[int, ...]:
        i = instruction
        return *super().values(i), i.left // i.itemsize, self._right(i) // i.itemsize

    def _right(self, i: DataCopyPadded) -> int:
        """Return the bytes of padding on the right for the field: those given, but at most a block if the padded row ends on a
        block and less than two are given, since the instruction fills up the last block by itself.
        """
        fills = i.held_bytes % BLOCK_BYTES == 0 and i.right < 2 * BLOCK_BYTES
        return min(i.right, BLOCK_BYTES) if fills else i.right

    def pads_of_a_block(self, i: DataCopyPadded) -> str:
        """Return the refusal of more padding than a block on the left, or on the right in the field (`_right`); else ""."""
        if max(i.left, self._right(i)) > BLOCK_BYTES:
            return f"padding of {i.left} and {i.right} bytes; {BLOCK_BYTES} are possible on a side"
        return ""

    def zero_of_eight(self, i: DataCopyPadded) -> str:
        """Return the refusal of a padding number other than 0 in items of 8 bytes, or ""."""
        if i.itemsize > 4 and i.value:
            return f"value {i.value:#x} of {i.itemsize} bytes; 0 alone is possible"
        return ""


class PaddedRows(_Padding, FilledRows):
    """Translation of padded rows (DataCopyPadded) to the fields of `FilledRows` with the padding on each side, and back."""

    names = (*FilledRows.names, *_PADS)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        f, unit = fields, itemsize(item)
        left, right = (f[name] * unit for name in _PADS)
        size, held = f["len_burst"], filled(left + f["len_burst"] + right)
        one = _copied(route, size, f["n_burst"], size + f["gm_gap"], held + f["local_gap"])
        return DataCopyPadded(**vars(one), left=left, right=right, itemsize=unit)


class PaddedSteps(_Padding, SteppedRows):
    """Translation of padded rows (DataCopyPadded) to the fields of `SteppedRows` with the padding on each side, and back."""

    names = (*SteppedRows.names, *_PADS)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        unit = itemsize(item)
        left, right = (fields[name] * unit for name in _PADS)
        return DataCopyPadded(**vars(self.copied(route, fields)), left=left, right=right, itemsize=unit)


class Planes(SteppedRows):
    """Translation of a copy of planes of rows (DataCopyPlanes): the fields of `SteppedRows` and an outer loop."""

    kind = DataCopyPlanes
    names = (*SteppedRows.names, "loop1_size", "loop1_gm", "loop1_local")

    def says(self, instruction: Any) -> bool:
        return True

    def values(self, instruction: Any) -> tuple[int, ...]:
        i = instruction
        loop = (i.src_plane, i.dst_plane) if i.source == "GM" else (i.dst_plane, i.src_plane)
        return (*super().values(i), i.planes, *(loop if i.planes > 1 else (0, 0)))

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        one = self.copied(route, fields)
        far, near = fields["loop1_gm"], fields["loop1_local"]
        source, destination = (far, near) if route.startswith("GM") else (near, far)
        return DataCopyPlanes(**vars(one), planes=fields["loop1_size"], src_plane=source, dst_plane=destination)


class Nd2Nz(Way):
    """Translation of one row-major matrix to NZ (DataCopyNd2Nz) to fields and back; the distance of rows counts elements."""

    kind = DataCopyNd2Nz
    names = ("n_value", "d_value", "src_d_value", "dst_nz_c0_stride")

    def values(self, instruction: DataCopyNd2Nz) -> tuple[int, ...]:
        i = instruction
        step = i.src_stride // i.itemsize if i.rows > 1 else 1
        return i.rows, i.cols, step, i.rows_padded * BLOCK_BYTES

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        size = itemsize(item)
        step, padded = fields["src_d_value"] * size, fields["dst_nz_c0_stride"] // BLOCK_BYTES
        return DataCopyNd2Nz(fields["n_value"], fields["d_value"], size, step, padded)

    def whole_elements(self, i: DataCopyNd2Nz) -> str:
        """Return the refusal of a distance of rows that is not whole elements, or ""."""
        if i.src_stride % i.itemsize:
            return f"rows {i.src_stride} bytes apart are not whole elements of {i.itemsize}"
        return ""

    def columns_apart(self, i: DataCopyNd2Nz) -> str:
        """Return the refusal of columns of blocks that would lie over each other in L1, or ""."""
        shared = gcd(i.rows_padded, i.row_step)
        if i.rows > i.rows_padded // shared and i.cols * i.itemsize > BLOCK_BYTES * (i.row_step // shared):
            return f"columns of {i.rows} rows lie {i.rows_padded} rows apart, over each other"
        return ""


class Nd2NzBytes(Nd2Nz):
    """Translation of one row-major matrix to NZ (DataCopyNd2Nz) to fields and back; the distance of rows counts bytes."""

    names = ("n_value", "d_value", "loop1_src_stride", "dst_nz_c0_stride")

    def values(self, instruction: DataCopyNd2Nz) -> tuple[int, ...]:
        n, d, _, c0 = super().values(instruction)
        return n, d, instruction.src_stride if n > 1 else 1, c0

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        padded = fields["dst_nz_c0_stride"] // BLOCK_BYTES
        return DataCopyNd2Nz(fields["n_value"], fields["d_value"], itemsize(item), fields["loop1_src_stride"], padded)


class Dn2Nz(Way):
    """Translation of column-major matrices to NZ (DataCopyDn2Nz) to fields and back: n counts pixels, field d channels."""

    kind = DataCopyDn2Nz
    names = (
        "nd_num", "n_value", "d_value", "loop1_src_stride", "loop4_src_stride", "dst_nz_c0_stride", "dst_nz_n_stride",
        "dst_nz_matrix_stride",
    )  # fmt: skip

    def values(self, instruction: DataCopyDn2Nz) -> tuple[int, ...]:
        i = instruction
        matrices = (i.src_step, i.dst_step) if i.count > 1 else (0, 0)
        c0 = i.block_stride if i.channels * i.itemsize > BLOCK_BYTES else BLOCK_BYTES
        step = i.channel_stride if i.channels > 1 else 1
        n = i.pixel_stride if i.pixels > 1 else BLOCK_BYTES
        return i.count, i.pixels, i.channels, step, matrices[0], c0, n, matrices[1]

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        f = fields
        strides = f["loop1_src_stride"], f["dst_nz_n_stride"], f["dst_nz_c0_stride"]
        matrices = f["nd_num"], f["loop4_src_stride"], f["dst_nz_matrix_stride"]
        return DataCopyDn2Nz(f["d_value"], f["n_value"], itemsize(item), *strides, *matrices)

    def whole_elements(self, i: DataCopyDn2Nz) -> str:
        """Return the refusal of channels that begin inside an element, or ""."""
        apart = i.channels > 1 and i.channel_stride % i.itemsize
        if apart:
            return f"channels {i.channel_stride} bytes apart are not whole elements of {i.itemsize}"
        return ""


class AnyFill(Way):
    """Translation of a run of zeros (Fill) whose instruction fields are not published: it has none."""

    kind = Fill

    def route(self, instruction: Any) -> str:
        return f"->{instruction.destination}"

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        return Fill(route.removeprefix("->"), BLOCK_BYTES)

    def whole_items(self, i: Fill) -> str:
        """Return the refusal of a size that is not whole items of 2 bytes, or ""."""
        return f"{i.size} bytes are not whole items of 2" if i.size % 2 else ""


class BlockFill(AnyFill):
    """Translation of one run of zeros (Fill) to one field, the number of 32-byte blocks, and back."""

    names = ("block_num",)

    def values(self, instruction: Fill) -> tuple[int, ...]:
        return (instruction.size,)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        return Fill(route.removeprefix("->"), fields[self.names[0]])


class FractalFill(BlockFill):
    """Translation of one run of zeros (Fill) to one field, the number of fractals, and back."""

    names = ("repeat",)


WAYS: dict[str, Way] = {
    "any_rows": AnyRows(),
    "block_rows": BlockRows(),
    "gm_fractals": GmFractals(),
    "any_copies": AnyCopies(),
    "copied_rows": CopiedRows(),
    "started_rows": StartedRows(),
    "filled_rows": FilledRows(),
    "stepped_rows": SteppedRows(),
    "padded_rows": PaddedRows(),
    "padded_steps": PaddedSteps(),
    "planes": Planes(),
    "nd2nz": Nd2Nz(),
    "nd2nz_bytes": Nd2NzBytes(),
    "dn2nz": Dn2Nz(),
    "any_fill": AnyFill(),
    "block_fill": BlockFill(),
    "fractal_fill": FractalFill(),
}
