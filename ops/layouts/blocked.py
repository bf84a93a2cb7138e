"""Tensors in blocks of C0 channels: FRACTAL_Z of weights."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput


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
