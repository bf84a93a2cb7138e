"""The float64 reference against torch, against loops written from the definition, and its memory bound."""

from __future__ import annotations

import itertools
import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.ops.convolution import reference
from ascend_sim.ops.convolution.reference import (
    grad_bias_reference,
    grad_input_reference,
    grad_weight_reference,
    products_per_element,
)
from ascend_sim.ops.problem.conv_problem import ConvProblem
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast


def make_problem(n, groups, channels, sizes, kernel, strides, dilations, pads):
    """A problem from (D, H, W) tuples and channels per group (in, out); the input grows until the kernel fits."""
    sizes = [
        max(size, (taps - 1) * dilation + 1 - low - high)
        for size, taps, dilation, (low, high) in zip(sizes, kernel, dilations, pads, strict=True)
    ]
    out = [
        (size + low + high - (taps - 1) * dilation - 1) // stride + 1
        for size, taps, stride, dilation, (low, high) in zip(sizes, kernel, strides, dilations, pads, strict=True)
    ]
    sides = itertools.chain(*pads)
    return ConvProblem(
        n, groups * channels[0], groups * channels[1], *sizes, *out, *kernel, *strides, *dilations, *sides, groups
    )


def axes(low, high):
    return st.tuples(*[st.integers(low, high)] * 3)


problems = st.builds(
    make_problem,
    n=st.integers(1, 3),
    groups=st.integers(1, 3),
    channels=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    sizes=axes(1, 7),
    kernel=axes(1, 3),
    strides=axes(1, 3),
    dilations=axes(1, 3),
    pads=st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 3),
)


