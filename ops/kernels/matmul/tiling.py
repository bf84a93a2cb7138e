"""Tiling of a MatMul: base blocks, L1 steps, a core's share and the order of tasks.

    C[b, M, N] = op(A)[b, M, K] x op(B)[b, K, N], all row-major

The procedure is our own (reports call it a stand-in): the library's is not published whole. It starts from the
published base block of the architecture (`configs/matmul.yaml`) and shrinks it where fewer or smaller tiles leave cores
idle for less time. It takes the least estimate for the busiest core: tiles x (the slowest of cube, MTE1 and MTE2) and
the stores, with the rates of the chip's file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError, TilingError
from ascend_sim.frozen import frozen
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.cube.fields import BlockTiling
from ascend_sim.ops.kernels.cube.ladder import OURS, LadderAnswer, Rung, answered, climb
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to
from ascend_sim.shipped import read_config

DOUBLE = 2
MOST_STEPS = 8  # L1 steps that are tried; more brings no fewer bytes and a later start (ours)
INDIFFERENT = 0.05  # among estimates this close the largest block wins: it needs the fewest bytes (ours)


@frozen
class MatMulProblem:
    """One launch of MatMul: sizes, `dtype` in which the cube computes (also "hf32"), and `out_dtype` in which C is stored.

    A is [batch, M, K], or [batch, K, M] with `transpose_a`; B [batch, K, N], or [batch, N, K] with `transpose_b`, and
    has no batch axis unless `b_batched`.
    """

    m: int
    n: int
    k: int
    dtype: str = "float16"
    out_dtype: str = "float16"
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False
    b_batched: bool = False

    @property
    def storage(self) -> str:
        """Return the dtype of A and B in memory: float32 for hf32, else the compute dtype."""
        return "float32" if self.dtype == "hf32" else self.dtype

    @property
    def itemsize(self) -> int:
        """Return the bytes of an element of A or B."""
        return int(numpy_dtype(self.storage).itemsize)

    @property
    def out_itemsize(self) -> int:
        """Return the bytes of an element of C."""
        return int(numpy_dtype(self.out_dtype).itemsize)

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of the whole batch."""
        return self.batch * self.m * self.n * self.k

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Return the bytes of (A, B, C) over the whole batch; of B once if all of the batch share it."""
        b_batch = self.batch if self.b_batched else 1
        a, b = self.batch * self.m * self.k, b_batch * self.k * self.n
        return a * self.itemsize, b * self.itemsize, self.batch * self.m * self.n * self.out_itemsize


@frozen
class MatMulTiling(BlockTiling):
    """Tiling of a MatMul: base block of one Mmad, base blocks of K that L1 holds of each operand, and a task.

    A task is `single_core_m` x `single_core_n` of C, cut into tiles of `base_m` x `base_n`; within a task the tiles of
    one row come first. Tasks go to the cores in turn, in strips of `strip` tasks of N (ours, `stripN`): within a strip
    tasks count along N first, then M, so that cores that run together read few different rows and columns.
    """

    single_core_n: int = 0
    strip: int = 1
    source: str = "stand-in"

    VENDOR: ClassVar[dict[str, str]] = BlockTiling.VENDOR | {
        "al0_buffers": "dbL0A", "bl0_buffers": "dbL0B", "cl0_buffers": "dbL0C", "single_core_n": "singleCoreN",
        "strip": "stripN", "block_dim": "usedCoreNum",
    }  # fmt: skip
    WHOSE: ClassVar[str] = "this gradient is a MatMul, "

    def l1_bytes(self, itemsize: int) -> tuple[int, int]:
        """Return the bytes of one L1 buffer: (of A, of B), in whole fractals of both axes."""
        c0 = BLOCK_BYTES // itemsize
        a = ceil_to(self.base_m, FRACTAL) * ceil_to(self.step_ka * self.base_k, max(c0, FRACTAL)) * itemsize
        b = ceil_to(self.base_n, FRACTAL) * ceil_to(self.step_kb * self.base_k, max(c0, FRACTAL)) * itemsize
        return a, b

    def grid(self, problem: MatMulProblem) -> tuple[int, int]:
        """Return (number of tasks along M, along N) of one matrix C."""
        return ceil_div(problem.m, self.single_core_m), ceil_div(problem.n, self.single_core_n)


@frozen
class MatMulTile:
    """A tile of C: `m_count` rows from `m` on, `n_count` columns from `n` on, of one batch."""

    batch: int
    m: int
    m_count: int
    n: int
    n_count: int


def matmul_tiles(tiling: MatMulTiling, problem: MatMulProblem, block: int) -> Iterator[MatMulTile]:
    """Yield the tiles of block number `block`, in the order in which it computes them; tasks go to blocks in turn."""
    m_parts, n_parts = tiling.grid(problem)
    for number in range(block, problem.batch * m_parts * n_parts, tiling.block_dim):
        batch, inside = divmod(number, m_parts * n_parts)
        strip, inside = divmod(inside, m_parts * tiling.strip)
        m_part, n_part = divmod(inside, min(tiling.strip, n_parts - strip * tiling.strip))
        n_part += strip * tiling.strip
        m_start, n_start = m_part * tiling.single_core_m, n_part * tiling.single_core_n
        m_end = min(m_start + tiling.single_core_m, problem.m)
        n_end = min(n_start + tiling.single_core_n, problem.n)
        for m in range(m_start, m_end, tiling.base_m):
            for n in range(n_start, n_end, tiling.base_n):
                yield MatMulTile(batch, m, min(tiling.base_m, m_end - m), n, min(tiling.base_n, n_end - n))


@cache
def architectures() -> Mapping[str, Mapping[str, Any]]:
    """Return architecture -> its entry in `configs/matmul.yaml`, read once."""
    found: Mapping[str, Mapping[str, Any]] = read_config("matmul.yaml")
    return found


def architecture(chip: ChipSpec) -> Mapping[str, Any]:
    """Return the entry of a chip's architecture; SimError where there is no MatMul kernel."""
    known = architectures()
    if chip.identity.arch not in known:
        raise SimError(
            f"MatMul: no kernel for {chip.name} ({chip.identity.arch}); there is one for {', '.join(known)} "
            "(configs/matmul.yaml)"
        )
    return known[chip.identity.arch]


