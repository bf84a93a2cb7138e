"""Well-formed random programs for hypothesis: several pipes, flags, barriers, scalar time, disarmed waits, short queues."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import TilePiece
from ascend_sim.kernel.sync import Flag
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.kernel.unit_flag import UnitFlagTiles
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, KIB, Writer, changed, quiet
from tests.support.kernel.unit_flags import product_into

SIZES = (64 * KIB, 64 * KIB)
"""The tensors of one program: it reads the first and writes the second."""
PIPES = {"AIC": ("MTE1", "MTE2", "MTE3", "M", "FIX"), "AIV": ("MTE2", "MTE3", "V")}
MOST_SETS = 15
"""Per flag, and how far it counts on these chips: no set is lost however late the waits are."""

Step = tuple[str, int, int, int]


_TIMED = ("MTE1", "MTE2", "MTE3", "M", "V", "FIX")


@dataclass(frozen=True)
class RandomChip:
    """A 910B3 with short queues and small, often equal or zero times; `chip` is the whole of it."""

    queue_depth: tuple[int, ...]
    outstanding: tuple[int, ...]
    issue: int
    flag: int
    barrier: int
    cross: int
    cube: tuple[int, int, int]
    path: tuple[int, int]
    vector: tuple[int, int]
    fixpipe: tuple[int, int]

    @property
    def chip(self) -> ChipSpec:
        chip = changed(
            quiet(CHIP),
            sync={
                "queue_depth": dict(zip(_TIMED, self.queue_depth, strict=True)),
                "outstanding": dict(zip(_TIMED, self.outstanding, strict=True)),
                "flag_max": MOST_SETS,
                "flag_latency": self.flag,
                "barrier_latency": self.barrier,
                "cross_latency": self.cross,
            },
            scalar={"issue_cycles": {"AIC": self.issue, "AIV": self.issue}},
            cube=dict(zip(("head_first", "head_stream", "latency"), self.cube, strict=True)),
            paths=dict(zip(("head", "latency"), self.path, strict=True)),
            vector=dict(zip(("head", "latency"), self.vector, strict=True)),
        )
        assert chip.fixpipe is not None
        unit = dict(zip(("head", "latency"), self.fixpipe, strict=True))
        return chip.model_copy(update={"fixpipe": chip.fixpipe.model_copy(update=unit)})


def variants() -> st.SearchStrategy[RandomChip]:
    """Chips for hypothesis."""
    few, short, long = st.tuples(*[st.integers(1, 4)] * 6), st.integers(0, 5), st.integers(0, 60)
    pair = st.tuples(short, short)
    return st.builds(
        RandomChip, few, few, short, short, short, short, st.tuples(short, short, short), st.tuples(short, long), pair, pair
    )


def steps(most: int = 60) -> st.SearchStrategy[list[Step]]:
    """Return a strategy for the steps of a program, as numbers that `writer` makes well-formed."""
    verb = st.sampled_from(["work", "work", "work", "tile", "set", "wait", "wait", "barrier", "all", "one", "scalar"])
    number = st.integers(0, 11)
    step = st.tuples(verb, number, number, number)
    return st.one_of(st.lists(step, max_size=most), st.lists(step, min_size=most // 3, max_size=most))


def flag_pairs(k: KernelBuilder) -> list[tuple[str, str]]:
    """The pairs of pipes, S included, that a flag can join on the core of a builder."""
    there = k.chip.sync.flag_pairs.get(k.core_kind)  # type: ignore[call-overload]
    pipes = k.chip.cores.kinds[k.core_kind].pipes  # type: ignore[index]
    return [(a, b) for a in pipes for b in pipes if a != b and (there is None or b in there.get(a, ()))]


def writer(kind: str, actions: list[Step], slot: int = 0) -> Writer:
    """Writes `actions` for a core of `kind`, on tensors `slot` and `slot` + 1.

    Waits without a set before them are left out, sets left over are waited for.
    """

    def write(k: KernelBuilder) -> None:
        flags: dict[str, Flag] = {}
        sets: dict[str, int] = {}
        open_sets: dict[str, int] = {}
        pipes, pairs = PIPES[kind], flag_pairs(k)
        tiles = UnitFlagTiles(k, "unit", (0, 32 * KIB)[: 1 + len(actions) % 2]) if kind == "AIC" else None
        for verb, a, b, c in actions:
            pipe = pipes[a % len(pipes)]
            if verb == "work":
                _work(k, pipe, b, c, slot)
            elif verb == "tile":
                if tiles is not None:
                    tile(k, tiles, a, b, gm_operand(slot + 1, c * 96))
            elif verb == "scalar" and c < 6:
                k.scalar(a + b)
            elif verb == "scalar":
                scalar_access(k, a, b, c, slot)
            elif verb == "all":
                k.pipe_barrier("ALL")
            elif verb == "one":
                k.scalar_wait(pipe)
            elif verb == "barrier":
                k.pipe_barrier(pipe)
            else:
                source, destination = pairs[(a + 12 * b) % len(pairs)]
                name = f"{source}->{destination} {c % 2}"
                if verb == "set" and sets.get(name, 0) < MOST_SETS:
                    flags[name] = k.flag(source, destination, name)
                    sets[name] = sets.get(name, 0) + 1
                    open_sets[name] = open_sets.get(name, 0) + 1
                    k.set_flag(flags[name])
                elif verb == "wait" and open_sets:
                    name = sorted(open_sets)[(a + b + c) % len(open_sets)]
                    k.wait_flag(flags[name])
                    open_sets[name] -= 1
                    if not open_sets[name]:
                        del open_sets[name]
        for name, count in open_sets.items():
            for _ in range(count):
                k.wait_flag(flags[name])
        if tiles is not None:
            tiles.close()

    return write


def gm_element(slot: int, offset: int) -> Tensor:
    """Return a float32 element of a tensor."""
    return Tensor("t", (), "float32", gm_operand(slot, offset), ())


def ub_element(address: int) -> LocalTensor:
    """Return a float32 element of the Unified Buffer."""
    return LocalTensor(address, (1,), "float32")


def scalar_access(k: KernelBuilder, a: int, b: int, c: int, slot: int) -> None:
    """A load, a store or a line that is written back, at a few places."""
    element = gm_element(slot + b % 2, 4 * (a + 12 * c)) if a % 2 or k.core_kind == "AIC" else ub_element(4 * b)
    if c == 11:
        k.clean_data_cache(gm_element(slot + 1, 4 * (a + 12 * b)) if b % 3 else None)
    elif c % 2:
        k.scalar_load(element, cached=b % 2 > 0)
    else:
        k.scalar_store(element, float(a - b), cached=b % 2 > 0)


def tile(k: KernelBuilder, tiles: UnitFlagTiles, steps: int, size: int, target: int) -> None:
    """A tile of L0C that cube and Fixpipe hand over by the unit flag, now and then as a whole."""
    accumulator, m, n = tiles.acquire(), 16 * (1 + size % 3), 16 * (1 + steps % 4)
    for step in range(1 + steps % 3):
        if step and m * n < 10 * 256:
            k.pipe_barrier("M")
        product_into(k, tiles, accumulator, (m, 16, n), step > 0)
    if size % 4:
        tiles.drain(target, TilePiece(m, n, m if size % 5 else m + 16), "float16", 16, 32 * m)
        return
    tiles.publish()
    k.fixpipe(target, tiles.take(), m, n, m, "float16", 16, 32 * m)
    tiles.release()


def _work(k: KernelBuilder, pipe: str, size: int, place: int, slot: int) -> None:
    """One instruction of `pipe`, longer with `size`."""
    source, target = gm_operand(slot, place * 100), gm_operand(slot + 1, place * 100)
    if pipe == "MTE1":
        k.load_data_2d("L0A" if place % 2 else "L0B", 0, 0, 2, 1 + size)
    elif pipe == "MTE2" and k.core_kind == "AIV":
        k.data_copy("GM", "UB", 0, source, 32 + 32 * size, 1 + place % 3, 700, 512)
    elif pipe == "MTE2":
        if place == 5:
            k.fill("L1", 0, 32 + 512 * size)
        else:
            k.data_copy("GM", "L1", 0, source, 32 + 256 * size, 1 + place % 3, 4096, 4096)
    elif pipe == "MTE3":
        k.data_copy("L1" if k.core_kind == "AIC" else "UB", "GM", target, 0, 32 + 64 * size)
    elif pipe == "M":
        k.mmad(0, 0, 0, 16 * (1 + size % 3), 16, 16 * (1 + place % 3), "float16", bool(place % 2))
    elif pipe == "FIX":
        k.fixpipe(gm_operand(slot + 1, place * 96), 0, 16, 16 * (1 + size % 3), 16, "float16", 16, 512)
    else:
        k.vector_duplicate(0, "float16", 16 + 100 * size)
