"""Right kernels whose checks `check_growth.py` measures: each at any size, for each way in which a check could grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import ascend_sim as asim
from ascend_sim.memory.gm import gm_operand

N = 64
"""Elements of a row of float32."""


class Sized(NamedTuple):
    """A kernel at one size."""

    kernel: Any
    blocks: int
    tensors: tuple[Any, ...]
    fields: dict[str, Any] = {}  # noqa: RUF012


CASES: dict[str, tuple[int, Callable[[int], Sized]]] = {}
"""A first size, and the kernel at a size."""


def case(first: int, name: str = "") -> Callable[[Callable[[int], Sized]], Callable[[int], Sized]]:
    """Count a function of a size among the cases."""

    def add(make: Callable[[int], Sized]) -> Callable[[int], Sized]:
        CASES[name or make.__name__] = first, make
        return make

    return add


def given(*shape: int, dtype: str = "float32") -> Any:
    """Zeros."""
    return np.zeros(shape, dtype)


def out(*shape: int, dtype: str = "float32", workspace: bool = False) -> Any:
    """A tensor to be filled."""
    return asim.empty(shape, dtype, workspace=workspace)


# -- one core, long ---------------------------------------------------------------------------------------------------


@asim.kernel_function(core="AIV")
def copies(k, x, y, *, buffers=2):
    """A queue, and nothing else."""
    held = k.ub_queue("row", N, "float32", "MTE2", "MTE3", buffers)
    for i in range(len(y)):
        k.gm_to_ub(held, x[i % len(x)])
        k.ub_to_gm(y[i], held)


@case(4000)
def queue(size: int) -> Sized:
    return Sized(copies, 1, (given(4, N), out(size, N)))


@asim.kernel_function(core="AIV")
def stamped_copies(k, x, y):
    """Copy rows in a stamped loop, which a check compares with the rows that its body writes one by one."""
    held = k.ub_queue("row", N, "float32", "MTE2", "MTE3", 2)
    for _, place in k.stamped([(0, 4 * N * i) for i in range(len(y))]):
        with held.write() as row:
            k.data_copy("GM", "UB", row.address, gm_operand(0, 0), 4 * N)
        with held.read() as row:
            k.data_copy("UB", "GM", gm_operand(1, place), row.address, 4 * N)


@case(4000)
def stamped(size: int) -> Sized:
    return Sized(stamped_copies, 1, (given(4, N), out(size, N)))


@asim.kernel_function(core="AIV")
def sums(k, x, y):
    """Loads, vector instructions in order, stores."""
    held, done = k.ub_queue("in", (2, N), "float32", "MTE2", "V"), k.ub_queue("out", N, "float32", "V", "MTE3")
    with k.ordered("V"):
        for i in range(len(y)):
            with held.write() as h:
                k.gm_to_ub(h[0], x[i % len(x)]), k.gm_to_ub(h[1], x[(i + 1) % len(x)])
            with held.read() as h, done.write() as d:
                k.add(d, h[0], h[1]), k.mul(d, d, d), k.exp(d, d), k.adds(d, d, 1.0)
            k.ub_to_gm(y[i], done)


@case(1500)
def vector(size: int) -> Sized:
    return Sized(sums, 1, (given(4, N), out(size, N)))


@asim.kernel_function(core="AIV")
def many_queues(k, x, y, *, queues=6):
    """Rows that go through several queues at a time."""
    ins = [k.ub_queue(f"in {q}", N, "float32", "MTE2", "V", 1) for q in range(queues)]
    outs = [k.ub_queue(f"out {q}", N, "float32", "V", "MTE3", 1) for q in range(queues)]
    for i in range(len(y)):
        q = i % queues
        k.gm_to_ub(ins[q], x[i % len(x)])
        with ins[q].read() as a, outs[q].write() as b:
            k.muls(b, a, 2.0)
        k.ub_to_gm(y[i], outs[q])


@case(2500)
def queues(size: int) -> Sized:
    return Sized(many_queues, 1, (given(4, N), out(size, N)))


@asim.kernel_function(core="AIV")
def eight_flags(k, x, y):
    """Eight places, each with two flags of its own, all by hand; every other turn a flag that nobody needs."""
    places = [k.local_tensor(N, "float32", f"place {i}") for i in range(8)]
    full = [k.flag("MTE2", "MTE3", f"full {i}") for i in range(8)]
    free = [k.flag("MTE3", "MTE2", f"free {i}") for i in range(8)]
    extra = [k.flag("MTE2", "V", f"extra {i}") for i in range(8)]
    turns = len(y)
    for i in range(turns):
        q = i % 8
        if i >= 8:
            k.wait_flag(free[q])
        k.gm_to_ub(places[q], x[i % len(x)])
        k.set_flag(full[q])
        if i % 2:
            k.set_flag(extra[q]), k.wait_flag(extra[q])
        k.wait_flag(full[q])
        k.ub_to_gm(y[i], places[q])
        if i < turns - 8:
            k.set_flag(free[q])


@case(2500)
def flags(size: int) -> Sized:
    return Sized(eight_flags, 1, (given(4, N), out(size, N)))


@asim.kernel_function(core="AIV")
def stops(k, x, y, *, how="all"):
    """Every turn the scalar unit waits for a pipe, or for all."""
    held = k.local_tensor(N, "float32", "held")
    for i in range(len(y)):
        k.gm_to_ub(held, x[i % len(x)])
        k.pipe_barrier("ALL") if how == "all" else k.scalar_wait("MTE2")
        k.ub_to_gm(y[i], held)
        k.pipe_barrier("ALL") if how == "all" else k.scalar_wait("MTE3")


@case(4000)
def barriers(size: int) -> Sized:
    return Sized(stops, 1, (given(4, N), out(size, N)))


@case(4000)
def scalar_waits(size: int) -> Sized:
    return Sized(stops, 1, (given(4, N), out(size, N)), {"how": "scalar"})


@asim.kernel_function(core="AIV")
def buffers_in_turn(k, x, y, *, places=700):
    """Hundreds of buffers, each filled and emptied in turn."""
    held = [k.local_tensor(N, "float32", f"held {i}") for i in range(places)]
    for first in range(0, len(y), places):
        there = range(first, min(first + places, len(y)))
        for i in there:
            k.gm_to_ub(held[i - first], x[i % len(x)])
        k.pipe_barrier("ALL")
        for i in there:
            k.ub_to_gm(y[i], held[i - first])
        k.pipe_barrier("ALL")


@case(4000)
def buffers(size: int) -> Sized:
    return Sized(buffers_in_turn, 1, (given(4, N), out(size, N)))


@asim.kernel_function(core="AIV")
def sliding(k, x, y, *, most=160):
    """Pieces of a buffer that lie over each other, of changing lengths at changing places."""
    held = k.local_tensor(24 * 1024, "float32", "held")
    there, gone = k.flag("MTE2", "MTE3", "there"), k.flag("MTE3", "MTE2", "gone")
    for i in range(len(y)):
        start, count = (i * 104) % (22 * 1024) // 8 * 8, 8 + (i * 40) % most // 8 * 8
        if i:
            k.wait_flag(gone)
        k.gm_to_ub(held[start : start + count], x[i % len(x), :count])
        k.set_flag(there), k.wait_flag(there)
        k.ub_to_gm(y[i, :count], held[start : start + count])
        if i < len(y) - 1:
            k.set_flag(gone)


@case(4000)
def overlaps(size: int) -> Sized:
    return Sized(sliding, 1, (given(4, 256), out(size, 256)))


@case(4000)
def overlaps_long(size: int) -> Sized:
    return Sized(sliding, 1, (given(4, 2048), out(size, 2048)), {"most": 2000})


@asim.kernel_function(core="AIV")
def running_sum(k, x, y):
    """Read each written row again, with all that was written before it."""
    held = k.ub_queue("row", N, "float32", "MTE2", "MTE3", 1)
    for i in range(1, len(y)):
        k.gm_to_ub(held, x[i % len(x)])
        k.ub_to_gm(y[i : i + 1], held)
        k.pipe_barrier("ALL")
        k.data_copy("GM", "UB", 4096, y.address, 256, min(i, 40), 256 * max(i // 40, 1), 256)


@case(2000)
def overlaps_in_gm(size: int) -> Sized:
    return Sized(running_sum, 1, (given(4, N), given(size, N)))


@asim.kernel_function(core="AIV")
def prefixes(k, x, y, *, size=0):
    """Each turn writes a longer piece from the start of one tensor."""
    held = k.local_tensor(40 * 1024, "float32", "held")
    k.duplicate(held, 0.0)
    k.pipe_barrier("ALL")
    for i in range(size):
        k.ub_to_gm(y[: 8 + 8 * (i % 5000)], held[: 8 + 8 * (i % 5000)])
        k.pipe_barrier("MTE3")


@case(2000)
def overlaps_nested(size: int) -> Sized:
    return Sized(prefixes, 1, (given(4), out(40 * 1024)), {"size": size})


# -- many cores -------------------------------------------------------------------------------------------------------


@asim.kernel_function(core="AIV")
def shared(k, w, x, total, y, *, turns=20):
    """Each core reads the same weights, adds to the same total and writes rows of its own."""
    held, done = k.ub_queue("in", (2, N), "float32", "MTE2", "V"), k.ub_queue("out", N, "float32", "V", "MTE3")
    for i in range(turns):
        with held.write() as h:
            k.gm_to_ub(h[0], w[i % len(w)]), k.gm_to_ub(h[1], x[k.block])
        with held.read() as h, done.write() as d:
            k.add(d, h[0], h[1])
        with done.read() as d:
            k.ub_to_gm(total[i % len(total)], d, atomic_add=True)
            k.ub_to_gm(y[k.block, i], d)


@case(50)
def cores(size: int) -> Sized:
    turns = 20
    return Sized(shared, size, (given(turns, N), given(size, N), given(turns, N), out(size, turns, N)), {"turns": turns})


@asim.kernel_function(core="AIV", all_cores=True)
def together(k, x, between, y, *, turns=20):
    """Turn by turn all cores meet, and each reads what its neighbour wrote."""
    held = k.ub_queue("row", N, "float32", "MTE2", "MTE3", 1)
    for i in range(turns):
        k.gm_to_ub(held, x[k.block])
        if i:
            k.cross_core_wait(1, 0, "MTE3")
        k.ub_to_gm(between[k.block], held)
        k.cross_core_set(0, 0, "MTE3"), k.cross_core_wait(0, 0, "MTE2")
        k.gm_to_ub(held, between[(k.block + 1) % k.blocks])
        if i < turns - 1:
            k.cross_core_set(1, 0, "MTE2")
        k.ub_to_gm(y[k.block, i], held)


def _together(blocks: int, turns: int) -> Sized:
    tensors = given(blocks, N), out(blocks, N, workspace=True), out(blocks, turns, N)
    return Sized(together, blocks, tensors, {"turns": turns})


@case(6)
def meetings_of_more_cores(size: int) -> Sized:
    return _together(size, 400)


@case(100)
def meetings_more_often(size: int) -> Sized:
    return _together(40, size)


# -- cube and MIX -----------------------------------------------------------------------------------------------------


@asim.kernel_function(core="AIC")
def products(k, a, b, c, *, base=32, atomic=False):
    """A matrix product as docs/kernels has it."""
    m, n, depth = a.shape[0], b.shape[1], a.shape[1]
    l1 = k.queue("L1", ("L1", "L1"), (base * base * 2,) * 2, "MTE2", "MTE1")
    l0 = k.queue("L0", ("L0A", "L0B"), (base * base * 2,) * 2, "MTE1", "M")
    tiles = k.queue("C", "L0C", base * base * 4, "M", "FIX")
    work = [(i, j) for i in range(0, m, base) for j in range(0, n, base)]
    for i, j in work if atomic else work[k.block :: k.blocks]:
        share = range(k.block * base, depth, k.blocks * base) if atomic else range(0, depth, base)
        with tiles.write() as tile:
            for p in share:
                with l1.write() as (a1, b1):
                    k.gm_to_l1(a1, a[i : i + base, p : p + base]), k.gm_to_l1(b1, b[p : p + base, j : j + base])
                with l1.read() as (a1, b1), l0.write() as (a0, b0):
                    k.l1_to_l0a(a0, a1, base, base, a.dtype, held=base)
                    k.l1_to_l0b(b0, b1, base, base, b.dtype, held=base)
                with l0.read() as (a0, b0):
                    k.mmad(tile, a0, b0, base, base, base, a.dtype, accumulate=p > share[0])
        k.l0c_to_gm(c[i : i + base, j : j + base], tiles, atomic_add=atomic)


@case(1024)
def cube(size: int) -> Sized:
    return Sized(products, 1, (given(size, 128, dtype="float16"), given(128, 256, dtype="float16"), out(size, 256)))


@case(24)
def cube_of_more_cores(size: int) -> Sized:
    tensors = given(64, 32 * size * 4, dtype="float16"), given(32 * size * 4, 64, dtype="float16"), given(64, 64)
    return Sized(products, size, tensors, {"atomic": True})


@asim.kernel_function(core="MIX")
def handed_over(k, a, b, between, y, *, turns=20):
    """The cube core writes a tile, its vector cores take a half each; two tiles are under way."""
    base, between, y = 32, between[k.block], y[k.block]
    if k.is_cube:
        l1 = k.queue("L1", ("L1", "L1"), (base * base * 2,) * 2, "MTE2", "MTE1")
        l0 = k.queue("L0", ("L0A", "L0B"), (base * base * 2,) * 2, "MTE1", "M")
        tiles = k.queue("C", "L0C", base * base * 4, "M", "FIX")
        for i in range(turns):
            with l1.write() as (a1, b1):
                k.gm_to_l1(a1, a), k.gm_to_l1(b1, b)
            with l1.read() as (a1, b1), l0.write() as (a0, b0):
                k.l1_to_l0a(a0, a1, base, base, a.dtype, held=base), k.l1_to_l0b(b0, b1, base, base, b.dtype, held=base)
            with l0.read() as (a0, b0), tiles.write() as tile:
                k.mmad(tile, a0, b0, base, base, base, a.dtype, accumulate=False)
            if i >= 2:
                k.cross_core_wait(1, 2, "FIX")
            k.l0c_to_gm(between[i % 2], tiles), k.cross_core_set(0, 2, "FIX")
        return
    mine = slice(k.sub_block * base // 2, (k.sub_block + 1) * base // 2)
    held, done = (k.ub_queue(n, (base // 2, base), "float32", *p) for n, p in (("i", ("MTE2", "V")), ("o", ("V", "MTE3"))))
    for i in range(turns):
        k.cross_core_wait(0, 2, "MTE2"), k.gm_to_ub(held, between[i % 2, mine])
        if i < turns - 2:
            k.cross_core_set(1, 2, "MTE2")
        with held.read() as h, done.write() as d:
            k.exp(d, h)
        k.ub_to_gm(y[i % len(y), mine], done)


def _handed_over(blocks: int, turns: int) -> Sized:
    a = given(32, 32, dtype="float16")
    tensors = a, a, out(blocks, 2, 32, 32, workspace=True), out(blocks, turns, 32, 32)
    return Sized(handed_over, blocks, tensors, {"turns": turns})


@case(500)
def mix(size: int) -> Sized:
    return _handed_over(1, size)


@case(20)
def mix_of_more_cores(size: int) -> Sized:
    return _handed_over(size, 20)