def choose_matmul(problem: MatMulProblem, chip: ChipSpec, overrides: Mapping[str, Any] | None = None) -> MatMulTiling:
    """Return the tiling with the least estimated cycles; of estimates within 5 % the largest block. `overrides` are the user's
    fields by the vendor's names.

    Fields that are left out follow from those given, but L1 steps and `strip` of the user replace those of the best block only
    at the end. Raises TilingError for unknown fields, impossible values and, with the formula and the limit, for a tiling that
    cannot run; SimError for a chip without this kernel.
    """
    given = MatMulTiling.given(overrides or {})
    candidates = list(_candidates(problem, chip, given))
    if not candidates:
        raise TilingError(f"no base block of MatMul {problem.m} x {problem.n} x {problem.k} fits {chip.name}")
    candidates = [one for one in candidates if _overflow(one.but(**given), problem, chip) is None] or candidates
    cycles = [estimated_cycles(one, problem, chip) for one in candidates]
    close = [one for one, own in zip(candidates, cycles, strict=True) if own <= (1 + INDIFFERENT) * min(cycles)]
    best = max(close, key=lambda one: (one.base_m * one.base_n, one.base_n))
    tiling = best.but(**given, source="manual" if given else "stand-in")
    check_matmul(tiling, problem, chip)
    return tiling


def answer_matmul(
    problem: MatMulProblem, chip: ChipSpec, overrides: Mapping[str, Any] | None = None
) -> LadderAnswer[MatMulTiling]:
    """Return the tiling of `choose_matmul` (`overrides`: the user's fields) as the answer of a ladder with one rung; raise as
    it does.
    """
    rung: Rung[MatMulProblem, MatMulTiling] = Rung(
        "least estimated time", OURS, lambda _: True, lambda p: choose_matmul(p, chip, overrides)
    )
    return answered(climb((rung,), problem))


def check_matmul(tiling: MatMulTiling, problem: MatMulProblem, chip: ChipSpec) -> None:
    """Raise TilingError where a buffer overflows, a number of buffers is not 1 or 2, those of L0A and L0B differ, neither L1
    step divides the other, or load3d's K field does not hold a step times base_k.
    """
    for name in ("al0_buffers", "bl0_buffers", "cl0_buffers", "al1_buffers", "bl1_buffers"):
        if getattr(tiling, name) not in (1, 2):
            raise TilingError(f"{tiling.VENDOR[name]} = {getattr(tiling, name)}; allowed are 1 and 2")
    if tiling.al0_buffers != tiling.bl0_buffers:
        raise TilingError(f"dbL0A = {tiling.al0_buffers} and dbL0B = {tiling.bl0_buffers}; both must be equal")
    overflow = _overflow(tiling, problem, chip)
    if overflow is not None:
        raise TilingError(overflow)
    if max(tiling.step_ka, tiling.step_kb) % min(tiling.step_ka, tiling.step_kb):
        raise TilingError(f"stepKa = {tiling.step_ka}, stepKb = {tiling.step_kb}: one must be a multiple of the other")
    if max(tiling.step_ka, tiling.step_kb) * tiling.base_k > chip.load3d.limits.k_extent:
        raise TilingError(f"stepKa, stepKb: step*baseK may be {chip.load3d.limits.k_extent} at most, the K field of load3d")


