"""Quantities of a problem in the 910B's cache tiling of grad_weight: units, merged groups, and the path of B to L0B.

dW is a matrix product for each merged group: M = output channels, N = (input channel, tap), K = pixels of gradOutput,
summed over the images. M and N are counted in blocks of 16, K in units of `k0` pixels, so that a fractal of A or B has
512 bytes and one of L0C 1 KiB whatever the dtype. Source of everything here: host tiling of Conv2DBackpropFilter and
Conv3DBackpropFilter (NPUKernelBench 6b84216, cube_tiling_param.cc: stated), in our own words.
"""

from __future__ import annotations

import math
from dataclasses import field
from enum import IntEnum
from functools import cached_property

from ascend_sim.chip.fractal import ACCUMULATOR_FRACTAL_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.chip.sections import Load3dLimits
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

ONE_WAY = "the 3-D operator refuses to cut rows or to gather by DMA (NPUKernelBench 6b84216, cube_tiling_param.cc: stated)"
EMBEDDING = (3, 224, 32)  # channels, rows and columns of the map, of the kernel: the linear embedding (stated)


class Load(IntEnum):
    """Path of operand B from GM to L0B; the numbers are those of the vendor's tiling key."""

    LOAD3D = 0
    LOAD2D = 1
    SPLIT_W = 2
    """Path by load3d of pieces of a row, because L1 has no room for the whole rows that a fractal of pixels needs."""
    DMA = 3
    """Path that gathers pixels tap by tap on the way to L1."""


