"""Translation of the cube's products and of stores out of L0C to fields and back; see configs/instructions/cube.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ascend_sim.chip.fractal import ACCUMULATOR_FRACTAL_BYTES, ACCUMULATOR_ROW_BYTES, BIAS_UNIT, BLOCK_BYTES, FRACTAL
from ascend_sim.isa.base import Instruction, ceil_div
from ascend_sim.isa.bias import LoadBias
from ascend_sim.isa.cube import Fixpipe, FixpipeNd, Mmad
from ascend_sim.isa.direct import FixpipeDn
from ascend_sim.isa.forms.copies import itemsize
from ascend_sim.isa.forms.form import Way
from ascend_sim.isa.l0c_to_l1 import FixpipeToL1
from ascend_sim.isa.l0c_to_ub import L0cToUb

Fields = Mapping[str, int]


class ProductWay(Way):
    """Translation of a product (Mmad) to its extents and back; m = 1 is the GEMV mode, in which L0A does not hold fractals."""

    kind = Mmad
    names: tuple[str, ...] = ("m", "k", "n", "c_matrix_init_val")

    def route(self, instruction: Any) -> str:
        return "L0A*L0B->L0C"

    def values(self, instruction: Mmad) -> tuple[int, ...]:
        i = instruction
        return i.m, i.k, i.n, int(not i.accumulate)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        gemv = fields["m"] == 1 and not fields.get("disable_gemv")
        return Mmad(fields["m"], fields["k"], fields["n"], item, not fields["c_matrix_init_val"], gemv=gemv)

    def gemv(self, i: Mmad) -> str:
        """Return the refusal of a product with one row outside GEMV mode, or with several rows in it; else ""."""
        if i.m == 1 and not i.gemv:
            return "m = 1 is the GEMV mode: L0A is read as one plain row of k, not as fractals"
        return self.one_row(i)

    def one_row(self, i: Mmad) -> str:
        """Return the refusal of several rows in GEMV mode, or ""."""
        if i.gemv and i.m != 1:
            return f"m = {i.m} with gemv; that mode is one of m = 1"
        return ""


class ProductWithBias(ProductWay):
    """Translation of a product (Mmad) that may begin with the bias table to fields and back."""

    names = (*ProductWay.names, "c_matrix_source")

    def values(self, instruction: Mmad) -> tuple[int, ...]:
        i = instruction
        return i.m, i.k, i.n, int(not i.accumulate and not i.has_bias), int(i.has_bias)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        plain: Any = super().effect(route, {**fields, "c_matrix_init_val": 1 - fields.get("c_matrix_source", 0)}, item)
        if fields.get("c_matrix_source"):
            begun: Instruction = replace(plain, accumulate=False, bias=0)
            return begun
        summed: Instruction = replace(plain, accumulate=not fields["c_matrix_init_val"])
        return summed

    def whole_bias(self, i: Mmad) -> str:
        """Return the refusal of a bias that begins inside a unit of the bias table, or ""."""
        if i.has_bias and i.bias % BIAS_UNIT:
            return f"bias = {i.bias} is not a multiple of {BIAS_UNIT} bytes"
        return ""


class ProductOfChoice(ProductWithBias):
    """Translation of a product (Mmad) with bias to fields and back, where the GEMV mode of m = 1 can be switched off."""

    names = (*ProductWithBias.names, "disable_gemv")

    def values(self, instruction: Mmad) -> tuple[int, ...]:
        return *super().values(instruction), int(instruction.m == 1 and not instruction.gemv)


class BiasNumbers(Way):
    """Translation of a load of the bias table (LoadBias) to its length and a conversion bit, set for float16, and back.

    `effect` makes float32 of a load without the bit, also for int32.
    """

    kind = LoadBias
    names = ("conv_control", "len_burst")

    def values(self, instruction: LoadBias) -> tuple[int, ...]:
        return int(instruction.dtype == "float16"), instruction.reads()[0].total

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        dtype = "float16" if fields["conv_control"] else "float32"
        return LoadBias(fields["len_burst"] // (2 if dtype == "float16" else 4), dtype)


class DrainBlocks(Way):
    """Translation of a store of L0C to GM in blocks of columns (Fixpipe) to fields and back."""

    kind = Fixpipe
    names: tuple[str, ...] = ("n_size", "m_size", "dst_stride", "src_stride", "channel_split")

    def values(self, instruction: Fixpipe) -> tuple[int, ...]:
        i = instruction
        unit = max(min(i.c0, FRACTAL), 1)
        step = i.dst_stride if i.n > i.c0 else BLOCK_BYTES
        return ceil_div(i.n, unit) * unit, i.m, step, i.m_padded, int(_splits(i))

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        f, merged = fields, BLOCK_BYTES if itemsize(item) == 1 else FRACTAL
        c0 = FRACTAL // 2 if f["channel_split"] else merged
        step = f["dst_stride"] if f["n_size"] > c0 else BLOCK_BYTES  # one block has no next one
        return Fixpipe(f["m_size"], f["n_size"], f["src_stride"], item, c0, step)

    def block_width(self, i: Fixpipe) -> str:
        """Return the refusal of blocks in GM with another width than the Fixpipe makes, or ""."""
        if i.itemsize == 1:
            whole = i.c0 == BLOCK_BYTES or (i.c0 == FRACTAL and i.n <= FRACTAL)
            return "" if whole else f"c0 = {i.c0} of {i.dtype}; blocks have {BLOCK_BYTES} columns (channel merge)"
        if i.c0 == FRACTAL or _splits(i):
            return ""
        return f"c0 = {i.c0} of {i.dtype}; blocks have {FRACTAL} columns, with the channel split 8 of float32"


class DrainToL1(DrainBlocks):
    """Translation of a store of L0C to L1 in blocks of columns (FixpipeToL1) to fields and back."""

    kind = FixpipeToL1
    names = DrainBlocks.names[:-1]

    def values(self, instruction: Fixpipe) -> tuple[int, ...]:
        return super().values(instruction)[:-1]

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        return FixpipeToL1(**vars(super().effect(route, {**fields, "channel_split": 0}, item)))


def _splits(i: Fixpipe) -> bool:
    """Return True if blocks are half as wide as in L0C (the channel split of float32)."""
    return i.c0 == FRACTAL // 2 and i.itemsize == BLOCK_BYTES // i.c0


def _item(i: Any) -> int:
    return itemsize(i.dtype)


class DrainRows(Way):
    """Translation of a store of L0C to GM as rows of a matrix (FixpipeNd) to fields and back."""

    kind = FixpipeNd
    names = ("n_size", "m_size", "dst_stride", "src_stride")

    def values(self, instruction: Any) -> tuple[int, ...]:
        i = instruction
        return i.n, i.m, i.dst_stride // i.itemsize if i.m > 1 else 1, i.m_padded

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        f = fields
        return FixpipeNd(f["m_size"], f["n_size"], f["src_stride"], item, f["dst_stride"] * itemsize(item))

    def whole_elements(self, i: Any) -> str:
        """Return the refusal if several rows lie no whole elements apart, else ""."""
        if i.m > 1 and i.dst_stride % i.itemsize:
            return f"rows {i.dst_stride} bytes apart are not whole elements"
        return ""


class DrainPieceRows(Way):
    """Translation of a store of part of a tile of L0C to GM (FixpipeDn) to fields and back; elements of a row adjoin in GM."""

    kind = FixpipeDn
    names: tuple[str, ...] = DrainRows.names

    def says(self, instruction: Any) -> bool:
        return bool(instruction.n == 1 or instruction.column_stride == _item(instruction))

    def values(self, instruction: FixpipeDn) -> tuple[int, ...]:
        i = instruction
        return i.n, i.m, i.row_stride // _item(i) if i.m > 1 else 1, i.m_padded

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        f, size = fields, itemsize(item)
        return FixpipeDn(f["m_size"], f["n_size"], f["src_stride"], 0, item, f["dst_stride"] * size, size)

    def columns_adjoin(self, i: FixpipeDn) -> str:
        """Return the refusal of elements of a row that lie apart, or ""."""
        apart = i.n > 1 and i.column_stride != _item(i)
        if apart:
            return f"columns {i.column_stride} bytes apart; they must be {_item(i)}"
        return ""

    def rows_adjoin(self, i: FixpipeDn) -> str:
        """Return the refusal of elements of a column that lie apart, or ""."""
        apart = i.m > 1 and i.row_stride != _item(i)
        if apart:
            return f"rows {i.row_stride} and columns {i.column_stride} bytes apart; one of them must be {_item(i)}"
        return ""

    def whole_elements(self, i: FixpipeDn) -> str:
        """Return the refusal of rows or columns that begin inside an element, or ""."""
        for name, stride, count in (("row_stride", i.row_stride, i.m), ("column_stride", i.column_stride, i.n)):
            if count > 1 and stride % _item(i):
                return f"{name} = {stride} bytes are not whole elements"
        return ""

    def from_first(self, i: FixpipeDn) -> str:
        """Return the refusal of a piece whose first column is inside a fractal of L0C, or ""."""
        if i.first:
            return f"first = {i.first}; a tile begins at {FRACTAL} columns"
        return ""


class DrainPieceColumns(DrainPieceRows):
    """Translation of a store of part of a tile of L0C to GM (FixpipeDn) to fields and back; elements of a column adjoin."""

    def says(self, instruction: Any) -> bool:
        return True

    def values(self, instruction: FixpipeDn) -> tuple[int, ...]:
        i = instruction
        return i.n, i.m, i.column_stride // _item(i) if i.n > 1 else 1, i.m_padded

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        f, size = fields, itemsize(item)
        return FixpipeDn(f["m_size"], f["n_size"], f["src_stride"], 0, item, size, f["dst_stride"] * size)


class DrainPieceMatrices(DrainPieceRows):
    """Translation of a store of part of a tile of L0C to GM (FixpipeDn) to fields and back, each row as a matrix of its own.

    Elements need to adjoin neither along rows nor along columns.
    """

    names = ("n_size", "dst_stride", "src_stride", "dn_num", "dst_dn_stride")

    def says(self, instruction: Any) -> bool:
        return True

    def values(self, instruction: FixpipeDn) -> tuple[int, ...]:
        i = instruction
        columns, rows = i.column_stride // _item(i) if i.n > 1 else 1, i.row_stride // _item(i) if i.m > 1 else 0
        return i.n, columns, i.m_padded, i.m, rows

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        f, size = fields, itemsize(item)
        rows, columns = f["dst_dn_stride"] * size, f["dst_stride"] * size
        return FixpipeDn(f["dn_num"], f["n_size"], f["src_stride"], 0, item, rows, columns)

    def both_apart(self, i: FixpipeDn) -> str:
        """Return the refusal of one row or column, or elements that adjoin along either, which other forms express; else ""."""
        if _item(i) not in (i.row_stride, i.column_stride) and i.m > 1 and i.n > 1:
            return ""
        return "matrices of one row are for rows and columns that both lie apart"


class DrainFractals(Way):
    """Translation of a move from L0C to UB in columns of whole fractals (L0cToUb) to fields and back."""

    kind = L0cToUb
    names = ("n_burst", "len_burst", "src_gap")

    def values(self, instruction: L0cToUb) -> tuple[int, ...]:
        i = instruction
        size = ceil_div(i.rows, FRACTAL) * ACCUMULATOR_FRACTAL_BYTES
        return i.columns, size, i.m_padded * ACCUMULATOR_ROW_BYTES - size if i.columns > 1 else 0

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        size, gap = fields["len_burst"], fields["src_gap"]
        return L0cToUb(size // ACCUMULATOR_ROW_BYTES, fields["n_burst"], (size + gap) // ACCUMULATOR_ROW_BYTES, item)


WAYS: dict[str, Way] = {
    "product": ProductWay(),
    "product_with_bias": ProductWithBias(),
    "product_of_choice": ProductOfChoice(),
    "bias_numbers": BiasNumbers(),
    "drain_blocks": DrainBlocks(),
    "drain_to_l1": DrainToL1(),
    "drain_rows": DrainRows(),
    "drain_piece_rows": DrainPieceRows(),
    "drain_piece_columns": DrainPieceColumns(),
    "drain_piece_matrices": DrainPieceMatrices(),
    "drain_fractals": DrainFractals(),
}
