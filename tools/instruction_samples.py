"""Sample calls of the page of instructions (`instruction_reference.py`): one or more for each method of the builder."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ascend_sim.isa.base import Instruction
from ascend_sim.isa.l0c_to_l1 import FixpipeToL1
from ascend_sim.isa.transfer import DataCopyPadded
from ascend_sim.isa.vector import VectorBinary, VectorUnary
from ascend_sim.isa.vector.named import NamedInstruction, named
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import (
    ChannelMatrices,
    ColumnRuns,
    CopyLoop,
    MapWindow,
    ScatterLoops,
    Span,
    TilePiece,
    TurnLayout,
)
from ascend_sim.kernel.tensor import Tensor

CHIPS = ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589")
DTYPES = ("float32", "float16", "int32", "int16", "uint16")


def signature(method: str) -> str:
    """`k.method(...)` as it is written, without types."""
    parameters = list(inspect.signature(getattr(Kernel, method)).parameters.values())[1:]
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return f"k.{method}{inspect.Signature(plain)}"


@dataclass(frozen=True)
class Demo:
    """One call: `make(k, gm, dtype)` with a matrix of 64 x 64 in GM.

    `shows` names the instruction that is meant where the call makes others too; `kind` is the one of a `k.vector` call.
    """

    method: str
    make: Callable[[Kernel, Tensor, str], Any]
    note: str = ""
    shows: str = ""
    dtypes: tuple[str, ...] = ("float16",)
    kind: type[NamedInstruction] | None = None

    @property
    def call(self) -> str:
        """The method, and the name of the instruction where there are several."""
        return self.method if self.kind is None else f'{self.method}("{self.kind.name}")'

    @property
    def described(self) -> tuple[str, str]:
        """The call with its parameters, and what is said of it."""
        if self.kind is None:
            return signature(self.method), inspect.getdoc(getattr(Kernel, self.method)) or ""
        sources = [f"src{i}" if isinstance(one, tuple) else "number" for i, one in enumerate(self.kind.example[1:])]
        return f'k.{self.method}("{self.kind.name}", dst, {", ".join(sources)})', inspect.getdoc(self.kind) or ""


def ub(place: int, shape: tuple[int, ...], dtype: str) -> LocalTensor:
    return LocalTensor(place * 16384, shape, dtype)


def elements(method: str, sources: int, *more: Any, dtypes: tuple[str, ...] = DTYPES) -> Demo:
    """An element-wise instruction on 1024 elements."""

    def make(k: Kernel, gm: Tensor, dtype: str) -> None:
        getattr(k, method)(*(ub(i, (1024,), dtype) for i in range(1 + sources)), *more)

    return Demo(method, make, "1024 elements", dtypes=dtypes)


def by_name(kind: type[NamedInstruction]) -> Demo:
    """An instruction of a file of its own, on the operands of its example."""

    def make(k: Kernel, gm: Tensor, dtype: str) -> None:
        operands = enumerate(kind.operands(dtype))
        k.vector(kind.name, *(ub(i, *one) if isinstance(one, tuple) else one for i, one in operands))

    shapes = [sized(one) for one in kind.operands("")]
    return Demo("vector", make, f"{shapes[0]} from {', '.join(shapes[1:])}", dtypes=kind.dtypes, kind=kind)


def sized(operand: tuple[tuple[int, ...], str] | float) -> str:
    """The shape of an operand, with its format where that is its own; or its number."""
    if not isinstance(operand, tuple):
        return f"{operand:g}"
    shape, dtype = operand
    return f"{' x '.join(map(str, shape))} {dtype}".rstrip()


def rows(method: str) -> Demo:
    def make(k: Kernel, gm: Tensor, dtype: str) -> None:
        count = 8 * 128
        parts = {"block": count // (32 // gm.itemsize), "pair_": count // 2}
        blocks = parts.get(method[:5], 16 if method.endswith("index") else 8)
        getattr(k, method)(ub(0, (blocks,), dtype), ub(1, (8, 128), dtype))

    return Demo(method, make, "8 rows of 128", dtypes=DTYPES)


def flags(k: Kernel, source: str, destination: str) -> None:
    flag = k.flag(source, destination, "example")
    k.set_flag(flag)
    k.wait_flag(flag)


def compare(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.compare(ub(0, (128,), "uint8"), "lt", ub(1, (1024,), dtype), ub(2, (1024,), dtype))


def select(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.select(ub(0, (1024,), dtype), ub(1, (128,), "uint8"), ub(2, (1024,), dtype), 0.0)


def stored_register(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.load_mask_register(ub(1, (16,), "uint8"))
    k.store_mask_register(ub(0, (16,), "uint8"))


def by_register(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.load_mask_register(ub(3, (16,), "uint8"))
    k.select_by_register(ub(0, (1024,), dtype), ub(1, (1024,), dtype), ub(2, (1024,), dtype))


def to_register(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.compare_to_register("lt", ub(0, (64,), dtype), ub(1, (64,), dtype))


def across(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.broadcast_row(ub(0, (8, 128), dtype), ub(1, (128,), dtype))


def column(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.broadcast_column(ub(0, (8, 128), dtype), ub(1, (8,), dtype))


def gather(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.gather(ub(0, (256,), dtype), ub(1, (1024,), dtype), ub(2, (256,), "uint32"))


def img2col(k: Kernel, gm: Tensor, dtype: str) -> None:
    """16 channels of an 8 x 8 map under a 3 x 3 kernel."""
    window = MapWindow(8, 8, k_h=3, k_w=3, out_height=6, out_width=6)
    k.load_data_3d("L0A", 0, 0, 2, window, rows=Span(0, 36), columns=Span(0, 144))


SECTIONS: dict[str, list[Demo]] = {
    "Between GM and UB": [
        Demo("gm_to_ub", lambda k, gm, dtype: k.gm_to_ub(ub(0, (64, 64), dtype), gm), "64 rows of 64"),
        Demo("ub_to_gm", lambda k, gm, dtype: k.ub_to_gm(gm, ub(0, (64, 64), dtype)), "64 rows of 64"),
        Demo("data_copy", lambda k, gm, dtype: k.data_copy("GM", "UB", 0, gm.address, 96, 4, 128, 96), "4 rows of 96 bytes"),
        Demo(
            "data_copy_planes",
            lambda k, gm, dtype: k.data_copy_planes("UB", "GM", gm.address, 0, 4, CopyLoop(16, 4, 108), CopyLoop(2, 64, 1728)),
            "2 planes of 16 rows of 4 bytes",
        ),
        Demo("fill", lambda k, gm, dtype: k.fill("L1", 0, 8192), "8192 bytes"),
    ],
    "Matrices": [
        Demo("gm_to_l1", lambda k, gm, dtype: k.gm_to_l1(0, gm), "64 x 64"),
        Demo("l1_to_l0a", lambda k, gm, dtype: k.l1_to_l0a(0, 0, 64, 64, dtype, held=64), "64 x 64"),
        Demo("l1_to_l0b", lambda k, gm, dtype: k.l1_to_l0b(0, 0, 64, 64, dtype, held=64), "64 x 64"),
        Demo(
            "l1_to_l0b", lambda k, gm, dtype: k.l1_to_l0b(0, 0, 64, 64, dtype, held=64, transpose=True),
            "64 x 64, transpose=True",
        ),
        Demo("mmad", lambda k, gm, dtype: k.mmad(0, 0, 0, 64, 64, 64, dtype, True), "64 x 64 x 64, accumulate=True"),
        Demo("load_bias", lambda k, gm, dtype: k.load_bias(0, 0, 64, dtype), "64 numbers"),
        Demo("l0c_to_gm", lambda k, gm, dtype: k.l0c_to_gm(gm, 0), "64 x 64"),
        Demo("l0c_to_ub", lambda k, gm, dtype: k.l0c_to_ub(0, 0, 64, 4, 64, dtype), "64 rows of 4 x 16"),
        Demo("data_copy_nd2nz", lambda k, gm, dtype: k.data_copy_nd2nz(0, gm.address, 64, 64, 2, 128, 64), "64 x 64"),
        Demo(
            "data_copy_dn2nz", lambda k, gm, dtype: k.data_copy_dn2nz(0, gm.address, ChannelMatrices(20, 5, 2, 64, 32, 160)),
            "20 channels of 5 pixels",
        ),
        Demo("load_data_2d", lambda k, gm, dtype: k.load_data_2d("L0B", 0, 0, 2, 16, 1, True), "16 fractals, turned"),
        Demo("load_data_3d", img2col, "3 x 3 kernel on 8 x 8 pixels"),
        Demo("fixpipe", lambda k, gm, dtype: k.fixpipe(gm.address, 0, 64, 64, 64, dtype, 16, 2048), "64 x 64"),
        Demo("fixpipe_nd", lambda k, gm, dtype: k.fixpipe_nd(gm.address, 0, 64, 64, 64, dtype, 128), "64 x 64"),
        Demo(
            "fixpipe_dn", lambda k, gm, dtype: k.fixpipe_dn(gm.address, 0, TilePiece(64, 64, 64), dtype, 2, 128), "64 x 64"
        ),
    ],
    "Vectors: element by element": [
        *(elements(name, 2) for name in ("add", "sub", "mul", "mul_add", "div", "max", "min", "add_relu", "sub_relu")),
        *(elements(name, 2) for name in ("fused_mul_add", "fused_mul_add_relu")),
        *(elements(name, 2, dtypes=("int16", "uint16")) for name in ("bitwise_and", "bitwise_or")),
        elements("bitwise_not", 1, dtypes=("int16", "uint16")),
        *(elements(name, 1, 2) for name in ("adds", "muls", "maxs", "mins", "axpy", "leaky_relu")),
        *(elements(name, 1) for name in ("abs", "exp", "ln", "sqrt", "rsqrt", "reciprocal", "relu")),
        Demo("cast", lambda k, gm, dtype: k.cast(ub(0, (1024,), "float16"), ub(1, (1024,), "float32")), "fp32 to fp16, 1024"),
        Demo("compare", compare, "1024 elements", dtypes=DTYPES),
        Demo("select", select, "1024 elements", dtypes=DTYPES),
        Demo("compare_to_register", to_register, "64 elements", dtypes=DTYPES),
        Demo("select_by_register", by_register, "1024 elements", "select_by_register", DTYPES),
        Demo("load_mask_register", lambda k, gm, dtype: k.load_mask_register(ub(0, (16,), "uint8")), ""),
        Demo("store_mask_register", stored_register, shows="store_mask_register"),
    ],
    "Vectors: reductions and places": [
        *(rows(name) for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_max_index", "reduce_min_index")),
        *(rows(name) for name in ("block_reduce_sum", "block_reduce_max", "block_reduce_min", "pair_reduce_sum")),
        Demo("duplicate", lambda k, gm, dtype: k.duplicate(ub(0, (1024,), dtype), 1), "1024 elements", dtypes=DTYPES),
        elements("copy", 1),
        Demo("broadcast_row", across, "to 8 rows of 128", dtypes=DTYPES),
        Demo("broadcast_column", column, "to 8 rows of 128", dtypes=DTYPES),
        Demo("gather", gather, "256 of 1024 elements", dtypes=DTYPES),
        Demo(
            "transpose", lambda k, gm, dtype: k.transpose(ub(0, (64, 32), dtype), ub(1, (32, 64), dtype)), "32 x 64",
            dtypes=DTYPES,
        ),
    ],
    "Vectors by name": [by_name(kind) for kind in named().values()],
    "Vectors by address": [
        Demo("vector_binary", lambda k, gm, dtype: k.vector_binary("add", 0, 8192, 16384, dtype, 1024), "1024 elements"),
        Demo("vector_cast", lambda k, gm, dtype: k.vector_cast(0, 8192, "float32", "float16", 1024), "1024 elements"),
        Demo("vector_duplicate", lambda k, gm, dtype: k.vector_duplicate(0, dtype, 1024), "1024 elements"),
        Demo("reduce_rows", lambda k, gm, dtype: k.reduce_rows(0, 8192, 8, 128, 512), "8 rows of 128"),
        Demo(
            "scatter",
            lambda k, gm, dtype: k.scatter(0, 8192, "float32", ScatterLoops(3, 8, 16, 512, 64, 4, 192, 12)),
            "3 x 8 x 16 elements",
        ),
        Demo(
            "transpose_blocks", lambda k, gm, dtype: k.transpose_blocks(0, 8192, True, 2, 16, 64, TurnLayout(128)), "16 x 64"
        ),
        Demo("interleave", lambda k, gm, dtype: k.interleave(0, 8192, 16384, 2, 512), "512 pairs"),
    ],
    "Order and time": [
        Demo("set_flag", lambda k, gm, dtype: flags(k, "MTE2", "MTE3"), shows="set_flag"),
        Demo("wait_flag", lambda k, gm, dtype: flags(k, "MTE2", "MTE3"), shows="wait_flag"),
        Demo("pipe_barrier", lambda k, gm, dtype: k.pipe_barrier("MTE2")),
        Demo("scalar_wait", lambda k, gm, dtype: k.scalar_wait("MTE2")),
        Demo("scalar", lambda k, gm, dtype: k.scalar(10), "10 cycles"),
        Demo("scalar_load", lambda k, gm, dtype: k.scalar_load(ub(0, (1,), dtype)), "of UB"),
        Demo("scalar_store", lambda k, gm, dtype: k.scalar_store(ub(0, (1,), dtype), 1), "to UB"),
        Demo("scalar_copy", lambda k, gm, dtype: k.scalar_copy(ub(0, (1,), dtype), ub(1, (1,), dtype)), "within UB"),
        Demo("clean_data_cache", lambda k, gm, dtype: k.clean_data_cache(), "all lines"),
        Demo("cross_core_set", lambda k, gm, dtype: k.cross_core_set(0, 2, "MTE2")),
        Demo("cross_core_wait", lambda k, gm, dtype: k.cross_core_wait(0, 2, "MTE2")),
    ],
}  # fmt: skip


def copied(source: str, destination: str, *sizes: int) -> Demo:
    """A copy of rows of 1024 bytes, 2048 apart; or of rows of `sizes`: bytes, number, strides."""
    row_bytes, *rest = sizes or (1024, 4, 2048, 2048)
    return Demo("data_copy", lambda k, gm, dtype: k.data_copy(source, destination, 0, 0, row_bytes, *rest))


def planes(source: str, destination: str, held: int) -> Demo:
    """A copy of 2 planes of 16 rows of 32 bytes; rows are `held` bytes apart in the local buffer."""
    sides = (lambda far, near: (far, near)) if source == "GM" else (lambda far, near: (near, far))
    loops = CopyLoop(16, *sides(108, held)), CopyLoop(2, *sides(8192, 4096))
    return Demo("data_copy_planes", lambda k, gm, dtype: k.data_copy_planes(source, destination, 0, 0, 32, *loops))


def patch(columns: Span | ColumnRuns) -> Demo:
    window = MapWindow(16, 16, 3, 3, pad_top=1, pad_left=1, out_height=64, out_width=64)
    return Demo("load_data_3d", lambda k, gm, dtype: k.load_data_3d("L0B", 0, 0, 2, window, Span(16, 32), columns))


def loaded(itemsize: int, dst_stride: int, fractal_stride: int = 2) -> Demo:
    """A load of 4 fractals, or of 4 turned squares of 1-byte items: on a 950 their fractals adjoin (1)."""
    turned = itemsize == 1
    return Demo(
        "load_data_2d", lambda k, gm, dtype: k.load_data_2d("L0B", 0, 0, itemsize, 4, 2, turned, dst_stride, fractal_stride)
    )


def drained(columns: int, *strides: int) -> Demo:
    piece = TilePiece(32, columns, 64)
    return Demo("fixpipe_dn", lambda k, gm, dtype: k.fixpipe_dn(gm.address, 0, piece, dtype, *strides))


def emitted(instruction: Instruction) -> Demo:
    return Demo("emit", lambda k, gm, dtype: k.emit(instruction))


PROBES: list[Demo] = [
    *(copied(*path.split("->")) for path in ("GM->UB", "UB->GM", "GM->L1", "L1->GM", "L1->UB", "UB->L1", "L1->BT", "L1->FB")),
    *(copied(*path.split("->"), 96, 4, 128, 96) for path in ("GM->UB", "GM->L1")),
    copied("UB", "GM", 96, 4, 96, 128),
    copied("GM", "L0A", 512, 4, 1024, 1024),
    copied("UB", "L0C"),
    *(planes(*path.split("->"), held) for path in ("GM->UB", "UB->GM", "GM->L1") for held in (32, 64)),
    Demo("data_copy_nd2nz", lambda k, gm, dtype: k.data_copy_nd2nz(0, gm.address, 32, 32, 2, 128, 64)),
    Demo(
        "data_copy_dn2nz",
        lambda k, gm, dtype: k.data_copy_dn2nz(0, gm.address, ChannelMatrices(20, 5, 2, 64, 32, 160, 2, 2048, 2048)),
    ),
    Demo("fill", lambda k, gm, dtype: k.fill("L1", 0, 8192)),
    Demo("fill", lambda k, gm, dtype: k.fill("L0A", 0, 8192)),
    Demo("fill", lambda k, gm, dtype: k.fill("UB", 0, 8192)),
    Demo("copy", lambda k, gm, dtype: k.copy(*(LocalTensor(at, (8, 64), dtype, 1024) for at in (0, 8192)))),
    *(loaded(*one) for one in ((2, 1), (2, 4), (1, 4), (1, 4, 1))),
    *(patch(columns) for columns in (Span(144, 144), ColumnRuns(0, 16, 2, 3, 64))),
    *(Demo("mmad", lambda k, gm, dtype, m=m: k.mmad(0, 0, 0, m, 64, 64, dtype, False)) for m in (64, 1)),
    Demo("load_bias", lambda k, gm, dtype: k.load_bias(0, 0, 64, dtype)),
    Demo("fixpipe", lambda k, gm, dtype: k.fixpipe(gm.address, 0, 64, 2048, 128, "float32", 8, 2048)),
    Demo("fixpipe_nd", lambda k, gm, dtype: k.fixpipe_nd(gm.address, 0, 32, 32, 64, dtype, 128)),
    *(drained(*one) for one in ((1, 128, 2), (32, 2, 128), (32, 128, 8192))),
    Demo("l0c_to_ub", lambda k, gm, dtype: k.l0c_to_ub(0, 0, 32, 4, 64, dtype)),
    Demo("gm_to_ub", lambda k, gm, dtype: k.gm_to_ub(LocalTensor(0, (32, 16), dtype, 256), gm[:32, :16])),
    Demo("ub_to_gm", lambda k, gm, dtype: k.ub_to_gm(gm[:32, :16], LocalTensor(0, (32, 16), dtype, 256))),
    Demo("gm_to_l1", lambda k, gm, dtype: k.gm_to_l1(0, gm[:32, :48], held=128)),
    Demo("l1_to_l0a", lambda k, gm, dtype: k.l1_to_l0a(0, 0, 32, 32, dtype, held=128, row=16, column=16)),
    Demo("l1_to_l0b", lambda k, gm, dtype: k.l1_to_l0b(0, 0, 32, 32, dtype, held=128, row=16, column=16)),
    Demo("l1_to_l0b", lambda k, gm, dtype: k.l1_to_l0b(0, 0, 32, 32, dtype, held=32, transpose=True)),
    Demo("l0c_to_gm", lambda k, gm, dtype: k.l0c_to_gm(gm[:32, :48], 0)),
    emitted(DataCopyPadded("GM", "UB", 24, 4, 128, 128, left=4, right=2, itemsize=2)),
    emitted(FixpipeToL1(32, 64, 64, "float16", 16, 2048)),
    emitted(VectorUnary("abs", "float16", 128, 1, 0, 0, None, (32, 32))),
    emitted(VectorBinary("add", "float16", 128, 1, 0, 0, None, (32, 32, 32))),
]  # fmt: skip
"""Calls in which a parameter can be changed alone, of each method that writes instructions with declared fields."""