def _overflow(tiling: MatMulTiling, problem: MatMulProblem, chip: ChipSpec) -> str | None:
    """Return the reason if a tiling overflows a buffer, with the formula and the limit; None if all fit."""
    item, name = problem.itemsize, chip.name
    a1, b1 = tiling.l1_bytes(item)
    needs = {
        "L0A": (tiling.base_m * tiling.base_k * item * tiling.al0_buffers, "baseM*baseK*bytes*dbL0A"),
        "L0B": (tiling.base_n * tiling.base_k * item * tiling.bl0_buffers, "baseN*baseK*bytes*dbL0B"),
        "L0C": (tiling.base_m * tiling.base_n * ACCUMULATOR_BYTES * tiling.cl0_buffers, "baseM*baseN*4*dbL0C"),
        "L1": (
            a1 * tiling.al1_buffers + b1 * tiling.bl1_buffers,
            "baseM*stepKa*baseK*bytes*al1Pbuffer + baseN*stepKb*baseK*bytes*bl1Pbuffer",
        ),
    }
    for buffer, (size, formula) in needs.items():
        if size > chip.buffers[buffer]:  # type: ignore[index]
            limit = chip.buffers[buffer]  # type: ignore[index]
            return f"{buffer}: {formula} = {size} bytes; {name} has {limit} (chip file, buffers.{buffer})"
    return None


def _candidates(problem: MatMulProblem, chip: ChipSpec, given: Mapping[str, int]) -> Iterator[MatMulTiling]:
    """Yield a complete tiling for each base block of `_sides` up to the published one's area; if the user gives both base_m and
    base_n, for theirs alone, whatever their area.
    """
    base = architecture(chip)["base"]
    area = base["m"] * base["n"]
    most = max(base["m"], base["n"])
    both = {"base_m", "base_n"} <= set(given)  # what the user gives whole is checked, not mended
    for m in _sides(problem.m, most, given.get("base_m")):
        for n in _sides(problem.n, most, given.get("base_n")):
            if m * n <= area or both:
                yield _complete(m, n, problem, chip, given)


def _sides(extent: int, most: int, given: int | None) -> list[int]:
    """Return the sides of a base block, in whole fractals and at most `most`, that cut `extent` into any number of equal parts;
    [given] unless it is None.
    """
    if given is not None:
        return [given]
    limits = range(FRACTAL, most + 1, FRACTAL)
    return sorted({ceil_to(ceil_div(extent, ceil_div(extent, limit)), FRACTAL) for limit in limits})


