"""Orders in which grad_weight goes over gradOutput pixels, and how many input pixels L1 must hold for a run of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.window import spanned_rows


class Walk(ABC):
    """Interface of an order in which grad_weight goes over gradOutput; `grad_weight.operand` has the loads of each."""

    @abstractmethod
    def input_pixels(self, problem: ConvProblem, pixels: int, *, clipped: bool) -> int:
        """Return how many input pixels L1 holds for a run of `pixels` gradOutput pixels; `clipped`: no more rows than the input
        has.
        """


@frozen
class Windows(Walk):
    """Walk row by row over gradOutput: L1 holds whole input rows, from which load3d takes its windows.

    `last_width` is the width of the last strip's rows if the problem is made of strips and the last is narrower, else 0.
    """

    last_width: int = 0

    def input_pixels(self, problem: ConvProblem, pixels: int, *, clipped: bool) -> int:
        """Return an upper bound of the input pixels that L1 holds for a run of `pixels` gradOutput pixels (at least 1), in
        whole rows.

        With strips of two widths the larger count holds. `clipped`: no more rows than the input has.
        """
        p, found = problem, []
        for width in {p.w_out, self.last_width or p.w_out}:
            rows = input_rows_of(p, max(pixels, 1), width)
            columns = p.w_in if width == p.w_out else (width - 1) * p.stride_w + (p.k_w - 1) * p.dilation_w + 1
            found.append((min(rows, p.h_in) if clipped else rows) * min(columns, p.w_in))
        return max(found)


WHOLE_ROWS = Windows()


@frozen
class SingleTaps(Walk):
    """Walk over gradOutput tap by tap: each pixel reads one input pixel, and taps are the problem's kernel planes."""

    def input_pixels(self, problem: ConvProblem, pixels: int, *, clipped: bool) -> int:
        return pixels


TAPS = SingleTaps()


def input_rows_of(problem: ConvProblem, pixels: int, width: int) -> int:
    """Return an upper bound of the input rows, from the first to the last, that a run of `pixels` gradOutput pixels in rows of
    `width` reads; runs begin at multiples of `pixels` (`spanned_rows`).

    Rows of padding count, and the input's height is no limit.
    """
    rows = spanned_rows(pixels, width)
    return (rows - 1) * problem.stride_h + (problem.k_h - 1) * problem.dilation_h + 1
