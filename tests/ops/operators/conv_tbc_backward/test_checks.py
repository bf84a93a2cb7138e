"""Every rule of TBC backward: the smallest change to a good call that it refuses, under both profiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.ops.arguments import TensorArg
from tests.support.ops.check_calls import check, failed_rule, status, tbc_call, with_dtype

GOOD = tbc_call()


def half(shape, label="ND"):
    return TensorArg(shape, "float16", label)


REFUSALS = [
    ("dtype", {"input": with_dtype(GOOD.input, "float64")}, "dtype.list", "dtype.list"),
    ("format", {"weight": half((3, 4, 6), "NCHW")}, "format", "format"),
    ("bias-format", {"bias": half((6,), "NCL")}, None, "format"),
    ("rank", {"input": half((5, 2, 4, 1))}, "shape.ranks", "shape.ranks"),
    ("bias-rank", {"bias": half((6, 1))}, "shape.ranks", "shape.ranks"),
    ("negative", {"input": half((-5, 2, 4))}, "shape.negative", "shape.negative"),
    ("channels", {"input": half((5, 2, 3)), "grad_input": half((5, 2, 3))}, "channels", "channels"),
    ("channels-more", {"input": half((5, 2, 5)), "grad_input": half((5, 2, 5))}, "channels", "channels"),
    ("bias-size", {"bias": half((5,)), "grad_bias": half((5,))}, "channels", "channels"),
    ("time", {"self": half((4, 2, 6))}, "shape.self", "shape.self"),
    ("batch", {"self": half((5, 1, 6))}, "shape.self", "shape.self"),
    ("pad", {"pad": -1}, "ranges", "pad.positive"),
    ("short", {"weight": half((9, 4, 6)), "grad_weight": half((9, 4, 6))}, "shape.self", "shape.self"),
    ("grad-input", {"grad_input": half((5, 2, 5))}, "shape.outputs", "shape.outputs"),
    ("grad-weight", {"grad_weight": half((2, 4, 6))}, "shape.outputs", "shape.outputs"),
    ("grad-bias", {"grad_bias": half((7,))}, "shape.outputs", "shape.outputs"),
    ("cube-math", {"cube_math_type": -1}, "cube_math_type", "cube_math_type"),
    ("empty-self", {"self": half((0, 2, 6))}, "empty.refused", "self.not_empty"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "documented", "library"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_refusals_by_rule(changes, documented, library):
    for conformance, rule in (("documented", documented), ("library", library)):
        assert status(GOOD, "910B", conformance) == 0
        result = check(replace(GOOD, **changes), "910B", conformance)
        assert (result.status, failed_rule(result)) == (161002 if rule else 0, rule), conformance


def test_bias_has_one_dtype_list_on_every_product_of_the_library():
    call = replace(GOOD, bias=with_dtype(GOOD.bias, "bfloat16"))
    assert status(call, "910", "library") == 0
    assert status(call, "910", "documented") == 161002
    assert status(replace(GOOD, weight=with_dtype(GOOD.weight, "bfloat16")), "910", "library") == 161002


@pytest.mark.parametrize(("kernel", "documented"), [(8, 0), (9, 161002)])
def test_a_kernel_as_long_as_the_padded_input_leaves_no_time(kernel, documented):
    """[0, B, C] is a result of 002; a kernel that is longer still has none."""
    call = replace(GOOD, weight=half((kernel, 4, 6)), grad_weight=half((kernel, 4, 6)), self=half((0, 2, 6)))
    assert (status(call, "910"), status(call, "950")) == (documented, documented)
    assert failed_rule(check(call, "950", "library")) == "self.not_empty"


def test_formats_nd_and_ncl_mix():
    call = replace(GOOD, input=replace(GOOD.input, format="NCL"))
    assert status(call) == status(call, conformance="library") == 0


def test_dimensions_have_an_upper_limit_in_001_alone():
    batch = 2**31 - 1
    call = tbc_call(batch=batch)
    assert failed_rule(check(call, "910B", "documented")) == "ranges"
    assert status(tbc_call(batch=batch - 1)) == 0
    for time, kernel, pad in ((batch, 3, 0), (batch - 1, 1, 1)):  # of input alone, of self alone
        assert failed_rule(check(tbc_call(time=time, kernel=kernel, pad=pad), "910B", "documented")) == "ranges"
    assert status(call, "910_95") == status(call, "910B", "library") == 0
