"""The forward convolution as an operator of the graph: values of its kernels in every dtype against torch."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ascend_sim.calls.cases import accept_case
from ascend_sim.calls.tensors import flat_storage
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.execute import execute
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.operators.convolution.graph import NO_BIAS
from ascend_sim.runtime import ValueModel
from tests.support.sampling import part_of_cases

torch = pytest.importorskip("torch")

OPERATOR = OPERATORS.of_pass("forward")
STRIDE, PAD = (2, 1), (1, 0)


def accepted(
    chip: str, dtype: str, shapes: dict[str, list[int]], groups: int, *, bias: bool = False, **more: object
) -> ConvolutionCall:
    layer = Layer.model_validate(
        {
            "name": "conv",
            "dtype": dtype,
            "bias": bias,
            "stride": STRIDE,
            "padding": PAD,
            "dilation": [1, 1],
            "groups": groups,
            "cube_math_type": 0,
            **{name: {"shape": shape, "requires_grad": False} for name, shape in shapes.items()},
            **more,
        }
    )
    call = accept_case(OPERATOR.of_layer(layer), load_chip(chip), conformance="library", deterministic=False)
    assert isinstance(call, ConvolutionCall)
    return call


def nchw(blocked: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    """[N][C1][H][W][C0] as [N][C][H][W]."""
    n, c, h, w = shape
    return blocked.reshape(n, -1, h, w, 16).transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :c]


@part_of_cases(4)
@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("channels", "groups", "taps"), [((20, 24), 1, 3), ((20, 24), 4, 3), ((24, 24), 24, 2), ((80, 16), 2, 2), ((5, 7), 1, 6)]
)
def test_values_in_every_dtype(mode: str, dtype: str, channels: tuple[int, int], groups: int, taps: int) -> None:
    """Whole numbers, whose sums are exact in any order; of fp16 what stays in blocks of channels."""
    c_in, c_out = channels
    shapes = {"input": [2, c_in, 9, 8], "weight": [c_out, c_in // groups, taps, taps]}
    chip = load_chip("ascend910b2")
    call = accepted("ascend910b2", dtype, shapes, groups)
    plan = OPERATOR.graph_plan(call, chip, "Conv2D")
    launched = [step.op_type for step in plan.steps]
    half, grouped = dtype == "float16", groups > 1
    assert launched.count("TransData") == 3 + grouped - half
    assert launched.count("MemSet") == (dtype != "float32") + grouped
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-2, 3, shape).astype(numpy_dtype(dtype)) for name, shape in shapes.items()}
    storages = {name: flat_storage(array)[0] for name, array in arrays.items()}
    run = execute(plan, chip, storages, {"mode": mode}, model=ValueModel.of(chip))
    assert run.outcome.findings == []
    data = run.outputs["output"].data
    assert data is not None
    x, w = (torch.from_numpy(arrays[name].astype(np.float64)) for name in ("input", "weight"))
    wanted = torch.nn.functional.conv2d(x, w, None, STRIDE, PAD, groups=groups).numpy()
    found = data.view(numpy_dtype(dtype))
    found = nchw(found, wanted.shape) if half else found[: wanted.size].reshape(wanted.shape)
    np.testing.assert_array_equal(found.astype(np.float64), wanted)
    assert plan.tensors["output"].format == ("NC1HWC0" if half else "NCHW")


@pytest.mark.fast
@pytest.mark.parametrize(("dtype", "casts"), [("float16", 0), ("bfloat16", 1), ("float32", 0)])
def test_a_bias_is_cast_where_the_operator_wants_it_in_fp32(dtype: str, casts: int) -> None:
    call = accepted("ascend910b2", dtype, {"input": [1, 16, 5, 5], "weight": [16, 16, 2, 2]}, 1, bias=True)
    plan = OPERATOR.graph_plan(call, load_chip("ascend910b2"), "Conv2D")
    launched = [step.op_type for step in plan.steps]
    assert launched.count("Cast") == casts and "BiasAdd" not in launched
    assert plan.warnings == []


def test_a_bias_that_is_added_in_ub_is_told_to_be_left_out() -> None:
    call = accepted("ascend910a", "float16", {"input": [1, 16, 5, 5], "weight": [16, 16, 2, 2]}, 1, bias=True)
    assert OPERATOR.graph_plan(call, load_chip("ascend910a"), "Conv2D").warnings == [NO_BIAS]


def test_fp32_inputs_that_are_computed_in_fp16_are_cast_and_come_back_in_fp32() -> None:
    shapes = {"input": [1, 16, 5, 6], "weight": [16, 16, 2, 2]}
    chip, rng = load_chip("ascend910b2"), np.random.default_rng(0)
    plan = OPERATOR.graph_plan(accepted("ascend910b2", "float32", shapes, 1, cube_math_type=2), chip, "Conv2D")
    assert plan.warnings == [] and plan.tensors["output"].format == "NCHW"
    arrays = {name: rng.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}
    storages = {name: flat_storage(array)[0] for name, array in arrays.items()}
    data = execute(plan, chip, storages, {"mode": "full"}, model=ValueModel.of(chip)).outputs["output"].data
    wanted = torch.nn.functional.conv2d(*map(torch.from_numpy, arrays.values()), None, STRIDE, PAD).numpy()
    assert data is not None
    np.testing.assert_array_equal(data.view(np.float32)[: wanted.size].reshape(wanted.shape), wanted)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("chip", "op_type", "more"),
    [("ascend910b2", "Conv2DV2", {}), ("ascend950pr_9579", "Conv2D", {}), ("ascend910b2", "Conv2D", {"transposed": True})],
)
def test_other_operators_of_a_graph_are_not_known(chip: str, op_type: str, more: dict[str, object]) -> None:
    call = accepted(chip, "float16", {"input": [1, 16, 5, 5], "weight": [16, 16, 2, 2]}, 1, **more)
    with pytest.raises(SimError, match=f"{op_type} of a 2-D.*on {chip} is not simulated; known graph calls are Conv2D"):
        OPERATOR.graph_plan(call, load_chip(chip), op_type)
