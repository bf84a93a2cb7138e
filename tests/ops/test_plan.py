"""Which kernels a call launches, in order, and where its intermediates lie in the workspace."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_sim
from tests.support.ops.conv_problems import DTYPES, NAMES, CallAttributes, Mask, laid_out, operands, problems
from tests.support.ops.plans import BIAS, SMALL, TURNED, names, plan_of

pytestmark = pytest.mark.fast


def test_a_deterministic_grad_weight_stays_2d_where_padding_exceeds_the_kernel() -> None:
    """The 3-D filter kernel asks for padding below the dilated kernel."""
    problem = CallAttributes(1, 16, 16, (6, 6), (2, 2), pads=(2, 2, 1, 1))
    for mask in ((True, True, False), (False, True, False)):
        plan = plan_of(problem, problem.specs(), mask, deterministic=True)
        kinds = {step.name: step.op_type for step in plan.steps}
        assert kinds["grad_weight"] == "Conv2DBackpropFilter"
        assert "NDC1HWC0" not in {tensor.format for tensor in plan.tensors.values()}
        assert plan.warnings == []


@pytest.mark.parametrize(("kernel", "images", "told"), [(32, 1, 1), (32, 100, 1), (16, 1, 0)])
def test_a_deterministic_grad_weight_stays_2d_where_l1_has_no_room_for_whole_rows(kernel: int, images: int, told: int) -> None:
    """A patch embedding: 16 pixels see 128 rows of 224 for patches of 32, 48 rows for those of 16."""
    problem = CallAttributes(images, 3, 768, (224, 224), (kernel, kernel), (kernel, kernel), (0, 0, 0, 0))
    plan = plan_of(problem, problem.specs(), (False, True, False), deterministic=True)
    kinds = {step.name: step.op_type for step in plan.steps}
    assert kinds["grad_weight"] == ("Conv2DBackpropFilter" if told else "Conv3DBackpropFilterV2")
    assert ("NDC1HWC0" in {tensor.format for tensor in plan.tensors.values()}) == (not told)
    assert len(plan.warnings) == told


def test_a_kernel_over_the_whole_map_goes_the_3d_way_where_only_the_bias_is_wanted() -> None:
    """Nothing is turned then, as in 3-D; any other 2-D call turns its three inputs."""
    covering = CallAttributes(2, 16, 16, (4, 4), (4, 4), pads=(0, 0, 0, 0))
    assert names(plan_of(covering, covering.specs(), (False, False, True))) == BIAS
    assert names(plan_of(SMALL, SMALL.specs(), (False, False, True))) == BIAS + TURNED


def test_a_strided_input_is_copied_first() -> None:
    own = operands(SMALL)
    own["input"] = laid_out(own["input"], "reversed")
    assert names(plan_of(SMALL, [own[name] for name in NAMES]))[:2] == ["ViewCopy_input.contiguous", *BIAS]


def test_the_library_narrows_a_grouped_grad_weight_before_it_is_turned() -> None:
    grouped = CallAttributes(1, 32, 32, (6, 6), groups=2)
    tensors, only_weight = grouped.specs("float32"), (False, True, False)
    documented = plan_of(grouped, tensors, only_weight, 2)
    library = plan_of(grouped, tensors, only_weight, 2, conformance="library")
    turned = ["MemSet_grad_weight_groups", "TransData_grad_weight_groups", "TransData_grad_weight"]
    assert names(documented)[-5:] == ["MemSet_grad_weight", "grad_weight", *turned]
    assert names(library)[-6:] == ["grad_weight", "Cast_grad_weight.narrow", *turned, "Cast_grad_weight"]


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(sorted(DTYPES)), st.tuples(*[st.booleans()] * 3), st.booleans())
def test_intermediates_that_live_together_do_not_overlap(
    problem: CallAttributes, dtype: str, mask: Mask, deterministic: bool
) -> None:
    plan = plan_of(problem, problem.specs(dtype), mask, deterministic=deterministic)
    uses: dict[str, list[int]] = {}
    for index, step in enumerate(plan.steps):
        for name in step.tensors:
            uses.setdefault(name, []).append(index)
    inner = [name for name in uses if plan.tensors[name].role == "workspace"]
    assert set(inner) == set(plan.offsets)
    for name in inner:
        offset = plan.offsets[name]
        assert offset % 512 == 0 and offset + plan.tensors[name].size <= plan.workspace_bytes
        first = uses[name][0]
        assert name in plan.steps[first].outputs + plan.steps[first].scratch, f"{name} is read before it is written"
    for one, other in combinations(inner, 2):
        together = uses[one][0] <= uses[other][-1] and uses[other][0] <= uses[one][-1]
        left, right = sorted((one, other), key=plan.offsets.__getitem__)
        if together:
            assert plan.offsets[left] + plan.tensors[left].size <= plan.offsets[right], (one, other)


def test_the_workspace_is_used_again() -> None:
    """Less than all intermediates side by side."""
    plan = plan_of(SMALL, SMALL.specs())
    assert 0 < plan.workspace_bytes < sum(plan.tensors[name].size for name in plan.offsets)


def test_every_tensor_is_written_before_it_is_read_and_every_output_is_written() -> None:
    plan = plan_of(SMALL, SMALL.specs("float32"), kind=2)
    written = set(NAMES)
    for step in plan.steps:
        assert written.issuperset(step.inputs), step.name
        written |= set(step.outputs)
    assert {"grad_input", "grad_weight", "grad_bias"} <= written


@pytest.mark.parametrize(
    ("kernel", "times", "options", "rewritten"),
    [
        ((8, 9), (2, 3), {}, True),
        ((2, 8, 8), (3, 1, 2), {}, True),
        ((8, 7), (2, 3), {}, False),
        ((8, 8), (2, 2), {"stride": (8, 4)}, False),
        ((8, 8), (2, 2), {"groups": 2}, False),
    ],
    ids=["2-D", "3-D", "small", "stride", "groups"],
)
def test_the_950_makes_dw_of_a_large_kernel_that_is_the_stride_as_that_of_a_1x1_one(
    kernel: tuple[int, ...], times: tuple[int, ...], options: dict[str, Any], rewritten: bool
) -> None:
    """op_api of dav-3510: the windows' pixels become channels; the values are those of the kernel itself."""
    torch = pytest.importorskip("torch")
    stride, groups = options.get("stride", kernel), options.get("groups", 1)
    size = tuple(k * t for k, t in zip(kernel, times, strict=True))
    out = tuple((s - k) // t + 1 for s, k, t in zip(size, kernel, stride, strict=True))
    rng, axes = np.random.default_rng(0), len(kernel)
    shapes = ((2, 18, *out), (2, 6, *size), (18, 6 // groups, *kernel))
    tensors = [rng.integers(-2, 3, shape).astype(np.float16) for shape in shapes]
    rest = (stride, (0,) * axes, (1,) * axes, False, (0,) * axes, groups, (False, True, False))
    result = ascend_sim.convolution_backward(*tensors, None, *rest, chip="ascend950pr_9589", mode="full")
    kinds = ["Transpose"] * rewritten + ["Conv3DBackpropFilterV2", "Cast"]
    assert [row["op_type"] for row in result.report.plan] == kinds
    wide = [torch.from_numpy(tensor.astype(np.float64)) for tensor in tensors]
    expected = torch.ops.aten.convolution_backward(*wide, [18], *rest)[1].numpy()
    assert result.report.passed and not result.report.findings
    np.testing.assert_array_equal(result.grad_weight, expected.astype(np.float16))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_the_950_turns_nothing_and_lifts_every_rank_to_3d(rank: int, transposed: bool) -> None:
    """op_api of dav-3510: no TransData, NCDHW all along, the V2 kernels of 3-D for every rank."""
    feature, weight = (2, 8, *(5,) * (rank - 2)), (8, 8, *(3,) * (rank - 2))
    axes = rank - 2
    spec = ascend_sim.TensorSpec
    result = ascend_sim.convolution_backward(
        spec(feature, "float16"),
        spec(feature, "float16"),
        spec(weight, "float16"),
        None,
        (1,) * axes,
        (1,) * axes,
        (1,) * axes,
        transposed,
        (0,) * axes,
        1,
        (True, True, True),
        chip="ascend950pr_9589",
        mode="timing",
    )
    data = "Conv3DV2" if transposed else "Conv3DBackpropInputV2"
    kinds = [row["op_type"] for row in result.report.plan]
    assert kinds == ["ReduceSum", data, "Conv3DBackpropFilterV2", "Cast"]
    for kernel in result.report.kernels:
        if kernel["name"] in ("grad_input", "grad_weight"):
            assert set(kernel["formats"].values()) == {"NCDHW"}
