"""The normalised problem: every rank of convolution backward as one 3-D problem (1-D and 2-D have D = 1)."""

from __future__ import annotations

from ascend_sim.frozen import frozen


@frozen
class ConvProblem:
    """One convolution, not transposed: `input` (x) convolved with `weight` gives the map (y) that `grad_output` belongs
    to.

    Sizes are elements. `pad_front/up/left` stand before the first element of D/H/W, `pad_back/down/right` behind the
    last.
    """

    n: int
    c_in: int
    c_out: int
    d_in: int
    h_in: int
    w_in: int
    d_out: int
    h_out: int
    w_out: int
    k_d: int
    k_h: int
    k_w: int
    stride_d: int = 1
    stride_h: int = 1
    stride_w: int = 1
    dilation_d: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_front: int = 0
    pad_back: int = 0
    pad_up: int = 0
    pad_down: int = 0
    pad_left: int = 0
    pad_right: int = 0
    groups: int = 1

    @property
    def one_row(self) -> bool:
        """Return True for a signal: one row of each map and of the kernel, nothing above, below, before or behind it."""
        rows = self.d_in, self.d_out, self.h_in, self.h_out, self.k_d, self.k_h
        pads = self.pad_front, self.pad_back, self.pad_up, self.pad_down
        return set(rows) == {1} and not any(pads)

    @property
    def plane_products(self) -> int:
        """Return the number of pairs (gradOutput plane, kernel plane) that read an input plane and not padding."""
        places = range(-self.pad_front, self.d_out * self.stride_d - self.pad_front, self.stride_d)
        return sum(0 <= place + tap * self.dilation_d < self.d_in for place in places for tap in range(self.k_d))

    @property
    def met_macs(self) -> int:
        """Return `macs` without those of kernel planes that lie in padding, which no kernel multiplies."""
        return self.macs * self.plane_products // max(self.d_out * self.k_d, 1)

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of one gradient (grad_input and grad_weight need the same number)."""
        taps = self.k_d * self.k_h * self.k_w
        return self.n * self.c_out * self.d_out * self.h_out * self.w_out * (self.c_in // self.groups) * taps
