"""Steps of grad_weight's sums over K: base blocks of gradOutput pixels, and the pixels and rows that L1 holds with each.

Rows that are walked alike, further down in the map, share a `StripWalk`: its steps are relative to a row. So the rows
of a program for one tile serve blocks that sum other rows (`KernelBuilder.stamped`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import add, sub
from typing import Any, NamedTuple

from ascend_sim.frozen import frozen
from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walk
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.window import InputRows, input_rows


class Where(NamedTuple):
    """Place of a step of a program: image of the batch, row of gradOutput (pixel of a signal), block of its channels (`m`: of
    C0, in the `tbe` kernels of 16), channel block of the input (`n`), real group.
    """

    batch: int = 0
    row: int = 0
    m: int = 0
    n: int = 0
    group: int = 0


@frozen(eq=False)
class Run:
    """Consecutive steps of a program, each with its place relative to the first; equal runs of a launch are one object."""

    pieces: tuple[tuple[Hashable, Where], ...]

    def at(self, where: Where) -> list[tuple[Any, Where]]:
        """Return the steps with their places if the first one is at `where`."""
        return [(piece, Where(*map(add, where, from_first))) for piece, from_first in self.pieces]


class Runs:
    """Cache of the runs of steps of a launch, shared by its blocks."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Run, Where]] = {}
        self._runs: dict[tuple[tuple[Hashable, Where], ...], Run] = {}

    def of(self, key: Hashable, pieces: Callable[[], Iterable[tuple[Hashable, Where]]]) -> tuple[Run, Where]:
        """Return the run cached under `key` (at first made of `pieces()`) and the place of its first step, Where() if it has
        none.
        """
        if key not in self._known:
            listed = list(pieces())
            first = listed[0][1] if listed else Where()
            counted = tuple([(piece, Where(*map(sub, where, first))) for piece, where in listed])
            self._known[key] = self._runs.setdefault(counted, Run(counted)), first
        return self._known[key]


class Step(NamedTuple):
    """One base block of K: its gradOutput `pixels`, the pixels of A and B that L1 holds, the input rows `held` of B."""

    pixels: Span
    in_a1: Span
    in_b1: Span
    held: InputRows

    def at(self, problem: ConvProblem, row: int) -> Step:
        """Return the step moved down by `row` rows of gradOutput, with its input rows moved by the stride."""
        pixels = row * problem.w_out
        held = self.held._replace(first=self.held.first + row * problem.stride_h)
        own, in_a1, in_b1 = (Span(pixels + first, count) for first, count in self[:3])
        return Step(own, in_a1, in_b1, held)


def steps_of(problem: ConvProblem, first: int, pixels: int, base_k: int, span_a: int, span_b: int) -> Iterator[Step]:
    """Yield the base blocks (`base_k`) of `pixels` gradOutput pixels from `first` on, without those that read padding only.

    L1 holds A for `span_a` pixels at a time, and B for `span_b`.
    """
    end = first + pixels
    for pixel in range(first, end, base_k):
        count = min(base_k, end - pixel)
        start_a, start_b = (pixel - (pixel - first) % span for span in (span_a, span_b))
        in_b1 = Span(start_b, min(span_b, end - start_b))
        held = input_rows(problem, start_b, start_b + in_b1.length)
        if problem.w_in and held.rows > 0 and input_rows(problem, pixel, pixel + count).rows > 0:
            yield Step(Span(pixel, count), Span(start_a, min(span_a, end - start_a)), in_b1, held)


@frozen(eq=False)
class StripWalk:
    """Strips in order, each with its steps, which are relative to a row; equal walks of a launch are one object."""

    parts: tuple[tuple[Strip, tuple[Step, ...]], ...]


class TaskWalks:
    """Cache of the walks (steps over gradOutput rows) of a launch, shared by its blocks."""

    def __init__(self, problem: ConvProblem, tiling: GradWeightTiling) -> None:
        self._problem, self._tiling = problem, tiling
        self._known: dict[tuple[int, int, int], tuple[StripWalk, int]] = {}
        self._walks: dict[tuple[tuple[Strip, tuple[Step, ...]], ...], StripWalk] = {}

    def of(self, tap: int, first: int, rows: int) -> tuple[StripWalk, int]:
        """Return (walk over `rows` rows of a task from row `first` on, row to which its steps are relative); made at
        the first call. `tap` matters with single taps only.
        """
        key = tap, first, rows
        if key not in self._known:
            self._known[key] = self._made(*key)
        return self._known[key]

    def _made(self, tap: int, first: int, rows: int) -> tuple[StripWalk, int]:
        """Return (walk, row to which its steps are relative) for `of`; an equal walk that exists is returned instead."""
        sections = walk(self._problem, self._tiling, tap, first, rows)
        top = sections[0][1] if sections else 0
        parts = []
        for strip, row, count in sections:
            steps = self.steps(strip.problem, row, count)
            parts.append((strip, tuple([step.at(strip.problem, -top) for step in steps])))
        key = tuple(parts)
        return self._walks.setdefault(key, StripWalk(key)), top

    def steps(self, problem: ConvProblem, first: int, rows: int) -> Iterator[Step]:
        """Yield the base blocks of `rows` rows of a strip from row `first` on, with the tiling's K in L1."""
        tiling, width = self._tiling, problem.w_out
        spans = tiling.base_k, tiling.step_ka * tiling.base_k, tiling.step_kb * tiling.base_k
        return steps_of(problem, first * width, rows * width, *spans)
