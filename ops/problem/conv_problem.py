"""Normalised problem of a convolution: every rank as one 3-D problem (1-D and 2-D have D = 1)."""

from __future__ import annotations

from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.sizes import ceil_div, floor_sum


@frozen
class ConvProblem:
    """One convolution x -> y, not transposed: x has `c_in` channels of `d_in` x `h_in` x `w_in`, y has `c_out` channels
    of `d_out` x `h_out` x `w_out`.

    Sizes are elements, `c_in` and `c_out` of all groups. `pad_front/up/left` stand before the first element of D/H/W,
    `pad_back/down/right` behind the last; a negative padding crops. The kernels grad_input and grad_weight call y gradOutput.
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
        """Return True for a 1-D problem: D and H of both maps and of the kernel are 1, without padding along D or H."""
        rows = self.d_in, self.d_out, self.h_in, self.h_out, self.k_d, self.k_h
        pads = self.pad_front, self.pad_back, self.pad_up, self.pad_down
        return set(rows) == {1} and not any(pads)

    @property
    def plane_products(self) -> int:
        """Return the number of pairs (output plane, kernel plane) of one image whose input plane exists, and is not padding."""
        return self._planes_before(self.d_in) - self._planes_before(0)

    def _planes_before(self, end: int) -> int:
        """Return the number of pairs (output plane, kernel plane) whose input plane is before plane `end`, padding included.

        The sum over the kernel planes is in closed form: both counts may be beyond 2^31.
        """
        reach, stride, dilation = end + self.pad_front, self.stride_d, self.dilation_d
        taps = min(max(ceil_div(reach, dilation), 0), self.k_d)
        full = min(max(ceil_div(reach - self.d_out * stride, dilation), 0), taps)
        last = reach - (taps - 1) * dilation
        return full * self.d_out + floor_sum(taps - full, dilation, stride, last + stride - 1)

    @property
    def met_macs(self) -> int:
        """Return `macs` without the products of kernel planes that lie wholly in padding along D, which no kernel computes."""
        return self.macs * self.plane_products // max(self.d_out * self.k_d, 1)

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of the whole convolution, or of one of its gradients: every output element times
        every tap of its group's input channels, those in padding too.
        """
        taps = self.k_d * self.k_h * self.k_w
        return self.n * self.c_out * self.d_out * self.h_out * self.w_out * (self.c_in // self.groups) * taps
