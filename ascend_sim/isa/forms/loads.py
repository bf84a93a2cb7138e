"""Translation of the loads of the cube's operands to instruction fields and back; see configs/instructions/loads.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.isa.base import Instruction, ceil_div
from ascend_sim.isa.forms.copies import itemsize
from ascend_sim.isa.forms.form import Way
from ascend_sim.isa.load import LoadData2D, LoadData3D

Fields = Mapping[str, int]


def _destination(route: str) -> str:
    return route.removeprefix("L1->")


class Fractals(Way):
    """Translation of loads of single fractals (LoadData2D) to fields and back; the destination may have gaps."""

    kind = LoadData2D
    names: tuple[str, ...] = ("repeat", "src_stride", "dst_gap", "transpose")

    def values(self, instruction: LoadData2D) -> tuple[int, ...]:
        i = instruction
        source, gap = (i.src_stride, i.dst_stride - 1) if i.repeat > 1 else (0, 0)
        return i.repeat, source, gap, int(i.transpose)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        repeat, source, turned = (fields[name] for name in ("repeat", "src_stride", "transpose"))
        return LoadData2D(_destination(route), itemsize(item), repeat, source, bool(turned), fields.get("dst_gap", 0) + 1)

    def turns_two_bytes(self, i: LoadData2D) -> str:
        """Return the refusal of a transposing load of items of another width than 2 bytes, or ""."""
        if i.transpose and i.itemsize != 2:
            return f"transpose = 1 of items of {i.itemsize} bytes; it turns items of 2"
        return ""


class PackedFractals(Fractals):
    """Translation of loads of single fractals (LoadData2D) to fields and back; the destination has no gaps."""

    names = ("repeat", "src_stride", "transpose")

    def values(self, instruction: LoadData2D) -> tuple[int, ...]:
        repeat, source, _, turned = super().values(instruction)
        return repeat, source, turned

    def packed(self, i: LoadData2D) -> str:
        """Return the refusal of gaps between the fractals of the destination, or ""."""
        apart = i.repeat > 1 and i.dst_stride != 1
        if apart:
            return f"dst_stride = {i.dst_stride}; fractals of the destination adjoin"
        return ""


class Squares(Way):
    """Translation of transposing loads (LoadData2D) to fields and back; a square is one fractal of 2-byte items, else two."""

    kind = LoadData2D
    names = ("repeat", "src_stride", "dst_gap", "dst_frac_gap")

    def says(self, instruction: Any) -> bool:
        return bool(instruction.transpose)

    def values(self, instruction: LoadData2D) -> tuple[int, ...]:
        i = instruction
        steps = (i.src_stride // i.fractals, i.dst_stride - 1) if i.repeat > 1 else (0, 0)
        return i.repeat, *steps, i.fractal_stride - 1

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        size, repeat = itemsize(item), fields["repeat"]
        source = fields["src_stride"] * LoadData2D("L0A", size, 1, transpose=True).fractals
        return LoadData2D(_destination(route), size, repeat, source, True, fields["dst_gap"] + 1, fields["dst_frac_gap"] + 1)

    def whole_squares(self, i: LoadData2D) -> str:
        """Return the refusal of squares of two fractals that begin at an odd fractal, or ""."""
        odd = i.repeat > 1 and i.src_stride % i.fractals
        if odd:
            return f"src_stride = {i.src_stride} fractals is not whole squares of two"
        return ""


class Steps(Way):
    """Translation of loads of fractals (LoadData2D) to steps along M and K of a matrix of fractals and back."""

    kind = LoadData2D
    names = ("m_step", "k_step", "src_stride", "dst_stride", "transpose")

    def values(self, instruction: LoadData2D) -> tuple[int, ...]:
        i = instruction
        strides = (i.src_stride, i.dst_stride) if i.repeat > 1 else (0, 0)
        return (2 if i.transpose and i.itemsize == 1 else 1), i.repeat, *strides, int(i.transpose)

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        repeat, source, step, turned = (fields[name] for name in ("k_step", "src_stride", "dst_stride", "transpose"))
        return LoadData2D(_destination(route), itemsize(item), repeat, source, bool(turned), step)

    def halves_adjoin(self, i: LoadData2D) -> str:
        """Return the refusal of squares of two fractals that lie apart in the destination, or ""."""
        apart = i.fractals == 2 and i.fractal_stride != 1
        if apart:
            return f"fractal_stride = {i.fractal_stride}; the two fractals of a square adjoin"
        return ""


def far_padding(size: int, near: int, taps: int, step: int, apart: int, out: int) -> int:
    """Return the least padding behind a map of `size` pixels that gives `out` positions; negative where fewer pixels would do.

    `near` is the padding before it, `taps` the kernel's, `step` the stride, `apart` the dilation.
    """
    return (out - 1) * step + apart * (taps - 1) + 1 - size - near


def _right(i: LoadData3D) -> int:
    return far_padding(i.width, i.pad_left, i.k_w, i.stride_w, i.dilation_w, i.out_width)


def _bottom(i: LoadData3D) -> int:
    return far_padding(i.height, i.pad_top, i.k_h, i.stride_h, i.dilation_h, i.out_height)


class Img2ColV1(Way):
    """Translation of img2col (LoadData3D) to the fields of map and kernel and back; an instruction for each fractal.

    Without repeated runs.
    """

    kind = LoadData3D
    names: tuple[str, ...] = (
        "stride_w", "stride_h", "filter_w", "filter_h", "dilation_w", "dilation_h", "fmatrix.l1_w", "fmatrix.l1_h",
        "fmatrix.pad_left", "fmatrix.pad_right", "fmatrix.pad_top", "fmatrix.pad_bottom",
    )  # fmt: skip

    def says(self, instruction: Any) -> bool:
        return not instruction.is_repeated

    def values(self, instruction: LoadData3D) -> tuple[int, ...]:
        i = instruction
        kernel = i.stride_w, i.stride_h, i.k_w, i.k_h, i.dilation_w, i.dilation_h
        return (*kernel, i.width, i.height, i.pad_left, max(_right(i), 0), i.pad_top, max(_bottom(i), 0))

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        f, size = fields, itemsize(item)
        return LoadData3D(
            _destination(route),
            size,
            height=f["fmatrix.l1_h"],
            width=f["fmatrix.l1_w"],
            k_h=f["filter_h"],
            k_w=f["filter_w"],
            stride_h=f["stride_h"],
            stride_w=f["stride_w"],
            dilation_h=f["dilation_h"],
            dilation_w=f["dilation_w"],
            pad_top=f["fmatrix.pad_top"],
            pad_left=f["fmatrix.pad_left"],
            out_height=_positions(f, "h", "top", "bottom"),
            out_width=_positions(f, "w", "left", "right"),
            m_start=f.get("m_start", 0),
            m_extent=f.get("m_extension", 1),
            k_start=f.get("k_start", 0),
            k_extent=f.get("k_extension", BLOCK_BYTES // size),
        )

    def output_width(self, i: LoadData3D) -> str:
        """Return the refusal of an `out_width` below what the instruction makes of the map's width, or ""."""
        over = _right(i) + i.stride_w - 1
        if over >= 0:
            return ""
        made = (i.width + i.pad_left - i.dilation_w * (i.k_w - 1) - 1) // max(i.stride_w, 1) + 1
        return f"out_width = {i.out_width}; of a map {i.width} wide the instruction makes {made}"

    def whole_blocks(self, i: LoadData3D) -> str:
        """Return the refusal of columns that begin inside a block, or ""."""
        if i.k_start % i.c0:
            return f"k_start = {i.k_start} is not a multiple of {i.c0}"
        return ""