@frozen
class FilterProblem:
    """A problem in the quantities of the cache tiling, with buffer sizes in bytes. `volumetric`: the 3-D operator;
    `hf32` halves the cube's cycles of fp32. `blocks_given`: `cores` is the number of blocks that the user asks for.

    `load3d` has the limits of that instruction's fields. Asking a 3-D problem that load3d cannot read for its `load`
    raises TilingError, since that operator has no other path.
    """

    problem: ConvProblem
    itemsize: int
    cores: int
    l1_bytes: int
    l0_bytes: int
    l0c_bytes: int
    load3d: Load3dLimits = field(hash=False)
    hf32: bool = False
    volumetric: bool = False
    blocks_given: bool = False

    # ---- units

    @property
    def k0(self) -> int:
        """Return the pixels of one unit of K: those whose elements take 32 bytes."""
        return 32 // self.itemsize

    @property
    def fp32(self) -> bool:
        """Return True if operands have 4 bytes (fp32 or HF32)."""
        return self.itemsize == 4

    @property
    def least_k(self) -> int:
        """Return the fewest K units that are loaded together: 2 for fp32, which is transposed in pairs."""
        return 2 if self.fp32 else 1

    @property
    def taps(self) -> int:
        """Return the kernel positions in a plane."""
        return self.problem.k_h * self.problem.k_w

    @property
    def l0_fractals(self) -> int:
        """Return how many fractals half of L0A or L0B holds."""
        return self.l0_bytes // 2 // FRACTAL_BYTES

    @property
    def l0c_fractals(self) -> int:
        """Return how many fractals all of L0C holds."""
        return self.l0c_bytes // ACCUMULATOR_FRACTAL_BYTES

    @cached_property
    def merged(self) -> int:
        """Return how many groups are merged into one: the fewest to fill blocks of C0 input and 16 output channels, or all."""
        groups = self.problem.groups
        cin, cout = self.problem.c_in // groups, self.problem.c_out // groups
        if groups == 1:
            return 1
        return min(math.lcm(math.lcm(cin, self.k0) // cin, math.lcm(cout, FRACTAL) // cout), groups)

    @cached_property
    def groups(self) -> int:
        """Return the number of merged groups."""
        return ceil_div(self.problem.groups, self.merged)

    @cached_property
    def m(self) -> int:
        """Return the blocks of 16 output channels of a merged group."""
        return ceil_div(self.merged * self.problem.c_out // self.problem.groups, FRACTAL)

    @cached_property
    def cin1(self) -> int:
        """Return the blocks of 16 input channels of a merged group, for fp32 too."""
        return ceil_div(self.merged * self.problem.c_in // self.problem.groups, FRACTAL)

    @cached_property
    def cin_c0(self) -> int:
        """Return the blocks of C0 input channels of a merged group: two for each block of 16 channels in fp32."""
        return self.cin1 * FRACTAL // self.k0

    @property
    def cin_tensor(self) -> int:
        """Return the blocks of C0 input channels of a merged group in tensors: unlike `cin_c0` not in pairs for fp32."""
        return ceil_div(self.merged * self.problem.c_in // self.problem.groups, self.k0)

    @cached_property
    def k(self) -> int:
        """Return K, the length of the sum over one image: units of `k0` pixels, or gradOutput rows if `load` is SPLIT_W."""
        if self.load is Load.SPLIT_W:
            return self.problem.h_out
        return ceil_to(self.problem.h_out * self.problem.w_out, FRACTAL) // self.k0

    @property
    def row_units(self) -> int:
        """Return the K units of one row of gradOutput, rounded up."""
        return ceil_div(self.problem.w_out, self.k0)

    def k_cut(self, most: int) -> int:
        """Return the largest number of parts of K up to `most`.

        For fp32, unless `load` is SPLIT_W, each part, rounded up, has an even number of units; 0 if no number of parts does so.
        """
        most = min(most, self.k)
        if not self.fp32 or self.load is Load.SPLIT_W:
            return most
        return next((cut for cut in range(most, 0, -1) if ceil_div(self.k, cut) % 2 == 0), 0)

    @property
    def most_blocks(self) -> int:
        """Return the most blocks into which the work may be cut: `cores` (the user's number if `blocks_given`), or, where the
        `linear_embedding` is gathered (Load.DMA) and no number is given, one for each image if these are more.
        """
        by_image = self.load is Load.DMA and self.linear_embedding and not self.blocks_given
        return max(self.cores, self.problem.n) if by_image else self.cores

    # ---- the window of the kernel

    @property
    def pads(self) -> tuple[int, ...]:
        """Return padding above, below, left and right; negative ones, which crop, count as 0."""
        p = self.problem
        return tuple(max(pad, 0) for pad in (p.pad_up, p.pad_down, p.pad_left, p.pad_right))

    @property
    def kh_dilated(self) -> int:
        """Return the rows that the dilated kernel spans."""
        return (self.problem.k_h - 1) * self.problem.dilation_h + 1

    @property
    def kw_dilated(self) -> int:
        """Return the columns that the dilated kernel spans."""
        return (self.problem.k_w - 1) * self.problem.dilation_w + 1

    @cached_property
    def skips_rows(self) -> bool:
        """Return True if the input rows that a kernel of one row steps over (stride_h > 1) are not loaded to L1: the
        library's stride-h read.

        Always False for the 3-D operator, `conv1d`, pads above or below, and the loads LOAD2D and DMA.
        """
        p = self.problem
        free = not (self.volumetric or self.conv1d or self.load in (Load.LOAD2D, Load.DMA) or any(self.pads[:2]))
        return free and p.k_h == 1 and p.stride_h > 1

    @cached_property
    def stride_h(self) -> int:
        """Return the stride along the input rows in L1: 1 for `conv1d` and where L1 skips rows."""
        return 1 if self.skips_rows or self.conv1d else self.problem.stride_h

    @cached_property
    def h_in(self) -> int:
        """Return the input rows that L1 can get: all, or every stride_h-th if `skips_rows`."""
        return (self.problem.h_in - 1) // self.problem.stride_h + 1 if self.skips_rows else self.problem.h_in

    def columns(self, pixels: int) -> int:
        """Return the input columns that `pixels` neighbouring pixels of a gradOutput row read, at most the map's."""
        return min((pixels - 1) * self.problem.stride_w + self.kw_dilated, self.problem.w_in)

    # ---- how B is read

    @cached_property
    def conv1d(self) -> bool:
        """Return True for a one-row problem whose tiling follows from loads, not from cycles: L1 holds columns of the row only.

        Map (padding included) or kernel must have several columns, L1 room for those of `least_k` units, and load3d fields for
        the problem. False for the 3-D operator.
        """
        p = self.problem
        if self.volumetric or p.h_in + sum(self.pads[:2]) != 1 or p.k_h != 1:
            return False
        # Where L1 has no room for the columns of a row of several blocks, the row is cut like any other.
        room = self._least_l1(1, self.columns(self.least_k * self.k0)) <= self.l1_bytes
        return (p.w_in + sum(self.pads[2:]) != 1 or p.k_w != 1) and room and self._load3d_holds

    @cached_property
    def load(self) -> Load:
        """Return the path of B to L0B: load3d for `conv1d`, else the first possible of plain copies (2-D, not fp32, 1x1
        kernel, stride 1, no padding), load3d of whole rows, load3d of pieces of a row (not the `linear_embedding`), a gather.

        Raises TilingError for the 3-D operator if load3d cannot read whole rows.
        """
        p = self.problem
        if self.conv1d:
            return Load.LOAD3D
        if not (self.volumetric or self.fp32) and self.taps == p.stride_h == p.stride_w == 1 and not any(self.pads):
            return Load.LOAD2D
        if self.takes_whole_rows:
            return Load.LOAD3D
        whole_rows = self._holds_whole_rows
        if self.volumetric:
            raise TilingError(
                "Conv3DBackpropFilter: load3d cannot read the input "
                + ("with these pads, strides or kernel" if whole_rows else f"in L1 of {self.l1_bytes} bytes, row by row")
                + f"; {ONE_WAY}"
            )
        if self._load3d_holds and not whole_rows:
            piece = self._least_l1(self.kh_dilated, self.columns(self.least_k * self.k0))
            if piece <= self.l1_bytes:
                return Load.DMA if self.linear_embedding else Load.SPLIT_W
        return Load.DMA

    @property
    def load_words(self) -> str:
        """Return the path of B in the vendor's words: "load3d", "load2d", "split_w" or "dma", special cases after commas."""
        with_it = {
            "conv1d": self.conv1d,
            "stride_h read": self.skips_rows,
            "linear embedding": self.load is Load.DMA and self.linear_embedding,
        }
        return ", ".join([self.load.name.lower(), *(name for name, there in with_it.items() if there)])

    @property
    def takes_whole_rows(self) -> bool:
        """Return True if load3d can read the input in whole rows: L1 holds them, and load3d's fields the problem. The
        3-D operator has no other path.
        """
        return self._holds_whole_rows and self._load3d_holds

    @cached_property
    def _holds_whole_rows(self) -> bool:
        """Return True if L1 has room for the smallest A and, beside it, for whole rows of B: `_least_rows` of them, the
        vendor's bound on the rows that 16 gradOutput pixels read.
        """
        return self._least_l1(self._least_rows, self.problem.w_in) <= self.l1_bytes

    @cached_property
    def linear_embedding(self) -> bool:
        """Return True for the patch embedding (3 channels, 224 x 224, 32 x 32 kernel and stride, no padding) that the library
        knows; its gather may have more blocks than cores. Always False for the 3-D operator.
        """
        p, (channels, size, kernel) = self.problem, EMBEDDING
        square = (p.h_in, p.w_in, p.k_h, p.k_w, p.stride_h, p.stride_w) == (size, size, *(kernel,) * 4)
        plain = p.dilation_h == p.dilation_w == p.groups == 1 and not any(self.pads) and not self.volumetric
        return square and plain and p.c_in == channels

    @cached_property
    def _load3d_holds(self) -> bool:
        """Return True if load3d's fields can hold the problem's pads, dilation, kernel and stride."""
        p = self.problem
        within = (
            (self.pads, self.load3d.pad),
            ((p.dilation_h, p.dilation_w), self.load3d.dilation),
            ((p.k_h, p.k_w), self.load3d.kernel),
            ((p.stride_h, p.stride_w), self.load3d.stride),
        )
        return all(max(values) <= most for values, most in within)

    @property
    def _least_rows(self) -> int:
        """Return the vendor's bound on the input rows that 16 gradOutput pixels read, which L1 must hold at least."""
        p = self.problem
        if p.w_out % FRACTAL == 0:
            return self.kh_dilated
        rows = 2
        if p.w_out < FRACTAL:
            rows = ceil_div(FRACTAL, p.w_out) + (1 if FRACTAL % p.w_out else 0)
        return self.kh_dilated + (rows - 1) * p.stride_h

    def _least_l1(self, rows: int, columns: int) -> int:
        """Return the bytes of the smallest A and B in L1, with `rows` x `columns` pixels of B."""
        pixels = rows * columns
        if self.problem.w_out < FRACTAL:
            pixels = ceil_to(pixels, FRACTAL)
        unit = self.k0 * self.itemsize * self.least_k
        return FRACTAL * unit + pixels * unit


def filter_problem(inp: TilingInput, dtype: str, cores: int | None = None, *, volumetric: bool = False) -> FilterProblem:
    """Return the FilterProblem of `inp`; `volumetric`: the 3-D operator.

    `cores` is the number of blocks that the user asks for, in place of the cores of `inp`; None or 0 without one.
    """
    buffers = inp.buffers
    return FilterProblem(
        inp.problem,
        inp.itemsize,
        cores or inp.cores,
        buffers["L1"],
        buffers["L0A"],
        buffers["L0C"],
        inp.load3d,
        hf32=dtype == "hf32",
        volumetric=volumetric,
        blocks_given=bool(cores),
    )
