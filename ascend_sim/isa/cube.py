"""The cube: Mmad (L0A x L0B into L0C) and Fixpipe (L0C to GM with cast and optional atomic add), FixpipeNd to row-major GM.

L0C holds [N1][M1*16][16] fp32, of int8 products int32 (NZ fractals).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import (
    ACCUMULATOR_BYTES,
    ACCUMULATOR_FRACTAL_BYTES,
    ACCUMULATOR_ROW_BYTES,
    BLOCK_BYTES,
    FRACTAL,
    FRACTAL_BYTES,
)
from ascend_sim.chip.sections import FixpipeRates as FixpipeUnit
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa import effect
from ascend_sim.isa.base import TRANSFER, Cost, GmAccess, Instruction, Pace, ceil_div
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.moves import Moves, Place, Product, listed, loops, moves, offsets_of
from ascend_sim.isa.not_simulated import refuse_not_simulated
from ascend_sim.isa.quantisation import SCALE_BYTES, Quantisation, Scaling
from ascend_sim.isa.transfer import KeepsExtreme
from ascend_sim.memory.regions import Region
from ascend_sim.numerics.formats import FORMATS
from ascend_sim.numerics.integers import INTEGERS, storage


@frozen
class Mmad(Instruction):
    """L0C[m, n] = (L0C if `accumulate`) + L0A[m, k] x L0B[k, n]; `dtype` is the compute dtype, sums are fp32, of int8 int32.

    `m` and `n` are rounded up to whole fractals of 16, which are computed and written. For "hf32" the fp32 operands are rounded
    to `hf32_bits` mantissa bits (nearest even) before they are multiplied. How the products are added is a model
    (`ValueModel.accumulate`); with saturation no infinity or NaN stays in L0C. Sums of int8 are exact, and one that leaves
    int32 wraps around (assumed).

    With `bias` (a byte address in BT; -1: none) L0C begins with a number for each column, float32 or, of int8, int32, which is
    summed with the products (asc-devkit, Mmad page: the C matrix from the bias table); not together with `accumulate`.

    `gemv` is the mode of m = 1: L0A holds the one row as it is, k elements one behind the other, and of each fractal of L0C the
    first row alone is written (asc-devkit, GEMV page). That it takes the time of a fractal of rows is assumed.

    `pipe` raises SimError for a dtype, `hf32_bits` or bias that the chip lacks, and for `bias` with `accumulate`.
    """

    m: int
    k: int
    n: int
    dtype: str
    accumulate: bool
    hf32_bits: int = 0
    gemv: bool = False
    bias: int = -1

    name = "mmad"
    multiplies = True
    left_out: ClassVar[Mapping[str, Any]] = {"gemv": False, "bias": -1}

    @property
    def itemsize(self) -> int:
        return 4 if self.dtype == "hf32" else storage(self.dtype).itemsize

    @property
    def result(self) -> str:
        """Return the format of the sums in L0C: int32 for int8 operands, else float32."""
        return "int32" if self.dtype == "int8" else "float32"

    def pipe(self, chip: ChipSpec) -> str:
        here = [dtype for dtype in chip.cube.rates if dtype == "int8" or dtype in FORMATS]
        if self.dtype not in here:
            names, where = ", ".join(here), f"{chip.name} ({chip.identity.arch})"
            refuse_not_simulated(chip, self.name, self.dtype, instead=names)
            raise SimError(f"mmad: {where} multiplies no {self.dtype}; it has {names} (chip file, cube.rates)")
        kept = (chip.cube.hf32_mantissa_bits or 0) if self.dtype == "hf32" else 0
        if self.hf32_bits != kept:
            raise SimError(
                f"mmad: hf32_bits = {self.hf32_bits} of {self.dtype}; {chip.name} ({chip.identity.arch}) has {kept} "
                f"(chip file, cube.hf32_mantissa_bits)"
            )
        if self.bias < -1:
            raise SimError(f"mmad: bias = {self.bias}; an address in BT is allowed, and -1 for none")
        if self.has_bias:
            chip.path("L1", "BT")
            if self.accumulate:
                raise SimError("mmad: accumulate with bias; L0C begins with what it holds or with the bias, not with both")
        return "M"

    def cost(self, chip: ChipSpec) -> Cost:
        return Cost(chip.cube.head_first, chip.cube.head_stream, self.work_cycles(chip), chip.cube.latency)

    def work_cycles(self, chip: ChipSpec) -> int:
        """Return the cycles without head: fractals along m, n and k times a fractal's k, over the k per cycle, rounded up."""
        cube, rate = chip.cube, chip.cube.rates[self.dtype]  # type: ignore[index]
        fractals = ceil_div(self.m, cube.m0) * ceil_div(self.n, cube.n0) * ceil_div(self.k, rate.k0)
        return ceil_div(fractals * rate.k0, rate.k_per_cycle)

    def pace(self, chip: ChipSpec) -> Pace:
        head = min(chip.cube.head_first, chip.cube.head_stream)
        return Pace(ceil_div(self.m, FRACTAL), ceil_div(self.n, FRACTAL), self.work_cycles(chip), head)

    @property
    def has_bias(self) -> bool:
        """Return True if L0C begins with the bias of the columns."""
        return self.bias >= 0

    def _shapes(self) -> tuple[int, int, int, int]:
        """Return the fractals along M, K and N, each rounded up, and C0, the elements of 32 bytes."""
        c0 = BLOCK_BYTES // self.itemsize
        return ceil_div(self.m, FRACTAL), ceil_div(self.k, c0), ceil_div(self.n, FRACTAL), c0

    @property
    def _rows(self) -> int:
        """Return the number of rows of a fractal that take part: 16, or 1 in GEMV mode."""
        return 1 if self.gemv else FRACTAL

    def reads(self) -> tuple[Region, ...]:
        m1, k1, n1, _ = self._shapes()
        left = Region("src0", "L0A", m1 * k1 * self._rows * BLOCK_BYTES)
        operands: tuple[Region, ...] = (left, Region("src1", "L0B", k1 * n1 * FRACTAL_BYTES))
        if self.has_bias:
            operands = (*operands, Region("", "BT", n1 * FRACTAL * ACCUMULATOR_BYTES, offset=self.bias))
        return (*operands, *self.writes()) if self.accumulate else operands

    def writes(self) -> tuple[Region, ...]:
        m1, _, n1, _ = self._shapes()
        if self.gemv:
            return (Region("dst", "L0C", ACCUMULATOR_ROW_BYTES, ACCUMULATOR_FRACTAL_BYTES, n1),)
        return (Region("dst", "L0C", m1 * n1 * ACCUMULATOR_FRACTAL_BYTES),)

    def interlocks(self, chip: ChipSpec) -> bool:
        m1, _, n1, _ = self._shapes()
        return m1 * n1 >= chip.cube.interlocked_fractals

    def _left_steps(self, chip: ChipSpec) -> tuple[int, int]:
        """Return the bytes in L0A from one fractal to the next (along M, along K), by the chip's order of fractals."""
        m1, k1, _, _ = self._shapes()
        fractal = self._rows * BLOCK_BYTES
        return (fractal, m1 * fractal) if chip.cube.l0a_by_columns else (k1 * fractal, fractal)

    def operands(self, memory: Memory, src0: int, src1: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return views of both operands in L0A and L0B as stored (hf32 not rounded): [M1, 16, K1, C0], in GEMV mode [1, 1, K1,
        C0], and [N1, 16, K1, C0].
        """
        m1, k1, n1, c0 = self._shapes()
        dtype = storage("float32" if self.dtype == "hf32" else self.dtype)
        by_columns = memory.model.chip.cube.l0a_by_columns
        held = memory.array("L0A", src0, (k1, m1, self._rows, c0) if by_columns else (m1, k1, self._rows, c0), dtype)
        left = held.transpose(1, 2, 0, 3) if by_columns else held.transpose(0, 2, 1, 3)
        right = memory.array("L0B", src1, (k1, n1, FRACTAL, c0), dtype).transpose(1, 2, 0, 3)
        return left, right

    def factors(self, memory: Memory, src0: int, src1: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return copies of the factors in fp32 or int8: [M, k] and [N, k]; N is rounded up to 16, M too except in GEMV mode."""
        return effect.factors(self.moves(memory.model), memory, {"src0": src0, "src1": src1})

    def moves(self, model: ValueModel) -> Moves:
        m1, k1, n1, c0 = self._shapes()
        high = self._rows
        down, along = self._left_steps(model.chip)
        shape, strides = (m1, high, k1, c0), (down, BLOCK_BYTES, along, self.itemsize)
        left = loops("src0", "L0A", shape, strides, self.itemsize)
        shape, strides = (n1, FRACTAL, k1, c0), (FRACTAL_BYTES, BLOCK_BYTES, n1 * FRACTAL_BYTES, self.itemsize)
        right = loops("src1", "L0B", shape, strides, self.itemsize)
        # In the order of L0C; the product lies row by row.
        tile = (n1, m1 * high, FRACTAL)
        steps = (m1 * ACCUMULATOR_FRACTAL_BYTES, ACCUMULATOR_ROW_BYTES, ACCUMULATOR_BYTES)
        rows = (ACCUMULATOR_ROW_BYTES, n1 * ACCUMULATOR_ROW_BYTES, ACCUMULATOR_BYTES)
        put = loops("dst", "L0C", tile, steps, ACCUMULATOR_BYTES, packed=rows)
        whole = self.dtype == "int8"
        how: dict[str, Any] = {"adds": self.result if self.accumulate else "", "settles": model.saturate and not whole}
        if self.dtype != "float32" and not whole:
            formats = ("float32", "hf32") if self.dtype == "hf32" else (self.dtype, "float32")
            how |= {"source": formats[0], "target": formats[1], "bits": self.hf32_bits}
        begins: tuple[Place, ...] = ()
        if self.has_bias:
            begins = (loops("", "BT", (n1 * FRACTAL,), (ACCUMULATOR_BYTES,), ACCUMULATOR_BYTES, self.bias),)
        product = Product(m1 * high, n1 * FRACTAL, k1 * c0, self.k, self.dtype, self.has_bias)
        return moves(left, right, *begins, put=put, product=product, **how)


def taken_as(dtype: str, pre: Quantisation | None = None) -> str:
    """Return the format in L0C of numbers that a drain writes as `dtype`: that of `pre`, int32 for int32, else float32."""
    if pre is not None:
        return pre.source
    return "int32" if dtype == "int32" else "float32"


def fixpipe_moves(
    model: ValueModel,
    dtype: str,
    take: Place,
    put: Place,
    atomic: bool = False,
    pre: Quantisation | None = None,
    scales: Place | None = None,
) -> Moves:
    """Return the `Moves` of numbers from L0C to `put`: converted to `dtype` and written or, with `atomic`, added to the numbers
    there.

    Without `pre` the numbers are float32, or int32 that stay int32. With it they are scaled before the conversion; `scales` is
    the place of the columns' scales, which counts only for `pre.by_column`.
    """
    saturate = model.fixpipe_saturates(storage(dtype).itemsize)
    whole = dtype in INTEGERS
    how: dict[str, Any] = {"adds": dtype if atomic else "", "settles": atomic and model.saturate and not whole}
    if pre is not None:
        how |= {"source": pre.source, "target": dtype, "saturate": saturate}
        how["scaling"] = Scaling(pre.scale, scales if pre.by_column else None, pre.relu)
    elif not whole and (dtype != "float32" or saturate):
        how |= {"source": "float32", "target": dtype, "saturate": saturate}
    return moves(take, put=put, **how)


class Drain(Instruction):
    """Base of the Fixpipe's stores of a tile of L0C, with arithmetic on the way; subclasses differ in layout. The target is GM,
    in `FixpipeToL1` L1.
    """

    m: int
    n: int
    m_padded: int
    dtype: str
    atomic_add: bool
    pre: Quantisation | None

    kind = TRANSFER
    left_out: ClassVar[Mapping[str, Any]] = {"pre": None}

    @property
    def atomic(self) -> bool:  # type: ignore[override]
        return self.atomic_add

    @property
    def itemsize(self) -> int:
        return storage(self.dtype).itemsize

    @property
    def taken(self) -> str:  # type: ignore[override]
        """Return the format that the numbers have in L0C."""
        return taken_as(self.dtype, self.pre)

    def pipe(self, chip: ChipSpec) -> str:
        return chip.path("L0C", "GM").pipe

    def cost(self, chip: ChipSpec) -> Cost:
        return _fixpipe_cost(chip)

    def taken_of(self, columns: int) -> tuple[Region, ...]:
        """Return the regions that are read: the tile in L0C and, if each column has its own scale, the scales of `columns`
        columns.
        """
        rows, apart = self.m * ACCUMULATOR_ROW_BYTES, self.m_padded * ACCUMULATOR_ROW_BYTES
        tile = Region("src0", "L0C", rows, apart, ceil_div(self.n, FRACTAL))
        if self.pre is None or not self.pre.by_column:
            return (tile,)
        return tile, Region("src1", "FB", columns * SCALE_BYTES)

    def path(self) -> str:
        return "L0C->GM"


@frozen
class Fixpipe(Drain):
    """`m` x `n` of an L0C tile of `m_padded` rows to GM as [n / c0][m][c0], blocks `dst_stride` bytes apart.

    `dtype` is the output format (one rounding, nearest even; overflow as `ValueModel` says); `c0` = 8 with fp32 is the channel
    split, 32 with formats of 1 byte the channel merge: two fractals side by side, the last of an odd number alone in rows of 16
    bytes (Fixpipe page of the CCE intrinsics). `atomic_add` adds to what GM holds instead of replacing it. A last fractal with
    fewer columns is written whole. `pre` is arithmetic on the way, with the scales of columns in the Fixpipe buffer at `src1`.
    """

    m: int
    n: int
    m_padded: int
    dtype: str
    c0: int
    dst_stride: int
    atomic_add: bool = False
    pre: Quantisation | None = None

    name = "fixpipe"

    @property
    def _width(self) -> int:
        """Return the columns of a fractal of L0C that lie side by side in a block: all 16, or 8 with the channel split."""
        return min(self.c0, FRACTAL)

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        rate = fixpipe_rates(chip).rate(self.itemsize, self.itemsize == 4 and self.c0 == 8)
        port = chip.path("L0C", "GM").bytes_per_cycle
        region, *more = self.writes()
        if more:  # as many bytes, in halves of the blocks
            region = Region("dst", "GM", more[0].row_bytes, self.dst_stride // 2, 2 * region.rows + 1)
        return GmAccess("atomic" if self.atomic_add else "write", region, min(rate, port))

    def reads(self) -> tuple[Region, ...]:
        return self.taken_of(ceil_div(self.n, FRACTAL) * FRACTAL)

    def writes(self) -> tuple[Region, ...]:
        size, parts = self.m * self.c0 * self.itemsize, max(self.c0 // FRACTAL, 1)
        blocks, alone = divmod(ceil_div(self.n, self._width), parts)
        whole = Region("dst", "GM", size, self.dst_stride, blocks)
        if not alone:
            return (whole,)
        last = Region("dst", "GM", size // parts, offset=blocks * self.dst_stride)
        return (whole, last) if blocks else (last,)

    def moves(self, model: ValueModel) -> Moves:
        columns, column, width = ceil_div(self.n, FRACTAL), self.m_padded * ACCUMULATOR_ROW_BYTES, self._width
        shape = (columns, FRACTAL // width, self.m, width)
        strides = (column, width * ACCUMULATOR_BYTES, ACCUMULATOR_ROW_BYTES, ACCUMULATOR_BYTES)
        take = loops("src0", "L0C", shape, strides, ACCUMULATOR_BYTES)
        far = (FRACTAL * SCALE_BYTES, width * SCALE_BYTES, 0, SCALE_BYTES)
        scales = loops("src1", "FB", shape, far, ACCUMULATOR_BYTES)
        return fixpipe_moves(model, self.dtype, take, self._put(), self.atomic_add, self.pre, scales)

    def _put(self) -> Place:
        """Return the place in GM (`FixpipeToL1`: in L1) of the numbers, fractal by fractal of L0C."""
        fractals, steps = ceil_div(self.n, self._width), (self.c0 * self.itemsize, self.itemsize)
        if self.c0 <= FRACTAL:
            return loops("dst", "GM", (fractals, self.m, self.c0), (self.dst_stride, *steps), self.itemsize)
        if fractals % 2 == 0:
            apart = (self.dst_stride, FRACTAL * self.itemsize, *steps)
            return loops("dst", "GM", (fractals // 2, 2, self.m, FRACTAL), apart, self.itemsize)
        found = offsets_of((fractals // 2 + 1, 2, self.m, FRACTAL), (self.dst_stride, FRACTAL, *steps))
        found = found.reshape(-1, self.m, FRACTAL)[:fractals]
        found[-1] -= offsets_of((self.m, FRACTAL), (FRACTAL, 0))  # rows of 16 bytes where one fractal stands alone
        return listed("dst", "GM", found, self.itemsize)


@frozen
class FixpipeUnitFlag(Fixpipe):
    """A Fixpipe with the unit flag: it follows the last Mmad of its tile fractal by fractal, and the next Mmad follows it.

    It reads its tile until the end of its occupancy, not at its start alone.
    """

    name = "fixpipe"
    reads_late = True

    def pace(self, chip: ChipSpec) -> Pace:
        access, cost = self.gm_access(chip), self.cost(chip)
        assert access is not None
        rows, columns = ceil_div(self.m, FRACTAL), ceil_div(self.n, FRACTAL)
        if self.m_padded != rows * FRACTAL:
            rows = columns = 0
        return Pace(rows, columns, int(access.region.total / access.rate), min(cost.head_first, cost.head_stream))


@frozen
class FixpipeNd(Drain):
    """`m` x `n` of an L0C tile of `m_padded` rows to GM row by row (ND), rows `dst_stride` bytes apart, as `dtype`.

    Exactly `n` numbers of a row are written. `atomic_add` adds to what GM holds instead of replacing it. The Fixpipe's rate is
    that of its other layouts: a separate one for ND is not in the chip files. `pre` is as in `Fixpipe`.
    """

    m: int
    n: int
    m_padded: int
    dtype: str
    dst_stride: int
    atomic_add: bool = False
    pre: Quantisation | None = None

    name = "fixpipe_nd"

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        rate = min(fixpipe_rates(chip).rate(self.itemsize), chip.path("L0C", "GM").bytes_per_cycle)
        return GmAccess("atomic" if self.atomic_add else "write", self.writes()[0], rate)

    def reads(self) -> tuple[Region, ...]:
        return self.taken_of(self.n)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "GM", self.n * self.itemsize, self.dst_stride, self.m),)

    def moves(self, model: ValueModel) -> Moves:
        columns, column = ceil_div(self.n, FRACTAL), self.m_padded * ACCUMULATOR_ROW_BYTES
        shape, strides = (self.m, columns, FRACTAL), (ACCUMULATOR_ROW_BYTES, column, ACCUMULATOR_BYTES)
        if self.n % FRACTAL:
            offsets = offsets_of(shape, strides).reshape(self.m, -1)[:, : self.n]
            take = listed("src0", "L0C", offsets, ACCUMULATOR_BYTES)
        else:
            take = loops("src0", "L0C", shape, strides, ACCUMULATOR_BYTES)
        put = loops("dst", "GM", (self.m, self.n), (self.dst_stride, self.itemsize), self.itemsize)
        scales = loops("src1", "FB", (self.m, self.n), (0, SCALE_BYTES), ACCUMULATOR_BYTES)
        return fixpipe_moves(model, self.dtype, take, put, self.atomic_add, self.pre, scales)


@frozen
class FixpipeExtreme(KeepsExtreme, Fixpipe):
    """A drain to blocks of GM (`Fixpipe`) with `atomic_add`, which keeps the larger or smaller of the new and the stored
    number.
    """


@frozen
class FixpipeNdExtreme(KeepsExtreme, FixpipeNd):
    """A drain to rows of GM (`FixpipeNd`) with `atomic_add`, which keeps the larger or smaller of the new and the stored
    number.
    """


def fixpipe_rates(chip: ChipSpec) -> FixpipeUnit:
    """Return the rates of the chip's Fixpipe. Raises SimError for a chip without one."""
    if chip.fixpipe is None:
        raise SimError(f"{chip.name} ({chip.identity.arch}) has no Fixpipe (chip file, fixpipe)")
    return chip.fixpipe


def _fixpipe_cost(chip: ChipSpec) -> Cost:
    path, unit = chip.path("L0C", "GM"), fixpipe_rates(chip)
    return Cost(unit.head + path.head, unit.head + path.head, 0, unit.latency + path.latency)
