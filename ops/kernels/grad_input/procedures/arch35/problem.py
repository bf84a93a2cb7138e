"""Quantities of a problem in the arch35 procedure of grad_input, and the choice between a whole kernel, one row by row,
and one tap by tap.
"""

from __future__ import annotations

from functools import cached_property

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.grad_input.parts import NO_HK, NO_HK_WK, UNCUT
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import dilated_height, pad_after, pad_before, spanned_rows

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated)
MOST_PIXELS = 1024  # of a base block: a kernel is cut where L1 does not hold what so many need
PACKED_CHANNELS = 4  # output channels at most that are packed (C04)
UB_SET_ASIDE = 256 + 32 + 32  # bytes of UB that packing does not use


@frozen
class DataProblem:
    """Problem `inp` in the quantities of the arch35 procedure: dx[m, n] = sum over K, for one image, depth and real
    group. Lengths are in elements.

    `cut` says how the kernel is taken: UNCUT, NO_HK (row by row) or NO_HK_WK (tap by tap). N is rounded up to `side`.
    With `packs` up to four output channels may share a block.
    """

    inp: TilingInput
    cut: int
    side: int = FRACTAL
    packs: bool = True

    @classmethod
    def of(cls, inp: TilingInput, cut: int | None = None) -> DataProblem:
        """Return the DataProblem of `inp` with `cut`, unchecked; for None with the first possible of UNCUT, NO_HK, NO_HK_WK, of
        which the last always is.
        """
        if cut is not None:
            return cls(inp, cut)
        return next(p for p in (cls(inp, cut) for cut in (UNCUT, NO_HK, NO_HK_WK)) if p.may_be_so)

    @property
    def may_be_so(self) -> bool:
        """Return True if the kernel can be taken as `cut` says: L1 holds one channel block of the gradOutput rows that
        MOST_PIXELS pixels of dx read, beside its weights for 16 input channels, and load3d has fields for pads and dilation
        (row by row those of W alone).

        Tap by tap is always possible.
        """
        if self.cut == NO_HK_WK:
            return True
        p, limits = self.inp.problem, self.inp.load3d
        (up, left), (down, right) = pad_before(p), pad_after(p)
        lines = (up, down) if self.cut == UNCUT else ()
        steps = (p.dilation_h, p.dilation_w) if self.cut == UNCUT else (p.dilation_w,)
        weights = self.itemsize * self.inp.taps * self.c0 * FRACTAL // (1 if self.cut == UNCUT else p.k_h)
        fits = self.row_bytes * self.gradient_rows(MOST_PIXELS) * self.c0 + weights <= self.inp.buffers["L1"]
        return fits and max(left, right, *lines) <= limits.pad and max(steps) <= limits.dilation

    @property
    def spare(self) -> int:
        """Return the bytes of L1 that must stay free: 1, so that operands must be smaller than L1."""
        return 1

    @property
    def whole_rows(self) -> bool:
        """Return True if a core's pixels must be whole rows even where that costs a tile; False for an unsplit kernel."""
        return False

    @property
    def uneven(self) -> bool:
        """Return True if L1 steps are whole base blocks of K: for a kernel of 3 rows split by both axes, whose parts differ in
        taps.
        """
        return False

    def doubles(self, elements: int) -> bool:
        """Return True if L0C has room for two tiles of `elements` elements."""
        return elements * ACCUMULATOR_BYTES * 2 <= self.inp.buffers["L0C"]

    @property
    def itemsize(self) -> int:
        """Return the bytes of an element."""
        return self.inp.itemsize

    @property
    def c0(self) -> int:
        """Return the channels of a block of 32 bytes."""
        return self.inp.c0

    @cached_property
    def width(self) -> int:
        """Return the columns of dx."""
        return self.inp.problem.w_in

    @cached_property
    def pixels(self) -> int:
        """Return the pixels of a plane of dx."""
        return self.inp.problem.h_in * self.width

    @cached_property
    def m(self) -> int:
        """Return M: the pixels of a plane of dx, rounded up to whole fractals."""
        return ceil_to(self.pixels, FRACTAL)

    @cached_property
    def n(self) -> int:
        """Return N: the input channels of a real group, rounded up to `side`."""
        return ceil_to(self.inp.cin_g, self.side)

    @cached_property
    def blocks(self) -> int:
        """Return the number of blocks of C0 output channels of a real group."""
        return ceil_div(self.inp.cout_g, self.c0)

    @cached_property
    def all_taps(self) -> int:
        """Return the taps of all kernel planes."""
        return self.inp.problem.k_d * self.inp.taps

    @cached_property
    def taps(self) -> int:
        """Return the taps of one piece of the kernel: all of a plane, a row, or one."""
        return {UNCUT: self.inp.taps, NO_HK: self.inp.problem.k_w, NO_HK_WK: 1}[self.cut]

    @cached_property
    def slice(self) -> int:
        """Return the K of one block of output channels with the taps of one piece; packed channels are rounded up to C0."""
        return ceil_to(PACKED_CHANNELS * self.taps, self.c0) if self.packed else self.taps * self.c0

    @cached_property
    def k(self) -> int:
        """Return K of one piece of the kernel: all blocks of output channels times a slice, or one slice if packed."""
        return self.slice if self.packed else self.blocks * self.slice

    @cached_property
    def lanes(self) -> int:
        """Return how often each tile is computed: images x depths x real groups."""
        return self.inp.problem.n * self.inp.problem.d_in * self.inp.real_groups

    @cached_property
    def row_bytes(self) -> int:
        """Return the bytes of a row of one channel of gradOutput, with inserted zeros."""
        return self.inp.problem.w_out * self.inp.problem.stride_w * self.itemsize

    @cached_property
    def is_planar(self) -> bool:
        """Return True if maps are NCDHW, neither blocked nor NDHWC."""
        return self.inp.layout is PLANAR

    @cached_property
    def packed(self) -> bool:
        """Return True if `packs` and the library packs the output channels (at most four) into one block (C04): 16-bit NCDHW,
        stride and dilation 1, several taps, an uncut kernel, no merged groups, and UB has room.

        It does not where gradOutput is a single pixel, or load3d would have a negative pad left or right.
        """
        if not self.packs:
            return False
        p, half = self.inp.problem, (self.inp.buffers["UB"] - UB_SET_ASIDE) // 2
        ones = (p.stride_h, p.stride_w, p.dilation_h, p.dilation_w) == (1, 1, 1, 1)
        (_, left), (_, right) = pad_before(p), pad_after(p)
        return (
            self.itemsize == 2
            and self.is_planar
            and self.cut == UNCUT
            and self.inp.cout_g <= PACKED_CHANNELS
            and self.inp.taps > 1
            and ones
            and (p.h_out, p.w_out) != (1, 1)
            and self.inp.group_extension == 1
            and PACKED_CHANNELS * FRACTAL * self.all_taps * self.itemsize <= half
            and ceil_to(PACKED_CHANNELS * self.inp.taps, self.c0) * FRACTAL * self.itemsize <= half
            and left >= 0
            and right >= 0
        )

    def gradient_rows(self, pixels: int) -> int:
        """Return an upper bound of the rows of the zero-inserted gradOutput that a tile of `pixels` pixels of dx, which begins
        at a multiple of as many, reads for one piece of the kernel; at most the map's.
        """
        p = self.inp.problem
        reach = (p.k_h - 1) * p.dilation_h if self.cut == UNCUT else 0
        return min(spanned_rows(pixels, self.width) + reach, dilated_height(p))

    def rows_of(self, pixels: int) -> int:
        """Return the pixels of the whole rows of dx that `pixels` pixels contain, at least those of one row."""
        return max(pixels // self.width, 1) * self.width

    def tasks(self, pixels: int, channels: int) -> int:
        """Return the number of tasks if each has `pixels` x `channels` of dx."""
        return self.lanes * ceil_div(self.pixels, pixels) * ceil_div(self.n, channels)
