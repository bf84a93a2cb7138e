"""The bits that a precision leaves to a layer."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.torch import simulate  # noqa: E402

nn = torch.nn


def bits(ours: Any, truth: Any) -> float:
    """Effective bits, as the precision table has them."""
    ours, truth = ours.double(), truth.double()
    error = (ours - truth).abs().sum()
    return -math.log2(error / truth.abs().sum()) if error else math.inf


def test_precision_of_a_layer_is_that_of_its_gradients_in_training() -> None:
    """The bits that the table has for a cubeMathType are those that the gradients have with it, against float64."""
    torch.manual_seed(0)
    model, data = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)), torch.randn(2, 3, 8, 8)
    with simulate(mode="functional") as sim:
        model(data).pow(2).sum().backward()
    tables = sim.precision().tables
    assert list(tables) == ["0", "2"] and sim.precision().passed
    _, arrays = sim.rows[1].kept  # type: ignore[misc]
    given = [torch.from_numpy(arrays[name]).double() for name in ("grad_output", "input", "weight")]
    truth = torch.ops.aten.convolution_backward(*given, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3)
    for row in tables["2"].rows:
        single = [tensor.float().requires_grad_() for tensor in given[1:]]
        with simulate(mode="functional", values="chip", cube_math_type=row.cube_math_type, forward=False):
            nn.functional.conv2d(*single).backward(given[0].float())
        for name, tensor, exact in zip(("grad_input", "grad_weight"), single, truth, strict=False):
            assert bits(tensor.grad, exact) == pytest.approx(row.outputs[name]["effective_bits"], abs=0.1)
    hf32, fp16 = (tables["2"].rows[number].outputs["grad_weight"]["effective_bits"] for number in (1, 2))
    assert 9 < fp16 < hf32 < 16
    drawn = sim.precision(inputs="uniform", dtypes=["bfloat16"])
    assert {row.dtype for table in drawn.tables.values() for row in table.rows} == {"bfloat16"}
    assert str(drawn).startswith("0: inputs uniform, seed 0\n") and set(drawn.to_dict()) == {"0", "2"}


def test_equal_layers_have_one_block() -> None:
    """With random inputs equal layers have one table, which is computed and printed once; each name keeps its own entry."""
    with simulate(mode="timing") as sim:
        model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1))
        model(torch.randn(1, 4, 8, 8, requires_grad=True)).sum().backward()
    found = sim.precision(inputs="normal")
    assert list(found.tables) == ["0", "1", "2"] and found.tables["1"] is found.tables["2"]
    heads = [line for line in str(found).splitlines() if line.endswith("inputs normal, seed 0") and "convolution" not in line]
    assert heads == ["0: inputs normal, seed 0", "1, as 2: inputs normal, seed 0"]


def test_layers_have_the_addresses_of_the_report() -> None:
    """A row of the same name without a backward call counts in the number."""
    layer = nn.Conv2d(2, 2, 3)
    with simulate(mode="timing") as sim:
        with torch.no_grad():
            nn.functional.conv2d(torch.randn(1, 2, 9, 9), layer.weight)
        nn.functional.conv2d(torch.randn(1, 2, 8, 8, requires_grad=True), layer.weight).sum().backward()
    (name,) = sim.precision(inputs="normal").tables
    assert name.endswith("#2") and sim[name].row is sim.rows[1]
