"""A program of many stamps at places of their own."""

from __future__ import annotations

from random import Random
from typing import Any

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import KIB

SIZES = [1 << 21, 1 << 21]
PIECE = 4096
"""Rows that C writes out together."""


def writer(seed: int, stamping: bool) -> Any:
    """Tiles of some kinds at places of their own, with more rows than three pieces; a kind of its own is longer than one."""
    random = Random(seed)
    kinds = [(random.randint(1, 40), random.randint(0, 3), random.choice([32, 100, 700])) for _ in range(3)]
    items = [(random.choice(kinds), (random.randrange(512), random.randrange(512))) for _ in range(200)]
    long = PIECE + random.randrange(PIECE)

    def write(k: KernelBuilder) -> None:
        k.stamping = stamping
        queue = BufferQueue(k, "x", "MTE2", "MTE3", [k.allocate("UB", 8 * KIB, f"x[{i}]") for i in range(3)])
        for (moves, sums, size), (src, dst) in k.stamped(items):
            k.next_tile()
            for i in range(moves):
                k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, src * KIB + i * 32), size)
                queue.publish()
                for _ in range(sums):
                    k.vector_binary("add", 64 * KIB, 65 * KIB, 66 * KIB, "float32", 64)
                k.data_copy("UB", "GM", gm_operand(1, dst * KIB + i * 32), queue.take(), size)
                queue.release()
            k.scalar(moves)
        for _, _ in k.stamped([("long", (i, 0)) for i in range(2)]):
            k.next_tile()
            for i in range(long):
                k.vector_binary("add", 64 * KIB + 32 * (i % 9), 65 * KIB, 66 * KIB, "float32", 8 + i % 3)
                if i % 999 == 0:
                    k.data_copy("UB", "GM", gm_operand(1, 0), 64 * KIB, 64)  # hazards, with each other and the adds
        queue.close()

    return write
