"""The weight gradient as an operator of the graph: values of each kernel in every dtype against torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ascend_sim.calls.cases import accept_case
from ascend_sim.calls.tensors import flat_storage
from ascend_sim.chip import load_chip
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.execute import execute
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.runtime import ValueModel
from tests.support.sampling import part_of_cases

torch = pytest.importorskip("torch")

X, PAD, STRIDE = (2, 20, 5, 9, 8), (1, 1, 0), (1, 2, 1)
OPERATOR = OPERATORS.of_pass("backward")


@part_of_cases(6)
@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize(
    ("dtype", "cube_math_type"), [("float16", 0), ("bfloat16", 0), ("float32", 0), ("float32", 3)], ids=str
)
@pytest.mark.parametrize(
    ("chip", "op_type"),
    [
        ("ascend910b2", "Conv3DBackpropFilter"),
        ("ascend910b2", "Conv3DBackpropFilterV2"),
        ("ascend950pr_9579", "Conv3DBackpropFilterV2"),
    ],
)
@pytest.mark.parametrize("groups", [1, 4])
def test_values_in_every_dtype(chip: str, op_type: str, dtype: str, cube_math_type: int, mode: str, groups: int) -> None:
    """Whole numbers, whose sums are exact in any order; dW stays in fp32."""
    spec = load_chip(chip)
    shape = (24, 20 // groups, 3, 3, 3)
    shapes = {"input": X, "weight": shape}
    layer = Layer.model_validate(
        {
            "name": op_type,
            "dtype": dtype,
            "bias": False,
            "stride": STRIDE,
            "padding": PAD,
            "dilation": [1] * 3,
            "groups": groups,
            "cube_math_type": cube_math_type,
            **{name: {"shape": shape, "requires_grad": name == "weight"} for name, shape in shapes.items()},
        }
    )
    call = accept_case(OPERATOR.of_layer(layer), spec, conformance="library", deterministic=False)
    call = replace(call, outputs={name: replace(one, dtype="float32") for name, one in call.outputs.items()})
    plan = OPERATOR.graph_plan(call, spec, op_type)
    launched = [step.op_type for step in plan.steps]
    assert op_type in launched
    if not call.family.layout.plain:  # a grouped dW is cleared twice and goes back in two steps
        assert (launched.count("TransData"), launched.count("MemSet")) == ((4, 2) if groups > 1 else (3, 1))
    rng, made = np.random.default_rng(0), call.inputs["grad_output"].shape
    arrays = {
        name: rng.integers(-3, 4, shape).astype(numpy_dtype(dtype)) for name, shape in (("input", X), ("grad_output", made))
    }
    storages = {name: flat_storage(array)[0] for name, array in arrays.items()} | {"weight": None}
    run = execute(plan, spec, storages, {"mode": mode}, model=ValueModel.of(spec))
    assert run.outcome.findings == []
    data = run.outputs["grad_weight"].data
    assert data is not None
    x, g = (torch.from_numpy(arrays[name].astype(np.float64)) for name in ("input", "grad_output"))
    wanted = torch.nn.grad.conv3d_weight(x, shape, g, STRIDE, PAD, groups=groups).numpy()
    np.testing.assert_array_equal(data.view(np.float32)[: wanted.size].reshape(shape), wanted)
