"""Quantities of a problem in the arch35 procedure of grad_weight: sizes of its product, its walk over gradOutput, its
bytes in L1.
"""

from __future__ import annotations

from functools import cached_property

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.grad_weight.capacity import spanned_slices
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import spanned_rows

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_filter_v2, arch35: stated)
LONGEST_ROW, LONGEST_PADDED_ROW = 512, 256  # gradOutput columns; the second where load3d cannot hold a pad
WIDEST_STRIP = 128  # gradOutput columns
MOST_LOAD3D_K = 65536  # elements of one block of channels in all taps, which load3d counts


@frozen
class WeightProblem:
    """Problem `inp` in the quantities of the arch35 procedure: dW[m, n] = sum over K, for one kernel plane and real
    group, in elements.

    `strip` is the number of gradOutput columns that are taken together (splitWo), 0 for whole rows. With `by_tap` the
    taps of the kernel are loaded one by one (isSplitKernelHW).
    """

    inp: TilingInput
    strip: int = 0
    by_tap: bool = False

    @classmethod
    def of(cls, inp: TilingInput) -> WeightProblem:
        """Return the problem with the first walk: strips of 128 columns for long rows, single taps where load3d needs them."""
        p, limits = inp.problem, inp.load3d
        padded = max(p.pad_left, p.pad_right) > limits.pad
        long = p.w_out > (LONGEST_PADDED_ROW if padded else LONGEST_ROW)
        beyond = (
            max(p.k_h, p.k_w) > limits.kernel
            or max(p.dilation_h, p.dilation_w) > limits.dilation
            or max(p.stride_h, p.stride_w) > limits.stride
            or max(p.pad_left, p.pad_right, p.pad_up, p.pad_down) > limits.pad
            or inp.taps * inp.c0 > MOST_LOAD3D_K
        )
        return cls(inp, WIDEST_STRIP if long else 0, beyond)

    @cached_property
    def m(self) -> int:
        """Return the output channels of a real group, in whole fractals."""
        return self.inp.cout_padded

    @cached_property
    def slice(self) -> int:
        """Return the columns of dW (N) of 16 input channels."""
        return self.inp.taps * FRACTAL

    @cached_property
    def n(self) -> int:
        """Return N: the input channels of a real group, rounded up to a multiple of 16 for every dtype, times the taps of a
        plane.
        """
        return ceil_div(self.inp.cin_g, FRACTAL) * self.slice

    @cached_property
    def pixels(self) -> int:
        """Return the pixels of a plane of gradOutput."""
        return self.inp.problem.h_out * self.inp.problem.w_out

    @cached_property
    def k(self) -> int:
        """Return K: the pixels of a plane of gradOutput, rounded up to whole fractals."""
        return ceil_to(self.pixels, FRACTAL)

    @cached_property
    def lanes(self) -> int:
        """Return the number of products, each with tiles of its own: kernel planes times real groups."""
        return self.inp.problem.k_d * self.inp.real_groups

    @property
    def width(self) -> int:
        """Return the gradOutput columns of a strip, or of a row without strips."""
        return self.strip or self.inp.problem.w_out

    @property
    def seen(self) -> int:
        """Return the input columns in L1 for a row of gradOutput (the whole input row), or for a strip (those that it reads);
        with single taps the columns of gradOutput.
        """
        return self._columns(self.width)

    def tasks(self, rows: int, columns: int) -> int:
        """Return the number of tasks if each has `rows` x `columns` of dW."""
        return ceil_div(self.m, rows) * ceil_div(self.n, columns) * self.lanes

    def tile_fits(self, rows: int, columns: int, buffers: int = 1) -> bool:
        """Return True if L0C holds `buffers` tiles of `rows` x `columns`."""
        return rows * columns * ACCUMULATOR_BYTES * buffers <= self.inp.buffers["L0C"]

    # -- L1 ------------------------------------------------------------------------------------------------------------

    def used(self, tiling: GradWeightTiling) -> int:
        """Return the bytes of L1 that both operands take, all buffers counted."""
        a = self.a_elements(tiling) * tiling.al1_buffers
        return (a + self.b_elements(tiling) * tiling.bl1_buffers) * self.inp.itemsize

    def fits(self, tiling: GradWeightTiling) -> bool:
        """Return True if L1 holds both operands."""
        return self.used(tiling) <= self.inp.buffers["L1"]

    def a_elements(self, tiling: GradWeightTiling) -> int:
        """Return the elements of one L1 buffer of gradOutput: step_ka blocks of pixels (strips: whole rows) times base_m."""
        pixels = tiling.step_ka * tiling.base_k
        if self.strip not in (0, self.inp.problem.w_out):
            pixels = max(ceil_to(spanned_rows(pixels, width) * width, FRACTAL) for width in self._widths)
        return pixels * tiling.base_m

    def b_elements(self, tiling: GradWeightTiling) -> int:
        """Return the elements of one L1 buffer of the input: the pixels that step_kb blocks read, times a block's channels."""
        chunk = tiling.step_kb * tiling.base_k
        pixels = max(self._input_rows(spanned_rows(chunk, width)) * self._columns(width) for width in self._widths)
        # A task is whole fractals of channels, or one that the tiles share.
        return pixels * min(max(tiling.base_n // self.slice, 1) * FRACTAL, self.channels(tiling.base_n))

    def channels(self, columns: int) -> int:
        """Return the vendor's bound (`spanned_slices`) on the input channels that `columns` columns of dW touch."""
        return spanned_slices(ceil_div(columns, FRACTAL), self.inp.taps) * FRACTAL

    def estimated_rows(self, pixels: int) -> int:
        """Return the library's estimate of the input rows that `pixels` gradOutput pixels read.

        With single taps (`by_tap`) it is their gradOutput rows and the rows between the first and last tap, without the stride.
        """
        rows = spanned_rows(pixels, self.width)
        p = self.inp.problem
        return rows + (p.k_h - 1) * p.dilation_h if self.by_tap else self._input_rows(rows)

    def tallest(self, tiling: GradWeightTiling) -> int:
        """Return the most rows of dW to which `shrink` may let a shrunk block grow back: half of L0C over base_n,
        counted in elements of the operands as the library does.
        """
        return self.inp.buffers["L0C"] // self.inp.itemsize // 2 // tiling.base_n

    @cached_property
    def _widths(self) -> tuple[int, ...]:
        """Return the distinct widths of the strips; the last strip may be narrower."""
        last = self.inp.problem.w_out % self.strip if self.strip else 0
        return (self.width, last) if last else (self.width,)

    def _columns(self, width: int) -> int:
        """Return the input columns that `width` gradOutput columns of a strip read; the whole row without strips, `width` with
        single taps.
        """
        p = self.inp.problem
        if self.by_tap:
            return width
        return (width - 1) * p.stride_w + (p.k_w - 1) * p.dilation_w + 1 if self.strip else p.w_in

    def _input_rows(self, rows: int) -> int:
        """Return the input rows that `rows` gradOutput rows read, rows of padding included; `rows` with single taps."""
        p = self.inp.problem
        return rows if self.by_tap else (rows - 1) * p.stride_h + (p.k_h - 1) * p.dilation_h + 1
