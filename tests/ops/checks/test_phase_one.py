"""The whole of phase one, checks and plan: the vendor's unit tests, and what is accepted beyond the checks."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import AclnnError
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.plan import Plan
from ascend_sim.options.run_options import CONFORMANCES
from tests.support.ops.check_calls import TABLES, check, conv_call, conv_row, rows, tbc_call, tbc_row
from tests.support.ops.variants import Variants
from tests.support.ops.vendor_cases import CALLS

CHIPS = {
    "310P": "ascend310p3", "910": "ascend910a", "910B": "ascend910b3", "910_93": "ascend910_9391",
    "950": "ascend950pr_9589", "910_95": "ascend950pr_9589",
}  # fmt: skip
UNIT_TESTS = [
    pytest.param(make(row), row["product"], row["status"], id=f"{row['id']}-{row['test']}")
    for table, make in (("cases_ut_conv_backward.json", conv_row), ("cases_ut_tbc.json", tbc_row))
    for row in rows(TABLES / table)
    if row["status"] is not None
]


def huge_tbc(c_in, c_out):
    """Tensors of a TBC call of 5 steps, 13 in the batch, with a kernel of 3 and padding 1, as changes of one."""
    x, weight, bias = (TensorArg(shape, "float16") for shape in ((5, 13, c_in), (3, c_in, c_out), (c_out,)))
    outputs = {"grad_input": x, "grad_weight": weight, "grad_bias": bias}
    return {"self": TensorArg((5, 13, c_out), "float16"), "input": x, "weight": weight, "bias": bias, **outputs}


TWO_AXES = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "output_padding": (0, 0)}


def plan_of(call, product, conformance="library", deterministic=None) -> Plan:
    chip = load_chip(CHIPS[product])
    operator = OPERATORS["conv_tbc_backward" if isinstance(call, ConvTbcCall) else "convolution_backward"]
    return operator.plan(operator.accept(call, chip, conformance=conformance, deterministic=deterministic), chip)


def status(call, product, conformance="library") -> int:
    try:
        plan_of(call, product, conformance)
    except AclnnError as error:
        return error.status
    return 0


@pytest.mark.parametrize(("call", "product", "expected"), UNIT_TESTS)
def test_the_vendors_unit_tests_end_in_their_status_with_a_plan(call, product, expected):
    assert status(call, product) == expected


@pytest.mark.parametrize("product", ["910B", "910_95"])
@pytest.mark.parametrize(
    ("call", "fills"),
    [
        (conv_call((2, 8, 4, 4), (0, 4, 6, 6), (8, 4, 3, 3)), ["grad_weight", "grad_bias"]),  # another batch
        (conv_call((2, 8, 9, 9), (2, 0, 6, 6), (8, 0, 3, 3)), ["grad_bias"]),  # another size
        (conv_call((2, 8, 9, 9), (0, 6, 4, 4), (6, 8, 3, 3), transposed=True), ["grad_weight", "grad_bias"]),
        (conv_call((0, 8, 4), (0, 4, 6, 6), (8, 4, 3, 3)), ["grad_weight", "grad_bias"]),
        (conv_call((0, 8, 4, 4), (0, 4, 6, 6), (8, 4, 3), **TWO_AXES), ["grad_weight", "grad_bias"]),
    ],
    ids=["batch", "size", "transposed", "rank of gradOutput", "rank of weight"],
)
def test_the_library_leaves_sizes_alone_where_a_tensor_is_empty(call, fills, product):
    plan = plan_of(call, product)
    assert sorted(step.outputs[0] for step in plan.steps) == sorted(fills)
    assert {step.op_type for step in plan.steps} == {"ZerosLike"}
    assert status(call, product, "documented") == 161002


ONE = (True, False, False)
BIAS_ALONE = (False, False, True)


@pytest.mark.parametrize("product", ["910", "910B", "910_95"])
@pytest.mark.parametrize(
    "call",
    [
        conv_call((2, 8, 6, 6), (3, 4, 6, 6), (8, 4, 1, 1), output_mask=BIAS_ALONE),
        conv_call((2, 8, 5, 6), (2, 4, 6, 6), (8, 4, 1, 1), output_mask=BIAS_ALONE),
    ],
    ids=["batch", "size"],
)
def test_the_library_leaves_sizes_alone_where_only_the_bias_gradient_is_wanted(call, product):
    """They surface in the cube kernels, of which there are none."""
    plan = plan_of(call, product)
    assert plan.steps[0].op_type == "ReduceSum"
    assert status(call, product, "documented") == 161002
    assert status(replace(call, output_mask=ONE), product) == 561103


@pytest.mark.parametrize("out_channels", [9, 5], ids=["more", "fewer"])
def test_weights_of_broken_groups_are_never_turned(out_channels):
    """2-D plans of dav-2201 turn the weights though only the bias gradient is wanted; FRACTAL_Z has whole groups alone."""
    call = conv_call((1, out_channels, 4, 4), (1, 18, 4, 4), (out_channels, 3, 1, 1), groups=6, output_mask=BIAS_ALONE)
    assert (status(call, "910B"), status(call, "910_95")) == (561103, 0)


def test_a_call_that_passes_its_checks_is_refused_for_its_kernels_alone():
    """Variants of the vendor's calls: behind the checks only what no kernel or tiling takes ends in another status."""
    make, accepted = Variants(7), 0
    for _ in range(1500):
        call, product = make.random.choice(CALLS), make.random.choice(list(CHIPS))
        call, conformance = make(call), make.random.choice(CONFORMANCES)
        if check(call, product, conformance).status:
            continue
        accepted += 1
        try:
            plan_of(call, product, conformance)
        except AclnnError as error:
            assert "no tiling fits" in error.message, (product, conformance, call)
    assert accepted > 250


