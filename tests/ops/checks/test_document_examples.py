"""The argument tuples of the documents' four C++ example programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.ops.arguments import TensorArg
from tests.support.ops.check_calls import check, conv_call, tbc_call

pytestmark = pytest.mark.fast


def conv_example(label: str):
    """Examples of 000 and 004: float32, cubeMathType 1; rank-4 tensors with `label`, everything else ND."""
    call = conv_call((2, 2, 7, 7), (2, 2, 7, 7), (2, 2, 1, 1), dtype="float32", cube_math_type=1)
    names = ("grad_output", "input", "weight", "grad_input", "grad_weight")
    return replace(call, **{name: replace(getattr(call, name), format=label) for name in names})


@pytest.mark.parametrize("product", ["910B", "910_93", "910_95", "910", "310P"])
@pytest.mark.parametrize("label", ["NCDHW", "NCHW"])
def test_conv_backward_examples_of_000_and_004_succeed_under_the_documents(product, label):
    result = check(conv_example(label), product, "documented")
    assert result.status == 0, result.failure


def test_the_library_refuses_the_example_of_000_and_takes_that_of_004():
    assert check(conv_example("NCDHW"), "910B", "library").status == 161002
    assert check(conv_example("NCHW"), "910B", "library").status == 0


@pytest.mark.parametrize("conformance", ["documented", "library"])
@pytest.mark.parametrize("product", ["910B", "910_93", "910_95", "910"])
def test_tbc_examples_of_001_and_002_succeed(product, conformance):
    x, weight, bias = (TensorArg(shape, "float32", "ND") for shape in ((5, 1, 2), (1, 2, 2), (2,)))
    call = tbc_call(self=x, input=x, weight=weight, bias=bias, pad=0, cube_math_type=1)
    call = replace(call, grad_input=x, grad_weight=weight, grad_bias=bias)
    result = check(call, product, conformance)
    assert result.status == 0, result.failure