class Img2Col(Img2ColV1):
    """Translation of img2col (LoadData3D) to map, kernel, rows and columns, and back; without repeated runs."""

    names: tuple[str, ...] = ("k_extension", "m_extension", "k_start", "m_start", "channel_size", *Img2ColV1.names)

    def values(self, instruction: LoadData3D) -> tuple[int, ...]:
        i = instruction
        end = i.k_start + i.k_extent + (i.k_repeat - 1) * i.k_stride * i.c0
        channels = ceil_div(end, max(i.c0 * i.k_h * i.k_w, 1)) * i.c0
        return i.k_extent, i.m_extent, i.k_start, i.m_start, channels, *super().values(i)

    def narrow_plain(self, i: LoadData3D) -> str:
        """Return the refusal of 1-byte items that are transposed, as they always are on the way to L0B; else ""."""
        turned = i.itemsize == 1 and (i.transpose or i.destination == "L0B")
        if turned:
            return f"{i.destination} of 1-byte items{', turned' if i.transpose else ''}; only L0A, not turned"
        return ""


class Img2ColRuns(Img2Col):
    """Translation of img2col (LoadData3D) with runs of columns that lie apart to fields and back; register l3d_rpt has their
    distance and number.
    """

    names = (*Img2Col.names, "repeat_stride", "repeat_time", "rpt_dst_stride")

    def says(self, instruction: Any) -> bool:
        return bool(instruction.is_repeated)

    def values(self, instruction: LoadData3D) -> tuple[int, ...]:
        i = instruction
        return *super().values(i), i.k_stride if i.k_repeat > 1 else 0, i.k_repeat, i.dst_stride

    def effect(self, route: str, fields: Fields, item: str) -> Instruction:
        plain: Any = super().effect(route, fields, item)
        times, line = fields["repeat_time"], fields["rpt_dst_stride"]
        runs: Instruction = replace(
            plain, k_repeat=times, k_stride=fields["repeat_stride"] if times > 1 else 0, dst_stride=line
        )
        return runs

    def rows_apart(self, i: LoadData3D) -> str:
        """Return the refusal of rows of fractals that overlap in L0B, or ""."""
        if i.rows > i.c0 and i.fractals > i.dst_stride:
            return f"rows of {i.fractals} fractals are {i.dst_stride} apart in L0B"
        return ""

    def whole_runs(self, i: LoadData3D) -> str:
        """Return the refusal of several runs that end inside a block of C0, or ""."""
        if i.k_repeat > 1 and i.k_extent % i.c0:
            return f"k_extent = {i.k_extent} of {i.k_repeat} runs is not a multiple of {i.c0}"
        return ""


def _positions(fields: Fields, axis: str, near: str, far: str) -> int:
    """Return the kernel's positions along an axis ("h" or "w") of the padded map; `near` and `far` name its paddings."""
    size = fields[f"fmatrix.l1_{axis}"] + fields[f"fmatrix.pad_{near}"] + fields[f"fmatrix.pad_{far}"]
    reach = fields[f"dilation_{axis}"] * (fields[f"filter_{axis}"] - 1) + 1
    return (size - reach) // fields[f"stride_{axis}"] + 1


WAYS: dict[str, Way] = {
    "fractals": Fractals(),
    "packed_fractals": PackedFractals(),
    "squares": Squares(),
    "steps": Steps(),
    "img2col_v1": Img2ColV1(),
    "img2col": Img2Col(),
    "img2col_runs": Img2ColRuns(),
}
