"""What a block of the older weight-gradient kernels walks over: its pixels of an image, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.cube.strips import Strip
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.strips import InputRows, input_rows, piece, strips


class Run(NamedTuple):
    """Pixels of a strip that are multiplied together, `step` in L0 and `span_a`, `span_b` in L1 at a time."""

    strip: Strip
    first: int
    last: int
    step: int
    span_a: int
    span_b: int


class Step(NamedTuple):
    """A step of K: what of the `strip` L1 holds of gradOutput, and of `seen`, whose first pixel is `shift`, of the input."""

    strip: Strip
    seen: Strip
    shift: int
    pixels: Span
    in_a1: Span
    in_b1: Span
    held: InputRows

    def at(self, row: int) -> Step:
        """The same step `row` rows of gradOutput further down."""
        p = self.strip.problem
        pixels, in_a1, in_b1 = (Span(span.start + row * p.w_out, span.length) for span in self[3:6])
        held = self.held._replace(first=self.held.first + row * p.stride_h)
        return self._replace(pixels=pixels, in_a1=in_a1, in_b1=in_b1, held=held)


@dataclass(frozen=True, eq=False)
class Walk:
    """The steps of a block's pixels, counted from a row; equal ones of a task are the same object.

    `b_first`: the input has the longer step, and is loaded first.
    """

    steps: tuple[Step, ...]
    b_first: bool


def moves(p: FilterProblem) -> bool:
    """Whether pixels are the same elsewhere: what is gathered one by one, and a signal's columns, are not."""
    return p.load is not Load.DMA and not p.conv1d


class Walks:
    """The walks of a task, whose blocks share them."""

    def __init__(self, call: CubeCall, p: FilterProblem, tiling: CacheTiling) -> None:
        problem = call.inp.problem
        self._p, self._tiling, self._problem = p, tiling, problem
        # The input as L1 gets it: without the rows that a flat kernel steps over.
        read = replace(problem, h_in=p.h_in, stride_h=p.stride_h)
        self._whole = Strip(read, 0, read.w_out, 0)
        self._known: dict[range, tuple[Walk, int]] = {}
        self._walks: dict[tuple[Step, ...], Walk] = {}

    def of(self, k: range) -> tuple[Walk, int]:
        """The steps of a block with units `k` of K, and the row that they count from."""
        if k not in self._known:
            self._known[k] = self._made(k)
        return self._known[k]

    def _made(self, k: range) -> tuple[Walk, int]:
        runs = list(self._runs(k))
        row = runs[0].first // runs[0].strip.problem.w_out if runs and moves(self._p) else 0
        steps = tuple([step.at(-row) for run in runs for step in self._steps(run)])
        b_first = any(run.span_b > run.span_a for run in runs)
        return self._walks.setdefault(steps, Walk(steps, b_first)), row

    def _runs(self, k: range) -> Iterator[Run]:
        tile, pixels = self._tiling.tile, self._p.k0
        if self._p.load is Load.SPLIT_W:
            for strip in strips(self._problem, tile.k_l0 * pixels):
                width = strip.problem.w_out
                spans = (tile.k_al1 // tile.k_l0 * width, tile.k_bl1 // tile.k_l0 * width)
                yield Run(strip, k.start * width, k.stop * width, width, *spans)
            return
        last = min(k.stop * pixels, self._problem.h_out * self._problem.w_out)
        if k.start * pixels < last:
            spans = (tile.k_al1 * pixels, tile.k_bl1 * pixels)
            yield Run(self._whole, k.start * pixels, last, tile.k_l0 * pixels, *spans)

    def _steps(self, run: Run) -> Iterator[Step]:
        """A run's steps, but for those that see padding only."""
        for pixel in range(run.first, run.last, run.step):
            pixels = Span(pixel, min(run.step, run.last - pixel))
            a, b = (_span(run, pixel, span) for span in (run.span_a, run.span_b))
            strip, shift = self._seen(run.strip, b)
            p = strip.problem
            if p.w_in and input_rows(p, pixel - shift, pixel + pixels.length - shift).rows > 0:
                held = input_rows(p, b.start - shift, b.start + b.length - shift)
                yield Step(run.strip, strip, shift, pixels, a, b, held)

    def _seen(self, strip: Strip, b: Span) -> tuple[Strip, int]:
        """The problem that B's pixels are a part of, and the number of its first pixel: of a signal, the columns they see."""
        if self._p.conv1d:
            return piece(strip.problem, b.start, b.length), b.start
        return strip, 0


def _span(run: Run, pixel: int, span: int) -> Span:
    """The pixels that L1 holds together with one."""
    start = run.first + (pixel - run.first) // span * span
    return Span(start, min(span, run.last - start))
