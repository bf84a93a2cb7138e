"""The problem that a convolution over time becomes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.ops.operators.conv_tbc_backward.accept import normalise_tbc
from tests.support.ops.check_calls import tbc_call
from tests.support.ops.normalised import convolve, torch


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_the_problem_of_tbc_gives_torchs_gradients(time, batch, kernel, pad, batch_on_width):
    if time + 2 * pad - kernel + 1 < 1:
        return
    call = tbc_call(time=time, batch=batch, kernel=kernel, pad=pad)
    gy, x, w, b = (torch.randn(t.shape, dtype=torch.float64) for t in (call.self, call.input, call.weight, call.bias))
    want_input, want_weight, _ = torch.ops.aten.conv_tbc_backward(gy, x, w, b, pad)
    found = normalise_tbc(call, batch_on_width=batch_on_width)
    p = found.problem

    def image(t):  # [T, B, C] -> [N, C, D, H, W]
        return t.permute(2, 0, 1)[None, :, None] if batch_on_width else t.permute(1, 2, 0)[:, :, None, None]

    kernel_view = w.permute(2, 1, 0)
    kernel_view = kernel_view[:, :, None, :, None] if batch_on_width else kernel_view[:, :, None, None]
    kernel_view, source = kernel_view.clone().requires_grad_(), image(x).clone().requires_grad_()
    y = convolve(p, source, kernel_view)
    assert y.shape == (p.n, p.c_out, p.d_out, p.h_out, p.w_out) and source.shape == (p.n, p.c_in, p.d_in, p.h_in, p.w_in)
    y.backward(image(gy))
    torch.testing.assert_close(source.grad, image(want_input))
    torch.testing.assert_close(kernel_view.grad.reshape(6, 4, kernel), want_weight.permute(2, 1, 0))
