"""Kernels of one's own that several tests launch, and an instruction of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import ascend_sim as asim

CHIP = "ascend910b3"


@asim.kernel_function(core="AIV")
def move(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
    """Rows of x to y through UB."""
    tiles = k.queue("x", "UB", k.row_bytes(x.shape[1] * x.itemsize), "MTE2", "MTE3")
    for row in range(k.block * 2 + k.sub_block if k.core_kind == "MIX" else k.block, len(x), k.blocks):
        k.gm_to_ub(tiles.acquire(), x[row])
        tiles.publish()
        k.ub_to_gm(y[row], tiles.take())
        tiles.release()


@asim.kernel_function(core="AIC")
def product(
    k: asim.Kernel,
    a: asim.Tensor,
    b: asim.Tensor,
    c: asim.Tensor,
    *,
    turn_a: bool = False,
    turn_b: bool = False,
    atomic: bool = False,
) -> None:
    """C = A B of matrices that fit L0, A and B perhaps stored turned; `atomic` adds to what C holds."""
    (m, depth), n = (a.shape[::-1] if turn_a else a.shape), b.shape[0 if turn_b else 1]
    wide = -(-max(m, depth, n) // 32) * 32
    a1, b1 = (k.queue(name, "L1", wide * wide * 4, "MTE2", "MTE1", 1) for name in ("A1", "B1"))
    a0, b0 = (k.queue(name, name, wide * wide * 4, "MTE1", "M", 1) for name in ("L0A", "L0B"))
    tile = k.queue("C", "L0C", wide * wide * 4, "M", "FIX", 1)
    k.gm_to_l1(a1.acquire(), a)
    a1.publish()
    k.gm_to_l1(b1.acquire(), b)
    b1.publish()
    k.l1_to_l0a(a0.acquire(), a1.take(), *a.shape, a.dtype, held=len(a), transpose=turn_a)
    a0.publish()
    k.l1_to_l0b(b0.acquire(), b1.take(), *b.shape, b.dtype, held=len(b), transpose=turn_b)
    b0.publish()
    out = tile.acquire()
    k.mmad(out, a0.take(), b0.take(), max(m, 2), depth, n, a.dtype, False)  # a single row would be GEMV
    tile.publish()
    k.l0c_to_gm(c, tile.take(), atomic_add=atomic)


# -- cores together ----------------------------------------------------------------------------------------------------


@asim.kernel_function(core="MIX")
def turns(k: asim.Kernel, a: asim.Tensor, b: asim.Tensor, c: asim.Tensor, d: asim.Tensor) -> None:
    """C = A B by the cube, D = C moved by the vector cores when the cube has written it."""
    if k.is_cube:
        product(k, a, b, c)
        k.cross_core_set(3, 2, "FIX")
        return
    k.cross_core_wait(3, 2, "MTE2")
    tile = k.queue("t", "UB", 2048, "MTE2", "MTE3", 1)
    half = len(c) // 2
    part = slice(k.sub_block * half, (k.sub_block + 1) * half)
    k.gm_to_ub(tile.acquire(), c[part])
    tile.publish()
    k.ub_to_gm(d[part], tile.take())


# -- instructions of one's own -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Square(asim.Instruction):
    """dst = src0 squared, `count` float32."""

    count: int
    cycles: int = 17

    name = "square"

    def pipe(self, chip: Any) -> str:
        return "V"

    def cost(self, chip: Any) -> asim.Cost:
        return asim.Cost(3, 3, self.cycles, 2)

    def reads(self) -> tuple[asim.Region, ...]:
        return (asim.Region("src0", "UB", 4 * self.count),)

    def writes(self) -> tuple[asim.Region, ...]:
        return (asim.Region("dst", "UB", 4 * self.count),)

    def read(self, memory: asim.Memory, dst: int, src0: int, src1: int) -> Any:
        return np.square(memory.array("UB", src0, (self.count,), np.float32))

    def commit(self, memory: asim.Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, (self.count,), np.float32)[...] = pending


@asim.kernel_function(core="AIV")
def squares(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, *, cycles: int = 17) -> None:
    source = k.queue("in", "UB", x.nbytes, "MTE2", "V", 1)
    target = k.queue("out", "UB", x.nbytes, "V", "MTE3", 1)
    k.gm_to_ub(source.acquire(), x)
    source.publish()
    k.emit(Square(x.size, cycles), target.acquire(), source.take())
    target.publish()
    k.ub_to_gm(y, target.take())
