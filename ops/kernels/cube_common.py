"""What the two cube kernels share: the call they compute, its tensors in GM, and the layout of the weights."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.queue import BufferQueue
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
    """The L0 side of both kernels: halves of L0A and L0B in turn between MTE1 and M, L0C tiles between M and FIX."""

    def __init__(self, k: KernelBuilder, l0_buffers: int, l0c_buffers: int, tile_bytes: int) -> None:
        sizes = {name: k.chip.buffers[name] // l0_buffers for name in ("L0A", "L0B")}
        unit = k.chip.alignment.fractal
        self.left = [k.allocate("L0A", sizes["L0A"] // unit * unit, f"L0A[{i}]") for i in range(l0_buffers)]
        self.right = [k.allocate("L0B", sizes["L0B"] // unit * unit, f"L0B[{i}]") for i in range(l0_buffers)]
        self.operands = BufferQueue(k, "L0", "MTE1", "M", list(range(l0_buffers)))
        tiles = [k.allocate("L0C", tile_bytes, f"L0C[{i}]") for i in range(l0c_buffers)]
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

    def close(self) -> None:
        """End of the program."""
        self.operands.close()
        self.tiles.close()


class HeldOperand:
    """One operand's L1 buffers, filled by MTE2 and read by MTE1; what is there already is not loaded again."""

    def __init__(self, k: KernelBuilder, name: str, buffers: int, size: int) -> None:
        size = ceil_to(size, BLOCK_BYTES)
        addresses = [k.allocate("L1", size, f"{name}[{i}]") for i in range(buffers)]
        self.queue = BufferQueue(k, name, "MTE2", "MTE1", addresses)
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
