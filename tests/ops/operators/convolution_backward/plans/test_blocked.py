"""The plan on blocked tensors: casts, masks and dilation kernels."""

from __future__ import annotations

from itertools import product

import pytest

from tests.support.ops.conv_problems import NAMES, CallAttributes, Mask, operands
from tests.support.ops.plans import BIAS, SMALL, TURNED, WEIGHT, names, plan_of

pytestmark = pytest.mark.fast


INPUT = ["grad_input", "TransData_grad_input"]


@pytest.mark.parametrize("mask", list(product([False, True], repeat=3)))
@pytest.mark.parametrize("deterministic", [False, True])
def test_kernels_by_mask(mask: Mask, deterministic: bool) -> None:
    """fp16: the bias first, all three inputs turned even where nothing needs them, one cast of the fp32 dW."""
    plan = plan_of(SMALL, SMALL.specs(), mask, deterministic=deterministic)
    weight = [*WEIGHT[deterministic:], "Cast_grad_weight"]  # only atomic sums need a cleared dW
    expected = BIAS * mask[2] + TURNED + INPUT * mask[0] + weight * mask[1]
    layouts = {tensor.format for tensor in plan.tensors.values()}
    assert ("NDC1HWC0" in layouts) == (deterministic and mask[1] and not mask[0])
    assert names(plan) == expected
    kinds = {step.name: step.op_type for step in plan.steps}
    assert kinds.get("grad_input", "Conv2DBackpropInput") == "Conv2DBackpropInput"
    filter_kernel = "Conv3DBackpropFilter" if deterministic else "Conv2DBackpropFilter"
    if deterministic and not mask[0]:  # dW without dx goes the 3-D way
        filter_kernel = "Conv3DBackpropFilterV2"
    assert kinds.get("grad_weight", filter_kernel) == filter_kernel


@pytest.mark.parametrize(
    ("dtype", "kind", "casts"),
    [
        ("float32", 0, []),
        ("float32", 1, []),
        ("float32", 3, []),
        ("bfloat16", 0, ["Cast_grad_weight"]),
        ("float32", 2, ["Cast_grad_output.cast", "Cast_input.cast", "Cast_weight.cast", "Cast_grad_input"]),
    ],
)
def test_casts_by_dtype(dtype: str, kind: int, casts: list[str]) -> None:
    """Inputs are cast to the compute dtype only where they have another; so is each result on its way out."""
    plan = plan_of(SMALL, SMALL.specs(dtype), kind=kind)
    assert [name for name in names(plan) if name.startswith("Cast")] == casts


@pytest.mark.parametrize(
    ("kernel", "stride", "dtype", "around"),
    [
        ((3, 3), (2, 2), "float16", ["grad_input"]),
        ((3, 3), (1, 3), "float16", ["Dilation_grad_output", "grad_input"]),
        ((3, 3), (3, 3), "bfloat16", ["grad_input"]),
        ((1, 1), (2, 1), "float16", ["grad_input", "Dilation_input"]),
        ((1, 1), (1, 1), "float16", ["grad_input"]),
    ],
)
def test_long_strides_take_a_dilation_kernel(
    kernel: tuple[int, int], stride: tuple[int, int], dtype: str, around: list[str]
) -> None:
    """Before grad_input for strides above 2, behind it for 1x1 kernels; bf16 has none."""
    problem = CallAttributes(1, 16, 16, (10, 10), kernel, stride, (0, 0, 0, 0))
    plan = plan_of(problem, problem.specs(dtype), (True, False, False))
    turned_and_cast = names(plan)[3:]
    assert turned_and_cast == [*around, "TransData_grad_input"]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("groups", "more"), [(1, 0), (2, 1)])
def test_weights_and_their_gradient_are_regrouped_by_kernels_of_their_own(dtype: str, groups: int, more: int) -> None:
    """The library's TransData goes by way of the filters without groups, either way; a MemSet clears where it moves them."""
    problem = CallAttributes(1, 32, 32, (6, 6), groups=groups)
    plan = plan_of(problem, problem.specs(dtype), (True, True, False))
    there, back = ([f"{kind}_{name}_groups" for kind in ("MemSet", "TransData")] for name in ("weight", "grad_weight"))
    found = names(plan)
    end = found.index("TransData_grad_weight")
    assert found.count("TransData_weight") == found.count("TransData_grad_weight") == 1
    assert found[found.index("TransData_weight") + 1 :][: 2 * more] == there[: 2 * more]
    assert found[end - 2 * more : end] == back[: 2 * more]
    assert sum("groups" in name for name in found) == 4 * more


def test_mixed_dtypes_are_cast_up_and_the_bias_is_not() -> None:
    own = operands(SMALL, ("float16", "bfloat16", "float32"))
    plan = plan_of(SMALL, [own[name] for name in NAMES])
    assert names(plan) == [*BIAS, "Cast_grad_output.cast", "Cast_input.cast", *TURNED, *INPUT, "Cast_grad_input", *WEIGHT]
    assert plan.tensors["grad_output"].dtype == "float16"  # which is what ReduceSum reads
    assert plan.steps[0].inputs == ("grad_output",)