def _complete(base_m: int, base_n: int, problem: MatMulProblem, chip: ChipSpec, given: Mapping[str, int]) -> MatMulTiling:
    """Return the tiling of a base block with all other fields, those in `given` as they are, but for step_ka, step_kb and
    strip, and L0B with the buffers of L0A.
    """
    item, buffers = problem.itemsize, chip.buffers
    l0 = given.get("al0_buffers", given.get("bl0_buffers", DOUBLE))
    k_bytes = architecture(chip)["base"]["k_bytes"]
    room = min(buffers["L0A"] // base_m, buffers["L0B"] // base_n) // item // l0
    k_all = ceil_to(problem.k, FRACTAL)
    # Small blocks leave L0 empty: powers of two of the published length, so that L1 holds whole L2 lines of K.
    base_k = k_bytes // item
    while base_k * 2 <= min(room, k_all):
        base_k *= 2
    base_k = given.get("base_k", min(base_k, floor_to(room, FRACTAL), k_all))
    c_tile = base_m * base_n * ACCUMULATOR_BYTES
    l0c = given.get("cl0_buffers", DOUBLE if DOUBLE * c_tile <= buffers["L0C"] else 1)
    tiling = MatMulTiling(
        base_m,
        base_k,
        base_n,
        al0_buffers=l0,
        bl0_buffers=l0,
        cl0_buffers=l0c,
        al1_buffers=given.get("al1_buffers", DOUBLE),
        bl1_buffers=given.get("bl1_buffers", DOUBLE),
    )
    step = 1
    while step < MOST_STEPS and step * base_k < problem.k and _fits_l1(_stepping(tiling, 2 * step), item, chip):
        step *= 2
    tiling = _stepping(tiling, step)
    single_m, single_n = given.get("single_core_m", base_m), given.get("single_core_n", base_n)
    tiling = replace(tiling, single_core_m=single_m, single_core_n=single_n)
    m_parts, n_parts = tiling.grid(problem)
    tasks = problem.batch * m_parts * n_parts
    # As few cores as finish in as many rounds: 64 tasks on 20 cores take 16 (as measured on a 910B3).
    block_dim = given.get("block_dim", ceil_div(tasks, ceil_div(tasks, chip.cores.aic)))
    return replace(tiling, strip=_strip(tiling, n_parts, block_dim), block_dim=block_dim)


def _stepping(tiling: MatMulTiling, step: int) -> MatMulTiling:
    """Return the tiling with L1 step `step` of both operands."""
    return replace(tiling, step_ka=step, step_kb=step)


def _fits_l1(tiling: MatMulTiling, itemsize: int, chip: ChipSpec) -> bool:
    """Return True if L1 holds all buffers of A and B, and load3d's K field the longer L1 step."""
    a1, b1 = tiling.l1_bytes(itemsize)
    within = max(tiling.step_ka, tiling.step_kb) * tiling.base_k <= chip.load3d.limits.k_extent
    return within and a1 * tiling.al1_buffers + b1 * tiling.bl1_buffers <= chip.buffers["L1"]


def _strip(tiling: MatMulTiling, n_parts: int, cores: int) -> int:
    """Return how many tasks of N a strip has for which `cores` cores at once read the fewest rows of A and columns of B
    together.
    """
    return min(
        range(1, min(n_parts, cores) + 1),
        key=lambda width: ceil_div(cores, width) * tiling.single_core_m + width * tiling.single_core_n,
    )


def estimated_cycles(tiling: MatMulTiling, problem: MatMulProblem, chip: ChipSpec) -> float:
    """Return the estimated cycles of the busiest core: pipes overlap within a tile, a tile's store overlaps the next tile only
    if L0C has two buffers.
    """
    m_parts, n_parts = tiling.grid(problem)
    per_task = ceil_div(tiling.single_core_m, tiling.base_m) * ceil_div(tiling.single_core_n, tiling.base_n)
    tiles = ceil_div(problem.batch * m_parts * n_parts, tiling.block_dim) * per_task
    rate = chip.cube.rates[problem.dtype]  # type: ignore[index]
    item, steps = problem.itemsize, ceil_div(problem.k, tiling.base_k)
    fractals = ceil_div(tiling.base_m, FRACTAL) * ceil_div(tiling.base_n, FRACTAL)
    cube = ceil_div(problem.k, rate.k0) * fractals * rate.k0 / rate.k_per_cycle + steps * chip.cube.head_stream
    left, right = float(tiling.base_m * problem.k * item), float(tiling.base_n * problem.k * item)
    l0a, l0b = chip.load3d.rates["L0A"].stride_w[1], chip.path("L1", "L0B").bytes_per_cycle
    loads = 1 + _right_loads(tiling, problem, chip)
    mte1 = left / l0a + right / l0b + steps * loads * chip.path("L1", "L0B").head
    port = min(chip.path("GM", "L1", "nd2nz").bytes_per_cycle, chip.memory.l2_read_bytes_per_cycle_per_aic)
    group_a, group_b = tiling.step_ka * tiling.base_k * item, tiling.step_kb * tiling.base_k * item
    line = chip.memory.l2_line_bytes
    left *= _touched(tiling.base_m * item if problem.transpose_a else min(group_a, problem.k * item), line)
    right *= _touched(min(group_b, problem.k * item) if problem.transpose_b else tiling.base_n * item, line)
    mte2 = (left + right) / port
    way_out = chip.path("L0C", "GM").bytes_per_cycle
    if chip.fixpipe is not None:
        way_out = min(way_out, chip.fixpipe.rate(problem.out_itemsize))
    row = tiling.base_n * problem.out_itemsize
    drain = tiling.base_m * row * _touched(row, line) / way_out
    inside = max(cube, mte1, mte2)
    if tiling.cl0_buffers == DOUBLE:
        return tiles * max(inside, drain) + drain
    return tiles * (inside + drain)


def _touched(row_bytes: int, line: int) -> float:
    """Return the bytes of L2 lines that are read, on average, for each byte of a row of `row_bytes` bytes, lines of `line`
    bytes.

    A row that is not a whole number of lines may begin anywhere in one (32-byte steps).
    """
    return 1.0 if row_bytes % line == 0 else (row_bytes + line - 32) / row_bytes


def _right_loads(tiling: MatMulTiling, problem: MatMulProblem, chip: ChipSpec) -> int:
    """Return the load instructions of a base block of B to L0B: one for each 16 of K if `one_load_for_each_k` and B is
    16-bit and stored [K, N]; else one.
    """
    one_each = not problem.transpose_b and problem.itemsize == 2 and one_load_for_each_k(chip)
    return ceil_div(tiling.base_k, FRACTAL) if one_each else 1


def one_load_for_each_k(chip: ChipSpec) -> bool:
    """Return True if the chip's kernel loads a 16-bit B stored [K, N] to L0B by load_data_2d, a load for each 16 of K."""
    return bool(architecture(chip)["right_load"] == "load_data_2d")
