"""Every rule of convolution backward: the smallest change to a good call that it refuses, under both profiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.checks.product import load_product
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.operators.convolution_backward.checks.rules import RULES
from tests.support.ops.check_calls import check, conv_call, failed_rule, status, with_dtype

pytestmark = pytest.mark.fast

TWO_D = conv_call((2, 8, 4, 4), (2, 4, 6, 6), (8, 4, 3, 3))
THREE_D = conv_call((2, 8, 4, 4, 4), (2, 4, 6, 6, 6), (8, 4, 3, 3, 3))
EMPTY = conv_call((0, 8, 4, 4), (0, 4, 6, 6), (8, 4, 3, 3))


def half(shape, label="NCHW"):
    return TensorArg(shape, "float16", label)


# (name, good call, changes, documented status and rule, library status and rule)
NULL, BAD = 161001, 161002
REFUSALS = [
    ("mask-length", TWO_D, {"output_mask": (True, True)}, (NULL, "output_mask.length"), (NULL, "output_mask.length")),
    ("negative", TWO_D, {"input": half((-2, 4, 6, 6))}, (BAD, "shape.negative"), (BAD, "shape.negative")),
    ("dtype", TWO_D, {"weight": with_dtype(TWO_D.weight, "int8")}, (BAD, "dtype.list"), (BAD, "dtype.list")),
    ("rank-2", TWO_D, {"input": half((2, 4))}, (BAD, "rank.list"), (BAD, "format.of_rank")),
    ("rank-6", TWO_D, {"weight": half((8, 4, 3, 3, 1, 1))}, (BAD, "rank.list"), (BAD, "format.of_rank")),
    ("ranks", TWO_D, {"weight": half((8, 4, 3), "NCHW")}, (BAD, "shape.ranks"), (BAD, "format.of_rank")),
    ("stride", TWO_D, {"stride": (0, 1)}, (BAD, "attributes.values"), (BAD, "attributes.values")),
    ("padding", TWO_D, {"padding": (0, -1)}, (BAD, "attributes.values"), (BAD, "attributes.values")),
    ("dilation", TWO_D, {"dilation": (1, 0)}, (BAD, "attributes.values"), (BAD, "attributes.values")),
    ("output-padding", TWO_D, {"output_padding": (1, 0)},
     (BAD, "output_padding.values"), (BAD, "output_padding.values")),
    ("groups", TWO_D, {"groups": 0}, (BAD, "groups.positive"), (BAD, "groups.positive")),
    ("cube-math", TWO_D, {"cube_math_type": 4}, (BAD, "cube_math_type"), (BAD, "cube_math_type")),
    ("empty-y", TWO_D, {"grad_output": half((0, 8, 4, 4))}, (BAD, "empty.documented"), (BAD, "shape.not_empty")),
    ("empty-rows", TWO_D, {"input": half((2, 4, 0, 6)), "grad_input": half((2, 4, 0, 6))},
     (BAD, "empty.documented"), (BAD, "empty.input")),
    ("grad-input", TWO_D, {"grad_input": half((2, 4, 6, 5))}, (BAD, "shape.outputs"), (BAD, "shape.outputs")),
    ("grad-weight", TWO_D, {"grad_weight": half((8, 4, 3, 1))}, (BAD, "shape.outputs"), (BAD, "shape.outputs")),
    ("grad-bias", TWO_D, {"grad_bias": half((7,), "ND")}, (BAD, "shape.outputs"), (BAD, "shape.outputs")),
    ("grad-bias-rank", TWO_D, {"grad_bias": half((8, 1), "ND")}, (BAD, "shape.outputs"), (BAD, "shape.outputs")),
    ("stride-length", TWO_D, {"stride": (1,)}, (BAD, "attributes.lengths"), (BAD, "attributes.lengths")),
    ("padding-length", TWO_D, {"padding": (0, 0, 0)}, (BAD, "attributes.lengths"), (BAD, "attributes.lengths")),
    ("extra-length", TWO_D, {"output_padding": (0,) * 4}, (BAD, "attributes.lengths"), (0, None)),
    ("bias-sizes", TWO_D, {"bias_sizes": (1,)}, (BAD, "bias_sizes.value"), (0, None)),
    ("y-channels", TWO_D, {"grad_output": half((2, 7, 4, 4)), "grad_bias": half((7,), "ND")},
     (BAD, "channels"), (BAD, "channels")),
    ("groups-4", TWO_D, {"groups": 2}, (BAD, "channels"), (BAD, "channels")),
    ("batch", TWO_D, {"grad_output": half((3, 8, 4, 4))}, (BAD, "shape.batch"), (561103, "kernel.batch")),
    ("spatial-2d", TWO_D, {"grad_output": half((2, 8, 4, 5))}, (BAD, "shape.spatial"), (561103, "kernel.spatial")),
    ("small-2d", TWO_D, {"dilation": (3, 1)}, (BAD, "shape.spatial"), (561103, "kernel.spatial")),
    ("spatial-3d", THREE_D, {"grad_output": half((2, 8, 4, 4, 5), "NCDHW")},
     (BAD, "shape.spatial"), (BAD, "shape.spatial")),
    ("small-3d", THREE_D, {"dilation": (9, 1, 1)}, (BAD, "shape.spatial"), (BAD, "shape.spatial")),
    ("empty-bias-null", EMPTY, {"bias_sizes": None}, (NULL, "pointers.bias_sizes"), (BAD, "empty.bias_sizes")),
    ("empty-bias", EMPTY, {"bias_sizes": (7,)}, (BAD, "bias_sizes.value"), (BAD, "empty.bias_sizes")),
    ("empty-kernel", EMPTY, {"dilation": (1, 3)}, (BAD, "shape.spatial"), (BAD, "empty.spatial")),
    ("empty-length", EMPTY, {"stride": (1, 1, 1)}, (BAD, "attributes.lengths"), (BAD, "empty.attributes")),
    ("empty-channels", EMPTY, {"groups": 2}, (BAD, "channels"), (BAD, "empty.channels")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "changes", "documented", "library"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_refusals_by_status_and_rule(call, changes, documented, library):
    for conformance, expected in (("documented", documented), ("library", library)):
        assert status(call, "910B", conformance) == 0
        result = check(replace(call, **changes), "910B", conformance)
        assert (result.status, failed_rule(result)) == expected, conformance


def test_a_product_that_its_file_calls_unsupported_is_refused():
    spec = load_product("convolution_backward", "910B")
    no = spec.documented.supported.model_copy(update={"value": False})
    spec = spec.model_copy(update={"documented": spec.documented.model_copy(update={"supported": no})})
    result = OPERATORS["convolution_backward"].check(TWO_D, spec, "documented", deterministic=False)
    assert (result.status, failed_rule(result)) == (161002, "product.supported")
    assert "the current processor does not support convolution backward" in result.failure.message


def test_grouped_output_channels_must_divide():
    call = conv_call((2, 9, 4, 4), (2, 4, 6, 6), (9, 2, 3, 3), groups=2)
    assert failed_rule(check(call, "910B", "documented")) == "channels"
    assert check(call, "910B", "library").status == 561103
    depthwise = conv_call((2, 9, 4, 4), (2, 4, 6, 6), (9, 1, 3, 3), groups=4)
    assert failed_rule(check(depthwise, "910B", "library")) == "channels"
    assert failed_rule(check(depthwise, "950", "library")) == "kernel.groups"


@pytest.mark.parametrize("product", ["310P", "910"])
def test_three_dimensions_are_refused_on_the_fp16_cube(product):
    assert failed_rule(check(THREE_D, product, "documented")) == "rank.list"
    assert failed_rule(check(THREE_D, product, "library")) == "rank.supported"
    grouped = conv_call((2, 8, 4, 4, 4), (2, 4, 6, 6, 6), (8, 2, 3, 3, 3), groups=2)
    assert failed_rule(check(grouped, product, "library", deterministic=True)) == "deterministic.grouped_3d"
    assert check(TWO_D, product, "documented").status == 0
    empty = conv_call((2, 8, 4, 4, 4), (0, 4, 6, 6, 6), (8, 4, 3, 3, 3))
    assert (status(empty, product, "library"), status(empty, product)) == (0, 161002)  # filled before its rank is looked at


def test_a_grouped_float32_grad_weight_of_16_bit_inputs_is_refused_on_the_3d_path():
    grouped = conv_call((2, 8, 4, 4, 4), (2, 4, 6, 6, 6), (8, 2, 3, 3, 3), groups=2)
    grouped = replace(grouped, grad_weight=with_dtype(grouped.grad_weight, "float32"))
    assert check(grouped, "910B", "library").status == 161002
    assert check(grouped, "950", "library").status == 161002  # there because the output dtype differs
    flat = conv_call((2, 8, 4, 4), (2, 4, 6, 6), (8, 2, 3, 3), groups=2, output_mask=(False, True, False))
    flat = replace(flat, grad_weight=with_dtype(flat.grad_weight, "float32"))
    assert check(flat, "910B", "library").status == 0
    assert check(flat, "910B", "library", deterministic=True).status == 561103


@pytest.mark.parametrize("channels", [6, 10])
def test_an_empty_transposed_call_has_as_many_channels_as_its_weights(channels):
    good, wrong = (conv_call((0, 4, 6, 6), (0, c, 4, 4), (8, 4, 3, 3), transposed=True) for c in (8, channels))
    assert status(good, "910B", "library") == 0
    assert failed_rule(check(wrong, "910B", "library")) == "empty.channels"


def test_a_result_says_which_rule_refused():
    good = check(TWO_D, "910B", "documented")
    assert repr(good) == f"<CheckResult 0: accepted, {len(good.trace)} rules>"
    wrong = check(replace(TWO_D, groups=0), "910B", "documented")
    assert repr(wrong) == f"<CheckResult 161002: refused by groups.positive, {len(wrong.trace)} rules>"


def test_four_paddings_in_2d_are_up_down_left_right():
    call = conv_call((1, 1, 5, 11), (1, 1, 4, 6), (1, 1, 3, 3), padding=(1, 2, 3, 4))
    assert status(call) == status(call, conformance="library") == 0
    assert status(replace(call, padding=(1, 3, 2, 4))) == 161002
    three_d = replace(THREE_D, padding=(0, 0, 0, 0))
    assert status(three_d) == status(three_d, conformance="library") == 161002


@pytest.mark.parametrize("conformance", ["documented", "library"])
def test_the_trace_names_every_rule_of_the_profile_once(conformance):
    expected = [rule.id for rule in RULES if conformance in rule.profiles]
    assert len(set(expected)) == len(expected)
    good = check(TWO_D, "910B", conformance)
    assert [rule for rule, _ in good.trace] == expected
    assert {verdict for _, verdict in good.trace} <= {"pass", "skipped"}
    verdicts = [verdict for _, verdict in check(replace(TWO_D, groups=0), "910B", conformance).trace]
    position = expected.index("groups.positive")
    assert verdicts[position] == "fail" and set(verdicts[position + 1 :]) == {"not reached"}
    assert "fail" not in verdicts[:position] and "not reached" not in verdicts[:position]


def test_a_message_names_argument_value_limit_and_source():
    message = check(replace(TWO_D, stride=(1, 0)), "910B", "documented").failure.message
    assert message.startswith("stride = [1, 0]: every value must be at least 1") and "000, stride" in message
    two = check(replace(TWO_D, stride=(1, 0), dilation=(0, 1)), "910B", "documented").failure.message
    assert two == message, "the first of two mistakes is told"
    message = check(replace(TWO_D, padding=(256, 0)), "910B", "documented").failure.message
    assert "padding holds 256 (in [256, 0])" in message and "[0, 255]" in message and "000, padding" in message
    message = check(replace(TWO_D, groups=0), "910B", "documented").failure.message
    assert message.startswith("groups = 0: it must be at least 1 (rule groups.positive: 000")
    message = check(replace(TWO_D, groups=65536), "910B", "documented").failure.message
    assert message.startswith("groups = 65536: allowed is [1, 65535]; 000, groups")


def test_warnings_stand_beside_status_0():
    call = conv_call((2, 8, 4, 4), (2, 4, 6, 6), (8, 4, 3, 3), dtype="bfloat16", cube_math_type=2)
    result = check(call, "910B", "library")
    assert result.status == 0 and len(result.warnings) == 1 and "float16" in result.warnings[0]
    assert check(replace(call, cube_math_type=1), "910B", "library").warnings == []


def test_mixed_dtypes_compute_in_the_promoted_one():
    call = replace(TWO_D, input=with_dtype(TWO_D.input, "bfloat16"), grad_input=with_dtype(TWO_D.grad_input, "bfloat16"))
    assert status(call, "910B") == 0
    assert status(replace(call, cube_math_type=2), "910B") == 0  # promoted to float32, so option 2 is allowed
    float_on_910 = replace(TWO_D, input=with_dtype(TWO_D.input, "float32"), grad_input=with_dtype(TWO_D.grad_input, "float32"))
    assert status(float_on_910, "910") == 161002 and status(replace(float_on_910, cube_math_type=1), "910") == 0
