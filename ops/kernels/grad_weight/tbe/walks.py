"""Walks of the older weight-gradient kernels: a block's pixels of an image, step by step.

A walk over many steps is cut where L1 is loaded: then the rows written for a few pixels serve all pixels with equal windows
further down (`KernelBuilder.stamped`). A short walk stays whole, because every part costs something too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ascend_sim.frozen import frozen
from ascend_sim.kernel.operands import MapWindow, Span
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.pipeline import input_window
from ascend_sim.ops.kernels.grad_weight.parts import piece, strips
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.window import InputRows, input_rows

FEW = 32
"""Most steps of a walk that is not cut into parts."""


class TbeRun(NamedTuple):
    """Pixels `first` .. `last` - 1 of a strip, walked in `step` pixels; L1 gets `span_a` of A and `span_b` of B at a time."""

    strip: Strip
    first: int
    last: int
    step: int
    span_a: int
    span_b: int


class TbeStep(NamedTuple):
    """One step of K: its `pixels` of a `strip`, the pixels of A and of B that L1 then holds, and the input rows `held`.

    `seen` is the strip that contains B's pixels, and `shift` the number of its first pixel.
    """

    strip: Strip
    seen: Strip
    shift: int
    pixels: Span
    in_a1: Span
    in_b1: Span
    held: InputRows

    def new_a1(self, last: TbeStep) -> bool:
        """Return True if L1 must load other pixels of gradOutput than in step `last`."""
        return (self.strip, self.in_a1) != (last.strip, last.in_a1)

    def new_b1(self, last: TbeStep) -> bool:
        """Return True if L1 must load other pixels of the input than in step `last`."""
        return (self.seen, self.in_b1) != (last.seen, last.in_b1)


@frozen(eq=False)
class TbePart:
    """Consecutive steps, relative to a row (in a signal, to a pixel); equal parts of a launch are one object.

    `b_first`: the input is loaded before gradOutput, because its loads have more pixels.
    """

    steps: tuple[TbeStep, ...]
    b_first: bool

    @cached_property
    def windows(self) -> tuple[tuple[MapWindow, Span], ...]:
        """Return, for each step, (load3d's view of the input in L1 up to its last pixel, the step's rows of the matrix)."""
        found = []
        for step in self.steps:
            p, first_row = step.seen.problem, (step.in_b1.start - step.shift) // step.seen.problem.w_out
            rows = Span(step.pixels.start - step.shift - first_row * p.w_out, step.pixels.length)
            found.append((input_window(p, step.held, rows), rows))
        return tuple(found)


Walk = tuple[tuple[TbePart, int], ...]
"""Parts of a block's walk through the pixels of an image, in order, each with the row (or pixel) to which its steps are
relative.
"""


def moves(p: FilterProblem) -> bool:
    """Return True if steps can be made relative to a row and moved; not those of a gather, which loads pixel by pixel."""
    return p.load is not Load.DMA


def further(p: FilterProblem, step: TbeStep, row: int) -> TbeStep:
    """Return the step moved down by `row` rows of gradOutput; in a signal (one row) moved right by `row` pixels."""
    problem = step.strip.problem
    way = row if p.conv1d else row * problem.w_out
    pixels, in_a1, in_b1 = (Span(span.start + way, span.length) for span in step[3:6])
    if p.conv1d:
        seen = replace(step.seen, column=step.seen.column + way, source=step.seen.source + way * problem.stride_w)
        return TbeStep(step.strip, seen, step.shift + way, pixels, in_a1, in_b1, step.held)
    held = step.held._replace(first=step.held.first + row * problem.stride_h)
    return TbeStep(step.strip, step.seen, step.shift, pixels, in_a1, in_b1, held)


class TbeWalks:
    """Cache of the walks of a launch and of their parts (`TbePart`: consecutive steps moved to row 0), shared by its blocks."""

    def __init__(self, call: CubeCall, p: FilterProblem, tiling: CacheTiling) -> None:
        problem = call.inp.problem
        self._p, self._tiling, self._problem = p, tiling, problem
        # The input as L1 gets it: without the rows that a flat kernel steps over.
        read = replace(problem, h_in=p.h_in, stride_h=p.stride_h)
        self._whole = Strip(read, 0, read.w_out, 0)
        self._known: dict[range, Walk] = {}
        self._parts: dict[tuple[TbeStep, ...], TbePart] = {}

    def of(self, k: range) -> Walk:
        """Return the walk of a block over the units `k` of K: its parts with their rows; made at the first call."""
        if k not in self._known:
            self._known[k] = tuple(self._made(k))
        return self._known[k]

    def _made(self, k: range) -> Iterator[tuple[TbePart, int]]:
        """Yield (part, row of gradOutput with which it begins) of the walk over units `k` of K; equal parts are one object.

        In a signal the row's place is taken by the pixel; for a gather it is 0.
        A walk of more than FEW steps is cut where L1 loads other pixels, unless it gathers (`moves`); others are one part.
        """
        runs = list(self._runs(k))
        steps = [step for run in runs for step in self._steps(run)]
        b_first = any(run.span_b > run.span_a for run in runs)
        cuts = [0, len(steps)] if steps else []
        if len(steps) > FEW and moves(self._p):
            loads = [i for i, (last, step) in enumerate(pairwise(steps), 1) if step.new_a1(last) or step.new_b1(last)]
            cuts[1:1] = loads
        for first, end in pairwise(cuts):
            row = self._row(steps[first]) if moves(self._p) else 0
            part = tuple([further(self._p, step, -row) for step in steps[first:end]])
            yield self._parts.setdefault(part, TbePart(part, b_first)), row

    def _row(self, step: TbeStep) -> int:
        """Return the row of gradOutput with which a step begins; in a signal, its pixel."""
        return step.pixels.start if self._p.conv1d else step.pixels.start // step.strip.problem.w_out

    def _runs(self, k: range) -> Iterator[TbeRun]:
        """Yield the runs of pixels of the units `k` of K: one, or one for each strip if rows are loaded in pieces."""
        tile, pixels = self._tiling.tile, self._p.k0
        if self._p.load is Load.SPLIT_W:
            for strip in strips(self._whole.problem, tile.k_l0 * pixels):
                width = strip.problem.w_out
                spans = (tile.k_al1 // tile.k_l0 * width, tile.k_bl1 // tile.k_l0 * width)
                yield TbeRun(strip, k.start * width, k.stop * width, width, *spans)
            return
        last = min(k.stop * pixels, self._problem.h_out * self._problem.w_out)
        if k.start * pixels < last:
            spans = (tile.k_al1 * pixels, tile.k_bl1 * pixels)
            yield TbeRun(self._whole, k.start * pixels, last, tile.k_l0 * pixels, *spans)

    def _steps(self, run: TbeRun) -> Iterator[TbeStep]:
        """Yield a run's steps, without those whose rows, from the first tap's to the last's, all lie in the padding above or
        below, and without those of strips without input columns. A step may still read nothing but padding along W.
        """
        for pixel in range(run.first, run.last, run.step):
            pixels = Span(pixel, min(run.step, run.last - pixel))
            a, b = (_span(run, pixel, span) for span in (run.span_a, run.span_b))
            strip, shift = self._seen(run.strip, b)
            p = strip.problem
            if p.w_in and input_rows(p, pixel - shift, pixel + pixels.length - shift).rows > 0:
                held = input_rows(p, b.start - shift, b.start + b.length - shift)
                yield TbeStep(run.strip, strip, shift, pixels, a, b, held)

    def _seen(self, strip: Strip, b: Span) -> tuple[Strip, int]:
        """Return (strip that contains B's pixels `b`, its first pixel): `strip` and 0, for a signal only the columns of `b`."""
        if self._p.conv1d:
            return piece(strip.problem, b.start, b.length), b.start
        return strip, 0


def _span(run: TbeRun, pixel: int, span: int) -> Span:
    """Return the pixels that L1 holds together with `pixel`, if the run is loaded `span` pixels at a time."""
    start = run.first + (pixel - run.first) // span * span
    return Span(start, min(span, run.last - start))