def operands(problem, seed=0):
    """Small whole numbers, so that every float64 sum is exact in any order."""
    rng = np.random.default_rng(seed)
    p = problem
    shapes = (
        (p.n, p.c_out, p.d_out, p.h_out, p.w_out),
        (p.n, p.c_in, p.d_in, p.h_in, p.w_in),
        (p.c_out, p.c_in // p.groups, p.k_d, p.k_h, p.k_w),
    )
    return [rng.integers(-9, 10, shape).astype(np.float32) for shape in shapes]


def torch_gradients(problem, grad_output, input, weight):
    torch = pytest.importorskip("torch")
    p = problem
    grad_output, input, weight = (torch.from_numpy(a.astype(np.float64)) for a in (grad_output, input, weight))
    padded = torch.nn.functional.pad(input, (p.pad_left, p.pad_right, p.pad_up, p.pad_down, p.pad_front, p.pad_back))
    grad_input, grad_weight, grad_bias = torch.ops.aten.convolution_backward(
        grad_output,
        padded,
        weight,
        [p.c_out],
        [p.stride_d, p.stride_h, p.stride_w],
        [0, 0, 0],
        [p.dilation_d, p.dilation_h, p.dilation_w],
        False,
        [0, 0, 0],
        p.groups,
        [True, True, True],
    )
    crop = grad_input[:, :, p.pad_front :, p.pad_up :, p.pad_left :][:, :, : p.d_in, : p.h_in, : p.w_in]
    return crop.numpy(), grad_weight.numpy(), grad_bias.numpy()


def loop_gradients(problem, grad_output, input, weight):
    """Every product of the definition, one at a time."""
    p = problem
    grad_input, grad_weight = np.zeros(input.shape), np.zeros(weight.shape)
    c_in, c_out = p.c_in // p.groups, p.c_out // p.groups
    strides, dilations = (p.stride_d, p.stride_h, p.stride_w), (p.dilation_d, p.dilation_h, p.dilation_w)
    for n, co, *at in np.ndindex(grad_output.shape):
        for ci, *tap in np.ndindex(weight.shape[1:]):
            where = [
                o * stride + k * dilation - pad
                for o, k, stride, dilation, pad in zip(
                    at, tap, strides, dilations, (p.pad_front, p.pad_up, p.pad_left), strict=True
                )
            ]
            if all(0 <= i < size for i, size in zip(where, input.shape[2:], strict=True)):
                pixel = (n, co // c_out * c_in + ci, *where)
                grad_input[pixel] += float(grad_output[(n, co, *at)]) * float(weight[(co, ci, *tap)])
                grad_weight[(co, ci, *tap)] += float(grad_output[(n, co, *at)]) * float(input[pixel])
    return grad_input, grad_weight


@sampled(20, 150)
@given(problem=problems, seed=st.integers(0, 99), columns=st.sampled_from([1, 2, 5, 17, 256]))
def test_every_sum_equals_torch_whatever_the_slab(problem, seed, columns):
    tensors = operands(problem, seed)
    grad_output, input, weight = tensors
    with patch.object(reference, "_SLAB_BYTES", 1), patch.object(reference, "_SLAB_COLUMNS", columns):
        got_input = grad_input_reference(problem, grad_output, weight, absolute=True)
        got_weight = grad_weight_reference(problem, grad_output, input, absolute=True)
    got_bias = grad_bias_reference(grad_output, absolute=True)
    for index, power in enumerate((np.positive, np.square, np.abs)):
        expected = torch_gradients(problem, *map(power, tensors))
        np.testing.assert_array_equal(got_input[index], expected[0])
        np.testing.assert_array_equal(got_weight[index], expected[1])
        np.testing.assert_array_equal(got_bias[index], expected[2])


@settings(max_examples=15, deadline=None)
@given(
    problem=st.builds(
        make_problem,
        n=st.integers(1, 2),
        groups=st.integers(1, 2),
        channels=st.tuples(st.integers(1, 2), st.integers(1, 2)),
        sizes=axes(1, 3),
        kernel=axes(1, 2),
        strides=axes(1, 2),
        dilations=axes(1, 2),
        pads=st.tuples(*[st.tuples(st.integers(0, 1), st.integers(0, 1))] * 3),
    )
)
def test_equals_the_definition(problem):
    grad_output, input, weight = operands(problem)
    expected = loop_gradients(problem, grad_output, input, weight)
    np.testing.assert_array_equal(grad_input_reference(problem, grad_output, weight)[0], expected[0])
    np.testing.assert_array_equal(grad_weight_reference(problem, grad_output, input)[0], expected[1])


def layer(n, c_in, c_out, size, kernel, stride=1, pad=0, dilation=1, groups=1):
    flat = [(1, 1, (0, 0)), *[(kernel, stride, (pad, pad))] * 2]
    taps, strides, pads = zip(*flat, strict=True)
    channels = (c_in // groups, c_out // groups)
    return make_problem(n, groups, channels, (1, size, size), taps, strides, (1, dilation, dilation), pads)


def test_rounds_nothing_of_real_operands():
    problem = layer(4, 16, 24, 14, 3, pad=1)
    grad_output, input, weight = (a + np.float32(0.1) for a in operands(problem))
    expected = torch_gradients(problem, grad_output, input, weight)
    np.testing.assert_allclose(grad_input_reference(problem, grad_output, weight)[0], expected[0], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(grad_weight_reference(problem, grad_output, input)[0], expected[1], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(grad_bias_reference(grad_output)[0], expected[2], rtol=1e-13)


@pytest.mark.parametrize(
    ("problem", "products"),
    [
        (layer(2, 8, 6, 12, 3, pad=1), 6 * 9),
        (layer(2, 8, 6, 12, 3, stride=2, pad=1), 6 * 4),
        (layer(2, 8, 6, 16, 3, stride=2, dilation=2), 6 * 9),
        (layer(2, 8, 6, 16, 5, stride=3, dilation=2), 6 * 4),
        (layer(2, 8, 6, 12, 3, groups=2), 3 * 9),
    ],
)
def test_products_per_element_is_what_ones_add_up_to(problem, products):
    ones = [np.ones_like(tensor) for tensor in operands(problem)]
    counted = products_per_element(problem)
    assert counted["grad_input"] == products == grad_input_reference(problem, ones[0], ones[2])[0].max()
    assert counted["grad_weight"] == problem.n * problem.h_out * problem.w_out
    assert counted["grad_weight"] >= grad_weight_reference(problem, ones[0], ones[1])[0].max()
    assert counted["grad_bias"] == grad_bias_reference(ones[0])[0].max()


@settings(max_examples=50, deadline=None)
@given(problem=problems)
def test_products_per_element_is_never_too_few(problem):
    ones = [np.ones_like(tensor) for tensor in operands(problem)]
    counted = products_per_element(problem)
    assert counted["grad_input"] >= grad_input_reference(problem, ones[0], ones[2])[0].max()
    assert counted["grad_weight"] >= grad_weight_reference(problem, ones[0], ones[1])[0].max()


@pytest.mark.parametrize(
    "problem",
    [
        layer(4, 32, 32, 56, 3, pad=1),
        make_problem(1, 1, (8, 8), (1, 1, 200_000), (1, 1, 9), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (4, 4))),
    ],
    ids=["images", "one long row"],
)
def test_memory_stays_near_the_slab(problem):
    """The whole im2col matrix would take over 28 MB of float64 (115 MB for the long row)."""
    grad_output, input, weight = operands(problem)
    for call, operand in ((grad_input_reference, weight), (grad_weight_reference, input)):
        tracemalloc.start()
        try:
            results = call(problem, grad_output, operand)
            extra = tracemalloc.get_traced_memory()[1] - sum(result.nbytes for result in results)
        finally:
            tracemalloc.stop()
        assert extra < 5 * reference._SLAB_BYTES


def test_empty_batch_and_no_channels_give_zeros():
    for problem in (layer(0, 4, 6, 5, 3), layer(2, 0, 6, 5, 3)):
        grad_output, input, weight = operands(problem)
        grad_input = grad_input_reference(problem, grad_output, weight)
        grad_weight = grad_weight_reference(problem, grad_output, input)
        assert [part.shape for part in grad_input] == [input.shape] * 2
        assert [part.shape for part in grad_weight] == [weight.shape] * 2
        assert not any(part.any() for part in (*grad_input, *grad_weight))


def test_a_wrong_shape_is_named():
    problem = layer(1, 2, 2, 5, 3)
    grad_output, input, weight = operands(problem)
    with pytest.raises(ValueError, match=r"weight has shape \[2, 2, 3, 3\], the problem needs \[2, 2, 1, 3, 3\]"):
        grad_input_reference(problem, grad_output, weight[:, :, 0])
    with pytest.raises(ValueError, match="grad_output has shape"):
        grad_weight_reference(problem, input, input)
