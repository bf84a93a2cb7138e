"""MatMul: C = op(A) x op(B) on row-major matrices, one L0C tile at a time.

Dataflow: A and B GM -> L1 as NZ fractals (nd2nz), the next K blocks of each while the present ones are multiplied.
A -> L0A with load_data_3d, which also turns a transposed A. B -> L0B: stored [N, K] it has the order of L0B already
(load_data_2d); stored [K, N] it is turned, 16-bit items fractal by fractal (load_data_2d) or in one load_data_3d
(`configs/matmul.yaml`), 32-bit items in one load_data_3d. Results leave L0C cast, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span, matrix_window
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline
from ascend_sim.ops.kernels.matmul.tiling import (
    MatMulProblem,
    MatMulTile,
    MatMulTiling,
    architecture,
    matmul_tiles,
    one_load_for_each_k,
)
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.runtime import Task

A, B, C = 0, 1, 2

Key = tuple[int, int, int, int]
"""A block of an operand: batch, first row (A) or column (B), how many, first place along K."""


def matmul_task(
    chip: ChipSpec,
    problem: MatMulProblem,
    tiling: MatMulTiling,
    tensors: list[Allocation],
    name: str = "MatMul",
    op_type: str = "MatMul",
    disarm: Collection[str] = (),
) -> Task:
    """The kernel launch; `tensors` are A, B and C. Raises SimError on an architecture without this kernel."""
    architecture(chip)
    table = InstructionTable(chip)
    sizes = [tensor.size for tensor in tensors]

    def build(block: int) -> list[Program]:
        return [_Builder(problem, tiling, KernelBuilder(table, block, "AIC", sizes, disarm=disarm)).program()]

    fields = tiling.to_vendor()
    source = fields.pop("source")
    sides = ("a", "b", "c")
    info = {
        "dtypes": dict(zip(sides, (problem.storage, problem.storage, problem.out_dtype), strict=True)),
        "formats": dict.fromkeys(sides, "ND"),
        "tiling": fields,
        "tiling_source": source,
        "macs": problem.macs,
        "compute_dtype": problem.dtype,
    }
    return Task(name, op_type, "AIC", tiling.block_dim, tensors, build, info=info)


class _Stream:
    """One operand's blocks in L1, loaded in a fixed order as early as its buffers allow.

    `keys` are the blocks in the order of their use; `load(key, address)` writes the transfer of one.
    """

    def __init__(
        self, k: KernelBuilder, name: str, buffers: int, size: int, keys: list[Key], load: Callable[[Key, int], None]
    ) -> None:
        addresses = [k.allocate("L1", size, f"{name}[{i}]") for i in range(buffers)]
        self.addresses = addresses
        self._queue = BufferQueue(k, name, "MTE2", "MTE1", addresses)
        # A block that is used twice in a row stays.
        self._keys = keys[:1] + [key for before, key in pairwise(keys) if key != before]
        self._load = load
        self._loaded = self._used = 0
        self.address = 0

    def use(self, key: Key) -> None:
        """Go on to block `key` (the one at hand, or the next one) and load ahead."""
        if self._used and self._keys[self._used - 1] == key:
            return
        if self._used:
            self._queue.release()
        ahead = min(self._used + len(self.addresses), len(self._keys))
        for number in range(self._loaded, ahead):
            self._load(self._keys[number], self._queue.acquire())
            self._queue.publish()
        self._loaded = ahead
        self._used += 1
        self.address = self._queue.take()

    def close(self) -> None:
        """End of the program."""
        if self._used:
            self._queue.release()
        self._queue.close()


class _Builder:
    """Writes the program of one block."""

    def __init__(self, problem: MatMulProblem, tiling: MatMulTiling, k: KernelBuilder) -> None:
        self.problem, self.tiling, self.k = problem, tiling, k
        self.itemsize = problem.itemsize
        self.c0 = BLOCK_BYTES // self.itemsize
        self.tiles = list(matmul_tiles(tiling, problem, k.block))
        self.span_a, self.span_b = tiling.step_ka * tiling.base_k, tiling.step_kb * tiling.base_k
        self.hf32_bits = (k.chip.cube.hf32_mantissa_bits or 0) if problem.dtype == "hf32" else 0
        self.one_load_for_each_k = one_load_for_each_k(k.chip)
        a1, b1 = tiling.l1_bytes(self.itemsize)
        starts_a, starts_b = range(0, problem.k, self.span_a), range(0, problem.k, self.span_b)
        keys_a = [(t.batch, t.m, t.m_count, start) for t in self.tiles for start in starts_a]
        batched = problem.b_batched
        keys_b = [(t.batch * batched, t.n, t.n_count, start) for t in self.tiles for start in starts_b]
        self.a1 = _Stream(k, "A1", tiling.al1_buffers, a1, keys_a, self.load_a1)
        self.b1 = _Stream(k, "B1", tiling.bl1_buffers, b1, keys_b, self.load_b1)
        self.b1_size = b1
        self.pipeline = CubePipeline(k, tiling.al0_buffers, tiling.cl0_buffers, tiling.base_m * tiling.base_n * 4)

    def program(self) -> Program:
        if self.problem.transpose_b and any(tile.n_count % FRACTAL for tile in self.tiles):
            # load_data_2d takes whole fractals, rows of B that do not exist included: let them be zeros.
            for address in self.b1.addresses:
                self.k.fill("L1", address, self.b1_size)
            self.k.pipe_barrier("MTE2")
        for tile in self.tiles:
            self.tile(tile)
        self.a1.close()
        self.b1.close()
        self.pipeline.close()
        return self.k.finish()

    def tile(self, tile: MatMulTile) -> None:
        """One tile of C, summed over K, then written."""
        self.k.next_tile()
        problem, tiling = self.problem, self.tiling
        self.pipeline.begin_sum()
        for start in range(0, problem.k, tiling.base_k):
            group_a, group_b = start // self.span_a * self.span_a, start // self.span_b * self.span_b
            self.a1.use((tile.batch, tile.m, tile.m_count, group_a))
            self.b1.use((tile.batch * problem.b_batched, tile.n, tile.n_count, group_b))
            self.step(tile, start, min(tiling.base_k, problem.k - start))
        self.write(tile)

    # -- GM -> L1 ------------------------------------------------------------------------------------------------------

    def load_a1(self, key: Key, address: int) -> None:
        """Rows m .. of A from column `start` of K: [K1][m_count][C0] in L1; transposed [M1][k_count][C0]."""
        batch, m, m_count, start = key
        p = self.problem
        self.load(A, p.transpose_a, batch * p.m * p.k, (m, m_count, p.m), (start, self.span_a), address)

    def load_b1(self, key: Key, address: int) -> None:
        """Columns n .. of B from row `start` of K: [N1][k_count][C0] in L1; transposed [K1][n_count][C0].

        What load_data_2d reads afterwards has its rows padded to whole fractals.
        """
        batch, n, n_count, start = key
        p = self.problem
        self.load(B, not p.transpose_b, batch * p.k * p.n, (n, n_count, p.n), (start, self.span_b), address)

    def load(
        self, slot: int, k_outside: bool, matrix: int, free: tuple[int, int, int], inner: tuple[int, int], address: int
    ) -> None:
        """nd2nz of a block: `free` (start, count, extent) along M or N, `inner` (start, span) along K; sizes in elements.

        `k_outside`: the rows in GM run along K.
        """
        (start, count, extent), (k_start, span) = free, inner
        k_count = min(span, self.problem.k - k_start)
        if k_outside:
            place, rows, columns, pitch = k_start * extent + start, k_count, count, extent
        else:
            place, rows, columns, pitch = start * self.problem.k + k_start, count, k_count, self.problem.k
        self.k.data_copy_nd2nz(
            address,
            gm_operand(slot, (matrix + place) * self.itemsize),
            rows,
            columns,
            self.itemsize,
            pitch * self.itemsize,
            ceil_to(rows, FRACTAL) if self.by_fractals(slot, k_count) else rows,
            "AB"[slot],
        )

    def by_fractals(self, slot: int, k_count: int) -> bool:
        """Whether load_data_2d moves this block of L1 on, which needs whole fractals."""
        if slot == A:
            return False
        if self.problem.transpose_b:
            return True
        return self.itemsize == 2 and self.one_load_for_each_k and k_count % FRACTAL == 0

    # -- L1 -> L0, mmad ------------------------------------------------------------------------------------------------

    def step(self, tile: MatMulTile, start: int, k_count: int) -> None:
        """One base block: fill half of L0A and L0B, multiply."""
        p = self.problem
        half = self.pipeline.operands.acquire()
        left, right = self.pipeline.left[half], self.pipeline.right[half]
        inside_a, inside_b = start % self.span_a, start % self.span_b
        held_a = min(self.span_a, p.k - start + inside_a)
        if p.transpose_a:
            self.load_matrix("L0A", left, self.a1.address, held_a, Span(inside_a, k_count), Span(0, tile.m_count), True)
        else:
            rows = Span(0, tile.m_count)
            self.load_matrix("L0A", left, self.a1.address, tile.m_count, rows, Span(inside_a, k_count))
        self.load_right(right, tile.n_count, inside_b, k_count, min(self.span_b, p.k - start + inside_b))
        self.pipeline.multiply(half, tile.m_count, k_count, tile.n_count, p.dtype, self.hf32_bits)

    def load_matrix(
        self, destination: str, dst: int, src: int, held: int, rows: Span, columns: Span, transpose: bool = False
    ) -> None:
        """load_data_3d of a part of a matrix in L1, [columns / C0][`held` rows][C0]."""
        columns = Span(columns.start, ceil_to(columns.length, self.c0))
        self.k.load_data_3d(destination, dst, src, self.itemsize, matrix_window(held), rows, columns, transpose)

    def load_right(self, address: int, n_count: int, inside: int, k_count: int, held: int) -> None:
        """B from K place `inside` of L1, which holds `held` of K, to L0B: [K1][N1][16][C0]."""
        columns, source = ceil_div(n_count, FRACTAL), self.b1.address
        if self.problem.transpose_b:
            first = inside // self.c0 * columns
            self.k.load_data_2d(
                "L0B", address, source + first * FRACTAL_BYTES, self.itemsize, ceil_div(k_count, self.c0) * columns
            )
        elif self.by_fractals(B, held):
            pitch = ceil_div(held, FRACTAL)
            for place in range(ceil_div(k_count, FRACTAL)):
                fractal = source + (inside // FRACTAL + place) * FRACTAL_BYTES
                self.k.load_data_2d("L0B", address + place * columns * FRACTAL_BYTES, fractal, 2, columns, pitch, True)
        else:
            self.load_matrix("L0B", address, source, held, Span(inside, k_count), Span(0, n_count))

    # -- L0C -> GM -----------------------------------------------------------------------------------------------------

    def write(self, tile: MatMulTile) -> None:
        """The finished tile to C."""
        p = self.problem
        self.pipeline.tiles.publish()
        source = self.pipeline.tiles.take()
        place = ((tile.batch * p.m + tile.m) * p.n + tile.n) * p.out_itemsize
        self.k.fixpipe_nd(
            gm_operand(C, place),
            source,
            tile.m_count,
            tile.n_count,
            ceil_to(tile.m_count, FRACTAL),
            p.out_dtype,
            p.n * p.out_itemsize,
        )
        self.pipeline.tiles.release()
