"""Operand B of grad_weight, the input: loads of the input pixels that a run of gradOutput pixels reads, and load3d's
view of them.

There is a class for each walk over gradOutput (`ops.problem.walk`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import MapWindow, Span, matrix_window
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import input_window
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import boxes, met
from ascend_sim.ops.layouts import x_map
from ascend_sim.ops.layouts.layout import ChannelPlace, MapBox, MapPixels
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.walk import SingleTaps, Walk, Windows
from ascend_sim.ops.problem.window import InputRows


class InputOperand(ABC):
    """Interface of operand B of one call: input pixels loaded through `k` from tensor number `slot` of the launch."""

    def __init__(self, call: CubeCall, tiling: GradWeightTiling, k: KernelBuilder, slot: int) -> None:
        self.inp, self.tiling, self.k, self.slot = call.inp, tiling, k, slot
        self.map = x_map(call.inp)

    @abstractmethod
    def plane_and_tap(self, plane: int) -> tuple[int, int]:
        """Return (kernel plane, tap) of plane number `plane` in the problem that tilings count; tap 0 where planes have all."""

    @abstractmethod
    def key(self, strip: Strip, tap: int, span: Span, held: InputRows) -> tuple[object, ...]:
        """Return the operand's part of a load's key; with the first held row and their count it identifies the pixels."""

    @abstractmethod
    def load(
        self, place: ChannelPlace, channels: int, strip: Strip, tap: int, span: Span, held: InputRows, address: int
    ) -> None:
        """Load the input that the gradOutput pixels `span` read to L1 at `address`: `channels` channels from `place` on."""

    @abstractmethod
    def window(self, strip: Strip, pixels: Span, span: Span, held: InputRows) -> tuple[MapWindow, Span]:
        """Return (load3d's view of the data that `load` brought for `span`, rows of its matrix that belong to `pixels`)."""


class WindowOperand(InputOperand):
    """Operand B as input rows, [c1][rows][W][C0] in L1, which load3d reads under the forward kernel's window.

    In a walk by strips (`split_wo`) rows have the columns that the strip reads, and stay in L1 while its pixels need them.
    Without strips whole rows are loaded again for each run of pixels, as in the vendor's kernel.
    """

    def plane_and_tap(self, plane: int) -> tuple[int, int]:
        return plane, 0

    def key(self, strip: Strip, tap: int, span: Span, held: InputRows) -> tuple[object, ...]:
        return (strip.column, held.pad_top) if self.tiling.split_wo else (0, span.start)

    def load(
        self, place: ChannelPlace, channels: int, strip: Strip, tap: int, span: Span, held: InputRows, address: int
    ) -> None:
        width = strip.problem.w_in
        box = MapBox(place, channels, Span(held.first, held.rows), Span(strip.source, width))
        self.map.load_pixels(self.k, self.slot, box, address, held.rows * width, "B")

    def window(self, strip: Strip, pixels: Span, span: Span, held: InputRows) -> tuple[MapWindow, Span]:
        p = strip.problem
        rows = Span(pixels.start - span.start // p.w_out * p.w_out, pixels.length)
        return input_window(p, held, rows), rows


class TapOperand(InputOperand):
    """Operand B for single taps: for each gradOutput pixel the pixel that the tap reads, gathered as [c1][pixels][C0] in L1."""

    def plane_and_tap(self, plane: int) -> tuple[int, int]:
        return divmod(plane, self.inp.taps)

    def key(self, strip: Strip, tap: int, span: Span, held: InputRows) -> tuple[object, ...]:
        return tap, *span

    def load(
        self, place: ChannelPlace, channels: int, strip: Strip, tap: int, span: Span, held: InputRows, address: int
    ) -> None:
        for rows, columns, offset in boxes(strip, span):
            pixels = MapPixels(place, channels, met(self.inp.problem, tap, rows, columns))
            self.map.gather(self.k, self.slot, pixels, address + offset, span.length, "B")

    def window(self, strip: Strip, pixels: Span, span: Span, held: InputRows) -> tuple[MapWindow, Span]:
        return matrix_window(span.length), Span(pixels.start - span.start, pixels.length)


OPERANDS: dict[type[Walk], type[InputOperand]] = {Windows: WindowOperand, SingleTaps: TapOperand}


def input_operand(call: CubeCall, walked: TilingInput, tiling: GradWeightTiling, k: KernelBuilder, slot: int) -> InputOperand:
    """Return operand B of a call, of the class for the walk of `walked`, the problem that the tiling counts."""
    return OPERANDS[type(walked.walk)](call, tiling, k, slot)
