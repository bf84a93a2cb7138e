"""What the two cube kernels share: the call they compute, its tensors in GM, and the layout of the weights."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector_common import cut
from ascend_sim.ops.tiling.capacity import ACCUMULATOR_BYTES
from ascend_sim.ops.tiling.conv_forward import ConvForwardTiling
from ascend_sim.ops.tiling.fields import FRACTAL, GradInputTiling, GradWeightTiling, TilingInput, ceil_div, ceil_to

BLOCK_BYTES = 32
FRACTAL_BYTES = 512


@dataclass(frozen=True)
class CubeCall:
    """One cube kernel: the problem as its tiling sees it and the compute dtype ("float16", "bfloat16", "float32", "hf32").

    `disarm` names flags whose waits do not hold (an experiment, see `WaitFlag`). `macs` are the useful multiplications
    where the problem of the kernel has more (a gradOutput with zeros in it).
    """

    chip: ChipSpec
    inp: TilingInput
    dtype: str
    disarm: Collection[str] = field(default=(), hash=False)
    macs: int | None = None

    @property
    def core_kind(self) -> str:
        """The cores that have a cube: "AIC", or "AI_CORE" where cube and vector unit share a core."""
        return "AI_CORE" if self.chip.cores.coupled else "AIC"

    @property
    def hf32_bits(self) -> int:
        """Mantissa bits that the cube keeps of fp32 operands in HF32 mode, 0 in other modes."""
        return self.chip.cube.hf32_mantissa_bits or 0 if self.dtype == "hf32" else 0

    def info(
        self,
        tiling: GradInputTiling | GradWeightTiling | ConvForwardTiling,
        dtypes: dict[str, str],
        formats: dict[str, str],
    ) -> dict[str, Any]:
        """What the report says of the launch."""
        fields = tiling.to_vendor()
        source = fields.pop("source")
        if self.inp.channels_last:
            formats = {name: "DHWCN" if name.endswith("weight") else "NDHWC" for name in formats}
        elif self.inp.direct:
            formats = dict.fromkeys(formats, "NCDHW")
        return {
            "dtypes": dtypes,
            "formats": formats,
            "tiling": fields,
            "tiling_source": source,
            "macs": self.inp.problem.macs if self.macs is None else self.macs,
            "compute_dtype": self.dtype,
        }

    def group_channels(self, group: int, total: int, per_group: int) -> int:
        """Channels of `total` that fall to a real group of `per_group` (the last one may hold fewer)."""
        return min(per_group, total - group * per_group)


@dataclass(frozen=True)
class WeightLayout:
    """FRACTAL_Z of one call: [real group][k_d][cin1][k_h*k_w][cout1][16 co][C0 ci], sizes per real group."""

    planes: int
    cin1: int
    taps: int
    cout1: int
    itemsize: int
    c0: int

    @classmethod
    def of(cls, inp: TilingInput, itemsize: int) -> WeightLayout:
        """The layout for weights (`itemsize` of the compute dtype) or for dW (4: fp32 in blocks of the same C0)."""
        return cls(inp.problem.k_d, inp.cin1, inp.taps, ceil_div(inp.cout_g, FRACTAL), itemsize, inp.c0)

    @property
    def fractal_bytes(self) -> int:
        """Bytes of one [16 co][C0 ci] block."""
        return FRACTAL * self.c0 * self.itemsize

    def offset(self, group: int, plane: int, cin1: int, tap: int, cout1: int) -> int:
        """Byte offset of a block."""
        lines = ((group * self.planes + plane) * self.cin1 + cin1) * self.taps + tap
        return (lines * self.cout1 + cout1) * self.fractal_bytes

    def total_bytes(self, groups: int) -> int:
        """Bytes of all real groups."""
        return self.offset(groups, 0, 0, 0, 0)


class CubePipeline:
    """The L0 side of the kernels: halves of L0A and L0B in turn between MTE1 and M, L0C tiles between M and their way out.

    That way is the Fixpipe, or on coupled chips the vector unit: L0C -> UB -> GM in pieces of a quarter of UB.
    """

    def __init__(self, k: KernelBuilder, l0_buffers: int, l0c_buffers: int, tile_bytes: int) -> None:
        self._k = k
        self._staged: BufferQueue | None = None
        sizes = {name: k.chip.buffers[name] // l0_buffers for name in ("L0A", "L0B")}
        unit = k.chip.alignment.fractal
        self.left = [k.allocate("L0A", sizes["L0A"] // unit * unit, f"L0A[{i}]") for i in range(l0_buffers)]
        self.right = [k.allocate("L0B", sizes["L0B"] // unit * unit, f"L0B[{i}]") for i in range(l0_buffers)]
        self.operands = BufferQueue(k, "L0", "MTE1", "M", list(range(l0_buffers)))
        tiles = [k.allocate("L0C", tile_bytes, f"L0C[{i}]") for i in range(l0c_buffers)]
        if k.chip.cores.coupled:
            self.tiles = BufferQueue(k, "L0C", "M", "V", tiles)
            results = [k.allocate("UB", ub_share(k), f"result[{i}]") for i in range(2)]
            self._staged = BufferQueue(k, "result", "V", "MTE3", results)
        else:
            self.tiles = BufferQueue(k, "L0C", "M", "FIX", tiles)

    def zero(self, k: KernelBuilder, accumulator: int, m_count: int, n_count: int, c0: int, call: CubeCall) -> None:
        """A tile that nothing contributes to: zeros times zeros, because only an Mmad writes L0C."""
        half = self.operands.acquire()
        k.fill("L0A", self.left[half], ceil_div(m_count, FRACTAL) * FRACTAL_BYTES)
        k.fill("L0B", self.right[half], ceil_div(n_count, FRACTAL) * FRACTAL_BYTES)
        self.operands.publish()
        self.operands.take()
        k.mmad(accumulator, self.left[half], self.right[half], m_count, c0, n_count, call.dtype, False, call.hf32_bits)
        self.operands.release()

    def drain(
        self, target: int, m: int, n: int, dtype: str, c0: int, dst_stride: int, atomic_add: bool = False
    ) -> None:
        """The finished tile, `m` x `n`, to GM as [n / c0][m][c0] of `dtype`, blocks `dst_stride` bytes apart.

        `atomic_add` adds to what GM holds. Through UB a block is always 16 columns, which is C0 of what leaves there.
        """
        self.drain_rows([(target, 0, m)], m, n, dtype, c0, dst_stride, atomic_add)

    def drain_rows(
        self, pieces: list[tuple[int, int, int]], height: int, n: int, dtype: str, c0: int, dst_stride: int,
        atomic_add: bool = False,
    ) -> None:  # fmt: skip
        """Rows of the finished tile of `height` rows to GM: (target, first row, rows), each from a fractal's first row."""
        k, m_padded = self._k, ceil_to(height, FRACTAL)
        self.tiles.publish()
        tile = self.tiles.take()
        for target, first, rows in pieces:
            source = tile + first * FRACTAL * ACCUMULATOR_BYTES
            if self._staged is None:
                k.fixpipe(target, source, rows, n, m_padded, dtype, c0, dst_stride, atomic_add)
            else:
                atomic = dtype if atomic_add else ""
                self._through_ub(self._staged, target, source, (rows, m_padded), n, dtype, dst_stride, atomic)
        self.tiles.release()

    def drain_elements(
        self, target: int, tile: tuple[int, int, int], dtype: str, strides: tuple[int, int], atomic_add: bool = False
    ) -> None:
        """`tile` (rows, first column, columns) to single elements of GM, rows and columns `strides` bytes apart."""
        rows, first, columns = tile
        self.drain_pieces([(target, 0, rows, first, columns)], rows, strides, atomic_add, dtype)

    def drain_pieces(
        self, pieces: list[tuple[int, int, int, int, int]], height: int, strides: tuple[int, int], atomic_add: bool,
        dtype: str = "float32",
    ) -> None:  # fmt: skip
        """Pieces of the finished tile of `height` rows to GM: (target, first row, rows, first column, columns)."""
        self.tiles.publish()
        tile, m_padded = self.tiles.take(), ceil_to(height, FRACTAL)
        for target, row, rows, first, columns in pieces:
            source = tile + first // FRACTAL * m_padded * FRACTAL * ACCUMULATOR_BYTES
            move = (rows, columns, m_padded, first % FRACTAL, dtype, *strides, atomic_add, row)
            self._k.fixpipe_dn(move, target, source)
        self.tiles.release()

    def _through_ub(
        self, staged: BufferQueue, target: int, tile: int, rows_of: tuple[int, int], n: int, dtype: str, dst_stride: int,
        atomic_add: str,
    ) -> None:  # fmt: skip
        """`rows_of` is the rows that go and those of the whole tile."""
        k, (m, m_padded) = self._k, rows_of
        height = ceil_to(m, FRACTAL)
        row_bytes = FRACTAL * int(numpy_dtype(dtype).itemsize)
        most_rows = ub_share(k) // row_bytes // FRACTAL * FRACTAL
        for column, columns in cut(ceil_div(n, FRACTAL), max(most_rows // height, 1)):
            for row, rows in cut(height, most_rows, FRACTAL):
                source = tile + (column * m_padded + row) * FRACTAL * ACCUMULATOR_BYTES
                k.l0c_to_ub(staged.acquire(), source, rows, columns, m_padded, dtype)
                staged.publish()
                k.data_copy(
                    "UB", "GM", target + column * dst_stride + row * row_bytes, staged.take(),
                    min(rows, m - row) * row_bytes, columns, rows * row_bytes, dst_stride, atomic_add,
                )  # fmt: skip
                staged.release()

    def close(self) -> None:
        """End of the program."""
        self.operands.close()
        self.tiles.close()
        if self._staged is not None:
            self._staged.close()


def ub_share(k: KernelBuilder) -> int:
    """Bytes of one UB buffer of a cube kernel: results and what is built for L1 have two each."""
    return k.chip.buffers["UB"] // 4 // BLOCK_BYTES * BLOCK_BYTES


class ZeroedQueue(BufferQueue):
    """UB buffers that V clears, MTE2 fills in part and MTE3 empties."""

    def __init__(self, k: KernelBuilder, name: str, addresses: list[int]) -> None:
        super().__init__(k, name, "MTE2", "MTE3", addresses, opener="V")
        self._k = k
        self._zeroed = [k.flag("V", "MTE2", f"{name}[{i}] zeroed") for i in range(len(addresses))]
        self._turn = 0

    def acquire_zeroed(self, size: int) -> int:
        """The next buffer with zeros in its first `size` bytes, for MTE2 to write to."""
        address, zeroed = self.acquire(), self._zeroed[self._turn % len(self._zeroed)]
        self._turn += 1
        self._k.duplicate(address, "float32", size // 4)
        self._k.set_flag(zeroed)
        self._k.wait_flag(zeroed)
        return address


class HeldOperand:
    """One operand's L1 buffers, filled by `producer` and read by MTE1; what is there already is not loaded again."""

    def __init__(self, k: KernelBuilder, name: str, buffers: int, size: int, producer: str = "MTE2") -> None:
        size = ceil_to(size, BLOCK_BYTES)
        addresses = [k.allocate("L1", size, f"{name}[{i}]") for i in range(buffers)]
        self.queue = BufferQueue(k, name, producer, "MTE1", addresses)
        self._held: object = None
        self._address = 0

    def begin(self, key: object) -> int | None:
        """Address to load `key` to, or None when it is the one that is held."""
        if key == self._held:
            return None
        if self._held is not None:
            self.queue.release()
        self._held = key
        return self.queue.acquire()

    def loaded(self) -> int:
        """The load that `begin` asked for is issued: hand it to MTE1."""
        self.queue.publish()
        self._address = self.queue.take()
        return self._address

    @property
    def address(self) -> int:
        """Where the held operand lies."""
        return self._address

    def close(self) -> None:
        """End of the program."""
        if self._held is not None:
            self.queue.release()
        self.queue.close()
