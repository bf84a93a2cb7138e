"""Refusals of instructions that no chip has: one line with the instruction, the fault and the source of the limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.forms import atomics, copies_whole_blocks, form_of, reach
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.transfer import DataCopyExtreme, DataCopyNd2Nz
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import ColumnRuns, CopyLoop, MapWindow, Span, TilePiece
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import Allocation

pytestmark = pytest.mark.fast

A2, A3, OLD, INFERENCE = "ascend910b3", "ascend910_9391", "ascend910a", "ascend310p3"
NEW = "ascend950pr_9589"
Write = Callable[[KernelBuilder], object]


def say(chip: str, write: Write) -> str:
    """Return the builder's refusal, "" where it takes the instruction; whether a core has the pipe is not asked."""
    spec = load_chip(chip)
    k = KernelBuilder(InstructionTable(spec), 0, next(iter(spec.cores.kinds)), [1 << 40])
    try:
        write(k)
    except SimError as error:
        return str(error)
    return ""


def rows(source: str, destination: str, *shape: int) -> Write:
    return lambda k: k.data_copy(source, destination, 0, 0, *shape)


def copied(columns: int, source_step: int, mask: int | None = None) -> Write:
    """A copy in UB of two rows of float16, from rows `source_step` bytes apart."""
    dst = LocalTensor(0, (2, columns), "float16", -(-columns // 16) * 32)
    src = LocalTensor(4096, (2, columns), "float16", source_step) if source_step else LocalTensor(4096, (columns,), "float16")
    return lambda k: k.copy(dst, src, mask=mask)


WINDOW = MapWindow(4, 8, out_height=4, out_width=8)
REFUSED: dict[str, tuple[str, Write, str]] = {
    "rows that begin inside a block of UB": (A2, rows("UB", "GM", 20, 3, 20, 64), "local_gap counts 32-byte blocks; -12 bytes"),
    "also on the way in": (A3, rows("GM", "UB", 20, 3, 64, 20), "local_gap counts 32-byte blocks; -12 bytes"),
    "rows of the 950 over each other": (NEW, rows("GM", "UB", 40, 3, 64, 32), "local_stride = 32; a row of 40 bytes takes 64"),
    "rows of the 950 that begin inside a block": (NEW, rows("UB", "GM", 20, 3, 40, 64), "local_stride counts 32-byte blocks"),
    "more rows than 12 bits": (A2, rows("GM", "UB", 32, 5000, 64, 32), "n_burst = 5,000; 0 to 4,095 rows"),
    "fewer rows than none": (NEW, rows("GM", "UB", 32, -1), "n_burst = -1; 0 to 4,095 rows"),
    "so of the old": (OLD, rows("GM", "UB", 32, 5000, 64, 32), "n_burst = 5,000; 0 to 4,095 rows"),
    "planes without a loop": (
        A2, lambda k: k.data_copy_planes("GM", "UB", 0, 0, 32, CopyLoop(2, 64, 32), CopyLoop(2, 128, 64)),
        "no such instruction; dav-3510 has it",
    ),
    "more matrices than 16 bits": (
        NEW, lambda k: k.fixpipe_dn(0, 0, TilePiece(65536, 16, 16), "float32", 4608, 36), "dn_num = 65,536; 1 to 65,535",
    ),
    "plain bytes to L0A": (A2, rows("L1", "L0A", 1024), "data_copy L1->L0A"),
    "part of a block of UB": (OLD, rows("GM", "UB", 20), "len_burst counts 32-byte blocks; 20 bytes"),
    "part of a block out of UB": (INFERENCE, rows("UB", "GM", 20), "len_burst counts 32-byte blocks; 20 bytes"),
    "unaligned rows to L1": (A2, rows("GM", "L1", 40), "len_burst counts 32-byte blocks; 40 bytes"),
    "rows of a matrix far apart": (
        A2, lambda k: k.data_copy_nd2nz(0, 0, 2, 32, 2, 131072, 16), "src_d_value = 65,536; 1 to 65,535 elements",
    ),
    "columns over each other": (
        A2, lambda k: k.data_copy_nd2nz(0, 0, 32, 32, 2, 64, 16), "columns of 32 rows lie 16 rows apart, over each other",
    ),
    "columns between rows that do not adjoin": (
        A2, lambda k: k._emit((DataCopyNd2Nz, 5, 32, 2, 64, 8, "", 2), 0, 0), "columns of 5 rows lie 8 rows apart, over each",
    ),
    "elements of three bytes to NZ": (
        NEW, lambda k: k.data_copy_nd2nz(0, 0, 2, 16, 3, 48, 16), "items of 3 bytes; of 1, 2, 4 are possible",
    ),
    "rows of a matrix inside an element": (
        A2, lambda k: k.data_copy_nd2nz(0, 0, 2, 32, 2, 65, 16), "rows 65 bytes apart are not whole elements of 2",
    ),
    "columns that adjoin but on the 950": (
        A2, lambda k: k.fixpipe_dn(0, 0, TilePiece(16, 16, 16), "float16", 2, 64),
        "fixpipe_dn L0C->GM: ascend910b3 (dav-2201) has no such instruction; dav-3510 has it",
    ),
    "blocks of 4 columns": (A2, lambda k: k.fixpipe(0, 0, 16, 16, 16, "float32", 4, 512), "c0 = 4 of float32; blocks have 16"),
    "blocks of 8 of 16 bits": (A2, lambda k: k.fixpipe(0, 0, 16, 16, 16, "float16", 8, 512), "c0 = 8 of float16"),
    "bytes in blocks of 16": (
        A2, lambda k: k.fixpipe(0, 0, 16, 32, 16, "int8", 16, 512, pre=Quantisation("int32", 1.0)),
        "c0 = 16 of int8; blocks have 32 columns",
    ),
    "runs of columns of the old": (
        OLD, lambda k: k.load_data_3d("L0B", 0, 0, 2, WINDOW, Span(0, 32), ColumnRuns(0, 16, 2, 4, 1)),
        "load_data_3d L1->L0B: ascend910a (dav-1001) has no such instruction; dav-3510 has it",
    ),
    "turned bytes into L0B": (
        A2, lambda k: k.load_data_3d("L0B", 0, 0, 1, WINDOW, Span(0, 32), Span(0, 32)), "L0B of 1-byte items; only L0A",
    ),
    "turned bytes of the old": (
        OLD, lambda k: k.load_data_2d("L0B", 0, 0, 1, 2, 2, True, 2), "transpose = 1 of items of 1 bytes; it turns items of 2",
    ),
    "halves of a square of the 950 that lie apart": (
        NEW, lambda k: k.load_data_2d("L0B", 0, 0, 1, 2, 2, True, 2, 5),
        "fractal_stride = 5; the two fractals of a square adjoin",
    ),
    "gaps in L0 of the old": (
        OLD, lambda k: k.load_data_2d("L0A", 0, 0, 2, 2, dst_stride=2), "dst_stride = 2; fractals of the destination adjoin",
    ),
    "32-bit items of the old": (OLD, lambda k: k.load_data_2d("L0A", 0, 0, 4, 2), "items of 4 bytes; of 1, 2 are possible"),
    "a kernel that steps too far": (
        A2, lambda k: k.load_data_3d("L0A", 0, 0, 2, MapWindow(1, 101, stride_w=100, out_width=2), Span(0, 2), Span(0, 16)),
        "stride_w = 100; 1 to 63 pixels",
    ),
    "columns that begin inside a block": (
        A2, lambda k: k.load_data_3d("L0A", 0, 0, 2, WINDOW, Span(0, 32), Span(8, 16)), "k_start = 8 is not a multiple of 16",
    ),
    "zeros of part of a block": (A2, lambda k: k.fill("L1", 0, 40), "block_num counts 32-byte blocks; 40 bytes"),
    "zeros of part of a fractal": (OLD, lambda k: k.fill("L1", 0, 544), "repeat counts 512-byte fractals; 544 bytes"),
    "zeros of part of an item": (A2, lambda k: k.fill("UB", 0, 3), "3 bytes are not whole items of 2"),
    "what the bias table holds": (A2, rows("L1", "BT", 32), "len_burst counts 64-byte units; 32 bytes"),
    "several rows as one": (NEW, lambda k: k.mmad(0, 0, 0, 16, 16, 16, "float16", False, gemv=True), "m = 16 with gemv"),
    "one row as fractals": (
        A2, lambda k: k.mmad(0, 0, 0, 1, 16, 16, "float16", False, gemv=False), "m = 1 is the GEMV mode: L0A is read",
    ),
    "a mask of a copy by blocks": (OLD, copied(128, 256, mask=3), "a mask; the copy in UB by blocks has none"),
    "part of a block within UB": (INFERENCE, copied(20, 64), "len_burst counts 32-byte blocks; 40 bytes"),
    "one row of UB again and again": (OLD, copied(16, 0), "src_gap = -1; 0 to 65,535 32-byte blocks"),
    "fractals beyond 8 bits": (NEW, lambda k: k.load_data_2d("L0A", 0, 0, 2, 256), "k_step = 256; 0 to 255"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line(name: str) -> None:
    chip, write, words = REFUSED[name]
    said = say(chip, write)
    assert words in said and "\n" not in said
    assert chip in said and f"({load_chip(chip).identity.arch})" in said
    assert any(source in said for source in ("(API ", "(derived: ", "(configs/instructions)"))


TAKEN: dict[str, tuple[str, Write]] = {
    "rows and columns that both lie apart, as matrices of one row": (
        NEW, lambda k: k.fixpipe_dn(0, 0, TilePiece(16, 16, 16), "float32", 4608, 36),
    ),
    "rows of any bytes on blocks of their own": (A2, rows("UB", "GM", 20, 3, 32, 64)),
    "adjoining rows of the 950": (NEW, rows("UB", "GM", 20, 3, 20, 64)),
    "a row again and again on the 950": (NEW, rows("GM", "UB", 40, 3, 0, 64)),
    "planes on the 950": (
        NEW, lambda k: k.data_copy_planes("GM", "UB", 0, 0, 32, CopyLoop(2, 64, 32), CopyLoop(2, 128, 64)),
    ),
    "one plane is a copy": (A2, lambda k: k.data_copy_planes("GM", "UB", 0, 0, 32, CopyLoop(2, 64, 32), CopyLoop(1, 0, 0))),
    "most rows": (A2, rows("GM", "UB", 32, 4095, 64, 32)),
    "one row needs no stride": (A2, rows("GM", "UB", 40, 1, 7, 9)),
    "columns that adjoin on the 950": (NEW, lambda k: k.fixpipe_dn(0, 0, TilePiece(16, 16, 16), "float16", 2, 64)),
    "rows that adjoin": (A2, lambda k: k.fixpipe_dn(0, 0, TilePiece(16, 16, 16), "float16", 64, 2)),
    "a channel split": (A2, lambda k: k.fixpipe(0, 0, 16, 16, 16, "float32", 8, 512)),
    "turned squares of bytes": (A2, lambda k: k.load_data_2d("L0B", 0, 0, 1, 2, 2, True, 2)),
    "turned bytes of the 950": (NEW, lambda k: k.load_data_3d("L0B", 0, 0, 1, WINDOW, Span(0, 32), Span(0, 32))),
    "one row": (A2, lambda k: k.mmad(0, 0, 0, 1, 16, 16, "float16", False)),
    "one row of the 950 as fractals": (NEW, lambda k: k.mmad(0, 0, 0, 1, 16, 16, "float16", False, gemv=False)),
    "a bias table": (A2, rows("L1", "BT", 64)),
    "a mask of a copy": (A2, copied(128, 256, mask=3)),
    "part of a block within UB": (NEW, copied(20, 64)),
    "one row of UB again and again": (A2, copied(16, 0)),
    "blocks within UB": (OLD, copied(32, 96)),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_the_chip_can_be_told_is_taken(name: str) -> None:
    assert say(*TAKEN[name]) == ""


ADDED = {
    OLD: {"float32"},
    INFERENCE: {"float32", "float16", "int16"},
    A2: {"float32", "float16", "bfloat16", "int32", "int16", "int8"},
    NEW: {"float32", "float16", "bfloat16", "int32", "int16", "int8"},
}
"""Formats that SetAtomicAdd has (asc-devkit, its page)."""


@pytest.mark.parametrize("dtype", sorted({*ADDED[A2], "float64", "bool", "uint32", "int64", "uint8", "float8_e4m3fn"}))
@pytest.mark.parametrize("chip", ADDED)
def test_what_is_added_to_gm(chip: str, dtype: str) -> None:
    said = say(chip, lambda k: k.data_copy("UB", "GM", 0, 0, 64, atomic_add=dtype))
    if dtype in ADDED[chip]:
        assert said == ""
    else:
        assert f"atomic_add of {dtype}; " in said and set(said.split("; ")[1].split(" are")[0].split(", ")) == ADDED[chip]


@pytest.mark.parametrize("chip", ADDED)
@pytest.mark.parametrize("keep", ["max", "min"])
def test_extremes_stay_where_the_chip_has_them(chip: str, keep: str) -> None:
    """SetAtomicMax and SetAtomicMin are on A2, A3 and the 950, for the formats of SetAtomicAdd (asc-devkit, their pages)."""
    for dtype in (*ADDED[A2], "uint8"):
        try:
            form_of(DataCopyExtreme("UB", "GM", 64, atomic_add=dtype, keep=keep), load_chip(chip))
            said = ""
        except SimError as error:
            said = str(error)
        assert (said == "") == (chip in (A2, NEW) and dtype in ADDED[A2])
        assert chip in (A2, NEW) or f"atomic_{keep} of {dtype}; add is possible" in said


def test_results_are_added_from_where_the_chip_has_it() -> None:
    assert say(A2, lambda k: k.fixpipe_nd(0, 0, 16, 16, 16, "float16", 32, True)) == ""
    assert say(A2, lambda k: k.data_copy("L1", "GM", 0, 0, 64, atomic_add="float32")) == ""
    one = next(one for one in atomics() if "dav-3510" in one.architectures)
    assert "L1" not in one.origins  # nor has it the way
    said = say(A2, lambda k: k.fixpipe_nd(0, 0, 16, 16, 16, "float8_e4m3fn", 32, True))
    assert "dtype float8_e4m3fn; float32, float16" in said


@pytest.mark.parametrize("chip", [OLD, INFERENCE, A2, "ascend950pr_9589"])
def test_which_chips_copy_whole_blocks(chip: str) -> None:
    """There a tensor's slack may be touched: up to 31 bytes to whole blocks, and a block."""
    spec, tensor = load_chip(chip), Allocation(0, 100, "x", None)
    assert copies_whole_blocks(spec) == (chip in (OLD, INFERENCE))
    assert reach(tensor, spec) == (160 if copies_whole_blocks(spec) else 100)
