"""Rules on 8-bit operands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.ops.arguments import TensorArg
from tests.support.ops.check_calls import check, conv_call, failed_rule, status, with_dtype

pytestmark = pytest.mark.fast


def eight_bit(dtype, *, transposed=True, mask=(True, False, False), weight_out=None, **changes):
    call = conv_call((2, 8, 4, 4), (2, 8, 4, 4), (8, 8, 1, 1), dtype=dtype, transposed=transposed, output_mask=mask, **changes)
    grad_weight = None if weight_out is None else with_dtype(call.grad_weight, weight_out)
    return replace(call, grad_weight=grad_weight, grad_bias=None, grad_input=call.grad_input if mask[0] else None)


def test_eight_bit_rules_of_950_under_the_library():
    assert status(eight_bit("hifloat8"), "950", "library") == 0
    assert status(eight_bit("hifloat8"), "910B", "library") == 161002
    assert status(eight_bit("float8_e4m3fn"), "950", "library") == 161002  # out of the dtype list when transposed
    assert status(eight_bit("float8_e4m3fn", transposed=False), "950", "library") == 0  # the gap
    mixed = replace(eight_bit("hifloat8"), weight=TensorArg((8, 8, 1, 1), "float16", "NCHW"))
    assert failed_rule(check(mixed, "950", "library")) == "eight_bit.grad_input"
    both = eight_bit("hifloat8", transposed=False, mask=(True, True, False), weight_out="float32")
    assert failed_rule(check(both, "950", "library")) == "eight_bit.one_gradient"
    beside = eight_bit("hifloat8", weight_out="hifloat8")  # a transposed gradInput, gradWeight given but not wanted
    assert status(beside, "950", "library") == 0
    assert status(replace(beside, transposed=False), "950", "library") == 161002
    only_weight = {"mask": (False, True, False), "transposed": False}
    assert status(eight_bit("hifloat8", weight_out="float32", **only_weight), "950", "library") == 0
    for call in (
        *(eight_bit("hifloat8", weight_out=dtype, **only_weight) for dtype in ("float16", "hifloat8")),
        eight_bit("float8_e4m3fn", weight_out="float32", **only_weight),
        *(eight_bit("hifloat8", weight_out="float32", groups=groups, **only_weight) for groups in (0, 2)),
        eight_bit("hifloat8", weight_out="float32", mask=(False, True, False), output_padding=(0, 1), stride=(2, 2)),
    ):
        assert failed_rule(check(call, "950", "library")) == "eight_bit.grad_weight"


def test_an_eight_bit_bias_gradient_ends_in_the_kernel_selection():
    call = eight_bit("hifloat8", mask=(True, False, True))
    call = replace(call, grad_bias=TensorArg((8,), "hifloat8", "ND"))
    assert status(call, "950", "library") == 561103


@pytest.mark.fast
def test_a_refusal_says_which_chip_profile_and_mask_take_eight_bits():
    both = eight_bit("hifloat8", transposed=False, mask=(True, True, False), weight_out="float32")
    for result in (check(eight_bit("hifloat8"), "910B", "library"), check(both, "950", "library")):
        text = result.failure.message
        assert all(word in text for word in ("ascend950pr_9589", "--conformance library", "output_mask"))
