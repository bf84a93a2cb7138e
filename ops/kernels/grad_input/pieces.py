"""Kernels cut by rows or by taps: grad_input as a sum of convolutions with one kernel row, or one tap, each.

A kernel whose window or weights L1 does not hold, or that has larger numbers than load3d, is taken piece by piece, as a 3-D
kernel is taken plane by plane: each piece loads the gradOutput that it alone sees and adds to the same tile of L0C. (That the
library cuts such kernels so on dav-3510: stated. That it has a way for them on dav-2201, whose tiling is not open: assumed.
That smaller blocks and strips are tried first, and what is loaded: ours.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ascend_sim.ops.kernels.grad_input.split import Part, strip_problem
from ascend_sim.ops.kernels.grad_input.window import dilated_width, pad_before
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_div

UNCUT, NO_HK, NO_HK_WK = 0, 2, 3
"""The vendor's numbers (loadB1: stated) of kernels that are whole, and cut by rows and by taps."""


def cut_problem(problem: ConvProblem, cut: int) -> ConvProblem:
    """The problem that a tiling is made for: that of any piece, with as many rows and columns as one can need.

    Its rows reach the last one of dx, so that none of the padding below, which a stride may leave more of than load3d has a
    field for, counts as padding of a piece: a tile takes what it sees of it.
    """
    p = problem
    if cut == UNCUT:
        return p
    tall = max(p.h_out, ceil_div(p.h_in - 1, p.stride_h) + 1)
    p = replace(p, k_h=1, dilation_h=1, h_out=tall, pad_up=0, pad_down=0)
    if cut == NO_HK_WK:
        columns = ceil_div(min(p.w_in, dilated_width(p)), p.stride_w)
        p = replace(p, k_w=1, dilation_w=1, w_out=columns, pad_left=0, pad_right=0)
    return p


@lru_cache(maxsize=1024)
def kernel_pieces(problem: ConvProblem, part: Part, cut: int) -> tuple[Part, ...]:
    """What a strip (or the whole map) is the sum of: kernel rows, or taps, without those that reach no gradOutput."""
    if cut == UNCUT:
        return (part,)
    p = problem
    up, left = pad_before(p)
    width = 1 if cut == NO_HK_WK else p.k_w
    found = []
    for row in range(p.k_h):
        for column in range(0, p.k_w, width):
            # img2col takes the taps in reverse; this piece's window begins so many rows and columns further
            piece = replace(
                p,
                k_h=1,
                dilation_h=1,
                pad_up=row * p.dilation_h - up,
                pad_down=0,
                k_w=width,
                dilation_w=p.dilation_w if width > 1 else 1,
                pad_right=0,
                pad_left=(width - 1) * p.dilation_w - left + column * p.dilation_w,
            )
            own, source = strip_problem(piece, part.column, part.problem.w_in)
            first = (p.k_h - 1 - row) * p.k_w + p.k_w - column - width
            if own.w_out:
                found.append(replace(part, problem=own, taps=tuple(range(first, first + width)), source=source))
    return tuple(found)
