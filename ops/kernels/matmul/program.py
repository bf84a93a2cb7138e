"""MatMul: C = op(A) x op(B) on row-major matrices, one L0C tile at a time.

Dataflow: A and B GM -> L1 as NZ fractals (nd2nz), the next K blocks of each while the present ones are multiplied. A ->
L0A with load_data_3d, which also transposes a transposed A. B -> L0B: stored [N, K] it has the order of L0B already
(load_data_2d); stored [K, N] it is transposed, 16-bit items fractal by fractal (load_data_2d) or in one load_data_3d
(`configs/matmul.yaml`), 32-bit items in one load_data_3d. Results leave L0C cast, row by row.

Loads run ahead into the next tiles. So the loads that each tile issues are computed before the loop over tiles, and are
a part of the tile, which is then the same wherever its neighbours lie as far from it (`KernelBuilder.stamped`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span, matrix_window
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, MatMulTiling, architecture, matmul_tiles, one_load_for_each_k
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.runtime import Task

A, B, C = 0, 1, 2


class HeldBlock(NamedTuple):
    """Block of an operand in L1: `base` is the byte offset in GM of its first row (A) or column (B), `length` the
    number of these, `k_start` the first element along K.
    """

    base: int
    length: int
    k_start: int


class Use(NamedTuple):
    """Change of an operand's blocks before a step: release the block before (if `releases`), then load `loads`, which
    are relative to the tile's place.
    """

    releases: bool
    loads: tuple[HeldBlock, ...]


Uses = tuple[Use | None, ...]
"""One Use for each step of a tile; None where the step reads the same block as the step before."""


class Piece(NamedTuple):
    """A tile of C (`m_count` x `n_count`), with the uses of blocks of A and of B by its steps."""

    m_count: int
    n_count: int
    a: Uses
    b: Uses


class PlaceOf(NamedTuple):
    """Place of a tile, as byte offsets in GM: of its rows of A, of its columns of B, of its first element of C."""

    a: int
    b: int
    c: int


def matmul_task(
    chip: ChipSpec,
    problem: MatMulProblem,
    tiling: MatMulTiling,
    tensors: list[Allocation],
    name: str = "MatMul",
    op_type: str = "MatMul",
    disarm: Collection[str] = (),
) -> Task:
    """Return the kernel launch; `tensors` are A, B and C. Raises SimError on an architecture without this kernel. `name` and
    `op_type` only serve reports; `disarm` names flags whose waits do not hold.
    """
    architecture(chip)
    table = InstructionTable(chip)
    sizes = [tensor.size for tensor in tensors]

    def build(block: int) -> list[Program]:
        k = KernelBuilder(table, block, "AIC", sizes, disarm=disarm)
        pieces = list(_pieces(problem, tiling, block))
        return [k.repeated(pieces, lambda: _MatmulBuilder(problem, tiling, k).program(pieces))]

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


def _pieces(problem: MatMulProblem, tiling: MatMulTiling, block: int) -> Iterator[tuple[Piece, PlaceOf]]:
    """Yield (tile with its uses of blocks, its place) for each tile of a block, in order."""
    p, size, tiles = problem, problem.itemsize, list(matmul_tiles(tiling, problem, block))
    row, column = (1, p.k) if p.transpose_a else (p.k, 1), (p.k, 1) if p.transpose_b else (1, p.n)
    places = [
        PlaceOf(
            (t.batch * p.m * p.k + t.m * row[0]) * size,
            (t.batch * p.b_batched * p.k * p.n + t.n * column[0]) * size,
            ((t.batch * p.m + t.m) * p.n + t.n) * p.out_itemsize,
        )
        for t in tiles
    ]
    steps = range(0, p.k, tiling.base_k)
    sides = (
        ([(at.a, t.m_count) for t, at in zip(tiles, places, strict=True)], tiling.step_ka, tiling.al1_buffers),
        ([(at.b, t.n_count) for t, at in zip(tiles, places, strict=True)], tiling.step_kb, tiling.bl1_buffers),
    )
    uses = [_uses(rows, [start // (step * tiling.base_k) * step * tiling.base_k for start in steps], buffers)
            for rows, step, buffers in sides]  # fmt: skip
    for tile, place, a, b in zip(tiles, places, *uses, strict=True):
        yield Piece(tile.m_count, tile.n_count, a, b), place


def _uses(tiles: Sequence[tuple[int, int]], starts: Sequence[int], buffers: int) -> Iterator[Uses]:
    """Yield, for each tile, the use of one operand's blocks by each of its steps.

    A tile is (byte offset of its part of the operand, number of its rows or columns); its steps need the blocks of K
    that begin at `starts`. Blocks are loaded in the order of their use, as early as `buffers` allow; one that is used
    twice in a row stays.
    """
    blocks = [HeldBlock(base, count, start) for base, count in tiles for start in dict.fromkeys(starts)]
    different = [block for before, block in zip([None, *blocks], blocks, strict=False) if block != before]
    used = loaded = 0
    for base, count in tiles:
        found: list[Use | None] = []
        for start in starts:
            if used and different[used - 1] == (base, count, start):
                found.append(None)
                continue
            ahead = different[loaded : min(used + buffers, len(different))]
            found.append(Use(used > 0, tuple([block._replace(base=block.base - base) for block in ahead])))
            loaded, used = loaded + len(ahead), used + 1
        yield tuple(found)


class _Stream:
    """L1 buffers of one operand's blocks, `buffers` of `size` bytes, and their loads; `load(block, base, address)` loads a
    block relative to `base`.
    """

    def __init__(
        self, k: KernelBuilder, name: str, buffers: int, size: int, load: Callable[[HeldBlock, int, int], None]
    ) -> None:
        self.addresses = [k.allocate("L1", size, f"{name}[{i}]") for i in range(buffers)]
        self._queue = BufferQueue(k, name, "MTE2", "MTE1", self.addresses)
        self._load = load
        self.address = 0
        k.carry(self, "address")

    def use(self, use: Use | None, base: int) -> None:
        """Append the loads of a step's `use` for the tile at byte `base` and take the next block, whose L1 address is then
        `address`; do nothing for None, where the block stays.
        """
        if use is None:
            return
        if use.releases:
            self._queue.release()
        for block in use.loads:
            self._load(block, base, self._queue.acquire())
            self._queue.publish()
        self.address = self._queue.take()

    def close(self, used: bool) -> None:
        """End the stream, so that no flag of its queue stays set; `used`: it still holds a block, which is released."""
        if used:
            self._queue.release()
        self._queue.close()


class _MatmulBuilder:
    """Builder of one block's program of MatMul: each tile's loads, products and store, in order."""

    def __init__(self, problem: MatMulProblem, tiling: MatMulTiling, k: KernelBuilder) -> None:
        self.problem, self.tiling, self.k = problem, tiling, k
        self.itemsize = problem.itemsize
        self.c0 = BLOCK_BYTES // self.itemsize
        self.span_a, self.span_b = tiling.step_ka * tiling.base_k, tiling.step_kb * tiling.base_k
        self.hf32_bits = (k.chip.cube.hf32_mantissa_bits or 0) if problem.dtype == "hf32" else 0
        self.one_load_for_each_k = one_load_for_each_k(k.chip)
        a1, b1 = tiling.l1_bytes(self.itemsize)
        self.a1 = _Stream(k, "A1", tiling.al1_buffers, a1, self.load_a1)
        self.b1 = _Stream(k, "B1", tiling.bl1_buffers, b1, self.load_b1)
        self.b1_size = b1
        self.pipeline = CubePipeline(k, tiling.al0_buffers, tiling.cl0_buffers, tiling.base_m * tiling.base_n * 4)

    def program(self, pieces: Sequence[tuple[Piece, PlaceOf]]) -> Program:
        """Return the program that computes the tiles `pieces` at their places.

        If B is stored [N, K] and a tile ends inside a fractal, its L1 buffers are first filled with zeros.
        """
        if self.problem.transpose_b and any(piece.n_count % FRACTAL for piece, _ in pieces):
            # load_data_2d takes whole fractals, rows of B that do not exist included: let them be zeros.
            for address in self.b1.addresses:
                self.k.fill("L1", address, self.b1_size)
            self.k.pipe_barrier("MTE2")
        for piece, place in self.k.stamped(pieces):
            self.tile(piece, place)
        self.a1.close(bool(pieces))
        self.b1.close(bool(pieces))
        self.pipeline.close()
        return self.k.finish()

    def tile(self, tile: Piece, place: PlaceOf) -> None:
        """Append one tile of C: its sum over K and its store."""
        self.k.next_tile()
        problem, tiling = self.problem, self.tiling
        self.pipeline.begin_sum()
        for start, a, b in zip(range(0, problem.k, tiling.base_k), tile.a, tile.b, strict=True):
            self.a1.use(a, place.a)
            self.b1.use(b, place.b)
            self.step(tile, start, min(tiling.base_k, problem.k - start))
        self.write(tile, place.c)

    # -- GM -> L1 ------------------------------------------------------------------------------------------------------

    def load_a1(self, block: HeldBlock, base: int, address: int) -> None:
        """Load a block of A to byte `address` of L1 as [K1][m_count][C0], transposed as [M1][k_count][C0]; see `load`."""
        self.load(A, self.problem.transpose_a, self.problem.m, block, base, self.span_a, address)

    def load_b1(self, block: HeldBlock, base: int, address: int) -> None:
        """Load a block of B to byte `address` of L1 as [N1][k_count][C0]; a transposed B as [K1][n_count][C0]. Rows for
        load_data_2d are padded to whole fractals. `base` as in `load`.
        """
        self.load(B, not self.problem.transpose_b, self.problem.n, block, base, self.span_b, address)

    def load(self, slot: int, k_outside: bool, extent: int, block: HeldBlock, base: int, span: int, address: int) -> None:
        """Load a block of at most `span` elements of K of tensor `slot` to byte `address` of L1 with nd2nz.

        `base` is the tile's byte offset in the tensor (`PlaceOf`), from which that of the block counts. `k_outside`: GM has a
        row of `extent` elements of M or N for each element of K; else a row of K for each element of M or N.
        """
        k_count = min(span, self.problem.k - block.k_start)
        if k_outside:
            inside, rows, columns, pitch = block.k_start * extent, k_count, block.length, extent
        else:
            inside, rows, columns, pitch = block.k_start, block.length, k_count, self.problem.k
        self.k.data_copy_nd2nz(
            address,
            gm_operand(slot, base + block.base + inside * self.itemsize),
            rows,
            columns,
            self.itemsize,
            pitch * self.itemsize,
            ceil_to(rows, FRACTAL) if self.by_fractals(slot, k_count) else rows,
            "AB"[slot],
        )

    def by_fractals(self, slot: int, k_count: int) -> bool:
        """Return True if load_data_2d reads a block of `k_count` of K from L1, which must then be padded to whole fractals.

        It reads a transposed B always; else, on some chips, a 16-bit B with whole fractals of K; never A.
        """
        if slot == A:
            return False
        if self.problem.transpose_b:
            return True
        return self.itemsize == 2 and self.one_load_for_each_k and k_count % FRACTAL == 0

    # -- L1 -> L0, mmad ------------------------------------------------------------------------------------------------

    def step(self, tile: Piece, start: int, k_count: int) -> None:
        """Append one base block: load half of L0A and L0B from L1, and multiply; `start` is its first element of K."""
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
        """Load rows and columns (rounded up to whole C0) of a matrix [columns / C0][`held` rows][C0] at `src` in L1 to
        `dst` in L0 with load_data_3d, transposed if `transpose`.
        """
        columns = Span(columns.start, ceil_to(columns.length, self.c0))
        self.k.load_data_3d(destination, dst, src, self.itemsize, matrix_window(held), rows, columns, transpose)

    def load_right(self, address: int, n_count: int, inside: int, k_count: int, held: int) -> None:
        """Load B to `address` of L0B as [K1][N1][16][C0], from element `inside` of the `held` elements of K in L1: by
        load_data_2d if `by_fractals` (`held`), else by load_data_3d.
        """
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

    def write(self, tile: Piece, place: int) -> None:
        """Append the store of the finished tile to C at byte `place`, cast and row by row."""
        p = self.problem
        self.pipeline.tiles.publish()
        source = self.pipeline.tiles.take()
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