def test_what_no_tiling_fits_is_561103_and_for_tbc_of_the_library_161001():
    long = conv_call((1, 1, 1), (1, 1, 300), (1, 1, 300), padding=(0,), stride=(1,))
    padded = replace(long, grad_output=TensorArg((1, 1, 3), "float16", "NCL"), padding=(1,))
    assert status(padded, "910B") == 561103
    tbc = tbc_call(time=300, kernel=300, pad=1)
    assert status(tbc, "910B") == 161001  # the library maps every failure behind its checks to this
    assert status(tbc, "910", "documented") == 561103  # no document limits K there


DEEP = {"dtype": "float32", "output_mask": ONE}


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (conv_call((1, 16, 2, 2, 2), (1, 16, 7, 4, 4), (16, 16, 3, 3, 3), stride=(4, 1, 1), **DEEP), "stride_d in [1, k_d]"),
        (conv_call((1, 16, 2, 2, 2), (1, 16, 2, 4, 4), (16, 16, 513, 3, 3), padding=(256, 0, 0), **DEEP), "pad_front"),
        (conv_call((1, 16, 2, 2, 2), (1, 16, 258, 4, 4), (16, 16, 2, 3, 3), dilation=(256, 1, 1), **DEEP), "dilation_d"),
        (conv_call((1, 65536, 2, 2, 2), (1, 65536, 4, 4, 4), (65536, 1, 3, 3, 3), groups=65536, **DEEP), "groups"),
    ],
    ids=["stride", "padding", "dilation", "groups"],
)  # fmt: skip
def test_what_the_librarys_v2_kernels_refuse_on_dav_2201(call, word):
    """Limits of its tilings, not of the parameter check: 561103, and only where V2 is taken."""
    with pytest.raises(AclnnError, match="Conv3DBackpropInputV2 takes") as error:
        plan_of(call, "910B")
    assert error.value.status == 561103 and word in str(error.value)
    assert status(call, "910_95") == 0  # which has wider ones
    half = replace(call, **{name: replace(getattr(call, name), dtype="float16") for name in ("grad_output", "input", "weight")})
    if call.groups == 1 and call.dilation == (1, 1, 1):
        assert "Conv3DBackpropInput" in {step.op_type for step in plan_of(half, "910B").steps}  # the older kernel


@pytest.mark.parametrize("product", ["910B", "910_95"])
def test_sizes_that_the_librarys_v2_kernels_refuse(product):
    def tall(height):
        return conv_call((1, 16, 1, height, 2), (1, 16, 1, height, 2), (16, 16, 1, 1, 1), **DEEP)

    def many(batch):
        shape = (batch, 16, 1, 2, 2)
        return conv_call(shape, shape, (16, 16, 1, 1, 1), dtype="float32", output_mask=(False, True, False))

    assert status(tall(2**31 - 1), product) == 0
    assert status(tall(2**31), product) == (561103 if product == "910B" else 0)  # h_in * w_in up to 2^32 - 1
    assert (status(many(2**31 - 2), product), status(many(2**31 - 1), product)) == (0, 561103)
    assert status(many(2**31 - 1), product, "documented") == 0


def test_a_dilation_that_no_kernel_needs_counts_as_1():
    call = conv_call((1, 16, 2, 2, 2), (1, 16, 2, 4, 4), (16, 16, 1, 3, 3), dilation=(256, 1, 1), **DEEP)
    assert status(call, "910B") == 0


WIDE = 7_400_095


@pytest.mark.parametrize("product", ["910", "910B", "910_95"])
@pytest.mark.parametrize(
    "call",
    [
        conv_call((9, 405_555_357, 365, 25), (9, 1, 1457, 25), (405_555_357, 1, 1, 1), stride=(4, 1)),
        tbc_call(batch=13, **huge_tbc(80_622_881, 1_146_151)),
        tbc_call(batch=13, **huge_tbc(1_741_481_974, 2)),
        conv_call((2, 16, 2, WIDE), (2, 16, 92, WIDE), (16, 16, 31, 1), dilation=(3, 1), output_mask=(False, True, False)),
    ],
    ids=["gradOutput", "both", "input", "columns"],
)
def test_a_plan_takes_no_longer_for_larger_sizes(call, product):
    begin = time.process_time()
    plan_of(call, product)
    assert time.process_time() - begin < 2
