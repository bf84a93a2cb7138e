"""One test per ruling of docs/conformance.md: what is done where the documents contradict each other or themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.errors import AclnnError
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.checks.product import load_product
from tests.support.ops.check_calls import check, conv_call, failed_rule, status, tbc_call, with_dtype

pytestmark = pytest.mark.fast

GOOD = conv_call((2, 8, 4, 4), (2, 4, 6, 6), (8, 4, 3, 3))
DTYPES = ("float32", "float16", "bfloat16")
A2_TABLE = {
    "float32": ["float32", "hf32", "float16", "hf32"],
    "float16": ["float16"] * 4,
    "bfloat16": ["bfloat16", "bfloat16", None, None],
}
FP16_CUBE_TABLE = {"float32": [None, "float16", "float16", None], "float16": ["float16"] * 4, "bfloat16": [None] * 4}
REGBASE_TBC_TABLE = {
    "float32": ["float32", "hf32", "float16", "hf32"],
    "float16": ["float16", "float16", "float16", None],
    "bfloat16": ["bfloat16", "bfloat16", None, None],
}
TRAINING_TBC_TABLE = {
    "float32": [None, "float16", "float16", None],
    "float16": ["float16", "float16", "float16", None],
    "bfloat16": [None] * 4,
}


def test_ruling_1_tbc_shapes_are_those_of_001_and_products_those_of_002():
    assert status(tbc_call()) == 0
    table_of_002 = tbc_call(self=TensorArg((2, 6, 5), "float16"), input=TensorArg((2, 4, 5), "float16"))
    assert status(table_of_002) == 161002  # (N, C, H), which contradicts the formulas of the same document
    assert status(tbc_call(), "910") == status(tbc_call(), "910_95") == status(tbc_call(), "910_93") == 0
    refused = check(tbc_call(), "310P", "documented")
    assert failed_rule(refused) == "product.supported" and refused.status == 161002
    assert status(tbc_call(), "310P", "library") == 0
    assert status(conv_call((1, 1, 1), (1, 1, 1), (1, 1, 1)), "310P") == 0  # named by 000 and 004


@pytest.mark.parametrize(
    ("operator", "product", "table"),
    [
        ("convolution_backward", "310P", FP16_CUBE_TABLE),
        ("convolution_backward", "910", FP16_CUBE_TABLE),
        ("convolution_backward", "910B", A2_TABLE),
        ("convolution_backward", "910_93", A2_TABLE),
        ("conv_tbc_backward", "910B", {**A2_TABLE, "float16": ["float16", "float16", "float16", None]}),
        ("conv_tbc_backward", "910_93", {**A2_TABLE, "float16": ["float16", "float16", "float16", None]}),
        ("conv_tbc_backward", "910_95", REGBASE_TBC_TABLE),
        ("conv_tbc_backward", "910", TRAINING_TBC_TABLE),
    ],
)
def test_ruling_2_cube_math_type(operator, product, table):
    for dtype in DTYPES:
        for option in (-1, 0, 1, 2, 3, 4, 127):
            compute = table[dtype][option] if 0 <= option <= 3 else None
            choice = load_product(operator, product).compute_dtype(dtype, option, "documented")
            assert (choice.compute_dtype, choice.status) == (compute, 0 if compute else 161002), (dtype, option)
            make = conv_call((1, 2, 1), (1, 2, 1), (2, 2, 1), dtype=dtype) if operator[4] == "o" else tbc_call(dtype=dtype)
            assert status(replace(make, cube_math_type=option), product) == choice.status, (dtype, option)


def test_ruling_3_mixed_dtypes_promote_in_conv_backward_and_are_refused_in_tbc():
    mixed = replace(GOOD, weight=with_dtype(GOOD.weight, "bfloat16"), grad_weight=with_dtype(GOOD.weight, "bfloat16"))
    assert status(mixed) == 0
    for name in ("input", "weight", "bias"):
        call = tbc_call()
        call = replace(call, **{name: with_dtype(getattr(call, name), "float32")})
        assert failed_rule(check(call, "910B", "documented")) == "dtype.equal_inputs"
        assert status(call, conformance="library") == 0


@pytest.mark.parametrize("name", ["grad_input", "grad_weight", "grad_bias"])
def test_ruling_4_output_dtypes_follow_input_weight_and_grad_output(name):
    for good in (GOOD, tbc_call()):
        call = replace(good, **{name: with_dtype(getattr(good, name), "float32")})
        assert failed_rule(check(call, "910B", "documented")) == "dtype.outputs"
        assert status(call, conformance="library") == 0  # cast to whatever the output is
        assert status(call, "910_95", "library") == 161002


def test_ruling_4_each_output_has_the_dtype_of_its_own_input():
    inputs = {"grad_output": "float16", "input": "bfloat16", "weight": "float32"}
    outputs = {"grad_bias": "float16", "grad_input": "bfloat16", "grad_weight": "float32"}
    mixed = replace(GOOD, **{name: with_dtype(getattr(GOOD, name), dtype) for name, dtype in (inputs | outputs).items()})
    assert status(mixed) == status(mixed, "910_95", "library") == 0
    for name, own in outputs.items():
        for dtype in {*outputs.values()} - {own}:
            call = replace(mixed, **{name: with_dtype(getattr(mixed, name), dtype)})
            assert status(call) == status(call, "910_95", "library") == 161002, (name, dtype)


@pytest.mark.parametrize("dtype", ["hifloat8", "float8_e4m3fn"])
def test_ruling_4_tbc_grad_weight_may_have_8_bits_on_910_95_alone(dtype):
    for weight_dtype in DTYPES:
        call = tbc_call(dtype=weight_dtype)
        call = replace(call, grad_weight=with_dtype(call.grad_weight, dtype))
        assert status(call, "910_95") == 0
        assert status(call, "910B") == status(call, "910_95", "library") == 161002
    for name in ("self", "input", "weight", "bias", "grad_input", "grad_bias"):
        call = tbc_call()
        assert status(replace(call, **{name: with_dtype(getattr(call, name), dtype)}), "910_95") == 161002


def test_ruling_5_null_pointers():
    always = ("grad_output", "input", "weight", "bias_sizes", "stride", "padding", "dilation", "output_padding")
    always += ("output_mask", "grad_input", "grad_weight")
    nothing = replace(GOOD, output_mask=(False, False, False))
    for name in always:
        result = check(replace(nothing, **{name: None}), "910B", "documented")
        assert result.status == 161001, name
        assert result.failure.message.startswith(name.split("_")[0]) and "null pointer" in result.failure.message
    assert status(replace(nothing, grad_bias=None)) == 0
    assert status(replace(GOOD, grad_bias=None)) == 161001
    for name in ("bias_sizes", "grad_input", "grad_weight", "grad_bias"):
        assert status(replace(nothing, **{name: None}), conformance="library") == 0
    for position, name in enumerate(("grad_input", "grad_weight", "grad_bias")):
        wanted = tuple(index == position for index in range(3))
        assert status(replace(GOOD, output_mask=wanted, **{name: None}), conformance="library") == 161001
    for name in ("self", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias"):
        for conformance in ("documented", "library"):
            assert status(tbc_call(**{name: None}), conformance=conformance) == 161001


def relabelled(call, label):
    names = ("grad_output", "input", "weight", "grad_input", "grad_weight")
    return replace(call, **{name: replace(getattr(call, name), format=label) for name in names})


def test_ruling_6_formats():
    for label in ("NCL", "NCHW", "NCDHW"):
        assert status(relabelled(GOOD, label)) == 0
        assert status(relabelled(GOOD, label), conformance="library") == (0 if label == "NCHW" else 161002)
    for label in ("ND", "NHWC", "NC1HWC0"):
        assert status(relabelled(GOOD, label)) == 161002
    one_d = conv_call((2, 8, 4), (2, 4, 6), (8, 4, 3))
    assert status(relabelled(one_d, "ND")) == 0
    assert status(replace(one_d, weight=replace(one_d.weight, format="ND"))) == 0
    for label in ("NCL", "ND", "NCHW", "NCDHW", "NC"):
        assert status(relabelled(one_d, label), conformance="library") == (0 if label in ("NCL", "ND") else 161002)
    for name in ("grad_output", "input", "weight", "grad_input", "grad_weight"):
        assert status(replace(GOOD, **{name: replace(getattr(GOOD, name), format="NCDHW")})) == 161002
    assert status(replace(GOOD, grad_bias=replace(GOOD.grad_bias, format="NCHW"))) == 161002


def test_ruling_7_empty_tensors_of_conv_backward():
    no_batch = conv_call((0, 8, 4, 4), (0, 4, 6, 6), (8, 4, 3, 3))
    no_channels = conv_call((2, 8, 4, 4), (2, 0, 6, 6), (8, 0, 3, 3))
    transposed = conv_call((2, 8, 6, 6), (2, 0, 4, 4), (0, 8, 3, 3), transposed=True)
    for call in (no_batch, no_channels, transposed):
        assert status(call, "910B") == status(call, "910") == status(call, "910_95") == 0
    for call in (
        conv_call((0, 8, 4, 4), (2, 4, 6, 6), (8, 4, 3, 3)),
        conv_call((2, 0, 4, 4), (2, 4, 6, 6), (0, 4, 3, 3)),
        conv_call((2, 8, 4, 0), (2, 4, 6, 2), (8, 4, 3, 3)),
        conv_call((2, 8, 4, 4), (2, 4, 3, 3), (8, 4, 0, 3)),
        conv_call((2, 8, 4, 4), (2, 0, 6, 6), (8, 4, 3, 3)),
        conv_call((2, 8, 4, 4), (0, 4, 6, 6), (8, 4, 3, 3)),
        conv_call((2, 8, 2, 4), (2, 4, 0, 2), (8, 4, 3, 3), padding=(2, 2)),  # an empty H whose padding the kernel sees
    ):
        assert status(call) == 161002


def test_ruling_7_empty_tensors_of_tbc():
    no_batch = tbc_call(batch=0)
    assert status(no_batch, "910_95") == status(no_batch, "910") == 0
    assert failed_rule(check(no_batch, "910B", "documented")) == "empty.refused"
    assert status(no_batch, "910_95", "library") == 161002  # the library refuses an empty self
    no_input = tbc_call(time=0, kernel=1, pad=1)
    assert status(no_input, "910") == 0
    assert failed_rule(check(no_input, "910_95", "documented")) == "empty.signal"  # out has two steps
    assert {status(no_input, product, "library") for product in ("910", "910B", "910_95")} == {0}
    neither = tbc_call(time=0, kernel=3, pad=1)
    assert status(neither, "910_95") == status(neither, "910") == 0


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        (conv_call((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)), {"padding": (256, 0)}),
        (conv_call((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)), {"dilation": (1, 256)}),
        (conv_call((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1)), {"stride": (1, 64, 1)}),
        (conv_call((1, 1, 1, 1), (1, 1, 256, 1), (1, 1, 256, 1)), {}),
        (conv_call((1, 1, 1), (1, 1, 256), (1, 1, 256)), {}),
        (conv_call((1, 65536, 1), (1, 65536, 1), (65536, 1, 1), groups=65536), {}),
    ],
    ids=["padding", "dilation", "stride", "kernel", "kernel-1d", "groups"],
)
def test_ruling_8_ranges_are_refused_in_phase_one_on_910b_and_910_93(call, changes):
    call = replace(call, **changes)
    for product in ("910B", "910_93"):
        assert failed_rule(check(call, product, "documented")) == "ranges"
    assert failed_rule(check(call, "910B", "library")) not in ("ranges", "attributes.values")


def test_ruling_8_what_the_documents_leave_open_is_accepted():
    depth = conv_call((1, 1, 1, 1, 1), (1, 1, 300, 1, 1), (1, 1, 300, 1, 1), stride=(64, 1, 1))
    assert status(depth) == 0  # D has no upper limits
    wide = conv_call((1, 1, 1, 1), (1, 1, 256, 1), (1, 1, 256, 1), stride=(64, 64))
    small, row = TensorArg((1, 1, 1, 1), "float16", "NCHW"), TensorArg((1, 1, 1, 1), "float16", "NCHW")
    assert status(wide, "910") == 0  # the ranges are those of 910B and 910_93
    assert status(replace(wide, weight=small, grad_weight=small, input=row, grad_input=row)) == 0  # strides of 2-D
    grown = conv_call((1, 1, 300, 1), (1, 1, 1, 1), (1, 1, 300, 1), transposed=True)
    assert status(grown) == 0  # and of transposed=false


def test_ruling_8_tbc_ranges():
    for pad, expected in ((255, 0), (256, 161002), (-1, 161002)):
        call = tbc_call(pad=abs(pad), kernel=3, time=5)
        call = replace(call, pad=pad)
        assert status(call, "910B") == status(call, "910_95") == status(call, "910") == expected
    assert status(tbc_call(pad=256), conformance="library") == 0
    long = tbc_call(time=300, kernel=256)
    assert status(long, "910B") == status(long, "910_95") == 161002
    assert status(long, "910") == status(long, "910B", "library") == 0


def test_ruling_8_output_padding_is_below_stride_in_every_rank():
    for axes in (1, 2, 3):
        ones, shape = (1,) * axes, (1, 1, *(4,) * axes)
        kernel = (1, 1, *(2,) * axes)
        for extra, expected in ((0, 0), (1, 0), (2, 161002), (-1, 161002)):
            grown = (1, 1, *((4 - 1) * 2 + 2 + extra for _ in ones))
            call = conv_call(grown, shape, kernel, transposed=True, stride=(2,) * axes, output_padding=(extra,) * axes)
            assert status(call) == expected, (axes, extra)
            low_rank_passes = extra == 2 and axes < 3
            assert failed_rule(check(call, "910B", "library")) == (
                "output_padding.values" if expected and not low_rank_passes else "kernel.spatial" if expected else None
            )
    assert status(replace(GOOD, output_padding=(0, 1))) == 161002


def test_ruling_9_the_checks_leave_what_fits_no_tiling_to_the_plan():
    huge = conv_call((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), stride=(2**31, 1))
    assert status(huge) == 0  # no document limits it in 2-D; the tiling answers 561103


def test_ruling_10_950_follows_the_library_and_is_not_deterministic_by_default_under_the_documents():
    spec = load_product("convolution_backward", "950")
    assert spec.product == "910_95"
    for dtype in (*DTYPES, "hifloat8"):
        for option in range(4):
            documented, library = (spec.compute_dtype(dtype, option, name) for name in ("documented", "library"))
            assert documented.compute_dtype == library.compute_dtype and documented.status == library.status == 0
    assert spec.compute_dtype("bfloat16", 2).compute_dtype == "float16"
    assert "later document" in spec.documented.dtypes.source
    assert not spec.documented.deterministic_default.value and spec.library.deterministic_default.value
    for product in ("310P", "910", "910B", "910_93"):
        assert not load_product("convolution_backward", product).library.deterministic_default.value
    with pytest.raises(AclnnError, match="the current processor does not support convolution backward") as error:
        load_product("convolution_backward", "my_own_chip")
    assert error.value.status == 161002


@pytest.mark.parametrize("name", ["grad_input", "grad_weight"])
def test_ruling_11_non_contiguous_outputs(name):
    tbc, conv = tbc_call(), GOOD
    column_major = {len(shape): tuple(2 * size for size in range(len(shape), 0, -1)) for shape in ((1,) * 3, (1,) * 4)}
    tbc = replace(tbc, **{name: replace(getattr(tbc, name), strides=column_major[3])})
    conv = replace(conv, **{name: replace(getattr(conv, name), strides=column_major[4])})
    assert failed_rule(check(tbc, "910B", "documented")) == "contiguous.outputs"
    assert status(tbc, conformance="library") == 0
    assert status(conv) == status(conv, conformance="library") == 0
