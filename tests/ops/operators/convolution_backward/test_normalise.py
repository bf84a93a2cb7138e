"""The normalised problem against torch: padding x exactly and convolving gives y, and the gradients of the call."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.errors import AclnnError
from ascend_sim.ops.operators.convolution_backward.normalise import normalise
from tests.support.ops.check_calls import conv_call
from tests.support.ops.normalised import F, convolve, torch
from tests.support.sampling import sampled


@st.composite
def convolutions(draw):
    """(call, geometry) of any rank; input sizes leave a remainder that the kernel does not reach."""
    axes = draw(st.integers(1, 3))

    def values(low, high, length=axes):
        return tuple(draw(st.lists(st.integers(low, high), min_size=length, max_size=length)))

    transposed, groups = draw(st.booleans()), draw(st.integers(1, 2))
    kernel, stride, dilation = values(1, 3), values(1, 3), values(1, 3)
    four = axes == 2 and draw(st.booleans())
    padding = values(0, 2, 4 if four else axes)
    low_high = [(padding[0], padding[1]), (padding[2], padding[3])] if four else [(p, p) for p in padding]
    remainder = tuple(draw(st.integers(0, s - 1)) for s in stride)
    y = values(1, 3)
    x = tuple(
        (o - 1) * s + (k - 1) * d + 1 - low - high + r
        for o, s, k, d, (low, high), r in zip(y, stride, kernel, dilation, low_high, remainder, strict=True)
    )
    x = tuple(max(1, size) for size in x)
    n = draw(st.integers(1, 2))
    weight = (groups * draw(st.integers(1, 2)), draw(st.integers(1, 2)), *kernel)
    y = tuple(
        (size + low + high - (k - 1) * d - 1) // s + 1
        for size, (low, high), k, d, s in zip(x, low_high, kernel, dilation, stride, strict=True)
    )
    x_shape, y_shape = (n, weight[1] * groups, *x), (n, weight[0], *y)
    grad_output, data = (x_shape, y_shape) if transposed else (y_shape, x_shape)
    extra = tuple(
        size - ((o - 1) * s + (k - 1) * d + 1 - low - high)
        for size, o, s, k, d, (low, high) in zip(x, y, stride, kernel, dilation, low_high, strict=True)
    )
    output_padding = extra if transposed else (0,) * axes
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    return conv_call(grad_output, data, weight, transposed=transposed, groups=groups, **attributes)


def as_problem(tensor, names):
    """[.., spatial] -> [.., D, H, W] with the axes where the problem has them."""
    shape = list(tensor.shape[:2])
    sizes = dict(zip(names, tensor.shape[2:], strict=True))
    return tensor.reshape(*shape, *(sizes.get(name, 1) for name in "DHW"))


@sampled(40, 150)
@given(convolutions())
def test_the_problem_of_a_convolution_gives_torchs_gradients(call):
    torch.manual_seed(0)
    gy, x, w = (torch.randn(t.shape, dtype=torch.float64) for t in (call.grad_output, call.input, call.weight))
    padding = call.padding
    pads_differ = len(padding) == 4 and len(call.stride) == 2
    if pads_differ:  # torch has no such argument: pad (or crop) by hand around an unpadded convolution
        up, down, left, right = padding
        if call.transposed:
            grown = F.pad(gy, (left, right, up, down))
            want_input, want_weight, _ = torch.ops.aten.convolution_backward(
                grown[
                    ...,
                    : (x.shape[2] - 1) * call.stride[0] + (w.shape[2] - 1) * call.dilation[0] + 1,
                    : (x.shape[3] - 1) * call.stride[1] + (w.shape[3] - 1) * call.dilation[1] + 1,
                ],
                x,
                w,
                [1],
                call.stride,
                [0, 0],
                call.dilation,
                True,
                [0, 0],
                call.groups,
                [True, True, False],
            )
        else:
            big = F.pad(x, (left, right, up, down))
            grown, want_weight, _ = torch.ops.aten.convolution_backward(
                gy, big, w, [1], call.stride, [0, 0], call.dilation, False, [0, 0], call.groups, [True, True, False]
            )
            want_input = grown[..., up : up + x.shape[2], left : left + x.shape[3]]
    else:
        want_input, want_weight, _ = torch.ops.aten.convolution_backward(
            gy,
            x,
            w,
            [1],
            call.stride,
            padding,
            call.dilation,
            call.transposed,
            call.output_padding,
            call.groups,
            [True, True, False],
        )
    found = normalise(call)
    p, names = found.problem, found.spatial_axes
    kernel = as_problem(w, names).requires_grad_()
    source, target = (gy, x) if call.transposed else (x, gy)
    source = as_problem(source, names).requires_grad_()
    y = convolve(p, source, kernel)
    assert y.shape == (p.n, p.c_out, p.d_out, p.h_out, p.w_out)
    assert source.shape == (p.n, p.c_in, p.d_in, p.h_in, p.w_in)
    y.backward(as_problem(target, names))
    input_gradient = y.detach() if call.transposed else source.grad
    torch.testing.assert_close(input_gradient.reshape(want_input.shape), want_input)
    torch.testing.assert_close(kernel.grad.reshape(want_weight.shape), want_weight)


def test_trailing_padding_is_what_the_kernel_really_reads():
    call = conv_call((1, 1, 2, 3), (1, 1, 6, 7), (1, 1, 2, 3), stride=(3, 3), padding=(0, 1))
    found = normalise(call)
    assert (found.problem.pad_up, found.problem.pad_down) == (0, -1)  # the last row of six is never read
    assert (found.problem.pad_left, found.problem.pad_right) == (1, 1)
    assert found.declared_padding == (0, 0, 0, 0, 1, 1)


def test_a_grouped_1d_convolution_lies_on_h_and_every_other_on_w():
    plain = conv_call((1, 4, 4), (1, 4, 6), (4, 4, 3))
    grouped = conv_call((1, 4, 4), (1, 4, 6), (4, 2, 3), groups=2)
    tuned = conv_call((1, 4, 6), (1, 4, 96), (4, 2, 3), groups=2, dilation=(45,))
    turned = conv_call((1, 4, 6), (1, 4, 4), (4, 2, 3), groups=2, transposed=True)
    assert [normalise(call).spatial_axes for call in (plain, grouped, tuned, turned)] == [("W",), ("H",), ("W",), ("W",)]


@pytest.mark.parametrize(
    "changes",
    [{"stride": (1,)}, {"stride": (2, 2)}, {"groups": 2}, {"padding": (0, 0, 0)}],
    ids=["length", "size", "groups", "padding"],
)
def test_shapes_that_do_not_fit_end_in_561103(changes):
    call = conv_call((2, 8, 4, 4), (2, 4, 6, 6), (8, 4, 3, 3))
    with pytest.raises(AclnnError) as error:
        normalise(replace(call, **changes))
    assert error.value.status == 561103
