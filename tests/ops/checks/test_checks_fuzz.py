"""Whatever stands in a call, the checks end in a status; what they accept is one convolution."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from ascend_sim.ops.operators.convolution_backward.normalise import normalise
from tests.support.ops.check_calls import LABEL, check
from tests.support.sampling import sampled

PRODUCTS = ("310P", "910", "910B", "910_93", "910_95")
CONFORMANCES = ("documented", "library")
DTYPES = ("float32", "float16", "bfloat16", "hifloat8", "float8_e4m3fn", "int8", "undefined", "")
FORMATS = ("NCL", "NCHW", "NCDHW", "ND", "NHWC", "NC1HWC0", "")
STATUSES = {0, 161001, 161002, 561103}

small = st.integers(-2, 9)
number = st.one_of(small, small, small, st.integers(), st.just(10**6000))
numbers = st.lists(number, max_size=8).map(tuple)
tensor = st.builds(
    TensorArg,
    st.one_of(st.lists(small, max_size=8), st.lists(number, max_size=8)).map(tuple),
    st.sampled_from(DTYPES),
    st.sampled_from(FORMATS),
    st.none() | numbers,
)
pointer = st.one_of(tensor, tensor, tensor, tensor, st.none())
array = st.one_of(numbers, numbers, st.none())
mask = st.none() | st.lists(st.booleans(), max_size=4).map(tuple)
wild_conv = st.builds(
    ConvBackwardCall,
    pointer,
    pointer,
    pointer,
    array,
    array,
    array,
    array,
    st.booleans(),
    array,
    number,
    mask,
    number,
    pointer,
    pointer,
    pointer,
)
wild_tbc = st.builds(ConvTbcCall, pointer, pointer, pointer, pointer, number, number, pointer, pointer, pointer)


@st.composite
def near_valid(draw):
    """A consistent call with at most two fields replaced by something wild, so that the late rules are reached too."""
    axes = draw(st.integers(1, 3))
    transposed = draw(st.booleans())
    groups, per_group = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    dtype = draw(st.sampled_from(DTYPES[:5]))

    def values(low, high):
        return tuple(draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes)))

    kernel, stride, dilation, padding = values(1, 3), values(1, 3), values(1, 2), values(0, 2)
    y = values(1, 3)
    columns = zip(y, stride, kernel, dilation, padding, strict=True)
    x = tuple(max(0, (o - 1) * s + (k - 1) * d + 1 - 2 * p) for o, s, k, d, p in columns)
    n, out_channels = draw(st.integers(0, 2)), groups * draw(st.integers(1, 2))
    x_shape, y_shape = (n, groups * per_group, *x), (n, out_channels, *y)
    grad_output, data = (x_shape, y_shape) if transposed else (y_shape, x_shape)
    weight = (out_channels, per_group, *kernel)
    label = LABEL[axes + 2]
    tensors = [TensorArg(shape, dtype, label) for shape in (grad_output, data, weight)]
    bias = TensorArg(grad_output[1:2], dtype, "ND")
    fields = [
        *tensors, grad_output[1:2], stride, padding, dilation, transposed, (0,) * axes, groups,
        tuple(draw(st.lists(st.booleans(), min_size=3, max_size=3))), draw(st.integers(0, 3)),
        tensors[1], tensors[2], bias,
    ]  # fmt: skip
    wild = [pointer] * 3 + [array] * 4 + [st.booleans(), array, number, mask, number] + [pointer] * 3
    for position in draw(st.lists(st.integers(0, len(fields) - 1), max_size=2)):
        fields[position] = draw(wild[position])
    return ConvBackwardCall(*fields)


def assert_sound(result):
    assert result.status in STATUSES
    verdicts = [verdict for _, verdict in result.trace]
    assert verdicts.count("fail") == (result.status != 0) == (result.failure is not None)
    assert result.failure is None or (result.failure.status == result.status and len(result.failure.message) < 700)


@sampled(100, 400)
@given(st.one_of(wild_conv, near_valid(), wild_tbc), st.sampled_from(PRODUCTS), st.sampled_from(CONFORMANCES), st.booleans())
def test_every_call_ends_in_a_status(call, product, conformance, deterministic):
    assert_sound(check(call, product, conformance, deterministic=deterministic))


@sampled(100, 400)
@given(near_valid(), st.sampled_from(PRODUCTS), st.sampled_from(CONFORMANCES))
def test_an_accepted_call_without_empty_tensors_is_one_convolution(call, product, conformance):
    result = check(call, product, conformance)
    assert_sound(result)
    tensors = (call.grad_output, call.input, call.weight)
    if (
        result.status == 0
        and not any(t.is_empty for t in tensors)
        and (conformance == "documented" or any(call.output_mask[:2]))
    ):
        p = normalise(call).problem
        for axis, low, high in (("d", p.pad_front, p.pad_back), ("h", p.pad_up, p.pad_down), ("w", p.pad_left, p.pad_right)):
            x, y, kernel, stride, dilation = (
                getattr(p, f"{name}_{axis}" if name in ("k", "stride", "dilation") else f"{axis}_{name}")
                for name in ("in", "out", "k", "stride", "dilation")
            )
            assert x + low + high - (kernel - 1) * dilation - 1 == (y - 1) * stride


@pytest.mark.slow
def test_a_hundred_thousand_random_calls_end_in_a_status():
    draw = random.Random(20240)

    def value():
        return draw.choice((-1, 0, 1, 1, 1, 2, 2, 3, 4, 16, 255, 256, 65536, 2**31, 2**63, 10**40))

    def values():
        return None if draw.random() < 0.02 else tuple(value() for _ in range(draw.choice((0, 1, 2, 2, 3, 4, 5))))

    def some_tensor(rank):
        shape = tuple(value() for _ in range(rank if draw.random() < 0.95 else draw.randrange(9)))
        dtype = "float16" if draw.random() < 0.9 else draw.choice(DTYPES)
        label = LABEL.get(len(shape), "ND") if draw.random() < 0.95 else draw.choice(FORMATS)
        return None if draw.random() < 0.02 else TensorArg(shape, dtype, label)

    def conv():
        rank = draw.choice((3, 4, 5))
        tensors = [some_tensor(rank) for _ in range(3)]
        mask_bits = tuple(draw.random() < 0.5 for _ in range(3))
        outputs = [tensors[1], tensors[2], some_tensor(1)] if draw.random() < 0.8 else [some_tensor(rank) for _ in range(3)]
        return ConvBackwardCall(
            *tensors,
            values(),
            values(),
            values(),
            values(),
            draw.random() < 0.5,
            values(),
            value(),
            mask_bits,
            draw.randrange(-1, 5),
            *outputs,
        )

    def tbc():
        tensors = [some_tensor(3), some_tensor(3), some_tensor(3), some_tensor(1)]
        return ConvTbcCall(*tensors, value(), draw.randrange(-1, 5), *(tensors[1:] if draw.random() < 0.8 else tensors[:3]))

    for make in (conv, tbc):
        calls = [make() for _ in range(100_000)]
        start = time.perf_counter()
        results = [check(call, draw.choice(PRODUCTS), draw.choice(CONFORMANCES)) for call in calls]
        print(f"\n{make.__name__}: {len(calls) / (time.perf_counter() - start):.0f} calls/s")
        assert {result.status for result in results} <= STATUSES
        assert {161001, 161002} <= {result.status for result in results}
