"""Common part of the cube kernels' programs: halves of L0, tiles of L0C and their way out, operands held in L1."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, BIAS_UNIT, BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop, CubeProduct, MapWindow, Span, TilePiece
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.unit_flag import UnitFlagTiles
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.layouts.layout import DrainPiece
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import family_of
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut
from ascend_sim.ops.problem.window import InputRows


class BiasPiece(NamedTuple):
    """The bias of a tile's columns in L1: its address, and the count of its numbers, rounded up to whole units of BT."""

    address: int
    columns: int


class Barriers(NamedTuple):
    """Barriers of a kernel around small products; a product of m x n results counts as m * n elements.

    M waits before a product of at most `before` elements, after one of at most `behind`, and before one of at most `between`
    that adds to a tile. With `drain` FIX waits before a tile leaves L0C.
    """

    before: int = 0
    behind: int = 0
    between: int = 0
    drain: bool = False


def small_product(chip: ChipSpec) -> int:
    """Return the least m * n of a product after which the next one on the same tile of L0C needs no barrier."""
    return chip.cube.interlocked_fractals * FRACTAL * FRACTAL


class CubePipeline:
    """L0 of the cube kernels: MTE1 fills halves of L0A and L0B in turn, M multiplies them into tiles of L0C, which then leave.

    They leave by the Fixpipe, or on coupled chips by the vector unit: L0C -> UB -> GM in pieces of a quarter of UB.
    `unit_flag`: cube and Fixpipe hand tiles of L0C over fractal by fractal. `own_flags`: L0A and L0B are handed over by flags
    of their own; then `load_right` stands between the loads into L0A and those into L0B. `barriers`: those around small
    products; None for those that the chip needs before a small product (`small_product`) that adds to a tile.
    """

    queue_type: type[BufferQueue[int]] = BufferQueue
    """Type of the queues of L0A and L0B."""
    row_unit: int = FRACTAL
    """Unit to which the rows of products and tiles are rounded up: the rows that a load fills."""

    def __init__(
        self,
        k: KernelBuilder,
        l0_buffers: int,
        l0c_buffers: int,
        tile_bytes: int,
        *,
        unit_flag: bool = False,
        own_flags: bool = False,
        barriers: Barriers | None = None,
    ) -> None:
        self._k = k
        self._barriers = barriers or Barriers(between=small_product(k.chip) - 1)
        self._staged: BufferQueue | None = None
        sizes = {name: k.chip.buffers[name] // l0_buffers for name in ("L0A", "L0B")}
        unit = k.chip.alignment.fractal
        self.left = [k.allocate("L0A", sizes["L0A"] // unit * unit, f"L0A[{i}]") for i in range(l0_buffers)]
        self.right = [k.allocate("L0B", sizes["L0B"] // unit * unit, f"L0B[{i}]") for i in range(l0_buffers)]
        halves = list(range(l0_buffers))
        self._queues = [self.queue_type(k, name, "MTE1", "M", halves) for name in (("L0A", "L0B") if own_flags else ("L0",))]
        self.operands = self._queues[0]
        tiles = [k.allocate("L0C", tile_bytes, f"L0C[{i}]") for i in range(l0c_buffers)]
        self._begun = False
        self._bias: BiasPiece | None = None
        self._bias_turn, self._bias_dtype = 0, ""
        self._bias_places: list[int] = []
        k.carry(self, "_begun", "_bias_turn")
        self.tiles: BufferQueue[int]
        if unit_flag:
            self.tiles = UnitFlagTiles(k, "L0C", tiles)
        elif family_of(k.chip).coupled:
            self.tiles = BufferQueue(k, "L0C", "M", "V", tiles)
            results = [k.allocate("UB", ub_share(k), f"result[{i}]") for i in range(2)]
            self._staged = BufferQueue(k, "result", "V", "MTE3", results)
        else:
            self.tiles = BufferQueue(k, "L0C", "M", "FIX", tiles)

    def use_bias(self, dtype: str, columns: int) -> None:
        """Allocate two places in BT for the bias of a tile, so sums may begin with it: at most `columns` of `dtype`."""
        size = ceil_to(columns * ACCUMULATOR_BYTES, 2 * BIAS_UNIT)
        self._bias_places = [self._k.allocate("BT", size, f"bias[{i}]", 2 * BIAS_UNIT) for i in range(2)]
        self._bias_dtype = dtype

    def begin_sum(self, bias: BiasPiece | None = None) -> None:
        """Wait for a free tile of L0C and begin its sum, with zero or the `bias`."""
        self.tiles.acquire()
        self._begun = False
        self._bias = bias
        if bias is not None:
            self._bias_turn = 1 - self._bias_turn

    def acquire(self) -> int:
        """Wait for the next half of L0A and L0B (with `own_flags` of L0A alone) to be free and return its number; before a
        tile's first product, also load its bias, if it has one, to BT.

        The place in BT is free: it was read by the first half of the tile before the last, which has been multiplied.
        """
        half = self.operands.acquire()
        if self._bias is not None and not self._begun:
            address, columns = self._bias
            self._k.load_bias(self._bias_places[self._bias_turn], address, columns, self._bias_dtype)
        return half

    def load_right(self) -> None:
        """Hand the loaded L0A to M and wait for L0B of the same half; do nothing where both share their flags."""
        for left, right in pairwise(self._queues):
            left.publish()
            right.acquire()

    def multiply(self, half: int, m: int, k: int, n: int, dtype: str, hf32_bits: int = 0) -> None:
        """Multiply [m, k] in half `half` of L0A by [k, n] in L0B and add the product to the tile; the half is then free.

        The first product of a tile starts its sum. Rows are rounded up to a `row_unit` above 16. m = 1 is a mode that reads L0A
        as one plain row; where it cannot be switched off, a whole fractal of rows is multiplied, in the same time. The kernel's
        barriers stand around small products.
        """
        if m == 1 and not self._k.gemv_is_optional:
            m = FRACTAL
        if self.row_unit > FRACTAL:
            m = ceil_to(m, self.row_unit)
        self._take()
        begins = self._bias is not None and not self._begun
        bias = self._bias_places[self._bias_turn] if begins else -1
        product = CubeProduct(m, k, n, dtype, self._begun, hf32_bits, gemv=False, bias=bias)
        if isinstance(self.tiles, UnitFlagTiles):
            self.tiles.before(product)
        if m * n <= max(self._barriers.before, self._barriers.between if self._begun else 0):
            self._k.pipe_barrier("M")
        self._k.mmad(self.tiles.filling, self.left[half], self.right[half], *product)
        if m * n <= self._barriers.behind:
            self._k.pipe_barrier("M")
        self._begun = True
        self._release()

    def leave_out(self) -> None:
        """Free the half that was filled last without a product of it."""
        self._take()
        self._release()

    def _take(self) -> None:
        """Hand the filled halves of L0A and L0B over to M, which waits for them."""
        self._queues[-1].publish()
        for queue in self._queues:
            queue.take()

    def _release(self) -> None:
        """Free the halves of L0A and L0B that M took, behind its last instruction."""
        for queue in self._queues:
            queue.release()

    def drop(self) -> None:
        """Free the current tile of L0C without storing it; for a tile that got no product."""
        self.tiles.publish()
        self.tiles.take()
        self.tiles.release()

    def end_sum(self, m: int, n: int, c0: int, dtype: str, hf32_bits: int = 0) -> None:
        """End the tile's sum, which does nothing after a product. A tile without products gets one of zeros times zeros,
        because only an Mmad writes L0C.
        """
        if self._begun:
            return
        half, m = self.acquire(), ceil_to(m, self.row_unit) if self.row_unit > FRACTAL else m
        if "FILL->L0A" in self._k.chip.paths:
            self._k.fill("L0A", self.left[half], ceil_div(m, FRACTAL) * FRACTAL_BYTES)
            self.load_right()
            self._k.fill("L0B", self.right[half], ceil_div(n, FRACTAL) * FRACTAL_BYTES)
        else:
            self._load_padding("L0A", self.left[half], c0, m, c0)
            self.load_right()
            self._load_padding("L0B", self.right[half], c0, c0, ceil_to(n, FRACTAL))
        self.multiply(half, m, c0, n, dtype, hf32_bits)

    def _load_padding(self, destination: str, address: int, c0: int, rows: int, columns: int) -> None:
        """Load `rows` x `columns` zeros to L0 by load3d, as padding above a map of one row, so that nothing is read from L1."""
        width = ceil_div(rows, self._k.chip.load3d.limits.pad)
        above = ceil_div(rows, width)
        window = MapWindow(1, width, pad_top=above, out_height=above + 1, out_width=width)
        self._k.load_data_3d(destination, address, 0, BLOCK_BYTES // c0, window, Span(0, rows), Span(0, columns))

    def drain(self, target: int, m: int, n: int, dtype: str, c0: int, dst_stride: int, atomic_add: bool = False) -> None:
        """Store the finished tile, `m` x `n`, to GM as [n / c0][m][c0] of `dtype`, with `dst_stride` bytes from block to block;
        the tile is then free.

        `atomic_add` adds to the values in GM. Through UB (coupled chips) a block always has 16 columns.
        """
        self.drain_rows([DrainPiece(target, 0, m)], m, n, dtype, c0, dst_stride, atomic_add)

    def drain_rows(
        self, pieces: list[DrainPiece], height: int, n: int, dtype: str, c0: int, dst_stride: int, atomic_add: bool = False
    ) -> None:
        """Store pieces of the finished tile (`height` rows, `n` columns) to GM in `dtype`: whole rows, each piece from a
        fractal's first row on.

        Blocks of `c0` columns lie `dst_stride` bytes apart; `atomic_add` adds to the values in GM. Results leave by the
        Fixpipe, or through UB on coupled chips, in blocks of 16 columns whatever `c0` says; the tile is then free.
        """
        k, m_padded = self._k, ceil_to(height, self.row_unit)
        if isinstance(self.tiles, UnitFlagTiles) and [piece.row for piece in pieces] == [0] and pieces[0].rows == height:
            whole = TilePiece(height, n, m_padded)
            self.tiles.drain(pieces[0].target, whole, dtype, c0, dst_stride, atomic_add)
            return
        self.tiles.publish()
        tile = self.tiles.take()
        if self._barriers.drain:
            k.pipe_barrier("FIX")
        for target, row, rows, _, _ in pieces:
            source = tile + row * FRACTAL * ACCUMULATOR_BYTES
            if self._staged is None:
                k.fixpipe(target, source, rows, n, m_padded, dtype, c0, dst_stride, atomic_add)
            else:
                atomic = dtype if atomic_add else ""
                self._through_ub(self._staged, target, source, TilePiece(rows, n, m_padded), dtype, dst_stride, atomic)
        self.tiles.release()

    def drain_elements(
        self,
        pieces: list[DrainPiece],
        height: int,
        row_stride: int,
        column_stride: int,
        atomic_add: bool = False,
        dtype: str = "float32",
    ) -> None:
        """Store pieces of the finished tile of `height` rows to GM in `dtype` element by element, through the Fixpipe;
        the tile is then free.

        `row_stride` and `column_stride` are the bytes between rows and columns in GM. `atomic_add` adds to the values there.
        """
        self.tiles.publish()
        tile, m_padded = self.tiles.take(), ceil_to(height, self.row_unit)
        for target, row, rows, column, columns in pieces:
            source = tile + column // FRACTAL * m_padded * FRACTAL * ACCUMULATOR_BYTES
            piece = TilePiece(rows, columns, m_padded, column % FRACTAL, row)
            self._k.fixpipe_dn(target, source, piece, dtype, row_stride, column_stride, atomic_add)
        self.tiles.release()

    def drain_fractals(self, pieces: list[DrainPiece], height: int, atomic_add: bool) -> None:
        """Store pieces of the finished tile to GM in the order of L0C, each [column / 16][row][16] of fp32, or with
        `atomic_add` add them to GM; the tile is then free.
        """
        self.tiles.publish()
        tile, m_padded, row_bytes = self.tiles.take(), ceil_to(height, self.row_unit), FRACTAL * ACCUMULATOR_BYTES
        for target, row, rows, column, columns in pieces:
            source = tile + (column // FRACTAL * m_padded + row) * row_bytes
            self._k.fixpipe(target, source, rows, columns, m_padded, "float32", FRACTAL, rows * row_bytes, atomic_add)
        self.tiles.release()

    def _through_ub(
        self, staged: BufferQueue, target: int, tile: int, piece: TilePiece, dtype: str, dst_stride: int, atomic_add: str
    ) -> None:
        """Store the `piece` of the tile at address `tile` of L0C to GM, in parts that fit the UB buffers of `staged`.

        Column blocks lie `dst_stride` bytes apart in GM. `atomic_add` is the dtype in which values are added there, ""
        to overwrite.
        """
        k, m, m_padded = self._k, piece.m, piece.m_padded
        height = ceil_to(m, FRACTAL)
        row_bytes = FRACTAL * int(numpy_dtype(dtype).itemsize)
        most_rows = ub_share(k) // row_bytes // FRACTAL * FRACTAL
        for column, columns in cut(ceil_div(piece.n, FRACTAL), max(most_rows // height, 1)):
            for row, rows in cut(height, most_rows, FRACTAL):
                source = tile + (column * m_padded + row) * FRACTAL * ACCUMULATOR_BYTES
                k.l0c_to_ub(staged.acquire(), source, rows, columns, m_padded, dtype)
                staged.publish()
                k.copy_rows(
                    "UB->GM",
                    target + column * dst_stride + row * row_bytes,
                    staged.take(),
                    min(rows, m - row) * row_bytes,
                    CopyLoop(columns, rows * row_bytes, dst_stride),
                    atomic_add,
                )
                staged.release()

    def close(self) -> None:
        """Close the queues of L0, L0C and, on coupled chips, of results in UB, at the end, so that no flag stays set."""
        for queue in self._queues:
            queue.close()
        self.tiles.close()
        if self._staged is not None:
            self._staged.close()


def input_window(p: ConvProblem, held: InputRows, pixels: Span) -> MapWindow:
    """Return load_data_3d's view of the input rows `held` in L1, down to what the last of gradOutput's `pixels` reads.

    Pixels count from the row of gradOutput that reads the first row held.
    """
    return MapWindow(
        height=held.rows,
        width=p.w_in,
        k_h=p.k_h,
        k_w=p.k_w,
        stride_h=p.stride_h,
        stride_w=p.stride_w,
        dilation_h=p.dilation_h,
        dilation_w=p.dilation_w,
        pad_top=held.pad_top,
        pad_left=p.pad_left,
        out_height=ceil_div(pixels.start + pixels.length, p.w_out),
        out_width=p.w_out,
    )


def ub_share(k: KernelBuilder) -> int:
    """Return the bytes of one UB buffer of a cube kernel, a quarter of UB: results have two, and so has data built for L1."""
    return k.chip.buffers["UB"] // 4 // BLOCK_BYTES * BLOCK_BYTES


def zero_l1(k: KernelBuilder, address: int, size: int) -> None:
    """Append fills with zeros of `size` bytes of L1 from `address` on, at least one unit of a fill (`fill_unit`), even if
    `size` is less.

    Where a fill takes whole units only, the last one begins earlier and overlaps the others, behind a barrier.
    """
    unit = k.fill_unit("L1")
    if whole := size // unit * unit:
        k.fill("L1", address, whole)
    if size % unit:
        if whole:
            k.pipe_barrier("MTE2")  # both write what lies between
        k.fill("L1", address + max(size - unit, 0), unit)


class HeldOperand:
    """L1 buffers of one operand, each of `size` bytes or a little more, filled by `producer` and read by MTE1 in turn; the part
    loaded last is held, and not loaded again.
    """

    def __init__(self, k: KernelBuilder, name: str, buffers: int, size: int, producer: str = "MTE2") -> None:
        size = max(ceil_to(size, BLOCK_BYTES), k.fill_unit("L1"))
        self._k, self._size = k, size
        self._addresses = [k.allocate("L1", size, f"{name}[{i}]") for i in range(buffers)]
        self.queue = BufferQueue(k, name, producer, "MTE1", self._addresses)
        self._held: object = None
        k.carry(self, "_held")

    def clear(self) -> None:
        """Append fills of all buffers with zeros; the caller puts an MTE2 barrier before the next load."""
        for address in self._addresses:
            zero_l1(self._k, address, self._size)

    def begin(self, key: object) -> int | None:
        """Release the part held before, wait for a free buffer and return its address to load part `key` to; None if `key` is
        held.
        """
        if key == self._held:
            return None
        if self._held is not None:
            self.queue.release()
        self._held = key
        return self.queue.acquire()

    def loaded(self) -> int:
        """Hand the buffer that the last `begin` returned over to MTE1, which waits for the issued load; return its address."""
        self.queue.publish()
        return self.queue.take()

    def turn(self, number: int) -> None:
        """Do nothing: buffers are taken in turn here; `PingPong` chooses one by the `number` of the load."""

    def read(self) -> int:
        """Return the address of the held operand, for the next instruction that reads it."""
        return self.queue.reading

    def done(self) -> None:
        """Do nothing after the last reader of the held operand: the next `begin` frees the buffer. `PingPong` frees it here."""

    @property
    def address(self) -> int:
        """Return the address of the held operand."""
        return self.queue.reading

    def close(self) -> None:
        """Release the held buffer at the end of the program, and close the queue, so that no flag stays set."""
        if self._held is not None:
            self.queue.release()
        self.queue.close()
